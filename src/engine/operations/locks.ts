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
    summary: 'Look for a conflicting lock',
    description: 'What `:setPosixLock` would be refused for. Takes no lock.',
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
      'Refused at once when another owner holds a conflicting lock, or waits for one. What the owner held ' +
      'of the range is replaced. Locks are advisory: they keep nobody from reading or writing. They ' +
      'belong to the file, follow its renames, and end with `:funlock`, the file, the session, or the ' +
      'service.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:setPosixLock',
    implementedBy: 'session.posixLocks.set',
    capabilities: ['locks'],
    errors: [...found, 'LOCK_HELD', 'QUOTA'],
  },
  setPosixLockBlocking: {
    tag: 'POSIX locks',
    summary: 'Lock a range of a file, waiting for it',
    description:
      'Answers when the lock is had. Requests are served in the order in which they came; a client that ' +
      'disconnects gives up its place. The request that would make owners wait for each other for ever is ' +
      'refused.',
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
      'Independent of locks on ranges. A lock of another mode that the owner has is exchanged in one ' +
      'step. With `blocking` the request waits as `:setPosixLockBlocking` does.',
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
      'Releases what the owner holds of the range, or with `isFlock` its lock on the whole file. The ' +
      'owner need not hold any.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:funlock',
    implementedBy: 'session.posixLocks.funlock',
    capabilities: ['locks'],
    errors: [...found, 'QUOTA'],
  },
  lockFile: {
    tag: 'File locks',
    summary: 'Lock a path for a time',
    description:
      'Takes the lock of a path; its id is the right to renew and to release it. Refused for everyone ' +
      'while it is held. The path need not exist, and writes are not kept off. The lock ends by itself ' +
      'when its time is over.',
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
    description: 'The time of the lock starts anew; it may be shorter than what was left.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/files/renew-lock',
    implementedBy: 'session.fileLocks.renew',
    capabilities: ['locks'],
    errors: ['SESSION_NOT_FOUND', 'NAME_TOO_LONG', 'LOCK_NOT_FOUND'],
  },
  listFileLocks: {
    tag: 'File locks',
    summary: 'List locks',
    description: 'The locks that are held, in path order.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/files/list-locks',
    implementedBy: 'session.fileLocks.list',
    capabilities: ['locks'],
    errors: ['SESSION_NOT_FOUND'],
  },
  unlockFile: {
    tag: 'File locks',
    summary: 'Release a lock',
    description: 'Fails when the lock was released, its time ran out, or the id is of another lock.',
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
      'Ends the lock of a path, whoever holds it, and says whose it was. The reason stands in the event.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/files/force-unlock',
    implementedBy: 'session.fileLocks.forceUnlock',
    capabilities: ['locks.force'],
    event: 'v1.CollaborationService.ForceUnlockFile',
    errors: ['SESSION_NOT_FOUND', 'NAME_TOO_LONG', 'LOCK_NOT_FOUND'],
  },
})
