import { present } from './base/present.js'
import { given, kindOf, parseFlag, parseFunction } from './base/input.js'
import { CheckedEnvironment } from './base/checked-environment.js'
import type { Environment } from './base/environment.js'
import { BlankBaseline } from './session/baselines.js'
import { MemoryGitObjects } from './services/sources/git-objects.js'
import { EngineError, invalid, sharedStore } from './base/errors.js'
import { KeyedMutex } from './base/keyed-mutex.js'
import { IdSource } from './base/ids.js'
import { limits } from './base/limits.js'
import { logTo, type LogEntry } from './base/log.js'
import { ContentStore } from './cas/content.js'
import { MemoryContent } from './cas/memory-content.js'
import { Engine, type EngineServices } from './facade/engine.js'
import { expireSession } from './facade/session.js'
import { Analytics } from './services/analytics.js'
import { Annotations } from './services/annotations.js'
import { Approvals, parseApprovalOptions, type ApprovalOptions } from './services/approvals.js'
import type { BundleFiles } from './services/bundles/bundle-ports.js'
import { Bundles } from './services/bundles/bundles.js'
import { CacheService } from './services/cache/cache.js'
import {
  AutomaticCollection,
  parseAutomaticCollection,
  type AutomaticCollectionOptions,
} from './services/gc/automatic-collection.js'
import { Collection } from './services/gc/collection.js'
import { Checkouts } from './services/checkouts/checkouts.js'
import { MessageBus } from './services/bus/bus.js'
import { Commits } from './services/sources/commits.js'
import { KeptCommits } from './services/sources/kept-commits.js'
import { OwnCommits } from './services/sources/own-commits.js'
import { Repositories } from './services/sources/repositories.js'
import { FileLocks } from './services/locks/file-locks.js'
import { HealthReports } from './services/health.js'
import type { CommitReader, Committer, GitRemote, Importer } from './services/sources/git-ports.js'
import type { Host } from './services/sources/host-ports.js'
import type { Archives } from './services/sources/source-ports.js'
import { UsageMeter } from './services/usage.js'
import { Merges } from './services/merge/merges.js'
import { PosixLocks } from './services/locks/posix-locks.js'
import type { RunProcess } from './services/checkouts/process-ports.js'
import { parseProcessOptions, Processes, type ProcessOptions } from './services/checkouts/processes.js'
import type { ReportReader } from './services/report-ports.js'
import { parseSecretOptions, randomKeyRing, type SecretOptions } from './services/secrets/secret-keys.js'
import { Secrets } from './services/secrets/secrets.js'
import { parseImportOptions, type ImportOptions } from './services/sources/job-limits.js'
import { SourceService } from './services/sources/sources.js'
import { TreeExports } from './services/sources/tree-exports.js'
import { ClockSpans } from './session/table/clock-spans.js'
import { parseTtl } from './session/table/expiry.js'
import { type Authorize, localCaller } from './session/access/permissions.js'
import { coreFor, type SharedCore } from './session/core.js'
import { CollectionMember } from './session/sharing/collection-member.js'
import { Sharing } from './session/sharing/sharing.js'
import { StoreClock } from './session/sharing/store-clock.js'
import { SessionTable } from './session/table/session-table.js'
import { TagIndex } from './session/table/tag-index.js'
import { MemoryJournal } from './session/journal/memory-journal.js'
import { StoredJournal } from './session/journal/stored-journal.js'
import { countSessionBytes } from './session/usage/count-session-bytes.js'
import { SharedRecounts } from './session/usage/shared-recounts.js'
import { ByteBudgets, parseBudgets, type Budgets } from './storage/byte-budgets.js'
import { meteredStores } from './storage/metered-store.js'
import { Fence, fenced } from './storage/fence.js'
import type { Storage, Store } from './storage/store.js'
import { ContentIds } from './tree/content-id.js'
import { GrepCache } from './session/search/grep-cache.js'
import { StoreLoader } from './tree/loader.js'
import { Pins } from './tree/pins.js'
import { NodeCache } from './tree/node-cache.js'
import { MemoryRoots } from './tree/memory-roots.js'
import { StoredRoots } from './tree/stored-roots.js'

