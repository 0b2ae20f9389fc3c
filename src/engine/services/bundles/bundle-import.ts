import { EngineError } from '../../base/errors.js'
import { anotherEngine } from '../../base/errors.js'
import { isId } from '../../base/ids.js'
import { limits } from '../../base/limits.js'
import { TimeSlice } from '../../base/cooperative.js'
import { chainStart, expectedLink } from '../../session/history/chain.js'
import { pin } from '../../session/checkpoints.js'
import type { Core } from '../../session/core.js'
import { addSetBack } from '../../session/history/event-times.js'
import type { SnapshotRecord } from '../../records/snapshot.js'
import type { CheckpointRecord } from '../../records/checkpoint.js'
import { type SetBacks, SessionStatus, type SessionRecord } from '../../records/session.js'
import type { Baseline } from '../../records/baseline.js'
import type { EventBody, EventType } from '../../records/event.js'
import { CheckpointIndex, LiveSession } from '../../session/table/live.js'
import { noteUse } from '../../session/table/unused.js'
import { openSession } from '../../session/history/replay.js'
import { keys } from '../../storage/keys.js'
import { lossCheck } from '../../storage/loss-check.js'
import type { NewStoredEvent, StoreCommit } from '../../storage/store.js'
import { encodeNode } from '../../tree/codec.js'
import type { EncodedNode } from '../../tree/encoded.js'
import { Dir } from '../../tree/node.js'
import { Tree } from '../../tree/tree.js'
import {
  asHash,
  asInteger,
  asList,
  asMetadata,
  asObject,
  asText,
  asTime,
  damaged,
  isDamaged,
  parseJson,
} from './bundle-checks.js'
import type { BundleFact, BundleFacts } from './bundle-facts.js'
import { asLink, factNames, parseManifest, type Manifest, type TextName } from './bundle-format.js'
import type { BundleBlock } from './bundle-ports.js'
import { joinLines } from './bundle-text.js'
import { TreeReader } from './bundle-tree-reader.js'

interface ImportParts {
  readonly facts: readonly BundleFacts[]
  /** Finds a revision that the session may build on. */
  readonly revision: (sourceId: string, revisionId: string) => Promise<readonly [Baseline, Dir] | undefined>
}

/**
 * Makes a new session from the blocks of a bundle. The session is invisible until its last commit. An
 * interrupted import may leave contents and tree nodes without references in the store, and events of a
 * session that counts as deleted.
 */
export async function importBlocks(
  core: Core,
  blocks: AsyncIterable<BundleBlock>,
  signal: AbortSignal | undefined,
  parts: ImportParts,
): Promise<LiveSession> {
  const iterator = blocks[Symbol.asyncIterator]()
  const run = new BundleImport(core, iterator, parts, signal)
  using _ = core.pins.pin({ writesSince: 'now', arrivingSession: run.sessionId })
  try {
    await core.store.counted?.()
    return await run.session()
  } catch (error) {
    core.store.forget?.(run.sessionId)
    throw error
  } finally {
    await iterator.return?.()
  }
}

/** A checkpoint and its state: the root in its record, or, if the store is not durable, the tree itself. */
interface ImportedCheckpoint {
  readonly record: CheckpointRecord
  readonly root: Dir | EncodedNode
}

class BundleImport {
  readonly sessionId: string
  readonly #core: Core
  readonly #blocks: AsyncIterator<BundleBlock>
  readonly #parts: ImportParts
  readonly #signal: AbortSignal | undefined
  readonly #trees: TreeReader
  readonly #slice: TimeSlice
  readonly #checkLosses: () => void
  #part = 'manifest'

  constructor(
    core: Core,
    blocks: AsyncIterator<BundleBlock>,
    parts: ImportParts,
    signal: AbortSignal | undefined,
  ) {
    this.sessionId = core.ids.newId()
    this.#core = core
    this.#blocks = blocks
    this.#parts = parts
    this.#signal = signal
    this.#trees = new TreeReader(core)
    this.#slice = new TimeSlice(core.environment)
    this.#checkLosses = lossCheck(core.store)
  }

  /**
   * Imports the session. If the bundle is damaged, the error contains the part in which the damage was found.
   */
  async session(): Promise<LiveSession> {
    try {
      return await this.#session()
    } catch (error) {
      if (!(error instanceof EngineError) || error.reason !== 'INVALID_BUNDLE') throw error
      const message = error.message.replace(isDamaged, `${isDamaged} in its ${this.#part}`)
      throw new EngineError('INVALID_BUNDLE', message, error.details, { cause: error.cause })
    }
  }

