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
      timeToFirstWriteMs: int64.describe(
        'From the creation of the session to its first write. 0 before that.',
      ),
      totalFileMutations: int64.describe('Requests that changed files. A batch counts as one.'),
      checkpointCount: int64,
      restoreCount: int64,
      lastReportedHealth: health,
      completionTime: timeOrNone.describe('The time of the first commit, in RFC 3339. Empty before it.'),
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
      aggregationVersion: integer.describe(
        'The version of the calculation. It changes whenever the calculation changes.',
      ),
      sessionHours: number.describe('The sum over all sessions of the time from creation to last activity.'),
      storageGbMonth: number.describe('Stored contents: 10^9 bytes kept for 30 days count as 1.'),
      egressGb: number.describe('Bytes of responses, divided by 10^9.'),
    }),
  },
  getCasMetrics: {
    request: z.object({}),
    response: z.object({
      objectCount: int64,
      storedBytes: int64.describe('Bytes of contents, each counted once.'),
      logicalBytes: int64.describe('Bytes of contents, each counted as often as it was written.'),
      dedupRatio: number.describe('`logicalBytes` divided by `storedBytes`. 1 if nothing is stored.'),
    }),
  },
})
