import { keys, type Storage, type Store } from '../../src/engine/ports.js'
import type { Disk } from '../../src/adapters/level/directory/disk.js'
import { diskChanges, hookedDisk, type DiskEvent } from './hooked-disk.js'

/** What a collection comes through, in this order: the files of segments are deleted while it reclaims. */
const stages = ['sessions', 'mark', 'nodes', 'blobs', 'ledgers', 'reclaim', 'segments'] as const

/** `deleted`: a checkpoint was deleted, and no collection has begun since. */
export const collectPhases = ['deleted', ...stages] as const

export type CollectPhase = (typeof collectPhases)[number]

/** In which phase of a collection a process ends, and how far in it: between 0 for its beginning and 1 for its end. */
export interface KillIn {
  readonly phase: CollectPhase
  readonly part: number
  /** Of a change of the disk. */
  readonly moment: DiskEvent['moment']
}

/**
 * Follows collections by what they ask of the store, which is the same whether they were called for or began by
 * themselves. The process ends in the wanted phase of a later collection than the first one, which shows how many
 * calls the phase has.
 */
export class PhaseWatch {
  phase: CollectPhase | undefined
  readonly #killIn: KillIn | undefined
  readonly #onPhase: (phase: CollectPhase | undefined) => void
  /** Ends the process. */
  readonly #kill: () => void
  /** Calls of the wanted phase: now, and when it was last there. */
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

  /** Inside of the hooks, so that the file is still there when the phase has begun. */
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

  /** To be asked once for each call: whether it is the one at which the process ends. */
  #isOver(): boolean {
    if (this.#killIn === undefined || this.phase !== this.#killIn.phase) return false
    const isThere =
      this.#callsBefore !== undefined && this.#calls >= Math.floor(this.#killIn.part * this.#callsBefore)
    this.#calls++
    return isThere
  }
}
