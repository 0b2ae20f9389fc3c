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
      'A range of bytes, which may go beyond the end of the file. A length of 0 has no upper end. Absent: the whole file.',
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
    description: '`clientId` and `ownerId` together identify an owner. `pid` is informative only.',
  })
const isFlock = flag
  .meta({
    default: false,
    description: 'true: applies to the lock on the whole file, and ignores `range`.',
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
  description: `Seconds to live. A larger value than ${limits.fileLockSeconds} counts as ${limits.fileLockSeconds}.`,
})
const remainingTtlSeconds = int64.describe('The remaining seconds, rounded up.')

export const lockSchemas = defineSchemas({
  getPosixLock: {
    request: z.object({ ...atPath, kind, range, owner, isFlock }),
    response: z.object({
      hasConflict: flag,
      conflict: posixLock.describe('Present if `hasConflict` is true.').exactOptional(),
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
        .meta({ default: false, description: 'true: waits until the lock is available.' })
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
            ownerId: text.describe('The principal that took the lock.'),
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
