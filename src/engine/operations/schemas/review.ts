import * as z from 'zod'
import { limits } from '../../base/limits.js'
import {
  bytes,
  extension,
  hash,
  inBytes,
  integer,
  named,
  nextPageToken,
  nothing,
  pageRequest,
  path,
  sessionId,
  text,
  time,
  timeOrNone,
} from './wire-types.js'
import { defineSchemas } from './operation-schemas.js'

const inSession = { sessionId }
const annotationStatus = z
  .enum(['ANNOTATION_STATUS_OPEN', 'ANNOTATION_STATUS_RESOLVED'])
  .meta({ id: 'AnnotationStatus' })
const lineNumber = integer.meta({
  minimum: 0,
  description: 'Starts at 1, and may be beyond the end of the file. Absent or 0: the whole file.',
})
const prose = text.describe(`At most ${inBytes(limits.messageBytes)}.`)

const commitId = text.describe('The id of a git commit, in hex.')

const sessionCommit = named(
  'SessionCommit',
  z.object({
    commitId,
    parentId: text.describe(
      'The commit before it: of the session, or the imported one. Empty for a first commit.',
    ),
    branchName: text.describe('Empty for a commit without a branch.'),
    author: z.object({ name: text, email: text }),
    committedAt: time,
    message: text,
  }),
)

const annotation = named(
  'Annotation',
  z.object({
    id: text,
    sessionId: text,
    filePath: text,
    lineNumber: integer.describe('Starts at 1. 0: the whole file.'),
    contentHash: hash.describe('The hash of the file when the annotation was made.'),
    comment: text,
    reviewerId: text.describe('The principal that made the annotation.'),
    status: annotationStatus,
    createdAt: time,
  }),
)

const approval = named(
  'Approval',
  z.object({
    approvalId: text,
    sessionId: text,
    reason: text,
    summary: text,
    changedFiles: z.array(text),
    status: z
      .enum(['APPROVAL_STATUS_PENDING', 'APPROVAL_STATUS_GRANTED', 'APPROVAL_STATUS_DENIED'])
      .meta({ id: 'ApprovalStatus' }),
    requestedBy: text.describe('The principal that requested the approval.'),
    createdAt: time,
    decidedBy: text.describe('The principal that decided. Empty while the approval is pending.'),
    decidedAt: timeOrNone,
    feedback: text.describe('The feedback of a denial; otherwise empty.'),
  }),
)

export const reviewSchemas = defineSchemas({
  addAnnotation: {
    request: z.object({
      ...inSession,
      filePath: path,
      lineNumber: lineNumber.exactOptional(),
      expectedContentHash: hash.describe(
        'The hash of the content that the reviewer saw: `sha256:` and 64 hex digits.',
      ),
      comment: prose.exactOptional(),
    }),
    response: z.object({ annotation }),
  },
  listAnnotations: {
    request: z.object({
      ...inSession,
      filePath: path.describe('Absent: all annotations of the session.').exactOptional(),
    }),
    response: z.object({ annotations: z.array(annotation) }),
  },
  updateAnnotationStatus: {
    request: z.object({ ...inSession, annotationId: text, newStatus: annotationStatus }),
    response: z.object({ annotation }),
  },
  requestApproval: {
    request: z.object({
      ...inSession,
      reason: text.describe('In upper case with underscores. Absent: `COMMIT_TO_MAIN`.').exactOptional(),
      details: z
        .object({
          summary: prose.exactOptional(),
          changedFiles: z.array(path).describe(`At most ${limits.changedFiles}.`).exactOptional(),
        })
        .exactOptional(),
    }),
    response: z.object({ approvalId: text }),
  },
  listApprovals: { request: z.object(inSession), response: z.object({ approvals: z.array(approval) }) },
  grantApproval: { request: z.object({ ...inSession, approvalId: text }), response: nothing },
  denyApproval: {
    request: z.object({ ...inSession, approvalId: text, feedback: prose.exactOptional() }),
    response: nothing,
  },
  commit: {
    request: z.object({
      ...inSession,
      message: text.describe(`Not empty; at most ${inBytes(limits.messageBytes)}.`),
      author: z.object({ name: text, email: text }).describe('Absent: the acting principal.').exactOptional(),
      gitBranch: z
        .object({ branchName: text.describe('A valid git branch name, without `refs/heads/`.') })
        .exactOptional(),
      allowEmpty: extension(
        z
          .boolean()
          .describe('true: makes a commit even if the last one on this branch has the same files.')
          .exactOptional(),
      ),
    }),
    response: z.object({ commitId: text.describe('The id of the git commit, in hex.') }),
  },
  listCommits: {
    request: z.object({
      ...inSession,
      branchName: text
        .describe('Only commits of this branch; empty for those without a branch. Absent: all commits.')
        .exactOptional(),
      ...pageRequest,
    }),
    response: z.object({ commits: z.array(sessionCommit), nextPageToken }),
  },
  getCommit: { request: z.object({ ...inSession, commitId }), response: sessionCommit },
  readCommitFile: {
    request: z.object({ ...inSession, commitId, path }),
    response: z.object({ content: bytes }),
  },
  generateCommitSummary: {
    request: z.object(inSession),
    response: z.object({ summary: text, changedFiles: z.array(text) }),
  },
})
