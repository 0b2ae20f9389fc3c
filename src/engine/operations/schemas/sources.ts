import * as z from 'zod'
import { limits } from '../../base/limits.js'
import {
  bytes,
  extension,
  filter,
  int64,
  labels,
  named,
  nextPageToken,
  nothing,
  pageRequest,
  stringMap,
  text,
  time,
  timeOrNone,
} from './wire-types.js'
import { defineSchemas } from './operation-schemas.js'

const atSource = { sourceId: text.describe('The id of the source.') }
const ofJob = { ...atSource, jobId: text.describe('The id of the job.') }
const gitRef = text
  .describe('A branch, a tag, a full ref or a commit id. Absent or empty: the `defaultRef` of the source.')
  .exactOptional()
const defaultRef = text.describe('The ref for imports that name none. Absent or empty: HEAD.').exactOptional()

const source = named(
  'Source',
  z.object({
    sourceId: text,
    displayName: text,
    kind: z
      .enum([
        'UNDERLAY_SOURCE_KIND_GIT_REMOTE',
        'UNDERLAY_SOURCE_KIND_UPLOADED_SNAPSHOT',
        'UNDERLAY_SOURCE_KIND_HOST_PATH',
        'UNDERLAY_SOURCE_KIND_UPLOADED_GIT_BUNDLE',
        'UNDERLAY_SOURCE_KIND_GIT_REPOSITORY',
      ])
      .meta({ id: 'UnderlaySourceKind' }),
    status: z
      .enum([
        'UNDERLAY_SOURCE_STATUS_CREATING',
        'UNDERLAY_SOURCE_STATUS_READY',
        'UNDERLAY_SOURCE_STATUS_FAILED',
        'UNDERLAY_SOURCE_STATUS_DELETING',
      ])
      .meta({
        id: 'UnderlaySourceStatus',
        description:
          'READY even while a job runs. FAILED if an import failed and the source has no revision.',
      }),
    latestRevisionId: text.describe('Empty until an import succeeds.'),
    createdAt: time,
    updatedAt: time,
    createdByPrincipal: text,
    labels: stringMap,
  }),
)

const job = named(
  'ImportJob',
  z.object({
    jobId: text,
    sourceId: text,
    state: z
      .enum([
        'UNDERLAY_IMPORT_JOB_STATE_QUEUED',
        'UNDERLAY_IMPORT_JOB_STATE_RUNNING',
        'UNDERLAY_IMPORT_JOB_STATE_SUCCEEDED',
        'UNDERLAY_IMPORT_JOB_STATE_FAILED',
      ])
      .meta({ id: 'UnderlayImportJobState' }),
    revisionId: text.describe('Empty until the job succeeds.'),
    createdAt: time,
    startedAt: timeOrNone,
    completedAt: timeOrNone,
    errorCode: text.describe(
      'Empty unless the job failed: REF_NOT_FOUND, REMOTE_UNREACHABLE, AUTH_FAILED, CREDENTIALS_NOT_FOUND, ' +
        'INVALID_ARCHIVE, INVALID_BUNDLE, UNSAFE_PATH, PATH_NOT_FOUND, PATH_NOT_ALLOWED, LIMIT_EXCEEDED, INTERRUPTED, ' +
        'REMOTE_CORRUPT, NOT_A_TREE, DEADLINE_EXCEEDED or INTERNAL.',
    ),
    errorMessage: text.describe('Empty unless the job failed.'),
    bytesProcessed: int64.describe('Bytes of files read so far. After success, all bytes of the revision.'),
    filesProcessed: int64.describe('Files and symlinks read so far. After success, all of the revision.'),
    bytesTransferred: extension(
      int64.describe('Bytes received from outside, as an archive, bundle, pack, or files of a directory.'),
    ),
  }),
)

export const sourceSchemas = defineSchemas({
  createSource: {
    request: z.object({
      displayName: text,
      gitRemote: z
        .object({
          remoteUrl: text.describe('An http or https URL without credentials.'),
          defaultRef,
          credentialsSecretId: text
            .describe('The name by which the service finds the credentials.')
            .exactOptional(),
        })
        .exactOptional(),
      uploadedSnapshot: nothing.describe('Each import uploads an archive.').exactOptional(),
      hostPath: z
        .object({ path: text })
        .describe('A directory on the host of the service, which must allow it.')
        .exactOptional(),
      uploadedGitBundle: z
        .object({ defaultRef })
        .describe('Each import uploads a git bundle.')
        .exactOptional(),
      labels: labels.exactOptional(),
    }),
    response: source,
  },
  listSources: {
    request: z.object({ filter: filter.exactOptional(), ...pageRequest }),
    response: z.object({ sources: z.array(source), nextPageToken }),
  },
  getSource: { request: z.object(atSource), response: source },
  deleteSource: { request: z.object(atSource), response: nothing },
  startImport: {
    request: z.object({
      ...atSource,
      git: z.object({ gitRef }).describe('For a git remote.').exactOptional(),
      uploadedSnapshot: z
        .object({ content: bytes.describe('A tar, optionally with gzip, or a zip.') })
        .describe('For an uploaded snapshot.')
        .exactOptional(),
      uploadedGitBundle: z
        .object({ content: bytes.describe('A git bundle.'), gitRef })
        .describe('For an uploaded git bundle.')
        .exactOptional(),
    }),
    response: job,
  },
  getJob: { request: z.object(ofJob), response: job },
  listJobs: {
    request: z.object({ ...atSource, ...pageRequest }),
    response: z.object({ jobs: z.array(job).describe('The newest first.'), nextPageToken }),
  },
  abortJob: { request: z.object(ofJob), response: job },
  refreshSource: { request: z.object({ ...atSource, gitRef }), response: job },
  promoteSession: {
    request: z.object({
      ...atSource,
      sessionId: text,
      revisionLabel: text
        .describe(
          `A name for the revision, unique in the source, at most ${limits.labelBytes} bytes. Absent or empty: no ` +
            'label.',
        )
        .exactOptional(),
    }),
    response: job,
  },
})
