import { given } from '../base/input.js'
import { invalid } from '../base/errors.js'
import { parseAtCall, Shape } from '../base/shape.js'
import type { Action } from '../operations/index.js'
import {
  parseJobReference,
  parseWait,
  parseWatch,
  type JobReference,
  type WaitOptions,
  type WatchOptions,
} from '../services/sources/job-requests.js'
import { jobListShape, type JobListRequest, type JobPage } from '../services/sources/job-listing.js'
import type { Source } from '../services/sources/source-records.js'
import type { ImportJob } from '../records/import-job.js'
import {
  parseCreate,
  parseImport,
  parseRefresh,
  type ImportStartRequest,
  type RefreshRequest,
  type SourceCreateRequest,
} from '../services/sources/source-requests.js'
import {
  parsePromote,
  sourceListShape,
  type PromoteRequest,
  type SourceListRequest,
  type SourcePage,
  type SourceService,
} from '../services/sources/sources.js'
import type { TreeExports } from '../services/sources/tree-exports.js'
import type { Core } from '../session/core.js'
import type { Dir } from '../tree/node.js'
import type { Resource } from '../session/access/permissions.js'
import { openUsed, usedNow } from '../session/table/expiry.js'
import type { ScopeAccess } from '../session/access/scope-access.js'

/** The request of `engine.sources.exportTar`. */
export interface RevisionExportRequest {
  /** The id of the source. */
  readonly sourceId: string
  /** The id or label of a revision; '' or absent: the latest. */
  readonly revisionId?: string
  /** Absolute path of a directory in the revision, such as `/src`; `/` by default. */
  readonly path?: string
}

const exportShape = new Shape<RevisionExportRequest>({ sourceId: true, revisionId: true, path: true })

/** The sources of an engine: durable bases that sessions start from. */
export class Sources {
  readonly #access: ScopeAccess
  readonly #service: SourceService
  readonly #exports: TreeExports

  /** @internal */
  constructor(access: ScopeAccess, service: SourceService, exports: TreeExports) {
    this.#access = access
    this.#service = service
    this.#exports = exports
  }

  /**
   * Creates a source. It fetches nothing yet.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the request has the wrong form, or a URL has credentials.
   * @throws {EngineError} GIT_UNSUPPORTED_TRANSPORT when the URL is not http or https.
   * @throws {EngineError} GIT_ADDRESS_REFUSED when the remote is local, unless the engine has
   * `git.allowPrivateAddresses`.
   * @throws {EngineError} HOST_PATH_NOT_FOUND when the directory does not exist on the host.
   * @throws {EngineError} HOST_PATH_NOT_ALLOWED when the path is outside `hostPaths.roots`.
   *
   * @example
   * const source = await engine.sources.create({ displayName: 'app', gitRemote: { remoteUrl: 'https://example.org/app.git' } })
   */
  async create(request: SourceCreateRequest): Promise<Source> {
    const parsed = parseCreate(request)
    return this.#run('createSource', {}, (core) => this.#service.create(core, parsed))
  }

  /**
   * The information about a source.
   *
   * @throws {EngineError} SOURCE_NOT_FOUND when no source has this id.
   *
   * @example
   * const { displayName, latestRevisionId } = await engine.sources.get(sourceId)
   */
  get(sourceId: string): Promise<Source> {
    return this.#run('getSource', { sourceId }, (core) => this.#service.get(core, sourceId))
  }

  /**
   * A page of all sources in order of creation.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the filter is malformed, or the page token is of another listing.
   *
   * @example
   * const { sources } = await engine.sources.list({ filter: 'team=web' })
   */
  async list(request: SourceListRequest = {}): Promise<SourcePage> {
    const copy = sourceListShape.read(request)
    return this.#run('listSources', {}, (core) => this.#service.list(core, copy))
  }

  /**
   * Hides a source at once and ends its jobs. Sessions on it stay as they are, and a revision that is named still
   * starts sessions.
   *
   * @throws {EngineError} SOURCE_NOT_FOUND when no source has this id.
   *
   * @example
   * await engine.sources.delete(sourceId)
   */
  delete(sourceId: string): Promise<void> {
    return this.#run('deleteSource', { sourceId }, (core) => this.#service.delete(core, sourceId))
  }

