import type {
  ContentIn,
  ImportJob,
  JobReference,
  Sources,
  WaitOptions,
  WatchOptions,
} from '../../engine/index.js'
import { EngineError, invalid, parseAtCall, present, Shape } from '../../engine/client-contract.js'
import { copyBytes } from './bytes.js'
import { checked } from './checked.js'
import { pause } from './deadline.js'
import { clientLimits } from './limits.js'
import type { Transport } from './transport.js'

type Import = NonNullable<Parameters<Sources['startImport']>[1]>

const noneShape = new Shape<object>({})
const importShape = new Shape<Import>({
  git: true,
  uploadedSnapshot: true,
  uploadedGitBundle: true,
  signal: true,
})
const snapshotShape = new Shape<NonNullable<Import['uploadedSnapshot']>>({ content: true, files: true })
const bundleShape = new Shape<NonNullable<Import['uploadedGitBundle']>>({ content: true, gitRef: true })
const waitShape = new Shape<WaitOptions>({ signal: true, onProgress: true })
const watchShape = new Shape<WatchOptions>({ signal: true })
const jobShape = new Shape<ImportJob>({
  jobId: true,
  sourceId: true,
  state: true,
  revisionId: true,
  createdAt: true,
  startedAt: true,
  completedAt: true,
  errorCode: true,
  errorMessage: true,
  bytesProcessed: true,
  filesProcessed: true,
  bytesTransferred: true,
})

/**
 * The sources of a tenant. Like `engine.sources` of a local engine, with the differences below. Each method
 * also throws the errors of {@link connect}.
 */