export interface EngineParts {
  readonly storage: Storage
  readonly environment: Environment
  readonly maxFileBytes?: number
  /** Receives errors and events of background work, which no call returns. */
  readonly log?: (entry: LogEntry) => void
  /** The bound on all keys and values in one session's cache, in bytes. */
  readonly cacheBytes?: number
  /** The approximate bytes of stored data that memory caches. It applies to durable stores only. */
  readonly memoryBudgetBytes?: number
  /** The approximate bytes of changes kept in memory without a durable store, for reads of earlier states. */
  readonly memoryHistoryBytes?: number
  /** Decides which actions a principal may take. By default, all actions are allowed. */
  readonly authorize?: Authorize
  /** Who may grant approvals. By default, every principal may, including the requester. */
  readonly approvals?: ApprovalOptions
  /** Unused sessions are deleted after this time. By default, they never are. */
  readonly sessionTtlSeconds?: number
  /** Bounds on stored bytes. By default, there are none. */
  readonly budgets?: Budgets
  /** Starts collections when this much of a durable store is garbage. By default, it starts none. */
  readonly automaticCollection?: AutomaticCollectionOptions | boolean
  /** Allows checkouts to read and write names that git takes for `.git`. By default, they are rejected. */
  readonly allowGitNames?: boolean
  /** Allows `session.exec`. By default, it is refused. */
  readonly exec?: ProcessOptions
  /** The longest time of an import, and the lowest rate of its source. */
  readonly imports?: ImportOptions
  /** Adapters, loaded when they are first needed. */
  readonly importer?: () => Promise<Importer>
  readonly committer?: () => Promise<Committer>
  readonly commitReader?: () => Promise<CommitReader>
  readonly archives?: () => Promise<Archives>
  readonly host?: () => Promise<Host>
  readonly reportReader?: () => Promise<ReportReader>
  readonly runProcess?: () => Promise<RunProcess>
  readonly bundleFiles?: () => Promise<BundleFiles>
  /** Throws if a source with this remote is not allowed. */
  readonly checkRemote?: (remote: GitRemote) => Promise<void>
  /** Without a master key, secrets work only on a storage that is not durable. */
  readonly secrets?: SecretOptions
}

