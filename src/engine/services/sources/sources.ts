import { checkSignal, onAbort } from '../../base/abort.js'
import { anotherEngine, EngineError, invalid, sharedStore } from '../../base/errors.js'
import { isId } from '../../base/ids.js'
import { parseText, given, shown } from '../../base/input.js'
import { parseFilter } from '../../base/tag-filter.js'
import { KeyedMutex } from '../../base/keyed-mutex.js'
import { limits } from '../../base/limits.js'
import {
  encodePageToken,
  pageNames,
  parsePageSize,
  parsePageToken,
  type PageRequest,
} from '../../base/paging.js'
import { Shape } from '../../base/shape.js'
import { placeFiles, saveBaseline } from '../../session/baselines.js'
import { pinState, type Core, type PinnedState } from '../../session/core.js'
import { onCurrent } from '../../session/table/current.js'
import { eventTypes } from '../../records/event.js'
import type { LiveSession } from '../../session/table/live.js'
import type { Baseline } from '../../records/baseline.js'
import { record } from '../../session/mutation-queue.js'
import { countTree } from '../../session/usage/tree-counts.js'
import { keys, prefixEnd } from '../../storage/keys.js'
import type { Dir } from '../../tree/node.js'
import type { GitRemote } from './git-ports.js'
import { importTree, type Imported, type ImportPorts } from './imports.js'
import { headOf } from '../../session/sharing/head.js'
import type { FailurePut, JobRecords } from './job-records.js'
import { Jobs, takenOver, type JobContext, type JobLimits, type JobResult } from './jobs.js'
import type { JobListRequest, JobPage } from './job-listing.js'
import { describeSource, type Source } from './source-records.js'
import { revisionKind, revisionLabelKind, type RevisionRecord } from '../../records/revision.js'
import type { ImportJob } from '../../records/import-job.js'
import { sourceKind, type SourceRecord, SourceStatus } from '../../records/source.js'
import {
  inputOf,
  refreshInput,
  type ImportInput,
  type ImportParts,
  type ParsedCreate,
  type RefreshRequest,
} from './source-requests.js'

/** The request of `engine.sources.list`. */
export interface SourceListRequest extends PageRequest {
  /** `key=value` selects the sources with this label. '' or absent: all sources. */
  readonly filter?: string
}

/** One page of the sources of a tenant. */
export interface SourcePage {
  /** The sources of this page, in order of creation. */
  readonly sources: Source[]
  /** Pass it as `pageToken` for the next page. Empty when there is no further page. */
  readonly nextPageToken: string
}

/** The request of `engine.sources.promoteSession`. */
export interface PromoteRequest {
  /** The id of the session. */
  readonly sessionId: string
  /** A name for the revision, unique in its source, at most 1,024 bytes. '' or absent: the revision has only its id. */
  readonly revisionLabel?: string
  /** Aborts the job, which then fails with `INTERRUPTED`. */
  readonly signal?: AbortSignal
}

const promoteShape = new Shape<PromoteRequest>({ sessionId: true, revisionLabel: true, signal: true })

/**
 * Returns a checked copy of a request.
 *
 * @throws {EngineError} INVALID_ARGUMENT, TOO_LARGE when the request is invalid
 */
export function parsePromote(request: PromoteRequest): PromoteRequest {
  const copy = promoteShape.read(request)
  checkSignal(copy.signal)
  copy.revisionLabel = parseText('revisionLabel', copy.revisionLabel ?? '', limits.labelBytes)
  return copy
}

export const sourceListShape = new Shape<SourceListRequest>({ filter: true, ...pageNames })

export interface SourcePorts extends ImportPorts {
  /** Throws if no source with this remote may be created. */
  readonly checkRemote: (remote: GitRemote) => Promise<void>
}

/** Sources, their revisions, and the jobs that create revisions. */
export class SourceService {
  readonly jobs: Jobs
  readonly #ports: SourcePorts
  /** One job of a source at a time. */
  readonly #mutex = new KeyedMutex()
  /** Keys of the labels that running jobs will set. */
  readonly #takenLabels = new Set<string>()
  /** Sources whose deletion is not stored yet, by their locks. They already count as deleted. */
  readonly #deleting = new Set<string>()

  constructor(ports: SourcePorts, jobLimits: JobLimits) {
    this.#ports = ports
    this.jobs = new Jobs(jobLimits)
  }

  /** Fails the jobs that an earlier process left unfinished. Call this once, at opening. */
  recover(core: Core): Promise<void> {
    return this.jobs.interrupted.recover(core, (tenantKey, { sourceId }) =>
      this.#failedRecords({ ...core, tenantKey }, sourceId),
    )
  }

