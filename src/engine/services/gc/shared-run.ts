import { pause } from '../../base/abort.js'
import { EngineError } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import type { Core } from '../../session/core.js'
import { parsePin } from '../../session/sharing/store-pins.js'
import type { CollectionStage, SharedStore, SweptObjects } from '../../storage/store.js'
import type { StoredKind } from '../../tree/references.js'

/** Another engine ended before it had published its notes for this collection. */
export class EngineEnded extends Error {}

/** Marks what engines have published. */
interface PublishedMarks {
  blob(hash: string): void
  ifStored(address: string, kind: StoredKind): Promise<void>
  rest(): Promise<void>
}

/** The part of a collection that deals with the other engines of a shared store. */
export class SharedRun {
  readonly #core: Core
  readonly #store: SharedStore
  readonly #signal: AbortSignal
  #isFirst = true

  constructor(core: Core, store: SharedStore, signal: AbortSignal) {
    this.#core = core
    this.#store = store
    this.#signal = signal
  }

  /** Begins again: engines that ended until now no longer matter. */
  restart(): void {
    this.#isFirst = true
  }

  /**
   * Begins an epoch and waits until all engines, and so this one too, have acknowledged it. Their changes and reads that
   * began before are then over, and all that they store from now on has this epoch.
   *
   * @throws {EngineEnded} when an engine ended since the first epoch.
   */
  async barrier(stage: CollectionStage): Promise<number> {
    const { environment } = this.#core
    const startedAt = environment.monotonicMs()
    const epoch = await this.#store.nextEpoch(stage)
    for (;;) {
      this.#signal.throwIfAborted()
      await this.#core.sharing?.acknowledge(this.#core)
      const { isComplete, endedEngines } = await this.#store.acknowledgement(epoch)
      if (endedEngines > 0 && !this.#isFirst) throw new EngineEnded()
      if (isComplete) break
      if (environment.monotonicMs() - startedAt > limits.sharedBarrierMs) throw notAcknowledged()
      await pause(limits.sharedEpochBusyMs, this.#signal)
    }
    this.#isFirst = false
    return epoch
  }

  /** Like {@link barrier}. Returns the sessions whose history the engines use. */
  async heldSessions(): Promise<ReadonlySet<string>> {
    const epoch = await this.barrier('history')
    const held = new Set<string>()
    for await (const page of this.#store.pins(epoch))
      for (const text of page) for (const sessionId of parsePin(text).sessions ?? []) held.add(sessionId)
    return held
  }

  /** Marks the objects that the engines have published since an epoch. Returns the epoch from which on all objects are kept. */
  async mark(marker: PublishedMarks, since: number): Promise<number> {
    let kept = since
    for await (const page of this.#store.pins(since))
      for (const text of page) {
        const { nodes = [], blobs = [], writesSince } = parsePin(text)
        for (const hash of blobs) marker.blob(hash)
        for (const [address, kind] of nodes) await marker.ifStored(address, kind)
        if (writesSince !== undefined) kept = Math.min(kept, writesSince)
        await marker.rest()
      }
    return kept
  }

  sweep(objects: SweptObjects, before: number): Promise<ReadonlySet<string>> {
    return this.#store.sweep(objects, before)
  }
}

function notAcknowledged(): EngineError {
  return new EngineError(
    'STORE_LOCKED',
    `another engine did not answer for ${limits.sharedBarrierMs / 1000} seconds, so the collection ended. Nothing in use ` +
      'was deleted; collect again',
  )
}
