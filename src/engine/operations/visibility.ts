import { defineOperations } from './operation.js'

export const visibilityOperations = defineOperations({
  getHealth: {
    tag: 'Health',
    summary: 'Get the health of a session',
    description: '`STATUS_UNKNOWN` and zeros before the first report.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/health',
    implementedBy: 'session.health.get',
    capabilities: ['health'],
    errors: ['SESSION_NOT_FOUND'],
  },
  reportHealth: {
    tag: 'Health',
    summary: 'Report test results',
    description:
      'Takes a JUnit report. Its `testcase` elements count, not what attributes say: one with a `failure` ' +
      'or `error` has failed, else one with `skipped` was skipped, else it has passed. Any failure makes ' +
      '`STATUS_FAILING`; a report without any test is `STATUS_UNKNOWN`. A report that is not well-formed, ' +
      'or has a document type declaration, is refused and changes nothing.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/health/report',
    aliases: ['/v1/sessions/{sessionId}/health:testResults'],
    implementedBy: 'session.health.report',
    capabilities: ['health'],
    event: 'v1.HealthService.ReportHealth',
    errors: ['SESSION_NOT_FOUND'],
  },
  listHealthReports: {
    tag: 'Health',
    summary: 'List health reports',
    description: 'A page of the reports of a session, oldest first; the newest are kept.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/health/reports',
    query: ['pageSize', 'pageToken'],
    extension: true,
    implementedBy: 'session.health.history',
    capabilities: ['health'],
    errors: ['SESSION_NOT_FOUND'],
  },
  getAnalytics: {
    tag: 'Usage',
    summary: 'Get the counters of a session',
    description: 'What was done in the session; a fork starts at zero.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/analytics',
    implementedBy: 'session.analytics',
    capabilities: ['files.read', 'history', 'health'],
    errors: ['SESSION_NOT_FOUND'],
  },
  getUsage: {
    tag: 'Usage',
    summary: 'Get the usage of the tenant',
    description: 'What the tenant used in a window of time, deleted sessions included.',
    method: 'GET',
    path: '/v1/usage',
    query: ['windowStart', 'windowEnd', 'granularity'],
    implementedBy: 'engine.usage.get',
    capabilities: ['usage'],
    errors: [],
  },
  getCasMetrics: {
    tag: 'Usage',
    summary: 'Get numbers of the stored contents',
    description: 'How many contents the tenant keeps, and how much of them is shared.',
    method: 'GET',
    path: '/v1/metrics/cas',
    implementedBy: 'engine.usage.metrics',
    capabilities: ['usage'],
    errors: [],
  },
})
