import { invalid, messageOf } from '../../base/errors.js'
import { given } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { Shape } from '../../base/shape.js'
import { inBackground, type Core } from '../../session/core.js'
import type { Store } from '../../storage/store.js'
import { wrapped } from '../../storage/wrapped-store.js'
import type { GarbageEstimate } from './garbage-estimate.js'

/** When the engine collects by itself. A collection starts once the garbage reaches both bounds. */
export interface AutomaticCollectionOptions {
  /** The estimated garbage as a share of the store, above 0 and below 1. The default is 0.5. */
  readonly garbageShare?: number
  /** The estimated garbage in bytes, at least 65,536. The default is 64 MiB. */
  readonly garbageBytes?: number
  /** Passed to `engine.collect({ keepRedo })`; false by default. */
  readonly keepRedo?: boolean
}

interface Collector {
  readonly estimate: GarbageEstimate
  readonly isClosed: boolean
  collectIf(core: Core, options: { keepRedo: boolean }, isDue: () => Promise<boolean>): Promise<boolean>
}

/**
 * Collects when enough of a durable store is probably garbage. Only commits make garbage, so it checks after commits and
 * needs no timer. One check or collection runs at a time. After a failure, the next one waits for a pause, which doubles
 * with each failure.
 */
export class AutomaticCollection {
  readonly #collection: Collector
  readonly #estimate: GarbageEstimate
  readonly #options: Required<AutomaticCollectionOptions>
  #core: Core | undefined
  #isRunning = false
  #pauseMs = 0
  /** No collection starts before this time of the monotonic clock. */
  #notBefore = Number.NEGATIVE_INFINITY

  constructor(collection: Collector, options: Required<AutomaticCollectionOptions>) {
    this.#collection = collection
    this.#estimate = collection.estimate
    this.#options = options
  }

  /** Wraps the store with a check after each commit that may have made enough garbage. */
  watching(store: Store): Store {
    return wrapped(store, {
      commit: (commit) => {
        const committed = store.commit(commit)
        this.#estimate.note(commit)
        if (this.#estimate.hasChanged(this.#options.garbageBytes / limits.looksPerCollection))
          committed.then(
            () => this.#look(),
            () => undefined,
          )
        return committed
      },
    })
  }

  /** Starts the checks after commits. Earlier commits trigger none. */
  start(core: Core): void {
    this.#core = core
  }

  #look(): void {
    const core = this.#core
    if (core === undefined || this.#isRunning || !this.#mayCollect(core)) return
    this.#isRunning = true
    inBackground(
      core,
      this.#collectWhileDue(core).finally(() => {
        this.#isRunning = false
      }),
    )
  }

  #mayCollect(core: Core): boolean {
    return (
      !this.#collection.isClosed && !core.fence.closed && core.environment.monotonicMs() >= this.#notBefore
    )
  }

  async #collectWhileDue(core: Core): Promise<void> {
    try {
      const { keepRedo } = this.#options
      // While this collection waits, one that a caller requested may free enough.
      while (await this.#collection.collectIf(core, { keepRedo }, () => this.#isDue(core))) this.#pauseMs = 0
    } catch (error) {
      if (this.#collection.isClosed) return
      this.#pauseMs = Math.min(
        Math.max(this.#pauseMs * 2, limits.collectionPauseMs),
        limits.collectionPauseMaxMs,
      )
      this.#notBefore = core.environment.monotonicMs() + this.#pauseMs
      core.log('error', 'an automatic collection failed', { error: messageOf(error), pauseMs: this.#pauseMs })
    }
  }

  async #isDue(core: Core): Promise<boolean> {
    if (!this.#mayCollect(core)) return false
    const storeBytes = (await core.store.size?.()) ?? 0
    const garbage = this.#estimate.garbageBytes(storeBytes)
    return garbage >= this.#options.garbageBytes && garbage >= storeBytes * this.#options.garbageShare
  }
}

const optionsShape = new Shape<AutomaticCollectionOptions>({
  garbageShare: true,
  garbageBytes: true,
  keepRedo: true,
})

/**
 * Undefined when automatic collection is off, which is the default.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is invalid
 */
export function parseAutomaticCollection(
  options: AutomaticCollectionOptions | boolean | undefined,
): Required<AutomaticCollectionOptions> | undefined {
  if (options === undefined || options === false) return undefined
  const {
    garbageShare = 0.5,
    garbageBytes = limits.garbageBytes,
    keepRedo = false,
  } = options === true ? {} : optionsShape.readPart(options, 'automaticCollection')
  if (typeof garbageShare !== 'number' || !(garbageShare > 0 && garbageShare < 1))
    throw invalid(
      'automaticCollection.garbageShare',
      `must be a number above 0 and below 1; it is ${given(garbageShare)}`,
    )
  if (!Number.isSafeInteger(garbageBytes) || garbageBytes < limits.garbageMinBytes)
    throw invalid(
      'automaticCollection.garbageBytes',
      `must be a whole number from ${limits.garbageMinBytes} to 2^53 − 1; it is ${given(garbageBytes)}`,
    )
  if (typeof keepRedo !== 'boolean')
    throw invalid('automaticCollection.keepRedo', `must be true or false; it is ${given(keepRedo)}`)
  return { garbageShare, garbageBytes, keepRedo }
}