  /**
   * Starts an import and resolves to the queued job; follow it with {@link waitForJob}. Jobs of one source run one
   * after the other. Calls for the same ref share a job until it has found the commit, and those for a host path
   * until the scan begins. Bytes are copied at the call. Later errors are in the job.
   *
   * @throws {EngineError} SOURCE_NOT_FOUND when no source has this id.
   * @throws {EngineError} INVALID_ARGUMENT when the request has fields of another kind of source, or the paths of its
   * files cannot form a tree.
   * @throws {EngineError} NAME_TOO_LONG when a path of its files is too long.
   * @throws {EngineError} QUOTA when the tenant has over 1,000 imports that have not ended.
   *
   * @example
   * const uploadedSnapshot = { files: { '/src/a.ts': 'export const a = 1' } }
   * const job = await engine.sources.startImport(sourceId, { uploadedSnapshot })
   */
  async startImport(sourceId: string, request: ImportStartRequest = {}): Promise<ImportJob> {
    const parts = await parseImport(request)
    return this.#run('startImport', { sourceId }, (core) => this.#service.startImport(core, sourceId, parts))
  }

  /**
   * Starts to read a source again from its origin. Unchanged data is neither fetched nor read, and gives the same
   * revision.
   *
   * @throws {EngineError} SOURCE_NOT_FOUND when no source has this id.
   * @throws {EngineError} SOURCE_NOT_REFRESHABLE when the source is an uploaded one.
   * @throws {EngineError} INVALID_ARGUMENT when the request has a ref and the source is a directory.
   * @throws {EngineError} QUOTA when the tenant has over 1,000 imports that have not ended.
   *
   * @example
   * const { revisionId } = await engine.sources.waitForJob(await engine.sources.refresh(sourceId))
   */
  async refresh(sourceId: string, request: RefreshRequest = {}): Promise<ImportJob> {
    const copy = parseRefresh(request)
    return this.#run('refreshSource', { sourceId }, (core) => this.#service.refresh(core, sourceId, copy))
  }