/** Assembles an engine from its parts, and finishes work that an earlier process left incomplete. */
export async function createEngine(parts: EngineParts): Promise<Engine> {
  const { maxFileBytes, cacheBytes, memoryBudgetBytes, memoryHistoryBytes } = parseSizes(parts)
  if (typeof parts.storage?.open !== 'function')
    throw invalid(
      'storage',
      `must be a storage, such as levelStorage(directory) or memoryStorage(); it is ${given(parts.storage)}`,
    )
  const allowGitNames = parseFlag('allowGitNames', parts.allowGitNames, false)
  checkEnvironment(parts.environment)
  parseFunction('authorize', parts.authorize)
  parseFunction('log', parts.log)
  const budgets = parseBudgets(parts.budgets)
  const automaticOptions = parseAutomaticCollection(parts.automaticCollection)
  const sessionTtlSeconds = parseTtl('sessionTtlSeconds', parts.sessionTtlSeconds)
  const selfApproval = parseApprovalOptions(parts.approvals)
  const keyRing = parseSecretOptions(parts.secrets)
  const jobLimits = parseImportOptions(parts.imports)
  const processOptions = parseProcessOptions(parts.exec)
  const log = logTo(parts.log)
  const own = new CheckedEnvironment(parts.environment, (name, reading) =>
    log('error', 'the environment returned a time that is none; the last usable one counts', {
      method: name,
      reading: given(reading),
    }),
  )
  const opened = await parts.storage.open()
  const clock = opened.shared && new StoreClock(own, opened.shared)
  try {
    checkShared(opened, automaticOptions)
    await clock?.adjust()
  } catch (error) {
    await opened.close()
    throw error
  }
  const environment = clock ?? own
  // The only read of `durable`. It selects the implementations below.
  const { durable } = opened.capabilities
  const pins: Pins = new Pins({
    durable,
    sessionTrees: () => shared.table.trees(),
  })
  const fence = new Fence(opened, environment, log)
  const collection = new Collection({ memoryBudgetBytes })
  const automatic =
    automaticOptions && durable ? new AutomaticCollection(collection, automaticOptions) : undefined
  const member = opened.shared && new CollectionMember(opened.shared)
  const budget = durable ? memoryBudgetBytes : Number.POSITIVE_INFINITY
  const tags = opened.shared === undefined ? new TagIndex(budget / 8) : undefined
  const pinned = pins.watching(member?.watching(opened) ?? opened)
  const stored = fenced(tags?.watching(pinned) ?? pinned, fence)
  const store = automatic?.watching(stored) ?? stored
  const ids = new IdSource(environment)
  const { shared: capability } = opened.capabilities
  const sharing =
    capability &&
    clock &&
    member &&
    new Sharing(capability, present(opened.shared, 'the shared part of a store'), { clock, member })
  const Contents = durable ? ContentStore : MemoryContent
  const content = new Contents(store, environment, budget / 4, pins)
  const nodes = new NodeCache(budget / 2)
  const loader = new StoreLoader(store, nodes, pins)
  const byteBudgets = Object.keys(budgets).length === 0 ? undefined : new ByteBudgets(budgets, durable)
  const openedAt = { wallMs: environment.wallClockMs(), monotonicMs: environment.monotonicMs() }
  const shared: SharedCore = {
    storeOf: meteredStores(store, environment, ids, byteBudgets),
    journal: durable ? new StoredJournal() : new MemoryJournal({ historyBytes: memoryHistoryBytes }),
    sharing,
    fence,
    environment,
    opened: openedAt,
    clockSpans: new ClockSpans(openedAt),
    fineClockSpans: new ClockSpans(openedAt, limits.smallJumpMs),
    log,
    ids,
    content,
    loader,
    contentIds: new ContentIds(content, loader),
    tags,
    replays: new KeyedMutex(),
    searches: new GrepCache(),
    roots: durable ? new StoredRoots(store, { environment, nodes }) : new MemoryRoots(ids),
    maxFileBytes,
    onOpen: budgets.sessionBytes !== undefined && durable ? countSessionBytes : undefined,
    sessionBytes: budgets.sessionBytes,
    sessionTtlSeconds,
    // If another engine uses the session meanwhile, this fails.
    trimCache: (caller, sessionId, wallMs) => services.cache.trim(caller, sessionId, wallMs),
    expire: (caller, sessionId) => expireSession(caller, services, sessionId),
    authorize: parts.authorize,
    table: new SessionTable(budget / 4),
    pins,
    background: new Set(),
  }
  // Sessions that were read before the recovery may be older than the store.
  fence.onChange(
    () => shared.table.discardAll(shared.log),
    () => {
      core.store.miscounted?.()
      shared.table.discardAll(shared.log)
    },
  )
  const core = coreFor(shared, localCaller)
  const gitObjects = durable ? undefined : new MemoryGitObjects()
  const sources = new SourceService(
    {
      gitObjects,
      importer: parts.importer ?? missing('importer'),
      archives: parts.archives ?? missing('archives'),
      host: parts.host ?? missing('host'),
      checkRemote: parts.checkRemote ?? (() => Promise.resolve()),
    },
    jobLimits,
  )
  const commits = new Commits({
    deadlineMs: jobLimits.deadlineMs,
    committer: parts.committer ?? missing('committer'),
    remoteOf: (caller, sourceId) => sources.remoteOf(caller, sourceId),
    gitObjects,
  })
  const annotations = new Annotations()
  const approvals = new Approvals(selfApproval)
  const bundles = new Bundles({
    files: parts.bundleFiles ?? missing('bundleFiles'),
    facts: [annotations.facts, approvals.facts],
    revision: (caller, sourceId, revisionId) => sources.findBaseline(caller, sourceId, revisionId),
  })
  try {
    await sources.recover(core)
  } catch (error) {
    await store.close()
    throw error
  }
  const commitReader = parts.commitReader ?? missing('commitReader')
  const keptCommits = new KeptCommits(commitReader, gitObjects)
  const ownCommits = new OwnCommits(commitReader, gitObjects)
  const services: EngineServices = {
    sources,
    analytics: new Analytics(),
    annotations,
    approvals,
    blank: new BlankBaseline(),
    bundles,
    cache: new CacheService({ maxBytes: cacheBytes }),
    bus: new MessageBus(),
    checkouts: new Checkouts(parts.host ?? missing('host'), {
      allowGitNames,
      repositoryOf: (caller, base) => keptCommits.repository(caller, base),
    }),
    collection,
    commits,
    keptCommits,
    exports: new TreeExports(parts.archives ?? missing('archives')),
    fileLocks: new FileLocks(),
    health: new HealthReports(parts.reportReader ?? missing('reportReader')),
    merges: new Merges({
      revision: (caller, sourceId, revisionId) => sources.baseline(caller, sourceId, revisionId),
      ownCommits: (caller, base, search) => ownCommits.find(caller, base, search),
    }),
    posixLocks: new PosixLocks(),
    repositories: new Repositories({
      deadlineMs: jobLimits.deadlineMs,
      committer: parts.committer ?? missing('committer'),
      reader: commitReader,
      gitObjects,
    }),
    processes: new Processes(processOptions, parts.runProcess ?? missing('runProcess')),
    usage: new UsageMeter(),
    secrets: new Secrets(keyRing.usable || durable ? keyRing : randomKeyRing(environment)),
  }
  automatic?.start(core)
  const recounts = new SharedRecounts(core)
  sharing?.start(core, () => {
    recounts.start(core)
    return sources.takeOver(core)
  })
  return new Engine(core, services)
}

