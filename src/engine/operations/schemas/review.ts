import * as z from 'zod'
import { hash, integer, nothing, text, time } from './kinds.js'
import { defineSchemas } from './operation-schemas.js'

const inSession = { sessionId: text }
const annotationStatus = z.enum(['ANNOTATION_STATUS_OPEN', 'ANNOTATION_STATUS_RESOLVED'])

const annotation = z.object({
  id: text,
  sessionId: text,
  filePath: text,
  lineNumber: integer,
  contentHash: hash,
  comment: text,
  reviewerId: text,
  status: annotationStatus,
  createdAt: time,
})

export const reviewSchemas = defineSchemas({
  addAnnotation: {
    request: z.object({
      ...inSession,
      filePath: text,
      lineNumber: integer.exactOptional(),
      expectedContentHash: hash,
      comment: text.exactOptional(),
    }),
    response: z.object({ annotation }),
  },
  listAnnotations: {
    request: z.object({ ...inSession, filePath: text.exactOptional() }),
    response: z.object({ annotations: z.array(annotation) }),
  },
  updateAnnotationStatus: {
    request: z.object({ ...inSession, annotationId: text, newStatus: annotationStatus }),
    response: z.object({ annotation }),
  },
  requestApproval: {
    request: z.object({
      ...inSession,
      reason: text.exactOptional(),
      details: z
        .object({ summary: text.exactOptional(), changedFiles: z.array(text).exactOptional() })
        .exactOptional(),
    }),
    response: z.object({ approvalId: text }),
  },
  grantApproval: { request: z.object({ ...inSession, approvalId: text }), response: nothing },
  denyApproval: {
    request: z.object({ ...inSession, approvalId: text, feedback: text.exactOptional() }),
    response: nothing,
  },
  commit: {
    request: z.object({
      ...inSession,
      message: text,
      author: z.object({ name: text, email: text }).exactOptional(),
      gitBranch: z.object({ branchName: text }).exactOptional(),
    }),
    response: z.object({ commitId: text }),
  },
  generateCommitSummary: {
    request: z.object(inSession),
    response: z.object({ summary: text, changedFiles: z.array(text) }),
  },
})
