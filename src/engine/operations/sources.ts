import { defineOperations } from './operation.js'

export const sourceOperations = defineOperations({
  createSource: {
    tag: 'Sources',
    summary: 'Create a source',
    description:
      'Takes exactly one of `gitRemote`, `uploadedSnapshot`, `hostPath` and `uploadedGitBundle`. Nothing ' +
      'is fetched yet, and `latestRevisionId` is empty.',
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
    description: 'The current state of the source. `latestRevisionId` is empty until an import succeeds.',
    method: 'GET',
    path: '/v1/sources/{sourceId}',
    capabilities: ['sources'],
    errors: ['SOURCE_NOT_FOUND'],
  },
  deleteSource: {
    tag: 'Sources',
    summary: 'Delete a source',
    description:
      'Hides the source immediately and ends its jobs. Sessions that started from its revisions are not ' +
      'affected.',
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
      'Starts a job that imports the content of the source as a revision, and returns the queued job. ' +
      'Poll the job until its state is `UNDERLAY_IMPORT_JOB_STATE_SUCCEEDED` or `_FAILED`. Jobs of one ' +
      'source run one after another. Equal contents give equal revisions.',
    method: 'POST',
    path: '/v1/sources/{sourceId}/startImport',
    capabilities: ['sources'],
    errors: ['SOURCE_NOT_FOUND', 'QUOTA'],
  },
  getJob: {
    tag: 'Sources',
    summary: 'Get a job',
    description: 'The current state of the job.',
    method: 'GET',
    path: '/v1/sources/{sourceId}/jobs/{jobId}',
    implementedBy: 'engine.sources.getJob',
    capabilities: ['sources'],
    errors: ['JOB_NOT_FOUND'],
  },
  listJobs: {
    tag: 'Sources',
    summary: 'List the jobs of a source',
    description:
      'The jobs of the source, the newest first. A job that runs in the engine of the service has its newest ' +
      'progress.',
    method: 'GET',
    path: '/v1/sources/{sourceId}/jobs',
    query: ['pageSize', 'pageToken'],
    extension: true,
    implementedBy: 'engine.sources.listJobs',
    capabilities: ['sources'],
    errors: ['SOURCE_NOT_FOUND'],
  },
  abortJob: {
    tag: 'Sources',
    summary: 'Abort a job',
    description:
      'Ends a job, which then fails with `INTERRUPTED`. A job that has already ended stays unchanged.',
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
      'Starts a job that reads the source again from its origin, as an import does. Unchanged content is ' +
      'neither fetched nor read, and gives the same revision.',
    method: 'POST',
    path: '/v1/sources/{sourceId}/refresh',
    capabilities: ['sources'],
    errors: ['SOURCE_NOT_FOUND', 'SOURCE_NOT_REFRESHABLE', 'QUOTA'],
  },
  promoteSession: {
    tag: 'Sources',
    summary: 'Promote a session to a revision',
    description:
      'Starts a job that makes the current state of a session a revision of the source. The source may be ' +
      'of any kind. Nothing is copied.',
    method: 'POST',
    path: '/v1/sources/{sourceId}/promoteSession',
    capabilities: ['promote', 'files.read', 'sources'],
    event: 'v1.UnderlaySourceService.PromoteSession',
    errors: ['SOURCE_NOT_FOUND', 'SESSION_NOT_FOUND', 'ALREADY_EXISTS', 'QUOTA'],
  },
})
