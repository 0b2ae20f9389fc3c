import * as z from 'zod'
import { bytes, int64, nothing, pageRequest, stringMap, text, time, timeOrNone } from './kinds.js'
import { defineSchemas } from './operation-schemas.js'

const atSource = { sourceId: text }

const source = z.object({
  sourceId: text,
  displayName: text,
  kind: z.enum([
    'UNDERLAY_SOURCE_KIND_GIT_REMOTE',
    'UNDERLAY_SOURCE_KIND_UPLOADED_SNAPSHOT',
    'UNDERLAY_SOURCE_KIND_HOST_PATH',
    'UNDERLAY_SOURCE_KIND_UPLOADED_GIT_BUNDLE',
    'UNDERLAY_SOURCE_KIND_GIT_REPOSITORY',
  ]),
  status: z.enum([
    'UNDERLAY_SOURCE_STATUS_CREATING',
    'UNDERLAY_SOURCE_STATUS_READY',
    'UNDERLAY_SOURCE_STATUS_FAILED',
    'UNDERLAY_SOURCE_STATUS_DELETING',
  ]),
  latestRevisionId: text,
  createdAt: time,
  updatedAt: time,
  createdByPrincipal: text,
  labels: stringMap,
})

const job = z.object({
  jobId: text,
  sourceId: text,
  state: z.enum([
    'UNDERLAY_IMPORT_JOB_STATE_QUEUED',
    'UNDERLAY_IMPORT_JOB_STATE_RUNNING',
    'UNDERLAY_IMPORT_JOB_STATE_SUCCEEDED',
    'UNDERLAY_IMPORT_JOB_STATE_FAILED',
  ]),
  revisionId: text,
  createdAt: time,
  startedAt: timeOrNone,
  completedAt: timeOrNone,
  errorCode: text,
  errorMessage: text,
  bytesProcessed: int64,
  filesProcessed: int64,
})

export const sourceSchemas = defineSchemas({
  /** Exactly one of the four kinds. */
  createSource: {
    request: z.object({
      displayName: text,
      gitRemote: z
        .object({
          remoteUrl: text,
          defaultRef: text.exactOptional(),
          credentialsSecretId: text.exactOptional(),
        })
        .exactOptional(),
      uploadedSnapshot: nothing.exactOptional(),
      hostPath: z.object({ path: text }).exactOptional(),
      uploadedGitBundle: z.object({ defaultRef: text.exactOptional() }).exactOptional(),
      labels: stringMap.exactOptional(),
    }),
    response: source,
  },
  listSources: {
    request: z.object({ filter: text.exactOptional(), ...pageRequest }),
    response: z.object({ sources: z.array(source), nextPageToken: text }),
  },
  getSource: { request: z.object(atSource), response: source },
  /** What belongs to the source's kind. */
  startImport: {
    request: z.object({
      ...atSource,
      git: z.object({ gitRef: text.exactOptional() }).exactOptional(),
      uploadedSnapshot: z.object({ content: bytes }).exactOptional(),
      uploadedGitBundle: z.object({ content: bytes, gitRef: text.exactOptional() }).exactOptional(),
    }),
    response: job,
  },
  getJob: { request: z.object({ ...atSource, jobId: text }), response: job },
  refreshSource: { request: z.object({ ...atSource, gitRef: text.exactOptional() }), response: job },
  promoteSession: {
    request: z.object({ ...atSource, sessionId: text, revisionLabel: text.exactOptional() }),
    response: job,
  },
})
