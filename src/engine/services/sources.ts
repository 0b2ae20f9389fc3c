import { EngineError, invalid } from '../base/errors.js'
import { isId } from '../base/ids.js'
import { checkRequest, parseFilter, parseStringMap, parseText, shown, type StringMap } from '../base/input.js'
import { KeyedMutex } from '../base/keyed-mutex.js'
import { limits } from '../base/limits.js'
import { encodePageToken, parsePageSize, parsePageToken, type PageRequest } from '../base/paging.js'
import { saveBaseline, TreeBuilder } from '../session/baselines.js'
import type { Core } from '../session/core.js'
import type { Baseline } from '../session/records.js'
import { keys, prefixEnd } from '../storage/keys.js'
import type { Dir } from '../tree/node.js'
import { gitObjects } from './git-objects.js'
import type { GitRemote, Importer, TreeSink } from './git-ports.js'
import { Jobs, type JobProgress, type JobReference, type JobResult, type WaitOptions } from './jobs.js'
import {
  describeSource,
  parseSource,
  SourceKind,
  SourceStatus,
  type ImportJob,
  type RevisionRecord,
  type Source,
  type SourceRecord,
} from './source-records.js'

/** Exactly one of the kinds. */
export interface SourceCreateRequest {
  readonly displayName: string
  readonly gitRemote?: {
    /** http or https, without credentials in it. */
    readonly remoteUrl: string
    /** What an import without a ref takes; '' or absent: the remote's HEAD. */
    readonly defaultRef?: string
  }
  /** A repository directory on this host, below one of the engine's `hostPaths.roots`. */
  readonly gitRepository?: { readonly path: string; readonly defaultRef?: string }
  readonly labels?: StringMap
}

export interface ImportStartRequest {
  /** Branch, tag, full ref or commit id; '' or absent: the source's `defaultRef`. */
  readonly git?: { readonly gitRef?: string }
  /** Aborts the job, which then fails as interrupted. */
  readonly signal?: AbortSignal
}

export interface SourceListRequest extends PageRequest {
  /** `key=value`: only sources that have this label. */
  readonly filter?: string
}

export interface SourcePage {
  /** In order of creation. */
  readonly sources: Source[]
  readonly nextPageToken: string
}

/** Sources, their revisions, and the jobs that import them. */
export class SourceService {
  readonly #importer: () => Promise<Importer>
  readonly #checkRemote: (remote: GitRemote) => Promise<void>
  readonly #jobs: Jobs
  /** One job of a source at a time. */
  readonly #mutex = new KeyedMutex()

  constructor(ports: {
    importer: () => Promise<Importer>
    checkRemote: (remote: GitRemote) => Promise<void>
  }) {
    this.#importer = ports.importer
    this.#checkRemote = ports.checkRemote
    this.#jobs = new Jobs()
  }