export class RemoteSources {
  readonly #transport: Transport

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /**
   * Creates a source. It fetches nothing yet. A server does not accept `gitRepository`.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the request does not have exactly one kind, or a URL has
   * credentials
   * @throws {EngineError} GIT_UNSUPPORTED_TRANSPORT when the URL is not http or https
   * @throws {EngineError} GIT_ADDRESS_REFUSED when the remote has a private address and the server does not
   * allow it
   * @throws {EngineError} HOST_PATH_NOT_ALLOWED, HOST_PATH_NOT_FOUND when the server does not allow or have
   * the path
   *
   * @example
   * const gitRemote = { remoteUrl: 'https://example.org/app.git' }
   * const { sourceId } = await engine.sources.create({ displayName: 'app', gitRemote })
   */
  async create(
    request: Omit<Parameters<Sources['create']>[0], 'gitRepository'>,
  ): ReturnType<Sources['create']> {
    const { uploadedSnapshot, ...rest } = checked(request)
    if (uploadedSnapshot !== undefined) noneShape.readPart(uploadedSnapshot, 'uploadedSnapshot')
    return this.#transport.call('createSource', {
      ...rest,
      ...(uploadedSnapshot !== undefined && { uploadedSnapshot: {} }),
    })
  }

  /**
   * The current state of a source.
   *
   * @throws {EngineError} SOURCE_NOT_FOUND when no source has this id, or it was deleted
   *
   * @example
   * const { latestRevisionId } = await engine.sources.get(sourceId)
   */
  get(sourceId: string): ReturnType<Sources['get']> {
    return this.#transport.call('getSource', { sourceId })
  }

  /**
   * A page of the sources of the tenant, in order of creation.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the filter or the page token is malformed
   *
   * @example
   * const { sources } = await engine.sources.list({ filter: 'team=web' })
   */
  list(request: Parameters<Sources['list']>[0] = {}): ReturnType<Sources['list']> {
    return this.#transport.call('listSources', request)
  }

  /**
   * Hides a source immediately and ends its jobs. Sessions on its revisions are not affected.
   *
   * @throws {EngineError} SOURCE_NOT_FOUND when no source has this id, or it was deleted
   *
   * @example
   * await engine.sources.delete(sourceId)
   */
  async delete(sourceId: string): Promise<void> {
    await this.#transport.call('deleteSource', { sourceId })
  }

  /**
   * Starts an import. Sends a content as a stream, and resolves with the job after the content is sent. The
   * signal ends the request, not the job. Later errors are in the job.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the request has a field of another kind of source, or `files`
   * @throws {EngineError} SOURCE_NOT_FOUND when no source has this id, or it was deleted
   *
   * @example
   * const job = await engine.sources.startImport(sourceId)
   * const { revisionId } = await engine.sources.waitForJob(job)
   */
  async startImport(sourceId: string, request: Import = {}): Promise<ImportJob> {
    const { signal, uploadedSnapshot, uploadedGitBundle, ...rest } = importShape.read(checked(request))
    const archive = uploadedSnapshot && snapshotShape.readPart(uploadedSnapshot, 'uploadedSnapshot')
    const bundle = uploadedGitBundle && bundleShape.readPart(uploadedGitBundle, 'uploadedGitBundle')
    if (archive?.files !== undefined)
      throw invalid('uploadedSnapshot.files', 'cannot be sent to a server: pass an archive as content')
    if ([archive, bundle, rest.git].filter((one) => one !== undefined).length > 1)
      throw invalid('request', 'has more than one of git, uploadedSnapshot and uploadedGitBundle: pass one')
    if (archive !== undefined) {
      const content = contentOf(archive.content, 'uploadedSnapshot.content')
      return this.#transport.send('uploadSnapshot', { sourceId }, content, { signal })
    }
    if (bundle !== undefined) {
      const { content: given, ...parameters } = bundle
      const content = contentOf(given, 'uploadedGitBundle.content')
      return this.#transport.send('uploadGitBundle', { ...parameters, sourceId }, content, { signal })
    }
    return this.#transport.call('startImport', { ...rest, sourceId }, { signal })
  }

  /**
   * Starts a job that reads a source again from its origin. The signal ends the request, not the job.
   *
   * @throws {EngineError} SOURCE_NOT_FOUND when no source has this id, or it was deleted
   * @throws {EngineError} SOURCE_NOT_REFRESHABLE when the source was uploaded
   * @throws {EngineError} INVALID_ARGUMENT when the source is a directory and the request has a ref
   *
   * @example
   * const { revisionId } = await engine.sources.waitForJob(await engine.sources.refresh(sourceId))
   */
  async refresh(
    sourceId: string,
    request: NonNullable<Parameters<Sources['refresh']>[1]> = {},
  ): Promise<ImportJob> {
    const { signal, ...rest } = checked(request)
    return this.#transport.call('refreshSource', { ...rest, sourceId }, { signal })
  }

  /**
   * Starts a job that adds the current state of a session as a revision of a source. The source may be of any
   * kind. The signal ends the request, not the job.
   *
   * @throws {EngineError} SOURCE_NOT_FOUND, SESSION_NOT_FOUND when the source or the session does not exist
   * @throws {EngineError} ALREADY_EXISTS when a revision of the source has this label or id
   *
   * @example
   * const job = await engine.sources.promoteSession(sourceId, { sessionId: session.id, revisionLabel: 'v2' })
   */
  async promoteSession(
    sourceId: string,
    request: Parameters<Sources['promoteSession']>[1],
  ): Promise<ImportJob> {
    const { signal, ...rest } = checked(request)
    return this.#transport.call('promoteSession', { ...rest, sourceId }, { signal })
  }

  /**
   * The current state of a job.
   *
   * @throws {EngineError} JOB_NOT_FOUND when the source has no such job
   *
   * @example
   * const { state, filesProcessed } = await engine.sources.getJob(job)
   */
  getJob(reference: JobReference): Promise<ImportJob> {
    return this.#job('getJob', reference)
  }

  /**
   * A page of the jobs of a source, the newest first.
   *
   * @throws {EngineError} SOURCE_NOT_FOUND when no source has this id, or it was deleted
   * @throws {EngineError} INVALID_ARGUMENT when the page token is malformed
   *
   * @example
   * const { jobs } = await engine.sources.listJobs({ sourceId, pageSize: 10 })
   */
  listJobs(request: Parameters<Sources['listJobs']>[0]): ReturnType<Sources['listJobs']> {
    return this.#transport.call('listJobs', request)
  }

  /**
   * Ends a job and resolves with it. A job that has already ended stays unchanged.
   *
   * @throws {EngineError} JOB_NOT_FOUND when the source has no such job
   *
   * @example
   * const { state } = await engine.sources.abortJob(job)
   */
  abortJob(reference: JobReference): Promise<ImportJob> {
    return this.#job('abortJob', reference)
  }

  /**
   * Resolves with the job when it has succeeded. It polls the job at growing intervals. The error of a failed
   * job has no `cause`.
   *
   * @throws {EngineError} IMPORT_FAILED when the job failed; `details.errorCode` is the code of the job
   * @throws {EngineError} JOB_NOT_FOUND when the source has no such job
   *
   * @example
   * const { revisionId } = await engine.sources.waitForJob(job, { onProgress: (one) => console.log(one.state) })
   */
  async waitForJob(reference: JobReference, options: WaitOptions = {}): Promise<ImportJob> {
    const { signal, onProgress } = waitShape.read(options, 'options')
    let last: ImportJob | undefined
    for await (const job of this.watchJob(reference, signal === undefined ? {} : { signal })) {
      if (last !== undefined) onProgress?.(job)
      last = job
    }
    const end = present(last, 'the state of a job')
    const { state, jobId, sourceId, errorCode, errorMessage } = end
    if (state === 'UNDERLAY_IMPORT_JOB_STATE_SUCCEEDED') return end
    throw new EngineError('IMPORT_FAILED', errorMessage, { jobId, sourceId, errorCode })
  }

  /**
   * Yields the current job, then the job after each change, until it has ended. It polls the job, so it
   * misses states between two requests.
   *
   * @throws {EngineError} JOB_NOT_FOUND when the source has no such job
   *
   * @example
   * for await (const { state, bytesProcessed } of engine.sources.watchJob(job)) console.log(state, bytesProcessed)
   */
  watchJob(reference: JobReference, options: WatchOptions = {}): AsyncGenerator<ImportJob, void, undefined> {
    return this.#watch(
      parseAtCall(() => [jobShape.read(reference as ImportJob, 'job'), watchShape.read(options, 'options')]),
    )
  }

  async *#watch(
    parsed: () => readonly [JobReference, WatchOptions],
  ): AsyncGenerator<ImportJob, void, undefined> {
    const [reference, { signal }] = parsed()
    signal?.throwIfAborted()
    let shown = ''
    for (let wait: number = clientLimits.pollMs; ; wait = Math.min(wait * 1.5, clientLimits.pollMaxMs)) {
      const job = await this.#job('getJob', reference, signal)
      const text = JSON.stringify(job)
      if (text !== shown) yield job
      shown = text
      if (job.completedAt !== '') return
      await pause(wait, signal)
    }
  }

  async #job(name: 'getJob' | 'abortJob', reference: JobReference, signal?: AbortSignal): Promise<ImportJob> {
    const { sourceId, jobId } = jobShape.read(reference as ImportJob, 'job')
    return this.#transport.call(name, { sourceId, jobId }, { signal })
  }
}

/**
 * Copies bytes, and returns a stream unchanged.
 *
 * @throws EngineError `INVALID_ARGUMENT`
 */
function contentOf(content: ContentIn | undefined, field: string): ContentIn {
  if (content instanceof Uint8Array) return copyBytes(content, field)
  if (typeof content !== 'object' || content === null || !(Symbol.asyncIterator in content))
    throw invalid(field, 'must be bytes, or an async iterable of bytes')
  return content
}
