import { defineOperations } from './operation.js'

export const visibilityOperations = defineOperations({
  getHealth: {
    method: 'GET',
    path: '/v1/sessions/{sessionId}/health',
    capability: 'health',
    errors: ['SESSION_NOT_FOUND'],
  },
  reportHealth: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}/health/report',
    aliases: ['/v1/sessions/{sessionId}/health:testResults'],
    capability: 'health',
    event: 'v1.HealthService.ReportHealth',
    errors: ['SESSION_NOT_FOUND'],
  },
  getAnalytics: {
    method: 'GET',
    path: '/v1/sessions/{sessionId}/analytics',
    capability: 'files.read',
    errors: ['SESSION_NOT_FOUND'],
  },
  getUsage: {
    method: 'GET',
    path: '/v1/usage',
    query: ['windowStart', 'windowEnd', 'granularity'],
    capability: 'usage',
    errors: [],
  },
  getCasMetrics: { method: 'GET', path: '/v1/metrics/cas', capability: 'usage', errors: [] },
})
