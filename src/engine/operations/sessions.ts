import { defineOperations } from './operation.js'

export const sessionOperations = defineOperations({
  createSession: {
    method: 'POST',
    path: '/v1/sessions',
    capability: 'sessions',
    event: 'v1.SessionService.CreateSession',
    errors: ['SOURCE_NOT_FOUND', 'REVISION_NOT_FOUND', 'SOURCE_WITHOUT_REVISION'],
  },
  getSession: {
    method: 'GET',
    path: '/v1/sessions/{sessionId}',
    capability: 'files.read',
    errors: ['SESSION_NOT_FOUND'],
  },
  listSessions: {
    method: 'GET',
    path: '/v1/sessions',
    query: ['filter', 'pageSize', 'pageToken'],
    capability: 'sessions',
    errors: [],
  },
  deleteSession: {
    method: 'DELETE',
    path: '/v1/sessions/{sessionId}',
    extension: true,
    capability: 'delete',
    event: 'v1.SessionService.DeleteSession',
    errors: ['SESSION_NOT_FOUND'],
  },
  getManifest: {
    method: 'GET',
    path: '/v1/sessions/{sessionId}/manifest',
    query: ['pathPrefix', 'pageSize', 'pageToken', 'includeCasExtents'],
    capability: 'files.read',
    errors: ['SESSION_NOT_FOUND'],
  },
  forkSession: {
    method: 'POST',
    path: '/v1/sessions/{sourceSessionId}/fork',
    capability: 'fork',
    event: 'v1.SessionService.ForkSession',
    errors: ['SESSION_NOT_FOUND', 'CHECKPOINT_NOT_FOUND'],
  },
  createCheckpoint: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}/checkpoints',
    capability: 'history',
    event: 'v1.PersistenceService.CreateCheckpoint',
    errors: ['SESSION_NOT_FOUND', 'ALREADY_EXISTS'],
  },
  restoreCheckpoint: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}/restore',
    capability: 'history',
    event: 'v1.PersistenceService.RestoreCheckpoint',
    errors: ['SESSION_NOT_FOUND', 'CHECKPOINT_NOT_FOUND'],
  },
  listEvents: {
    method: 'GET',
    path: '/v1/sessions/{sessionId}/events',
    query: ['startTime', 'endTime', 'pageSize', 'pageToken'],
    capability: 'files.read',
    errors: ['SESSION_NOT_FOUND'],
  },
})
