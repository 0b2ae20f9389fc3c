import { readHead } from '../../storage/heads.js'
import type { HeadMove } from '../../storage/store.js'
import type { Core, StoreSharing } from '../core.js'

/** The head of a source or job, as one engine knows it. */
export class Head {
  readonly #sharing: StoreSharing
  readonly #id: string
  /** The head after all commits so far. */
  current: string

  constructor(sharing: StoreSharing, id: string, current: string) {
    this.#sharing = sharing
    this.#id = id
    this.current = current
  }

  /** The step of the next commit. */
  next(): HeadMove {
    const from = this.current
    this.current = this.#sharing.nextHead()
    return { id: this.#id, from, to: this.current }
  }
}

/** Reads the head of a source or job. Undefined if the store is not shared. Call this before reading the record. */
export async function headOf(core: Core, id: string): Promise<Head | undefined> {
  if (core.sharing === undefined) return undefined
  return new Head(core.sharing, id, await readHead(core.store, id))
}
