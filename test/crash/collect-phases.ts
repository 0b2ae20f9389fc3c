import { keys, type Storage, type Store } from '../../src/engine/ports.js'
import type { Disk } from '../../src/adapters/level/directory/disk.js'
import { diskChanges, hookedDisk, type DiskEvent } from './hooked-disk.js'

/** The stages of a collection in order. The segment files are deleted during `reclaim`. */
const stages = ['sessions', 'mark', 'nodes', 'blobs', 'ledgers', 'reclaim', 'segments'] as const

/** `deleted`: a checkpoint was deleted and no collection has started since. */
export const collectPhases = ['deleted', ...stages] as const

export type CollectPhase = (typeof collectPhases)[number]

/**
 * The phase of a collection in which the process ends, and the position in it: from 0 for its start to 1 for its end.
 */
export interface KillIn {
  readonly phase: CollectPhase
  readonly part: number
  /** The moment within a disk change. */
  readonly moment: DiskEvent['moment']
}

/**
 * Tracks the phases of collections through their store calls, which are the same for requested and automatic
 * collections. The first collection counts the calls of the wanted phase; the process ends in that phase of a later
 * collection.
 */
export class PhaseWatch {
  phase: CollectPhase | undefined
  readonly #killIn: KillIn | undefined
  readonly #onPhase: (phase: CollectPhase | undefined) => void
  /** Ends the process. */
  readonly #kill: () => void
  /** The calls in the wanted phase, now and in the previous collection. */
  #calls = 0
  #callsBefore: number | undefined

  constructor(
    killIn: KillIn | undefined,
    { onPhase, kill }: { onPhase: (phase: CollectPhase | undefined) => void; kill: () => void },
  ) {
    this.#killIn = killIn
    this.#onPhase = onPhase
    this.#kill = kill
  }

  checkpointDeleted(): void {
    if (this.phase === undefined) this.#enter('deleted')
  }

  storage(storage: Storage): Storage {
    return { open: async () => this.#store(await storage.open()) }
  }

  disk(disk: Disk): Disk {
    return hookedDisk(this.#segmentDisk(disk), ({ operation }) => {
      if (!diskChanges.includes(operation) || !this.#isOver()) return undefined
      return { moment: this.#killIn!.moment, part: this.#killIn!.part, act: () => this.#end() }
    })
  }

  /** Wrapped inside the hooks, so that the phase has started before the file is deleted. */
  #segmentDisk(disk: Disk): Disk {
    return {
      ...disk,
      remove: async (path) => {
        if (this.phase !== 'reclaim') return disk.remove(path)
        this.#enter('segments')
        if (this.#isOver()) await this.#end()
        await disk.remove(path)
        if (this.#isOver()) await this.#end()
        this.#enter('reclaim')
      },
    }
  }

  #store(store: Store): Store {
    const watched: Partial<Store> = {
      scan: (range) => {
        const { gte, reverse = false } = range
        const at = this.phase
        if (reverse && gte === keys.allSessions() && (at === undefined || at === 'deleted'))
          this.#enter('sessions')
        else if (gte === keys.allSources() && at === 'sessions') this.#enter('mark')
        else if (gte === keys.allNodes() && at === 'mark') this.#enter('nodes')
        else if (gte === keys.everyWrittenBlobs() && at === 'blobs') this.#enter('ledgers')
        return this.#called(() => store.scan(range))
      },
      listBlobs: (after, limit) => {
        if (this.phase === 'nodes') this.#enter('blobs')
        return this.#called(() => store.listBlobs!(after, limit))
      },
      ...(store.getSync && {
        getSync: (key) => {
          if (this.#isOver()) this.#kill()
          return store.getSync!(key)
        },
      }),
      reclaim: async (options) => {
        this.#enter('reclaim')
        await this.#called(() => store.reclaim!(options)).finally(() => this.#enter(undefined))
      },
    }
    return new Proxy(store, {
      get: (target, name) => {
        if (Object.hasOwn(watched, name)) return watched[name as keyof Store]
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? (value.bind(target) as unknown) : value
      },
    })
  }

  #end(): Promise<never> {
    this.#kill()
    return new Promise(() => {})
  }

  async #called<T>(call: () => Promise<T>): Promise<T> {
    if (this.#isOver()) await this.#end()
    return call()
  }

  #enter(phase: CollectPhase | undefined): void {
    if (this.phase === this.#killIn?.phase && this.#calls > 0) {
      this.#callsBefore = this.#calls
      this.#calls = 0
    }
    this.phase = phase
    this.#onPhase(phase)
  }

  /** Must be called once for each store call; returns whether the process ends at this one. */
  #isOver(): boolean {
    if (this.#killIn === undefined || this.phase !== this.#killIn.phase) return false
    const isThere =
      this.#callsBefore !== undefined && this.#calls >= Math.floor(this.#killIn.part * this.#callsBefore)
    this.#calls++
    return isThere
  }
}
