import * as z from 'zod'
import { limits } from '../../base/limits.js'
import {
  exactInt64,
  exactInt64Response,
  flag,
  int64,
  integer,
  named,
  nothing,
  path,
  pathPrefix,
  sessionId,
  text,
} from './wire-types.js'
import { defineSchemas } from './operation-schemas.js'

const atPath = { sessionId, path }
const kind = z.enum(['POSIX_LOCK_KIND_EXCLUSIVE', 'POSIX_LOCK_KIND_SHARED']).meta({ id: 'PosixLockKind' })
const range = z
  .object({ start: exactInt64.exactOptional(), length: exactInt64.exactOptional() })
  .meta({
    id: 'PosixLockRange',
    description:
      'Bytes of the file, which need not have as many; a length of 0 is up to the end and beyond. Absent: all.',
  })
  .exactOptional()
const owner = z
  .object({
    ownerId: text,
    pid: integer.exactOptional(),
    clientId: text.exactOptional(),
  })
  .meta({
    id: 'PosixLockOwner',
    description: 'Owners differ by `clientId` and `ownerId`; `pid` is information.',
  })
const isFlock = flag
  .meta({
    default: false,
    description: 'true: the lock on the whole file is meant, and `range` is not looked at.',
  })
  .exactOptional()

const posixLock = named(
  'PosixLock',
  z.object({
    kind,
    range: z.object({ start: exactInt64Response, length: exactInt64Response }),
    owner: z.object({ ownerId: text, pid: integer, clientId: text }),
    isFlock: flag,
  }),
)

const lockId = text
const timeoutSeconds = integer.meta({
  minimum: 1,
  description: `Seconds to live, at most ${limits.fileLockSeconds}: more is as many.`,
})
const remainingTtlSeconds = int64.describe('Seconds that are left, rounded up.')

export const lockSchemas = defineSchemas({
  getPosixLock: {
    request: z.object({ ...atPath, kind, range, owner, isFlock }),
    /** `conflict` is there when `hasConflict` is true. */
    response: z.object({
      hasConflict: flag,
      conflict: posixLock.describe('There when `hasConflict` is true.').exactOptional(),
    }),
  },
  setPosixLock: { request: z.object({ ...atPath, kind, range, owner }), response: nothing },
  setPosixLockBlocking: { request: z.object({ ...atPath, kind, range, owner }), response: nothing },
  flock: {
    request: z.object({
      ...atPath,
      mode: z
        .enum(['POSIX_FLOCK_MODE_EXCLUSIVE', 'POSIX_FLOCK_MODE_SHARED'])
        .meta({ id: 'PosixFlockMode' })
        .describe('Absent: `POSIX_FLOCK_MODE_EXCLUSIVE`.')
        .exactOptional(),
      owner,
      blocking: flag
        .meta({ default: false, description: 'true: waits as long as that takes.' })
        .exactOptional(),
    }),
    response: nothing,
  },
  funlock: { request: z.object({ ...atPath, owner, range, isFlock }), response: nothing },
  lockFile: { request: z.object({ ...atPath, timeoutSeconds }), response: z.object({ lockId }) },
  renewFileLock: {
    request: z.object({ ...atPath, lockId, timeoutSeconds }),
    response: z.object({ lockId, remainingTtlSeconds }),
  },
  listFileLocks: {
    request: z.object({ sessionId, pathPrefix: pathPrefix.exactOptional() }),
    response: z.object({
      locks: z.array(
        named(
          'FileLock',
          z.object({
            lockId,
            path: text,
            ownerId: text.describe('The principal that took it.'),
            remainingTtlSeconds,
          }),
        ),
      ),
    }),
  },
  unlockFile: { request: z.object({ ...atPath, lockId }), response: nothing },
  forceUnlockFile: {
    request: z.object({ ...atPath, reason: text.exactOptional() }),
    response: z.object({ lockId, ownerId: text }),
  },
})
