import { EngineError } from '../../base/errors.js'
import { checkoutKind, type CheckoutRecord } from '../../records/checkout.js'
import type { Core } from '../../session/core.js'
import { keys } from '../../storage/keys.js'
import { lossCheck } from '../../storage/loss-check.js'
import type { EncodedNode } from '../../tree/encoded.js'
import type { Dir } from '../../tree/node.js'
import { CheckoutIndex } from './checkout-index.js'

/** The stored state of one directory. */
export class Place {
  readonly index: CheckoutIndex
  readonly #core: Core
  readonly #key: string
  readonly #checkLosses: () => void

  /** `checkLosses` was made before the tree was read that {@link store} stores. */
  constructor(core: Core, place: string, checkLosses = lossCheck(core.store)) {
    this.#core = core
    this.#checkLosses = checkLosses
    this.#key = keys.hostEntries(core.tenantKey, place, '')
    this.index = new CheckoutIndex(core, place)
  }

  async load(): Promise<{ sessionId: string; trees: Dir[] } | undefined> {
    const json = await this.#core.store.get(this.#key)
    if (json === undefined) return undefined
    const { sessionId, trees } = checkoutKind.parse(json)
    return { sessionId, trees: trees.map((root) => this.#core.roots.load(root)) }
  }

  async forget(): Promise<void> {
    this.#core.roots.retainFor(this.#key, [])
    await this.#core.store.commit({ del: [this.#key] })
  }

  /** Resolves when the trees are stored. The index of the files is stored first. */
  async store(sessionId: string, trees: readonly Dir[]): Promise<void> {
    const encoded: EncodedNode[] = []
    for (const root of trees) encoded.push(await this.#core.roots.save(root))
    await this.index.flush()
    const record: CheckoutRecord = { sessionId, trees: encoded }
    this.#checkLosses()
    this.#core.roots.retainFor(this.#key, trees)
    await this.#core.store.commit({ put: [[this.#key, record]] })
  }

  /** Stores the tree that the directory and the session have after an operation. */
  async finish(sessionId: string, tree: Dir): Promise<void> {
    try {
      await this.store(sessionId, [tree])
    } catch (error) {
      throw unfinished(error)
    }
  }
}

function unfinished(cause: unknown): unknown {
  if (!(cause instanceof EngineError) || cause.details['outcome'] !== 'not-applied') return cause
  return new EngineError(
    cause.reason,
    'the files were written, but the state of the directory could not be stored (see cause); repeat the operation',
    { outcome: 'unknown' },
    { cause },
  )
}
