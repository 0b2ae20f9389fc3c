import { defineOperations } from './operation.js'

const found = [
  'SESSION_NOT_FOUND',
  'NAME_TOO_LONG',
  'NOT_A_DIRECTORY',
  'SYMLINK_LOOP',
  'PATH_NOT_FOUND',
] as const

export const lockOperations = defineOperations({
  getPosixLock: {
    tag: 'POSIX locks',
    summary: 'Find a conflicting lock',
    description: 'Returns a lock that would make `:setPosixLock` fail, if there is one. Takes no lock.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:getPosixLock',
    implementedBy: 'session.posixLocks.get',
    capabilities: ['locks'],
    errors: found,
  },
  setPosixLock: {
    tag: 'POSIX locks',
    summary: 'Lock a range of a file',
    description:
      'Fails immediately if another owner holds a conflicting lock, or waits for one. The new lock ' +
      'replaces the locks that the owner holds in the range. Locks are advisory: they do not prevent ' +
      'reads or writes. A lock belongs to the file and follows its renames. It ends with `:funlock`, with ' +
      'the deletion of the file or session, or when the service stops.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:setPosixLock',
    implementedBy: 'session.posixLocks.set',
    capabilities: ['locks'],
    errors: [...found, 'LOCK_HELD', 'QUOTA'],
  },
  setPosixLockBlocking: {
    tag: 'POSIX locks',
    summary: 'Wait for a lock on a range of a file',
    description:
      'Responds once the owner holds the lock. Requests are served in order of arrival; a client that ' +
      'disconnects loses its place. A request that would cause a deadlock between owners is rejected.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:setPosixLockBlocking',
    implementedBy: 'session.posixLocks.setBlocking',
    capabilities: ['locks'],
    errors: [...found, 'DEADLOCK', 'QUOTA'],
  },
  flock: {
    tag: 'POSIX locks',
    summary: 'Lock a whole file',
    description:
      'Independent of locks on ranges. If the owner holds the lock in the other mode, the modes are ' +
      'exchanged in one step. With `blocking`, the request waits as `:setPosixLockBlocking` does.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:flock',
    implementedBy: 'session.posixLocks.flock',
    capabilities: ['locks'],
    errors: [...found, 'LOCK_HELD', 'DEADLOCK', 'QUOTA'],
  },
  funlock: {
    tag: 'POSIX locks',
    summary: 'Release locks',
    description:
      'Releases the locks that the owner holds in the range, or with `isFlock` its lock on the whole ' +
      'file. Succeeds even if the owner holds none.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:funlock',
    implementedBy: 'session.posixLocks.funlock',
    capabilities: ['locks'],
    errors: [...found, 'QUOTA'],
  },
  lockFile: {
    tag: 'File locks',
    summary: 'Lock a path for a limited time',
    description:
      'Takes the lock of a path and returns its id, which is needed to renew or release the lock. While ' +
      'the lock is held, every other attempt to lock the path fails, including one by the same caller. ' +
      'The path need not exist, and the lock does not prevent writes. The lock expires after ' +
      '`timeoutSeconds`.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/files/lock',
    implementedBy: 'session.fileLocks.lock',
    capabilities: ['locks'],
    event: 'v1.CollaborationService.LockFile',
    errors: ['SESSION_NOT_FOUND', 'NAME_TOO_LONG', 'LOCK_HELD', 'QUOTA'],
  },
  renewFileLock: {
    tag: 'File locks',
    summary: 'Renew a lock',
    description:
      'Restarts the time to live of the lock. The new time may be shorter than the remaining time.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/files/renew-lock',
    implementedBy: 'session.fileLocks.renew',
    capabilities: ['locks'],
    errors: ['SESSION_NOT_FOUND', 'NAME_TOO_LONG', 'LOCK_NOT_FOUND'],
  },
  listFileLocks: {
    tag: 'File locks',
    summary: 'List locks',
    description: 'The locks that are currently held, in path order.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/files/list-locks',
    implementedBy: 'session.fileLocks.list',
    capabilities: ['locks'],
    errors: ['SESSION_NOT_FOUND'],
  },
  unlockFile: {
    tag: 'File locks',
    summary: 'Release a lock',
    description: 'Fails if the lock was released, has expired, or has another id.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/files/unlock',
    implementedBy: 'session.fileLocks.unlock',
    capabilities: ['locks'],
    event: 'v1.CollaborationService.UnlockFile',
    errors: ['SESSION_NOT_FOUND', 'NAME_TOO_LONG', 'LOCK_NOT_FOUND'],
  },
  forceUnlockFile: {
    tag: 'File locks',
    summary: 'Release anyone’s lock',
    description:
      'Ends the lock of a path, no matter which principal holds it, and returns that principal. The ' +
      'reason is recorded in the event.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/files/force-unlock',
    implementedBy: 'session.fileLocks.forceUnlock',
    capabilities: ['locks.force'],
    event: 'v1.CollaborationService.ForceUnlockFile',
    errors: ['SESSION_NOT_FOUND', 'NAME_TOO_LONG', 'LOCK_NOT_FOUND'],
  },
})
