import * as z from 'zod'
import { limits } from '../../base/limits.js'
import {
  bytes,
  inBytes,
  int64,
  integer,
  named,
  nextPageToken,
  number,
  pageRequest,
  sessionId,
  text,
  time,
  timeOrNone,
} from './wire-types.js'
import { defineSchemas } from './operation-schemas.js'

const inSession = { sessionId }

const health = named(
  'Health',
  z.object({
    status: z.enum(['STATUS_PASSING', 'STATUS_FAILING', 'STATUS_UNKNOWN']).meta({ id: 'HealthStatus' }),
    testsPassed: integer,
    testsFailed: integer,
    testsSkipped: integer,
    lastUpdatedAt: timeOrNone,
  }),
)

export const visibilitySchemas = defineSchemas({
  getHealth: { request: z.object(inSession), response: z.object({ health }) },
  reportHealth: {
    request: z.object({
      ...inSession,
      reportFormat: z.enum(['junit-xml/v1']),
      reportContent: bytes.describe(`XML in UTF-8, at most ${inBytes(limits.reportBytes)}.`),
    }),
    response: z.object({ newHealthStatus: health }),
  },
  listHealthReports: {
    request: z.object({ ...inSession, ...pageRequest }),
    response: z.object({
      reports: z.array(named('HealthReport', z.object({ ...health.shape, reportedBy: text }))),
      nextPageToken,
    }),
  },
  getAnalytics: {
    request: z.object(inSession),
    response: z.object({
      sessionId: text,
      timeToFirstWriteMs: int64.describe('0 before the first.'),
      totalFileMutations: int64.describe('Requests that changed files; a batch is one.'),
      checkpointCount: int64,
      restoreCount: int64,
      lastReportedHealth: health,
      completionTime: timeOrNone.describe('Of the first commit; RFC 3339, or empty before it.'),
    }),
  },
  getUsage: {
    request: z.object({
      windowStart: time,
      windowEnd: time,
      granularity: z.enum(['hour', 'day', 'month']).describe('Absent: `day`.').exactOptional(),
    }),
    response: z.object({
      tenantId: text,
      windowStart: time,
      windowEnd: time,
      granularity: text,
      aggregationVersion: integer.describe('How the figures are worked out; another number is another way.'),
      sessionHours: number.describe('Sessions, each from its creation to its last activity.'),
      storageGbMonth: number.describe('Contents that were kept: 10^9 bytes for 30 days are 1.'),
      egressGb: number.describe('10^9 bytes of responses are 1.'),
    }),
  },
  getCasMetrics: {
    request: z.object({}),
    response: z.object({
      objectCount: int64,
      storedBytes: int64.describe('Each content once.'),
      logicalBytes: int64.describe('Each content as often as it was written.'),
      dedupRatio: number.describe('`logicalBytes` ÷ `storedBytes`; 1 when nothing is stored.'),
    }),
  },
})
