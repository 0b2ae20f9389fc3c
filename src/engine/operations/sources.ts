import { defineOperations } from './operation.js'

export const sourceOperations = defineOperations({
  createSource: {
    tag: 'Sources',
    summary: 'Create a source',
    description:
      'Exactly one of `gitRemote`, `uploadedSnapshot`, `hostPath` and `uploadedGitBundle` says what it ' +
      'is. Nothing is fetched yet, and `latestRevisionId` is empty.',
    method: 'POST',
    path: '/v1/sources',
    implementedBy: 'engine.sources.create',
    capabilities: ['sources'],
    errors: [
      'GIT_UNSUPPORTED_TRANSPORT',
      'GIT_ADDRESS_REFUSED',
      'HOST_PATH_NOT_FOUND',
      'HOST_PATH_NOT_ALLOWED',
    ],
  },
  listSources: {
    tag: 'Sources',
    summary: 'List sources',
    description: 'The sources of the tenant, in the order in which they were created.',
    method: 'GET',
    path: '/v1/sources',
    query: ['filter', 'pageSize', 'pageToken'],
    implementedBy: 'engine.sources.list',
    capabilities: ['sources'],
    errors: [],
  },
  getSource: {
    tag: 'Sources',
    summary: 'Get a source',
    description: 'The source as of now; `latestRevisionId` is empty until an import succeeded.',
    method: 'GET',
    path: '/v1/sources/{sourceId}',
    capabilities: ['sources'],
    errors: ['SOURCE_NOT_FOUND'],
  },
  deleteSource: {
    tag: 'Sources',
    summary: 'Delete a source',
    description: 'Hides the source at once and ends its jobs. Sessions on its revisions stay as they are.',
    method: 'DELETE',
    path: '/v1/sources/{sourceId}',
    extension: true,
    capabilities: ['sources'],
    errors: ['SOURCE_NOT_FOUND'],
  },
  startImport: {
    tag: 'Sources',
    summary: 'Start an import',
    description:
      'Starts a job that makes the content of the source a revision, and answers with the queued job: ask ' +
      'for it until its state is `UNDERLAY_IMPORT_JOB_STATE_SUCCEEDED` or `_FAILED`. Jobs of one source ' +
      'run one after the other. Equal contents have equal revisions.',
    method: 'POST',
    path: '/v1/sources/{sourceId}/startImport',
    capabilities: ['sources'],
    errors: ['SOURCE_NOT_FOUND'],
  },
  getJob: {
    tag: 'Sources',
    summary: 'Get a job',
    description: 'The job as of now.',
    method: 'GET',
    path: '/v1/sources/{sourceId}/jobs/{jobId}',
    implementedBy: 'engine.sources.getJob',
    capabilities: ['sources'],
    errors: ['JOB_NOT_FOUND'],
  },
  abortJob: {
    tag: 'Sources',
    summary: 'Abort a job',
    description: 'Ends a job, which then has failed with `INTERRUPTED`; one that has ended stays as it is.',
    method: 'POST',
    path: '/v1/sources/{sourceId}/jobs/{jobId}:abort',
    extension: true,
    implementedBy: 'engine.sources.abortJob',
    capabilities: ['sources'],
    errors: ['JOB_NOT_FOUND'],
  },
  refreshSource: {
    tag: 'Sources',
    summary: 'Refresh a source',
    description:
      'Starts a job that reads the source again where it lives, as an import does. What did not change is ' +
      'neither fetched nor read, and gives the same revision.',
    method: 'POST',
    path: '/v1/sources/{sourceId}/refresh',
    capabilities: ['sources'],
    errors: ['SOURCE_NOT_FOUND', 'SOURCE_NOT_REFRESHABLE'],
  },
  promoteSession: {
    tag: 'Sources',
    summary: 'Promote a session to a revision',
    description:
      'Starts a job that makes the state that a session has now a revision of the source, whatever its ' +
      'kind. Nothing is copied.',
    method: 'POST',
    path: '/v1/sources/{sourceId}/promoteSession',
    capabilities: ['promote', 'files.read', 'sources'],
    event: 'v1.UnderlaySourceService.PromoteSession',
    errors: ['SOURCE_NOT_FOUND', 'SESSION_NOT_FOUND', 'ALREADY_EXISTS'],
  },
})
