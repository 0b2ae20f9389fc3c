import { defineOperations } from './operation.js'

export const visibilityOperations = defineOperations({
  getHealth: {
    tag: 'Health',
    summary: 'Get the health of a session',
    description: 'Before the first report, the status is `STATUS_UNKNOWN` and the counts are 0.',
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
      'Takes a JUnit report and counts its `testcase` elements; totals in attributes are ignored. A test ' +
      'with a `failure` or `error` has failed. Otherwise, a test with `skipped` was skipped. All others ' +
      'have passed. Any failure gives `STATUS_FAILING`. A report without tests gives `STATUS_UNKNOWN`. A ' +
      'report that is not well-formed, or has a document type declaration, is rejected and changes ' +
      'nothing.',
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
    description: 'A page of the reports of a session, oldest first. Only the newest reports are kept.',
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
    description: 'Counters of the activity in the session. A fork starts at zero.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/analytics',
    implementedBy: 'session.analytics',
    capabilities: ['files.read', 'history', 'health'],
    errors: ['SESSION_NOT_FOUND'],
  },
  getUsage: {
    tag: 'Usage',
    summary: 'Get the usage of the tenant',
    description: 'The usage of the tenant in a time window, including deleted sessions.',
    method: 'GET',
    path: '/v1/usage',
    query: ['windowStart', 'windowEnd', 'granularity'],
    implementedBy: 'engine.usage.get',
    capabilities: ['usage'],
    errors: [],
  },
  getCasMetrics: {
    tag: 'Usage',
    summary: 'Get storage metrics',
    description: 'How many contents the tenant keeps, and how much space deduplication saves.',
    method: 'GET',
    path: '/v1/metrics/cas',
    implementedBy: 'engine.usage.metrics',
    capabilities: ['usage'],
    errors: [],
  },
})