  /** Fails the jobs of engines that no longer have the store open, and stops jobs that other engines have ended. */
  async takeOver(core: Core): Promise<void> {
    await this.jobs.stopEnded(core)
    await this.jobs.interrupted.failAbandoned(core)
  }

  async create(core: Core, { displayName, kind, labels }: ParsedCreate): Promise<Source> {
    if (kind.remote !== undefined) await this.#ports.checkRemote(kind.remote)
    const path = kind.path === undefined ? undefined : await (await this.#ports.host()).check(kind.path)
    const now = core.environment.wallClockMs()
    const source: SourceRecord = {
      sourceId: core.ids.newId(),
      displayName,
      ...kind,
      ...(path !== undefined && { path }),
      status: SourceStatus.READY,
      latestRevisionId: '',
      createdAt: now,
      updatedAt: now,
      createdBy: core.principal,
      labels,
    }
    await core.store.commit({ put: [entryOf(core, source)] })
    return describeSource(source)
  }

  async get(core: Core, sourceId: string): Promise<Source> {
    return describeSource(await this.#mustGet(core, sourceId))
  }

  /** `request` must be a copy made by {@link sourceListShape}. */
  async list(core: Core, { filter, pageSize: size, pageToken }: SourceListRequest): Promise<SourcePage> {
    const filtered = parseFilter(filter)
    const pageSize = parsePageSize(size)
    const prefix = keys.sources(core.tenantKey)
    const scanned = Math.max(pageSize, limits.recordsPerScan)
    let after = parsePageToken('sources', pageToken)
    const sources: Source[] = []
    for (;;) {
      const gte = after === undefined ? prefix : `${prefix}${after}\0`
      const found = await core.store.scan({ gte, lt: prefixEnd(prefix), limit: scanned })
      for (const [key, json] of found) {
        after = key.slice(prefix.length)
        if (filtered?.mayMatch(json) === false) continue
        const source = sourceKind.parse(json)
        if (this.#isGone(core, source) || filtered?.matches(source.labels) === false) continue
        sources.push(describeSource(source))
        if (sources.length === pageSize) return { sources, nextPageToken: encodePageToken('sources', after) }
      }
      if (found.length < scanned) return { sources, nextPageToken: '' }
    }
  }

  /** A page of the jobs of a source, the newest first. */
  async listJobs(core: Core, request: JobListRequest): Promise<JobPage> {
    await this.#mustGet(core, request.sourceId)
    return this.jobs.list(core, request)
  }

  /** Hides a source at once, and ends its jobs. Its revisions, and the sessions on them, stay usable. */
  async delete(core: Core, sourceId: string): Promise<void> {
    await this.#mustGet(core, sourceId)
    const lock = lockOf(core, sourceId)
    if (this.#deleting.has(lock)) throw sourceNotFound(sourceId)
    this.#deleting.add(lock)
    try {
      await this.jobs.abortAll(core, sourceId)
      await this.#mutex.run(lock, () =>
        this.#change(core, sourceId, (source) => {
          const deletedAt = core.environment.wallClockMs()
          return { ...source, status: SourceStatus.DELETING, updatedAt: deletedAt, deletedAt }
        }),
      )
    } finally {
      this.#deleting.delete(lock)
    }
  }

  /** Starts an import. The job continues after the call. The jobs of one source run one after the other. */
  async startImport(core: Core, sourceId: string, { signal, ...parts }: ImportParts): Promise<ImportJob> {
    const input = inputOf(await this.#mustGet(core, sourceId), parts)
    const placed =
      'files' in input ? { files: await placeFiles(core, input.files, 'uploadedSnapshot.files') } : input
    return this.#startReading(core, sourceId, placed, signal)
  }

  /**
   * Starts a job that reads a source again from its location.
   *
   * @throws {EngineError} SOURCE_NOT_REFRESHABLE when the source was uploaded
   */
  async refresh(core: Core, sourceId: string, { signal, gitRef = '' }: RefreshRequest): Promise<ImportJob> {
    const input = refreshInput(await this.#mustGet(core, sourceId), gitRef)
    return this.#startReading(core, sourceId, input, signal)
  }

  /** Starts a job that makes the state of a session a revision of a source. */
  promote(
    core: Core,
    sourceId: string,
    live: LiveSession,
    { revisionLabel: label = '', signal }: PromoteRequest,
  ): Promise<ImportJob> {
    // The state includes all earlier changes and no later ones.
    const pinned = pinState(core, live)
    return this.#promote(core, sourceId, live, { label, pinned, signal })
  }

  /**
   * The baseline of a session on a revision. `revisionId` is an id or a label; '' or absent means the latest
   * revision.
   */
  async baseline(core: Core, sourceId: string, revisionId = ''): Promise<[Baseline, Dir]> {
    const source = await this.#find(core, sourceId)
    if (source === undefined || (revisionId === '' && this.#isGone(core, source)))
      throw sourceNotFound(sourceId)
    const wanted = revisionId === '' ? source.latestRevisionId : revisionId
    if (wanted === '')
      throw new EngineError(
        'SOURCE_WITHOUT_REVISION',
        'the source has no revision yet: import it first, with sources.startImport',
        { sourceId },
      )
    const revision = await findRevision(core, sourceId, wanted)
    if (revision === undefined)
      throw new EngineError(
        'REVISION_NOT_FOUND',
        `the source has no revision with the id or label ${given(wanted)}`,
        { sourceId, revisionId: wanted },
      )
    return [revision, core.roots.load(revision.root)]
  }

  /** Like {@link baseline}, but finds a revision only by its id, and returns undefined if there is none. */
  async findBaseline(
    core: Core,
    sourceId: string,
    revisionId: string,
  ): Promise<readonly [Baseline, Dir] | undefined> {
    if ((await this.#find(core, sourceId)) === undefined) return undefined
    const found = await getRevision(core, sourceId, revisionId)
    return found === undefined ? undefined : [found, core.roots.load(found.root)]
  }

  /** The remote to which commits of sessions on the source are pushed. */
  async remoteOf(core: Core, sourceId: string): Promise<GitRemote | undefined> {
    return (await this.#find(core, sourceId))?.remote
  }

  /** Changes the record of a source if it exists. Repeats that if another engine was first. */
  async #change(
    core: Core,
    sourceId: string,
    change: (source: SourceRecord) => SourceRecord | undefined,
  ): Promise<void> {
    for (let run = 1; ; run++) {
      const head = await headOf(core, sourceId)
      const source = await this.#find(core, sourceId)
      const changed = source && change(source)
      if (changed === undefined) return
      const commit = { put: [entryOf(core, changed)] }
      if (await core.store.commit(head === undefined ? commit : { ...commit, heads: [head.next()] })) return
      if (run === limits.sharedChangeRuns) throw anotherEngine()
    }
  }

  async #startReading(
    core: Core,
    sourceId: string,
    input: ImportInput,
    signal: AbortSignal | undefined,
  ): Promise<ImportJob> {
    if (core.sharing !== undefined && 'path' in input)
      throw sharedStore('a scan of a directory', 'The engines may be on several hosts: upload an archive')
    const share = shareOf(input)
    return this.jobs.start(core, {
      sourceId,
      ...(share !== undefined && { share }),
      signal,
      work: (context) =>
        this.#inTurn(core, sourceId, context, () => this.#read(core, sourceId, input, context)),
    })
  }

  /**
   * Runs the jobs of a source one at a time, each until its result is stored. An aborted job does not wait
   * for its turn.
   */
  async #inTurn(
    core: Core,
    sourceId: string,
    { signal, onStart, onDone }: JobContext,
    work: () => Promise<JobResult>,
  ): Promise<void> {
    signal.throwIfAborted()
    let begun = false
    const worked = this.#mutex.run(lockOf(core, sourceId), async () => {
      signal.throwIfAborted()
      begun = true
      await onStart()
      try {
        await onDone(await work())
      } catch (error) {
        await this.#markFailed(core, sourceId)
        throw error
      }
    })
    let release = (): void => undefined
    const left = new Promise<never>((_resolve, reject) => {
      release = onAbort(signal, () => {
        if (!begun) reject(signal.reason as Error)
      })
    })
    try {
      await Promise.race([worked, left])
    } finally {
      release()
    }
  }

  async #read(
    core: Core,
    sourceId: string,
    input: ImportInput,
    context: JobContext,
    run = 1,
  ): Promise<JobResult> {
    const source = await this.#mustGet(core, sourceId)
    const find = (revisionId: string): Promise<RevisionRecord | undefined> =>
      getRevision(core, sourceId, revisionId)
    const imported = await importTree(core, this.#ports, source, input, context, find)
    // An upload can be read only once.
    if (!('remote' in input) || input.remote.bundle !== undefined)
      return this.#revise(core, sourceId, imported)
    const readAgain = (): Promise<JobResult> => {
      if (run === limits.sharedChangeRuns) throw takenOver()
      return this.#read(core, sourceId, input, context, run + 1)
    }
    return this.#revise(core, sourceId, imported, { latestRevisionId: source.latestRevisionId, readAgain })
  }

  async #promote(
    core: Core,
    sourceId: string,
    live: LiveSession,
    { label, pinned, signal }: { label: string; pinned: PinnedState; signal: AbortSignal | undefined },
  ): Promise<ImportJob> {
    const release = await this.#mustGet(core, sourceId)
      .then(() => this.#takeLabel(core, sourceId, label))
      .catch((error: unknown) => {
        pinned[Symbol.dispose]()
        throw error
      })
    const work = (context: JobContext): Promise<void> =>
      this.#inTurn(core, sourceId, context, async () => {
        const state = await pinned.state
        const base = state.record.baseline
        const [saved, root] = await saveBaseline(core, state.root)
        const before = { root: state.baseline, counts: base.counts }
        const baseline = { ...saved, counts: await countTree(core, root, before) }
        context.signal.throwIfAborted()
        const { fingerprint } = baseline
        const git = lineageOf(base, sourceId)
        const imported = { revisionId: fingerprint, baseline, root, put: [], del: [], ...(git && { git }) }
        const event = {
          type: eventTypes.promoteSession,
          details: { sourceId, jobId: context.jobId },
          redo: [],
        }
        const commit = (records: JobRecords): Promise<void> =>
          onCurrent(core, live.id, (current) => record(core, current, { ...event, ...records }))
        const make = async (): Promise<JobResult> => {
          const result = await this.#revise(core, sourceId, imported)
          const put = [...result.put]
          if (label !== '')
            put.push([keys.revisionLabel(core.tenantKey, sourceId, label), { revisionId: fingerprint }])
          const again = async (): Promise<JobResult> => {
            // Another engine may have given the label to a revision.
            if (label !== '' && (await findRevision(core, sourceId, label)) !== undefined)
              throw labelTaken(label)
            return make()
          }
          return { ...result, put, commit, again }
        }
        return make()
      })
        .finally(release)
        .finally(() => pinned[Symbol.dispose]())
    try {
      return await this.jobs.start(core, { sourceId, signal, work })
    } catch (error) {
      release()
      pinned[Symbol.dispose]()
      throw error
    }
  }

  /**
   * Reserves a label, and returns the function that releases it.
   *
   * @throws {EngineError} ALREADY_EXISTS when a revision has the label, or a running job will set it. The label must
   *   not be the id of a revision either, because it could never be found.
   */
  async #takeLabel(core: Core, sourceId: string, label: string): Promise<() => void> {
    if (label === '') return () => undefined
    const labelKey = keys.revisionLabel(core.tenantKey, sourceId, label)
    const taken = labelTaken(label)
    if (this.#takenLabels.has(labelKey)) throw taken
    this.#takenLabels.add(labelKey)
    const release = (): void => {
      this.#takenLabels.delete(labelKey)
    }
    try {
      if ((await findRevision(core, sourceId, label)) !== undefined) throw taken
    } catch (error) {
      release()
      throw error
    }
    return release
  }

  /**
   * Makes a tree the latest revision of its source. `before` has the latest revision from when the tree was read from a
   * remote. If another engine has imported since, its revision may be newer than the tree, which is then read again.
   */
  async #revise(
    core: Core,
    sourceId: string,
    imported: Imported,
    before?: { readonly latestRevisionId: string; readonly readAgain: () => Promise<JobResult> },
  ): Promise<JobResult> {
    const { revisionId, baseline, root, git, put, del } = imported
    const records = [...put]
    const head = await headOf(core, sourceId)
    const { fingerprint, root: encoded, counts } = baseline
    const known = await getRevision(core, sourceId, revisionId)
    // Records of earlier versions have no counts.
    if (known?.counts === undefined) {
      core.roots.retain(root)
      const revision: RevisionRecord = known
        ? { ...known, counts }
        : { fingerprint, root: encoded, counts, revision: { sourceId, revisionId, ...(git && { git }) } }
      records.push([keys.revision(core.tenantKey, sourceId, revisionId), revision])
    }
    const source = await this.#mustGet(core, sourceId)
    if (before !== undefined && source.latestRevisionId !== before.latestRevisionId) return before.readAgain()
    const updatedAt = core.environment.wallClockMs()
    const status = SourceStatus.READY
    records.push(
      entryOf(core, { ...source, ...imported.source, status, latestRevisionId: revisionId, updatedAt }),
    )
    const result = { revisionId, counts, put: records, del }
    if (head === undefined) return result
    return { ...result, heads: [head.next()], again: () => this.#revise(core, sourceId, imported, before) }
  }

  /**
   * Marks the source after a failed import. An error of the store is ignored, because it also failed the
   * import.
   */
  async #markFailed(core: Core, sourceId: string): Promise<void> {
    await this.#change(core, sourceId, (source) => this.#failedSource(core, source)).catch(() => undefined)
  }