  async create(core: Core, request: SourceCreateRequest): Promise<Source> {
    checkRequest(request)
    const { kind, remote, defaultRef } = parseKind(request)
    const displayName = parseText('displayName', request.displayName, limits.labelBytes)
    const labels = parseStringMap('labels', request.labels)
    await this.#checkRemote(remote)
    const now = core.environment.wallClockMs()
    const source: SourceRecord = {
      sourceId: core.ids.newId(),
      displayName,
      kind,
      remote,
      defaultRef: parseText('defaultRef', defaultRef, limits.labelBytes),
      status: SourceStatus.READY,
      latestRevisionId: '',
      createdAt: now,
      updatedAt: now,
      createdBy: core.principal,
      labels,
    }
    await core.store.commit({ put: [this.#entry(core, source)] })
    return describeSource(source)
  }

  async get(core: Core, sourceId: string): Promise<Source> {
    return describeSource(await this.#mustGet(core, sourceId))
  }

  async list(core: Core, request: SourceListRequest = {}): Promise<SourcePage> {
    checkRequest(request)
    const matches = parseFilter(request.filter)
    const pageSize = parsePageSize(request.pageSize)
    const prefix = keys.sources(core.tenantKey)
    const scanned = Math.max(pageSize, limits.recordsPerScan)
    let after = parsePageToken('sources', request.pageToken)
    const sources: Source[] = []
    for (;;) {
      const gte = after === undefined ? prefix : `${prefix}${after}\0`
      const found = await core.store.scan({ gte, lt: prefixEnd(prefix), limit: scanned })
      for (const [, json] of found) {
        const source = parseSource(json)
        after = source.sourceId
        if (matches !== undefined && !matches(source.labels)) continue
        sources.push(describeSource(source))
        if (sources.length === pageSize) return { sources, nextPageToken: encodePageToken('sources', after) }
      }
      if (found.length < scanned) return { sources, nextPageToken: '' }
    }
  }

  /** Starts an import; the job runs on. Jobs of one source run one after the other. */
  async startImport(core: Core, sourceId: string, request: ImportStartRequest = {}): Promise<ImportJob> {
    checkRequest(request)
    if (request.git !== undefined) checkRequest(request.git, 'git')
    const source = await this.#mustGet(core, sourceId)
    const gitRef = parseText('git.gitRef', request.git?.gitRef ?? '', limits.labelBytes) || source.defaultRef
    return this.#jobs.start(core, sourceId, request.signal, ({ onStart, signal, onProgress }) =>
      this.#mutex.run(sourceId, async () => {
        await onStart()
        try {
          return await this.#import(core, source, gitRef, { signal, onProgress })
        } catch (error) {
          await this.#markFailed(core, sourceId)
          throw error
        }
      }),
    )
  }

  getJob(core: Core, reference: JobReference): Promise<ImportJob> {
    return this.#jobs.get(core, reference)
  }

  waitForJob(core: Core, reference: JobReference, options?: WaitOptions): Promise<ImportJob> {
    return this.#jobs.wait(core, reference, options)
  }

  /** What a session on a revision starts from; `revisionId` '' or absent is the latest. */
  async baseline(core: Core, sourceId: string, revisionId = ''): Promise<[Baseline, Dir]> {
    const source = await this.#mustGet(core, sourceId)
    const wanted = revisionId === '' ? source.latestRevisionId : revisionId
    if (wanted === '')
      throw new EngineError('SOURCE_WITHOUT_REVISION', 'the source has no revision yet', { sourceId })
    const revision = await this.#findRevision(core, sourceId, wanted)
    if (revision === undefined)
      throw new EngineError('REVISION_NOT_FOUND', 'no such revision', { sourceId, revisionId: wanted })
    return [revision, core.roots.load(revision.root)]
  }

  async remoteOf(core: Core, sourceId: string): Promise<GitRemote | undefined> {
    return (await this.#find(core, sourceId))?.remote
  }

  failInterrupted(core: Core): Promise<void> {
    return this.#jobs.failInterrupted(core)
  }

  close(): Promise<void> {
    return this.#jobs.close()
  }

  async #import(
    core: Core,
    { sourceId, remote }: SourceRecord,
    gitRef: string,
    context: { signal: AbortSignal; onProgress: (progress: JobProgress) => void },
  ): Promise<JobResult> {
    const builder = new TreeBuilder(core)
    const sink: TreeSink = {
      directory: (path, { mode, mtimeMs }) => builder.directory(path, mode, mtimeMs),
      file: (path, content, { mode, mtimeMs }) => builder.file(path, content, mode, mtimeMs),
      symlink: (path, target, { mtimeMs }) => builder.symlink(path, target, mtimeMs),
    }
    const importer = await this.#importer()
    const { revisionId: commitId, treeId } = await importer.import({ remote, gitRef }, sink, {
      ...context,
      objects: gitObjects(core),
    })
    const root = await builder.finish()
    const [baseline] = await saveBaseline(core, root)
    // An empty repository has no commit: its revision is named by its tree.
    const revisionId = commitId === '' ? baseline.fingerprint : commitId
    const put: [string, object][] = []
    if ((await this.#findRevision(core, sourceId, revisionId)) === undefined) {
      core.roots.retain(root)
      const git = commitId === '' ? undefined : { commitId, treeId }
      const revision: RevisionRecord = {
        ...baseline,
        revision: { sourceId, revisionId, ...(git && { git }) },
      }
      put.push([keys.revision(core.tenantKey, sourceId, revisionId), revision])
    }
    const source = await this.#mustGet(core, sourceId)
    const updatedAt = core.environment.wallClockMs()
    put.push(
      this.#entry(core, { ...source, status: SourceStatus.READY, latestRevisionId: revisionId, updatedAt }),
    )
    return { revisionId, put }
  }

  /** A source without any revision shows that its import failed; one with a revision stays usable. */
  async #markFailed(core: Core, sourceId: string): Promise<void> {
    const source = await this.#find(core, sourceId)
    if (source === undefined || source.latestRevisionId !== '') return
    const updatedAt = core.environment.wallClockMs()
    await core.store.commit({
      put: [this.#entry(core, { ...source, status: SourceStatus.FAILED, updatedAt })],
    })
  }

  async #findRevision(core: Core, sourceId: string, revisionId: string): Promise<RevisionRecord | undefined> {
    const json = await core.store.get(
      keys.revision(core.tenantKey, sourceId, parseText('revisionId', revisionId, limits.labelBytes)),
    )
    return json === undefined ? undefined : (JSON.parse(json) as RevisionRecord)
  }

  async #find(core: Core, sourceId: string): Promise<SourceRecord | undefined> {
    const json = isId(sourceId) ? await core.store.get(keys.source(core.tenantKey, sourceId)) : undefined
    return json === undefined ? undefined : parseSource(json)
  }

  async #mustGet(core: Core, sourceId: string): Promise<SourceRecord> {
    const source = await this.#find(core, sourceId)
    if (source === undefined)
      throw new EngineError('SOURCE_NOT_FOUND', 'no such source', { sourceId: shown(sourceId) })
    return source
  }

  #entry(core: Core, source: SourceRecord): [string, SourceRecord] {
    return [keys.source(core.tenantKey, source.sourceId), source]
  }
}

function parseKind({ gitRemote, gitRepository }: SourceCreateRequest): {
  kind: SourceKind
  remote: GitRemote
  defaultRef: string
} {
  if ((gitRemote === undefined) === (gitRepository === undefined)) {
    throw invalid('gitRemote', 'exactly one of gitRemote and gitRepository is needed')
  }
  if (gitRemote !== undefined) {
    checkRequest(gitRemote, 'gitRemote')
    const remoteUrl = parseText('gitRemote.remoteUrl', gitRemote.remoteUrl, limits.pathBytes)
    return { kind: SourceKind.GIT_REMOTE, remote: { remoteUrl }, defaultRef: gitRemote.defaultRef ?? '' }
  }
  checkRequest(gitRepository, 'gitRepository')
  const repositoryPath = parseText('gitRepository.path', gitRepository!.path, limits.pathBytes)
  return {
    kind: SourceKind.GIT_REPOSITORY,
    remote: { repositoryPath },
    defaultRef: gitRepository!.defaultRef ?? '',
  }
}