  /**
   * Makes the current state of a session a revision of a source of any kind, without copying.
   *
   * @throws {EngineError} SOURCE_NOT_FOUND when no source has this id.
   * @throws {EngineError} SESSION_NOT_FOUND when no session has this id.
   * @throws {EngineError} ALREADY_EXISTS when the source has a revision with this label or id.
   * @throws {EngineError} TOO_LARGE when the label is over 1,024 bytes.
   * @throws {EngineError} QUOTA when the tenant has over 1,000 imports that have not ended.
   *
   * @example
   * await engine.sources.waitForJob(await engine.sources.promoteSession(sourceId, { sessionId: session.id, revisionLabel: 'v2' }))
   * const next = await engine.sessions.create({ sourceRef: { sourceId, revisionId: 'v2' } })
   */
  async promoteSession(sourceId: string, request: PromoteRequest): Promise<ImportJob> {
    const copy = parsePromote(request)
    const { sessionId } = copy
    return this.#run('promoteSession', { ...sessionOf(sessionId), sourceId }, async (core) => {
      const live = usedNow(core, sessionId) ?? (await openUsed(core, sessionId))
      return this.#service.promote(core, sourceId, live, copy)
    })
  }

  /**
   * A revision as a tar, like {@link Session.exportTar}. An invalid request fails at the first read.
   *
   * @throws {EngineError} SOURCE_NOT_FOUND when no source has this id.
   * @throws {EngineError} REVISION_NOT_FOUND when the source has no revision with this id or label.
   * @throws {EngineError} SOURCE_WITHOUT_REVISION when the source has no revision yet.
   * @throws {EngineError} PATH_NOT_FOUND when the directory does not exist.
   * @throws {EngineError} NOT_A_DIRECTORY when the path is not a directory.
   *
   * @example
   * for await (const piece of engine.sources.exportTar({ sourceId, path: '/src' })) process.stdout.write(piece)
   */
  exportTar(request: RevisionExportRequest): AsyncIterable<Uint8Array> {
    let directory: string | undefined
    // An invalid request fails at the first read of the tar.
    const opened = async (): Promise<Dir> => {
      const { sourceId, revisionId, path } = exportShape.read(request)
      directory = path
      const resource = typeof sourceId === 'string' ? { sourceId } : {}
      const [, root] = await this.#run('exportRevision', resource, (core) =>
        this.#service.baseline(core, sourceId, revisionId),
      )
      return root
    }
    const state = opened()
    return this.#exports.tar(this.#access.core, state, directory)
  }

  /**
   * The current state of a job.
   *
   * @throws {EngineError} JOB_NOT_FOUND when the source has no job with this id.
   *
   * @example
   * const job = await engine.sources.refresh(sourceId)
   * const { state, filesProcessed } = await engine.sources.getJob(job)
   */
  async getJob(reference: JobReference): Promise<ImportJob> {
    const job = parseJobReference(reference)
    return this.#run('getJob', {}, (core) => this.#service.jobs.get(core, job))
  }

  /**
   * A page of the jobs of a source, the newest first. A job that runs in this engine has its newest progress.
   *
   * @throws {EngineError} SOURCE_NOT_FOUND when no source has this id.
   * @throws {EngineError} INVALID_ARGUMENT when the page token is of another listing.
   *
   * @example
   * const { jobs } = await engine.sources.listJobs({ sourceId, pageSize: 10 })
   * console.log(jobs.map(({ state, createdAt }) => [state, createdAt]))
   */
  async listJobs(request: JobListRequest): Promise<JobPage> {
    const copy = jobListShape.read(request)
    const { sourceId } = copy
    const resource = typeof sourceId === 'string' ? { sourceId } : {}
    return this.#run('listJobs', resource, (core) => this.#service.listJobs(core, copy))
  }

  /**
   * Resolves when the job has succeeded.
   *
   * @throws {EngineError} IMPORT_FAILED when the job failed; `cause` is the error of the job.
   * @throws {EngineError} JOB_NOT_FOUND when the source has no job with this id.
   *
   * @example
   * const job = await engine.sources.refresh(sourceId)
   * const { revisionId } = await engine.sources.waitForJob(job, { onProgress: (now) => console.log(now.filesProcessed) })
   */
  async waitForJob(reference: JobReference, options: WaitOptions = {}): Promise<ImportJob> {
    const job = parseJobReference(reference)
    const copy = parseWait(options)
    return this.#run('getJob', {}, (core) => this.#service.jobs.wait(core, job, copy))
  }

  /**
   * Yields the job now, whenever it changes, and last when it has ended. A slow reader misses intermediate states.
   *
   * @throws {EngineError} JOB_NOT_FOUND when the source has no job with this id.
   *
   * @example
   * const job = await engine.sources.refresh(sourceId)
   * for await (const { state, bytesProcessed } of engine.sources.watchJob(job)) console.log(state, bytesProcessed)
   */
  watchJob(reference: JobReference, options: WatchOptions = {}): AsyncGenerator<ImportJob, void, undefined> {
    return this.#watch(parseAtCall(() => [parseJobReference(reference), parseWatch(options)]))
  }

  async *#watch(
    parsed: () => readonly [JobReference, WatchOptions],
  ): AsyncGenerator<ImportJob, void, undefined> {
    const [job, options] = parsed()
    await this.getJob(job)
    yield* this.#service.jobs.watch(this.#access.core, job, options)
  }

  /**
   * Aborts a job of any caller, also a shared one, and resolves to it. A job that has ended stays as it is. A job of
   * another engine on the same storage can be aborted too: it stores no result, and its work stops within
   * `limits.sharedSweepMs`.
   *
   * @throws {EngineError} JOB_NOT_FOUND when the source has no job with this id.
   *
   * @example
   * const job = await engine.sources.refresh(sourceId)
   * await engine.sources.abortJob(job)
   */
  async abortJob(reference: JobReference): Promise<ImportJob> {
    const job = parseJobReference(reference)
    return this.#run('abortJob', {}, (core) => this.#service.jobs.abort(core, job))
  }

  /**
   * Calls a listener with each job of the sources of the tenant whenever it changes. Errors of the listener go to
   * `log`. Returns the function that removes the listener.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the listener is not a function.
   *
   * @example
   * const unsubscribe = engine.sources.onJob(({ jobId, state }) => console.log(jobId, state))
   * unsubscribe()
   */
  onJob(listener: (job: ImportJob) => void): () => void {
    if (typeof listener !== 'function')
      throw invalid('listener', `must be a function; it is ${given(listener)}`)
    this.#access.permissions.check('getJob', {})
    return this.#service.jobs.watches.on(this.#access.core, listener)
  }

  #run<T>(action: Action, resource: Resource, operation: (core: Core) => Promise<T>): Promise<T> {
    return this.#access.run(action, resource, () => operation(this.#access.core))
  }
}

function sessionOf(sessionId: unknown): Resource {
  return typeof sessionId === 'string' ? { sessionId } : {}
}
