import type { Storage, Store } from '../../src/engine/ports.js'

/**
 * A storage whose commits can be made to fail, or to be held back. As the contract says, after a failure nothing
 * is accepted until the store was opened again.
 */
export class FailingStorage implements Storage {
  /** What the next commits do: fail for good, or say once that another writer was first. */
  next: 'commit' | 'fail' | 'pass' = 'commit'
  readonly #storage: Storage
  #held: Promise<void> | undefined
  #release: (() => void) | undefined

  constructor(storage: Storage) {
    this.#storage = storage
  }

  /** Nothing is acknowledged from here on. */
  hold(): void {
    this.#held = new Promise((resolve) => (this.#release = resolve))
  }

  /** What was held back is acknowledged. */
  release(): void {
    this.#release?.()
    this.#held = undefined
  }

  async open(): Promise<Store> {
    const store = await this.#storage.open()
    return new Proxy(store, {
      get: (target, name) => {
        if (name === 'commit') return (commit: Parameters<Store['commit']>[0]) => this.#commit(store, commit)
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? (value.bind(target) as unknown) : value
      },
    })
  }

  async #commit(store: Store, commit: Parameters<Store['commit']>[0]): Promise<boolean> {
    if (this.next === 'fail') throw new Error('the commit failed')
    if (this.next === 'pass') {
      this.next = 'commit'
      return false
    }
    const held = this.#held
    const stored = await store.commit(commit)
    await held
    return stored
  }
}
