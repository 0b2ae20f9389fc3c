import * as z from 'zod'
import { exactInt64, exactInt64Response, flag, int64, integer, nothing, text } from './kinds.js'
import { defineSchemas } from './operation-schemas.js'

const atPath = { sessionId: text, path: text }
const kind = z.enum(['POSIX_LOCK_KIND_EXCLUSIVE', 'POSIX_LOCK_KIND_SHARED'])
const range = z
  .object({ start: exactInt64.exactOptional(), length: exactInt64.exactOptional() })
  .exactOptional()
const owner = z.object({
  ownerId: text,
  pid: integer.exactOptional(),
  clientId: text.exactOptional(),
})
const isFlock = flag.exactOptional()

const posixLock = z.object({
  kind,
  range: z.object({ start: exactInt64Response, length: exactInt64Response }),
  owner: z.object({ ownerId: text, pid: integer, clientId: text }),
  isFlock: flag,
})

const lockId = text
const timeoutSeconds = integer

export const lockSchemas = defineSchemas({
  getPosixLock: {
    request: z.object({ ...atPath, kind, range, owner, isFlock }),
    /** `conflict` is there when `hasConflict` is true. */
    response: z.object({ hasConflict: flag, conflict: posixLock.exactOptional() }),
  },
  setPosixLock: { request: z.object({ ...atPath, kind, range, owner }), response: nothing },
  setPosixLockBlocking: { request: z.object({ ...atPath, kind, range, owner }), response: nothing },
  flock: {
    request: z.object({
      ...atPath,
      mode: z.enum(['POSIX_FLOCK_MODE_EXCLUSIVE', 'POSIX_FLOCK_MODE_SHARED']).exactOptional(),
      owner,
      blocking: flag.exactOptional(),
    }),
    response: nothing,
  },
  funlock: { request: z.object({ ...atPath, owner, range, isFlock }), response: nothing },
  lockFile: { request: z.object({ ...atPath, timeoutSeconds }), response: z.object({ lockId }) },
  renewFileLock: {
    request: z.object({ ...atPath, lockId, timeoutSeconds }),
    response: z.object({ lockId, remainingTtlSeconds: int64 }),
  },
  listFileLocks: {
    request: z.object({ sessionId: text, pathPrefix: text.exactOptional() }),
    response: z.object({
      locks: z.array(z.object({ lockId, path: text, ownerId: text, remainingTtlSeconds: int64 })),
    }),
  },
  unlockFile: { request: z.object({ ...atPath, lockId }), response: nothing },
  forceUnlockFile: {
    request: z.object({ ...atPath, reason: text.exactOptional() }),
    response: z.object({ lockId, ownerId: text }),
  },
})
