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
    method: 'POST',
    path: '/v1/sessions/{sessionId}:getPosixLock',
    capability: 'locks',
    errors: found,
  },
  setPosixLock: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}:setPosixLock',
    capability: 'locks',
    errors: [...found, 'LOCK_HELD', 'QUOTA'],
  },
  setPosixLockBlocking: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}:setPosixLockBlocking',
    capability: 'locks',
    errors: [...found, 'DEADLOCK', 'QUOTA'],
  },
  flock: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}:flock',
    capability: 'locks',
    errors: [...found, 'LOCK_HELD', 'DEADLOCK', 'QUOTA'],
  },
  funlock: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}:funlock',
    capability: 'locks',
    errors: [...found, 'QUOTA'],
  },
  lockFile: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}/files/lock',
    capability: 'locks',
    event: 'v1.CollaborationService.LockFile',
    errors: ['SESSION_NOT_FOUND', 'NAME_TOO_LONG', 'LOCK_HELD', 'QUOTA'],
  },
  renewFileLock: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}/files/renew-lock',
    capability: 'locks',
    errors: ['SESSION_NOT_FOUND', 'NAME_TOO_LONG', 'LOCK_NOT_FOUND'],
  },
  listFileLocks: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}/files/list-locks',
    capability: 'locks',
    errors: ['SESSION_NOT_FOUND'],
  },
  unlockFile: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}/files/unlock',
    capability: 'locks',
    event: 'v1.CollaborationService.UnlockFile',
    errors: ['SESSION_NOT_FOUND', 'NAME_TOO_LONG', 'LOCK_NOT_FOUND'],
  },
  forceUnlockFile: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}/files/force-unlock',
    capability: 'locks.force',
    event: 'v1.CollaborationService.ForceUnlockFile',
    errors: ['SESSION_NOT_FOUND', 'NAME_TOO_LONG', 'LOCK_NOT_FOUND'],
  },
})
