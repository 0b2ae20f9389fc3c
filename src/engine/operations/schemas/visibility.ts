import * as z from 'zod'
import { bytes, int64, integer, number, text, time, timeOrNone } from './kinds.js'
import { defineSchemas } from './operation-schemas.js'

const inSession = { sessionId: text }

const health = z.object({
  status: z.enum(['STATUS_PASSING', 'STATUS_FAILING', 'STATUS_UNKNOWN']),
  testsPassed: integer,
  testsFailed: integer,
  testsSkipped: integer,
  lastUpdatedAt: timeOrNone,
})

export const visibilitySchemas = defineSchemas({
  getHealth: { request: z.object(inSession), response: z.object({ health }) },
  reportHealth: {
    request: z.object({ ...inSession, reportFormat: z.enum(['junit-xml/v1']), reportContent: bytes }),
    response: z.object({ newHealthStatus: health }),
  },
  getAnalytics: {
    request: z.object(inSession),
    response: z.object({
      sessionId: text,
      timeToFirstWriteMs: int64,
      totalFileMutations: int64,
      checkpointCount: int64,
      restoreCount: int64,
      lastReportedHealth: health,
      completionTime: timeOrNone,
    }),
  },
  getUsage: {
    request: z.object({
      windowStart: time,
      windowEnd: time,
      granularity: z.enum(['hour', 'day', 'month']).exactOptional(),
    }),
    response: z.object({
      tenantId: text,
      windowStart: time,
      windowEnd: time,
      granularity: text,
      aggregationVersion: integer,
      sessionHours: number,
      storageGbMonth: number,
      egressGb: number,
    }),
  },
  getCasMetrics: {
    request: z.object({}),
    response: z.object({ objectCount: int64, storedBytes: int64, logicalBytes: int64, dedupRatio: number }),
  },
})
