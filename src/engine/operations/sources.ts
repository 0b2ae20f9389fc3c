import { defineOperations } from './operation.js'

export const sourceOperations = defineOperations({
  createSource: {
    method: 'POST',
    path: '/v1/sources',
    capability: 'sources',
    errors: [
      'GIT_UNSUPPORTED_TRANSPORT',
      'GIT_ADDRESS_REFUSED',
      'HOST_PATH_NOT_FOUND',
      'HOST_PATH_NOT_ALLOWED',
    ],
  },
  listSources: {
    method: 'GET',
    path: '/v1/sources',
    query: ['filter', 'pageSize', 'pageToken'],
    capability: 'sources',
    errors: [],
  },
  getSource: {
    method: 'GET',
    path: '/v1/sources/{sourceId}',
    capability: 'sources',
    errors: ['SOURCE_NOT_FOUND'],
  },
  startImport: {
    method: 'POST',
    path: '/v1/sources/{sourceId}/startImport',
    capability: 'sources',
    errors: ['SOURCE_NOT_FOUND'],
  },
  getJob: {
    method: 'GET',
    path: '/v1/sources/{sourceId}/jobs/{jobId}',
    capability: 'sources',
    errors: ['JOB_NOT_FOUND'],
  },
  refreshSource: {
    method: 'POST',
    path: '/v1/sources/{sourceId}/refresh',
    capability: 'sources',
    errors: ['SOURCE_NOT_FOUND', 'SOURCE_NOT_REFRESHABLE'],
  },
  promoteSession: {
    method: 'POST',
    path: '/v1/sources/{sourceId}/promoteSession',
    capability: 'promote',
    event: 'v1.UnderlaySourceService.PromoteSession',
    errors: ['SOURCE_NOT_FOUND', 'SESSION_NOT_FOUND', 'ALREADY_EXISTS'],
  },
})