/** Refuses options that would need to know what other engines store. */
function checkShared({ capabilities }: Store, automaticOptions: object | undefined): void {
  if (capabilities.shared === undefined) return
  if (automaticOptions !== undefined) throw sharedStore('the option automaticCollection', 'Leave it out')
}

function checkEnvironment(environment: Environment): void {
  for (const name of ['wallClockMs', 'monotonicMs', 'randomFill'] as const) {
    if (typeof environment?.[name] === 'function') continue
    const it = environment === null ? 'it is null' : `its ${name} is ${kindOf(environment[name])}`
    throw invalid('environment', `must have the methods wallClockMs, monotonicMs and randomFill; ${it}`)
  }
}

/** Bytes, with their defaults. */
function parseSizes(parts: EngineParts): {
  readonly maxFileBytes: number
  readonly cacheBytes: number
  readonly memoryBudgetBytes: number
  readonly memoryHistoryBytes: number
} {
  const { maxFileBytes = limits.fileBytes, cacheBytes = limits.cacheBytes } = parts
  if (!Number.isSafeInteger(maxFileBytes) || maxFileBytes < 0)
    throw invalid('maxFileBytes', `must be a whole number from 0 to 2^53 − 1; it is ${given(maxFileBytes)}`)
  if (!Number.isSafeInteger(cacheBytes) || cacheBytes < 0)
    throw invalid('cacheBytes', `must be a whole number from 0 to 2^53 − 1; it is ${given(cacheBytes)}`)
  const { memoryBudgetBytes = limits.memoryBudgetBytes } = parts
  if (!Number.isSafeInteger(memoryBudgetBytes) || memoryBudgetBytes < limits.memoryBudgetMinBytes)
    throw invalid(
      'memoryBudgetBytes',
      `must be a whole number from 2^20 to 2^53 − 1; it is ${given(memoryBudgetBytes)}`,
    )
  const { memoryHistoryBytes = limits.memoryHistoryBytes } = parts
  if (!Number.isSafeInteger(memoryHistoryBytes) || memoryHistoryBytes < 0)
    throw invalid(
      'memoryHistoryBytes',
      `must be a whole number from 0 to 2^53 − 1; it is ${given(memoryHistoryBytes)}`,
    )
  return { maxFileBytes, cacheBytes, memoryBudgetBytes, memoryHistoryBytes }
}

function missing(name: string): () => Promise<never> {
  return () =>
    Promise.reject(new EngineError('NO_ADAPTER', `the engine was opened without an adapter: ${name}`))
}
