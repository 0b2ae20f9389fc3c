import type { Action } from '../operations/index.js'
import type { Core } from '../session/core.js'
import type { Resource } from '../session/permissions.js'
import type { ScopeAccess } from '../session/scope-access.js'
import type { JobReference, WaitOptions } from '../services/jobs.js'
import type { ImportJob, Source } from '../services/source-records.js'
import type {
  ImportStartRequest,
  SourceCreateRequest,
  SourceListRequest,
  SourcePage,
  SourceService,
} from '../services/sources.js'

/** The sources of an engine: durable baselines that sessions start from. */
export class Sources {
  readonly #access: ScopeAccess
  readonly #service: SourceService

  constructor(access: ScopeAccess, service: SourceService) {
    this.#access = access
    this.#service = service
  }

  /**
   * Makes a source; nothing is fetched yet. INVALID_ARGUMENT, also for credentials in a URL,
   * GIT_UNSUPPORTED_TRANSPORT, PERMISSION_DENIED for a path outside the roots.
   *
   * @example
   * const source = await engine.sources.create({ displayName: 'app', gitRemote: { remoteUrl: 'https://example.org/app.git' } })
   */
  create(request: SourceCreateRequest): Promise<Source> {
    return this.#run('createSource', {}, (core) => this.#service.create(core, request))
  }

  /** SOURCE_NOT_FOUND. */
  get(sourceId: string): Promise<Source> {
    return this.#run('getSource', { sourceId }, (core) => this.#service.get(core, sourceId))
  }

  /** A page of all sources in order of creation. */
  list(request?: SourceListRequest): Promise<SourcePage> {
    return this.#run('listSources', {}, (core) => this.#service.list(core, request))
  }

  /**
   * Starts an import and resolves to the queued job; follow it with {@link waitForJob}. Jobs of one source
   * run one after the other. SOURCE_NOT_FOUND; what goes wrong later stands in the job.
   */
  startImport(sourceId: string, request?: ImportStartRequest): Promise<ImportJob> {
    return this.#run('startImport', { sourceId }, (core) =>
      this.#service.startImport(core, sourceId, request),
    )
  }

  /** JOB_NOT_FOUND. */
  getJob(reference: JobReference): Promise<ImportJob> {
    return this.#run('getJob', {}, (core) => this.#service.getJob(core, reference))
  }

  /**
   * Resolves when the job has succeeded; rejects with IMPORT_FAILED when it failed, the reason as `cause`.
   *
   * @example
   * const { revisionId } = await engine.sources.waitForJob(job, { onProgress: (job) => bar.update(job.filesProcessed) })
   */
  waitForJob(reference: JobReference, options?: WaitOptions): Promise<ImportJob> {
    return this.#run('getJob', {}, (core) => this.#service.waitForJob(core, reference, options))
  }

  #run<T>(action: Action, resource: Resource, operation: (core: Core) => Promise<T>): Promise<T> {
    return this.#access.run(action, resource, () => operation(this.#access.core))
  }
}
