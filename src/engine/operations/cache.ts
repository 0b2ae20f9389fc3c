import { defineOperations } from './operation.js'

const errors = ['SESSION_NOT_FOUND'] as const

export const cacheOperations = defineOperations({
  putCacheEntry: {
    method: 'PUT',
    path: '/v1/sessions/{sessionId}/cache/{key}',
    capability: 'cache',
    errors,
  },
  getCacheEntry: {
    method: 'GET',
    path: '/v1/sessions/{sessionId}/cache/{key}',
    capability: 'cache',
    errors,
  },
  deleteCacheEntry: {
    method: 'DELETE',
    path: '/v1/sessions/{sessionId}/cache/{key}',
    capability: 'cache',
    errors,
  },
  cacheEntryExists: {
    method: 'GET',
    path: '/v1/sessions/{sessionId}/cache/{key}/exists',
    capability: 'cache',
    errors,
  },
  getCacheMetadata: {
    method: 'GET',
    path: '/v1/sessions/{sessionId}/cache/{key}/metadata',
    capability: 'cache',
    errors: [...errors, 'CACHE_KEY_NOT_FOUND'],
  },
  compareAndSetCacheEntry: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}/cache/{key}/compare-and-set',
    capability: 'cache',
    errors,
  },
  listCacheKeys: {
    method: 'GET',
    path: '/v1/sessions/{sessionId}/cache/keys',
    query: ['prefix', 'pageSize', 'pageToken'],
    capability: 'cache',
    errors,
  },
  getCacheStats: {
    method: 'GET',
    path: '/v1/sessions/{sessionId}/cache/stats',
    capability: 'cache',
    errors,
  },
  batchGetCache: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}/cache/batch-get',
    capability: 'cache',
    errors,
  },
  batchSetCache: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}/cache/batch-set',
    capability: 'cache',
    errors,
  },
  batchDeleteCache: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}/cache/batch-delete',
    capability: 'cache',
    errors,
  },
  deleteCacheByPrefix: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}/cache/delete-by-prefix',
    capability: 'cache',
    errors,
  },
})
