import type { Core } from '../session/core.js'
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
  readonly #core: Core
  readonly #service: SourceService

  constructor(core: Core, service: SourceService) {
    this.#core = core
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
    return this.#service.create(this.#core, request)
  }

  /** SOURCE_NOT_FOUND. */
  get(sourceId: string): Promise<Source> {
    return this.#service.get(this.#core, sourceId)
  }

  /** A page of all sources in order of creation. */
  list(request?: SourceListRequest): Promise<SourcePage> {
    return this.#service.list(this.#core, request)
  }

  /**
   * Starts an import and resolves to the queued job; follow it with {@link waitForJob}. Jobs of one source
   * run one after the other. SOURCE_NOT_FOUND; what goes wrong later stands in the job.
   */
  startImport(sourceId: string, request?: ImportStartRequest): Promise<ImportJob> {
    return this.#service.startImport(this.#core, sourceId, request)
  }

  /** JOB_NOT_FOUND. */
  getJob(reference: JobReference): Promise<ImportJob> {
    return this.#service.getJob(this.#core, reference)
  }

  /**
   * Resolves when the job has succeeded; rejects with IMPORT_FAILED when it failed, the reason as `cause`.
   *
   * @example
   * const { revisionId } = await engine.sources.waitForJob(job, { onProgress: (job) => bar.update(job.filesProcessed) })
   */
  waitForJob(reference: JobReference, options?: WaitOptions): Promise<ImportJob> {
    return this.#service.waitForJob(this.#core, reference, options)
  }
}