  async #failedRecords(core: Core, sourceId: string): Promise<FailurePut> {
    const head = await headOf(core, sourceId)
    const source = await this.#find(core, sourceId)
    const failed = source && this.#failedSource(core, source)
    if (failed === undefined) return { put: [] }
    return { put: [entryOf(core, failed)], ...(head && { heads: [head.next()] }) }
  }

  /** A source without a revision, with status FAILED. A source with a revision stays usable: undefined. */
  #failedSource(core: Core, source: SourceRecord): SourceRecord | undefined {
    if (source.latestRevisionId !== '' || this.#isGone(core, source)) return undefined
    return { ...source, status: SourceStatus.FAILED, updatedAt: core.environment.wallClockMs() }
  }

  async #find(core: Core, sourceId: string): Promise<SourceRecord | undefined> {
    const json = isId(sourceId) ? await core.store.get(keys.source(core.tenantKey, sourceId)) : undefined
    return json === undefined ? undefined : sourceKind.parse(json)
  }

  #isGone(core: Core, { sourceId, deletedAt }: SourceRecord): boolean {
    return deletedAt !== undefined || this.#deleting.has(lockOf(core, sourceId))
  }

  async #mustGet(core: Core, sourceId: string): Promise<SourceRecord> {
    const source = await this.#find(core, sourceId)
    if (source === undefined || this.#isGone(core, source)) throw sourceNotFound(sourceId)
    return source
  }
}

