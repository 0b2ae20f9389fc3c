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
} from '../services/sources/jobs.js'
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

/** A revision by its id or label, the latest by default, and a directory in it, the root by default. */
export interface RevisionExportRequest {
  readonly sourceId: string
  readonly revisionId?: string
  readonly path?: string
}

const exportShape = new Shape<RevisionExportRequest>({ sourceId: true, revisionId: true, path: true })

/** The sources of an engine: durable baselines that sessions start from. */
export class Sources {
  readonly #access: ScopeAccess
  readonly #service: SourceService
  readonly #exports: TreeExports

  constructor(access: ScopeAccess, service: SourceService, exports: TreeExports) {
    this.#access = access
    this.#service = service
    this.#exports = exports
  }

  /**
   * Makes a source; nothing is fetched yet. INVALID_ARGUMENT, also for credentials in a URL,
   * GIT_UNSUPPORTED_TRANSPORT, PERMISSION_DENIED or HOST_PATH_NOT_ALLOWED for a path outside the roots.
   *
   * @example
   * const source = await engine.sources.create({ displayName: 'app', gitRemote: { remoteUrl: 'https://example.org/app.git' } })
   */
  async create(request: SourceCreateRequest): Promise<Source> {
    const parsed = parseCreate(request)
    return this.#run('createSource', {}, (core) => this.#service.create(core, parsed))
  }

  /** SOURCE_NOT_FOUND. */
  get(sourceId: string): Promise<Source> {
    return this.#run('getSource', { sourceId }, (core) => this.#service.get(core, sourceId))
  }

  /** A page of all sources in order of creation. INVALID_ARGUMENT for a malformed filter or page token. */
  async list(request: SourceListRequest = {}): Promise<SourcePage> {
    const copy = sourceListShape.read(request)
    return this.#run('listSources', {}, (core) => this.#service.list(core, copy))
  }

  /**
   * Hides a source at once and ends its jobs. Sessions on it stay as they are, and a revision that is named still
   * starts sessions. SOURCE_NOT_FOUND.
   */
  delete(sourceId: string): Promise<void> {
    return this.#run('deleteSource', { sourceId }, (core) => this.#service.delete(core, sourceId))
  }

  /**
   * Starts an import and resolves to the queued job; follow it with {@link waitForJob}. Jobs of one source
   * run one after the other; calls for the same ref share a job until it has found the commit, and those for a host
   * path until the scan begins. Bytes are taken as they are at the call. INVALID_ARGUMENT for fields of another
   * kind of source and for files whose paths make no tree, NAME_TOO_LONG, SOURCE_NOT_FOUND; later errors
   * are in the job.
   *
   * @example
   * const job = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content: await readFile('app.tgz') } })
   */
  async startImport(sourceId: string, request: ImportStartRequest = {}): Promise<ImportJob> {
    const parts = parseImport(request)
    return this.#run('startImport', { sourceId }, (core) => this.#service.startImport(core, sourceId, parts))
  }

  /**
   * Starts to read a source again from its origin; unchanged data is neither fetched nor read, and gives the
   * same revision. SOURCE_NOT_FOUND, SOURCE_NOT_REFRESHABLE of an uploaded one, INVALID_ARGUMENT for a ref of a directory.
   *
   * @example
   * const { revisionId } = await engine.sources.waitForJob(await engine.sources.refresh(sourceId))
   */
  async refresh(sourceId: string, request: RefreshRequest = {}): Promise<ImportJob> {
    const copy = parseRefresh(request)
    return this.#run('refreshSource', { sourceId }, (core) => this.#service.refresh(core, sourceId, copy))
  }

  /**
   * Makes a session's current state a revision of a source of any kind: nothing is copied.
   * SOURCE_NOT_FOUND, SESSION_NOT_FOUND, ALREADY_EXISTS when the source has a revision of this label or id,
   * INVALID_ARGUMENT, TOO_LARGE for a label over 1,024 bytes.
   *
   * @example
   * await engine.sources.waitForJob(await engine.sources.promoteSession(sourceId, { sessionId, revisionLabel: 'v2' }))
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
   * A revision as a tar, as {@link Session.exportTar} has it. Errors in the request are thrown at the first read:
   * SOURCE_NOT_FOUND, REVISION_NOT_FOUND, SOURCE_WITHOUT_REVISION, PATH_NOT_FOUND, NOT_A_DIRECTORY.
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

  /** JOB_NOT_FOUND. */
  async getJob(reference: JobReference): Promise<ImportJob> {
    const job = parseJobReference(reference)
    return this.#run('getJob', {}, (core) => this.#service.jobs.get(core, job))
  }

  /**
   * Resolves when the job has succeeded; rejects with IMPORT_FAILED when it failed, the reason as `cause`. JOB_NOT_FOUND.
   *
   * @example
   * const { revisionId } = await engine.sources.waitForJob(job, { onProgress: (job) => bar.update(job.filesProcessed) })
   */
  async waitForJob(reference: JobReference, options: WaitOptions = {}): Promise<ImportJob> {
    const job = parseJobReference(reference)
    const copy = parseWait(options)
    return this.#run('getJob', {}, (core) => this.#service.jobs.wait(core, job, copy))
  }

  /**
   * Yields the job now, then whenever it changes, and at last when it has ended. A slow reader misses
   * intermediate states. JOB_NOT_FOUND.
   *
   * @example
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

  /** Ends any caller's job, shared ones included, and resolves to it; an ended job stays as it is. JOB_NOT_FOUND. */
  async abortJob(reference: JobReference): Promise<ImportJob> {
    const job = parseJobReference(reference)
    return this.#run('abortJob', {}, (core) => this.#service.jobs.abort(core, job))
  }

  /**
   * Calls a listener with each job of the tenant's sources whenever it changed: queued, running, further on, ended.
   * Errors of the listener are logged. Returns the function that removes it. INVALID_ARGUMENT unless a function.
   */
  onJob(listener: (job: ImportJob) => void): () => void {
    if (typeof listener !== 'function')
      throw invalid('listener', `must be a function; it is ${given(listener)}`)
    this.#access.permissions.check('getJob', {})
    return this.#service.jobs.on(this.#access.core, listener)
  }

  #run<T>(action: Action, resource: Resource, operation: (core: Core) => Promise<T>): Promise<T> {
    return this.#access.run(action, resource, () => operation(this.#access.core))
  }
}

function sessionOf(sessionId: unknown): Resource {
  return typeof sessionId === 'string' ? { sessionId } : {}
}