  async #session(): Promise<LiveSession> {
    const core = this.#core
    const manifest = parseManifest(await this.#next())
    if (manifest.texts.events.count === 0) throw damaged('it has no events')
    this.#part = 'trees'
    for (let count = 0; count < manifest.treeBlocks; count++) {
      const block = await this.#next()
      if (block === undefined) throw damaged('it ends too early')
      await this.#trees.take(block)
    }
    await this.#trees.flush()
    const [baseline, baselineRoot] = await this.#baseline(manifest.baseline)
    const root = await this.#trees.state(manifest.state)
    this.#part = 'checkpoints'
    const checkpoints = await this.#checkpoints(manifest)
    const facts = new Map<BundleFacts, readonly BundleFact[]>()
    for (const name of factNames) {
      this.#part = name
      const service = this.#parts.facts.find((one) => one.name === name)
      const revived = await this.#facts(manifest, name, service)
      if (service !== undefined) facts.set(service, revived)
    }
    let record: SessionRecord = {
      id: this.sessionId,
      baseline,
      status: SessionStatus.ACTIVE,
      tags: manifest.tags,
      ...(manifest.metadata !== undefined && { metadata: manifest.metadata }),
      createdAt: core.environment.wallClockMs(),
    }
    this.#part = 'events'
    const { at, snapshots, setBacks } = await this.#events(manifest, record, root, checkpoints)
    if (setBacks !== undefined) record = { ...record, setBacks }
    if ((await this.#next()) !== undefined) throw damaged('data follows its end')
    const put: [string, object | string][] = [...snapshots]
    for (const checkpoint of checkpoints.values())
      put.push([keys.checkpoint(this.sessionId, checkpoint.record.id), checkpoint.record])
    core.journal.kept(() => {
      for (const records of facts.values()) for (const fact of records) put.push([fact.key, fact.record])
      put.push([keys.lastRead(this.sessionId), String(record.createdAt)])
    })
    for (let from = 0; from < put.length; from += limits.recordsPerCommit)
      await this.#commit({ put: put.slice(from, from + limits.recordsPerCommit) })
    this.#signal?.throwIfAborted()
    await this.#commit({ put: [[keys.session(core.tenantKey, this.sessionId), record]] })
    const opening = core.journal.kept(() => openSession(core, this.sessionId))
    if (opening !== undefined) {
      const opened = await opening
      noteUse(core, record, opened.lastActivityAt)
      return opened
    }
    const state = { seq: manifest.texts.events.count, at, readAt: record.createdAt }
    const live = new LiveSession(core.tenantKey, record, baselineRoot, new Tree(root, core.loader), {
      ...state,
      chain: chainStart,
      snapshotSeq: 0,
    })
    live.checkpoints = new CheckpointIndex()
    for (const checkpoint of checkpoints.values()) {
      live.checkpoints.add(checkpoint.record)
      if (checkpoint.root instanceof Dir) pin(core, live, checkpoint.record.seq, checkpoint.root)
    }
    core.journal.imported(live, at)
    core.table.residency.enter(live)
    noteUse(core, record, live.lastActivityAt)
    for (const [service, records] of facts) service.adopt(core, live, records)
    return live
  }

  async #next(): Promise<BundleBlock | undefined> {
    this.#signal?.throwIfAborted()
    if (this.#slice.over) await this.#slice.next()
    const step = await this.#blocks.next()
    return step.done === true ? undefined : step.value
  }

  async #commit(commit: StoreCommit): Promise<void> {
    this.#checkLosses()
    if (await this.#core.store.commit(commit)) return
    throw anotherEngine()
  }

  /**
   * Uses the revision from the manifest only if the tenant has it and its tree is equal, because other stores
   * have other revisions. Otherwise, the baseline is a tree without a revision.
   */
  async #baseline({ revision, ...state }: Manifest['baseline']): Promise<readonly [Baseline, Dir]> {
    const core = this.#core
    const root = await this.#trees.state(state)
    if (revision !== undefined) {
      const known = await this.#parts.revision(revision.sourceId, revision.revisionId)
      if (known !== undefined && known[0].fingerprint === state.manifestHash) return known
    }
    return [{ fingerprint: state.manifestHash, root: await core.roots.save(root) }, root]
  }

  async #checkpoints({ texts, state: newest }: Manifest): Promise<ReadonlyMap<number, ImportedCheckpoint>> {
    const checkpoints = new Map<number, ImportedCheckpoint>()
    const taken = new Set<string>()
    let last = 0
    for await (const value of this.#lines(texts, 'checkpoints')) {
      const [id, seq, label, createdAt, hash, root, metadata] = asList(value)
      if (!isId(id)) throw damaged('a checkpoint has no id')
      const record: CheckpointRecord = {
        id,
        seq: asInteger(seq, last + 1, texts.events.count),
        label: asText(label, limits.labelBytes),
        createdAt: asTime(createdAt),
        ...asMetadata(metadata),
      }
      for (const name of [`id ${id}`, `label ${record.label}`]) {
        if (taken.has(name)) throw damaged('two checkpoints have the same id or label')
        if (name !== 'label ') taken.add(name)
      }
      last = record.seq
      if (last === texts.events.count && JSON.stringify(root) !== JSON.stringify(newest.root))
        throw damaged('the files of the newest checkpoint differ from those of the session')
      const state = await this.#trees.state({ root, manifestHash: asHash(hash) })
      checkpoints.set(last, { record, root: this.#core.journal.kept(() => encodeRoot(state)) ?? state })
    }
    return checkpoints
  }

  async #facts(
    { texts }: Manifest,
    name: BundleFacts['name'],
    service: BundleFacts | undefined,
  ): Promise<readonly BundleFact[]> {
    const facts: BundleFact[] = []
    let last = ''
    let bytes = 0
    for await (const value of this.#lines(texts, name)) {
      if (service === undefined) continue
      if (facts.length === service.maxCount) throw damaged('it has too many records')
      const fact = service.revive(value, this.sessionId)
      if (fact.id <= last) throw damaged('records are not in order')
      last = fact.id
      bytes += service.bytesOf(fact.record)
      if (bytes > service.maxBytes) throw damaged('its records are too large')
      facts.push(fact)
    }
    return facts
  }

  /**
   * Stores the events. Makes the snapshots that later states build on, because the effects of the events are
   * unknown.
   */
  async #events(
    { texts, head }: Manifest,
    session: SessionRecord,
    newest: Dir,
    checkpoints: ReadonlyMap<number, ImportedCheckpoint>,
  ): Promise<{
    at: number
    snapshots: readonly [string, SnapshotRecord][]
    setBacks: SetBacks | undefined
  }> {
    const { core, last } = { core: this.#core, last: texts.events.count }
    const snapshots: [string, SnapshotRecord][] = []
    let events: NewStoredEvent[] = []
    let bytes = 0
    let link: string = chainStart
    let seq = 0
    let at = 0
    let setBacks: SetBacks | undefined
    // Until the final record of the session is stored, its data belongs to a session that counts as deleted.
    const hidden = { ...session, tags: {}, deletedAt: session.createdAt }
    let put: NonNullable<StoreCommit['put']> =
      core.journal.kept(() => [[keys.session(core.tenantKey, session.id), hidden] as const]) ?? []
    const flush = async (): Promise<void> => {
      await this.#commit({ events, put })
      put = []
      events = []
      bytes = 0
    }
    for await (const value of this.#lines(texts, 'events')) {
      const event = asEvent(value)
      if (event[0] < at) {
        // Times decrease only if the clock was set back by more than this.
        if (at - event[0] <= limits.clockHoldMs) throw damaged('events are not in order')
        setBacks = addSetBack(setBacks, seq + 1, event[0])
      }
      at = event[0]
      link = await expectedLink(event, link)
      if (event[4] !== link) throw damaged('an event does not match the hash of the event before it')
      seq++
      const text = JSON.stringify(event)
      events.push({ sessionId: session.id, seq, body: core.journal.kept(() => text) ?? event })
      bytes += text.length
      if (events.length === limits.eventsPerRead || bytes >= limits.importCommitBytes) await flush()
      const state = seq === last ? core.journal.kept(() => encodeRoot(newest)) : checkpoints.get(seq)?.root
      if (state !== undefined && !(state instanceof Dir))
        snapshots.push([keys.snapshot(session.id, seq), { seq, at, chain: link, root: state }])
    }
    if (link !== head) throw damaged('the newest event does not match the manifest')
    if (events.length > 0) await flush()
    return { at, snapshots, setBacks }
  }

  /** Reads the records of a text. */
  async *#lines(texts: Manifest['texts'], name: TextName): AsyncGenerator<unknown, void> {
    const { count, blocks } = texts[name]
    let found = 0
    for await (const line of joinLines(this.#pieces(blocks))) {
      if (this.#slice.over) await this.#slice.next()
      this.#signal?.throwIfAborted()
      if (++found > count) throw damaged('it has more records than the manifest says')
      yield parseJson(line)
    }
    if (found < count) throw damaged('it has fewer records than the manifest says')
  }

  async *#pieces(hashes: readonly string[]): AsyncGenerator<Uint8Array, void> {
    for (const hash of hashes) {
      const block = await this.#next()
      if (block?.kind !== 'raw' || block.hash !== hash) throw damaged('a block of text is missing')
      yield block.bytes
    }
  }
}

function encodeRoot(root: Dir): EncodedNode {
  return encodeNode(root, () => '')
}

const eventTypePattern = /^v1\.[A-Za-z]+\.[A-Za-z]+$/

/** Checks an event. Its redo is a hash. */
function asEvent(value: unknown): EventBody & { readonly 4: string } {
  const [at, type, details, principal, link, redo] = asList(value)
  const name = asText(type, limits.labelBytes)
  if (!eventTypePattern.test(name)) throw damaged('an event has an unknown form')
  return [
    asTime(at),
    name as EventType,
    asDetails(details),
    asText(principal, limits.labelBytes),
    asLink(link),
    asLink(redo),
  ]
}

/** Checks the details, which callers can read: texts, numbers, flags and lists of texts. */
function asDetails(value: unknown): object {
  const details = asObject(value)
  for (const detail of Object.values(details)) {
    const isList = Array.isArray(detail) && detail.every((item) => typeof item === 'string')
    if (!isList && typeof detail !== 'string' && typeof detail !== 'number' && typeof detail !== 'boolean')
      throw damaged('an event has an unknown form')
  }
  return details
}
