import { itemAt, present } from '../../base/present.js'
import { EngineError, logChanged } from '../../base/errors.js'
import { sha256 } from '../../base/hash.js'
import { limits } from '../../base/limits.js'
import { TimeSlice } from '../../base/cooperative.js'
import { BlobRef } from '../../cas/blob.js'
import { chainStart, digestRedo, expectedLink, redoHash } from '../../session/history/chain.js'
import { allCheckpoints } from '../../session/checkpoints.js'
import { sessionNotFound, type Core } from '../../session/core.js'
import type { EventBody } from '../../records/event.js'
import type { BaseAtState, LiveSession } from '../../session/table/live.js'
import { manifestHash } from '../../session/reads/manifest.js'
import type { CheckpointRecord } from '../../records/checkpoint.js'
import { rootsAt } from '../../session/history/replay.js'
import { lookInOrder } from '../../session/mutation-queue.js'
import type { Dir } from '../../tree/node.js'
import type { BundleFacts } from './bundle-facts.js'
import {
  encodeManifest,
  textNames,
  type BundleState,
  type BundleText,
  type Manifest,
  type TextName,
} from './bundle-format.js'
import type { BundleBlock } from './bundle-ports.js'
import { cutLines } from './bundle-text.js'
import { TreeWriter } from './bundle-tree-writer.js'

/** A session at the moment when its export began. */
export interface OpenedExport extends BaseAtState {
  readonly live: LiveSession
  readonly seq: number
  readonly root: Dir
  readonly checkpoints: readonly CheckpointRecord[]
  /**
   * The states of the checkpoints. On a durable store they are read later; otherwise, these are the only
   * copies.
   */
  readonly states: 'stored' | readonly Dir[]
  readonly facts: Partial<Record<TextName, readonly object[]>>
  /** Protects a tree from collection as long as the states are protected. */
  readonly keep: (root: Dir) => void
  /**
   * Call this at the end. Until then, or until this object is garbage-collected, the states are protected.
   */
  readonly close: () => void
}

/** Opens an export that includes all earlier calls and no later ones. Resolves when that state is stored. */
export async function openExport(
  core: Core,
  live: LiveSession,
  services: readonly BundleFacts[],
): Promise<OpenedExport> {
  const { opened, lists, acknowledged } = await lookInOrder(live, () => {
    const checkpoints = allCheckpoints(core, live)
    return {
      opened: open(core, live, checkpoints),
      lists: Promise.all(
        services.map(async (service) => [service.name, await service.list(core, live)] as const),
      ),
      acknowledged: live.acknowledged,
    }
  })
  try {
    for (const [name, list] of await lists) opened.facts[name] = list
    await acknowledged
    return opened
  } catch (error) {
    opened.close()
    throw error
  }
}

function open(core: Core, live: LiveSession, checkpoints: readonly CheckpointRecord[]): OpenedExport {
  const { seq, record, baseline } = live
  const root = live.tree.freeze()
  const pins: Disposable[] = []
  const keep = (tree: Dir): void => {
    pins.push(core.pins.pin({ roots: [tree], owner }))
  }
  const seqs = checkpoints.map((one) => one.seq)
  const states =
    core.journal.kept(() => 'stored' as const) ??
    seqs.map((one) => present(live.pins?.get(one), 'the state of a checkpoint'))
  const owner = { live, seq, record, baseline, root, checkpoints, states, facts: {}, keep }
  keep(root)
  keep(baseline)
  pins.push(core.pins.pin({ states: { sessionId: live.id, seqs }, owner }))
  const close = (): void => {
    for (const pin of pins.splice(0)) pin[Symbol.dispose]()
  }
  return Object.assign(owner, { close })
}

/**
 * The blocks of a bundle, the root first. The root has the hashes of all others. The export therefore makes
 * two passes: the first computes the hashes without reading contents, and the second returns the blocks.
 */
export async function exportBlocks(
  core: Core,
  opened: OpenedExport,
  signal: AbortSignal | undefined,
): Promise<{ rootHash: string; blocks: AsyncGenerator<BundleBlock, void> }> {
  const states = new States(core, opened)
  const { baseline, tags, metadata } = opened.record
  const writer = new TreeWriter(core)
  const encoded: BundleState[] = []
  for await (const root of states.all()) {
    const blocks = writer.write(root)
    for (;;) {
      const step = await blocks.next()
      signal?.throwIfAborted()
      if (step.done !== true) continue
      // The hash of the baseline is already known.
      const hash = encoded.length === 0 ? baseline.fingerprint : await manifestHash(core, root)
      encoded.push({ manifestHash: hash, root: step.value })
      break
    }
  }
  const log = new Log(core, opened)
  const checkpoints = opened.checkpoints.map(({ id, seq, label, createdAt, metadata: own }, index) => {
    const state = itemAt(encoded, index + 1)
    return [id, seq, label, createdAt, state.manifestHash, state.root, ...(own === undefined ? [] : [own])]
  })
  const { annotations = [], approvals = [] } = opened.facts
  const lines: Record<TextName, () => AsyncIterable<string>> = {
    checkpoints: () => linesOf(core, checkpoints),
    annotations: () => linesOf(core, annotations),
    approvals: () => linesOf(core, approvals),
    events: () => log.lines(),
  }
  const { revision } = baseline
  const texts: Partial<Record<TextName, BundleText>> = {}
  for (const name of textNames) {
    const blocks: string[] = []
    for await (const piece of cutLines(lines[name]())) {
      signal?.throwIfAborted()
      blocks.push(sha256(piece))
    }
    const count = { checkpoints, annotations, approvals, events: { length: opened.seq } }[name].length
    texts[name] = { count, blocks }
  }
  const manifest: Manifest = {
    tags,
    ...(metadata !== undefined && { metadata }),
    baseline: {
      ...itemAt(encoded, 0),
      ...(revision && { revision: { sourceId: revision.sourceId, revisionId: revision.revisionId } }),
    },
    state: itemAt(encoded, -1),
    treeBlocks: writer.count,
    head: log.head,
    texts: texts as Manifest['texts'],
  }
  const bytes = encodeManifest(manifest)
  const root: BundleBlock = { kind: 'json', hash: sha256(bytes), bytes }
  return { rootHash: root.hash, blocks: allBlocks(core, root, manifest, states, lines, signal) }
}