function labelTaken(label: string): EngineError {
  return new EngineError(
    'ALREADY_EXISTS',
    `the source already has a revision labelled ${given(label)}: choose another label`,
    { revisionLabel: label },
  )
}

/** Finds a revision by its id, otherwise by its label. */
async function findRevision(core: Core, sourceId: string, name: string): Promise<RevisionRecord | undefined> {
  const text = parseText('revisionId', name, limits.labelBytes)
  const found = await getRevision(core, sourceId, text)
  if (found !== undefined) return found
  const label = await core.store.get(keys.revisionLabel(core.tenantKey, sourceId, text))
  if (label === undefined) return undefined
  const { revisionId } = revisionLabelKind.parse(label)
  return getRevision(core, sourceId, revisionId)
}

/** Finds a revision only by its id, because a label may look like the id of another revision. */
async function getRevision(
  { store, tenantKey }: Core,
  sourceId: string,
  revisionId: string,
): Promise<RevisionRecord | undefined> {
  // This is no id. The sign `=` distinguishes the keys of labels from those of revisions.
  if (revisionId.startsWith('=')) return undefined
  const json = await store.get(keys.revision(tenantKey, sourceId, revisionId))
  return json === undefined ? undefined : revisionKind.parse(json)
}

/** The commit that a promoted state builds on, if the session started from this source. */
function lineageOf({ root, revision }: Baseline, sourceId: string): Imported['git'] {
  if (revision?.git === undefined || revision.sourceId !== sourceId) return undefined
  return { root, ...revision.git }
}

/**
 * The key for sharing a job. Requests for the same ref may share one job, and so may scans of a directory.
 */
function shareOf(input: ImportInput): string | undefined {
  if ('path' in input) return 'scan'
  return 'remote' in input && input.remote.bundle === undefined ? `git ${input.gitRef}` : undefined
}

function lockOf({ tenantKey }: Core, sourceId: string): string {
  return tenantKey + sourceId
}

function entryOf(core: Core, source: SourceRecord): [string, SourceRecord] {
  return [keys.source(core.tenantKey, source.sourceId), source]
}

/** The error SOURCE_NOT_FOUND, or INVALID_ARGUMENT for a value that is not a string. */
function sourceNotFound(sourceId: unknown): EngineError {
  if (typeof sourceId !== 'string') return invalid('sourceId', `must be a string; it is ${given(sourceId)}`)
  return new EngineError(
    'SOURCE_NOT_FOUND',
    `there is no source ${given(sourceId)}; it may have been deleted`,
    { sourceId: shown(sourceId) },
  )
}