async function* allBlocks(
  core: Core,
  manifestBlock: BundleBlock,
  manifest: Manifest,
  states: States,
  lines: Readonly<Record<TextName, () => AsyncIterable<string>>>,
  signal: AbortSignal | undefined,
): AsyncGenerator<BundleBlock, void> {
  yield manifestBlock
  const slice = new TimeSlice(core.environment)
  const writer = new TreeWriter(core)
  for await (const root of states.all()) {
    for await (const block of writer.write(root)) {
      signal?.throwIfAborted()
      if (block instanceof BlobRef)
        yield { kind: 'raw', hash: block.hash, bytes: await core.content.readBlob(block) }
      else yield { kind: 'json', ...block }
      if (slice.over) await slice.next()
    }
  }
  if (writer.count !== manifest.treeBlocks) throw changed()
  for (const name of textNames) {
    const hashes = manifest.texts[name].blocks
    let next = 0
    for await (const bytes of cutLines(lines[name]())) {
      signal?.throwIfAborted()
      const hash = sha256(bytes)
      if (hash !== hashes[next++]) throw changed()
      yield { kind: 'raw', hash, bytes }
    }
    if (next !== hashes.length) throw changed()
  }
}

function changed(): EngineError {
  return new EngineError(
    'DATA_LOSS',
    'the stored data of the session changed during the export; export it again, and run engine.check() if this repeats',
  )
}

/** The states of a session: its baseline, then its checkpoints in order, then the newest state. */
class States {
  readonly #core: Core
  readonly #opened: OpenedExport
  /** Of the checkpoints, where they are not too many to be kept from one time to the next. */
  #kept: Dir[] | undefined

  constructor(core: Core, opened: OpenedExport) {
    this.#core = core
    this.#opened = opened
    if (opened.states !== 'stored') this.#kept = [...opened.states]
  }

  async *all(): AsyncGenerator<Dir, void> {
    const { live, baseline, root, checkpoints, keep } = this.#opened
    yield baseline
    if (this.#kept !== undefined) yield* this.#kept
    else {
      const kept: Dir[] = []
      const seqs = checkpoints.map(({ seq }) => seq)
      for await (const [, state] of rootsAt(this.#core, live, seqs, keep)) {
        if (seqs.length <= limits.bundleHeldStates) kept.push(state)
        yield state
      }
      if (kept.length === seqs.length) this.#kept = kept
    }
    yield root
  }
}

/** The events of a session. Each has its link, and the hash of its redo in place of the redo. */
class Log {
  readonly #core: Core
  readonly #opened: OpenedExport
  /** The link of the newest event, once all events have been read. */
  head: string = chainStart

  constructor(core: Core, opened: OpenedExport) {
    this.#core = core
    this.#opened = opened
  }

  async *lines(): AsyncGenerator<string, void> {
    const { live, seq: last } = this.#opened
    const slice = new TimeSlice(this.#core.environment)
    let link: string = chainStart
    let count = 0
    for await (const page of this.#core.store.events(live.id, { from: 1, to: last })) {
      for (const { seq, body } of page) {
        if (slice.over) await slice.next()
        const [at, type, details, principal, stored, redo] = body as unknown as EventBody
        const hash = typeof redo === 'object' ? (await digestRedo(redo)).hash : redoHash(redo)
        link = await expectedLink([at, type, details, principal, '', hash], link)
        if (seq !== ++count || (stored !== undefined && stored !== link)) throw this.#lost(seq)
        yield JSON.stringify([at, type, details, principal, link, hash])
      }
    }
    if (count < last) throw this.#lost(count + 1)
    this.head = link
  }

  #lost(seq: number): EngineError {
    const { live } = this.#opened
    // The deletion of the session may have deleted its events.
    if (live.discarded === 'deleted') return sessionNotFound(live.id)
    return logChanged(live.id, seq)
  }
}

async function* linesOf(core: Core, records: readonly object[]): AsyncGenerator<string, void> {
  const slice = new TimeSlice(core.environment)
  for (const record of records) {
    if (slice.over) await slice.next()
    yield JSON.stringify(record)
  }
}
