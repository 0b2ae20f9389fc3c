import { dirname } from 'node:path'
import type { Disk } from '../../src/adapters/level/directory/disk.js'
import { EngineError, type Store, type StoreCommit } from '../../src/engine/ports.js'
import { randomWords } from '../../src/testing.js'
import { diskChanges, hookedDisk, systemFailure, type DiskCall, type DiskEvent } from './hooked-disk.js'
import { Commits } from './sim-commits.js'
import { SimDisk } from './sim-disk.js'
import { describeStore, differences, StoreModel } from './sim-model.js'

export interface SimStoreOptions {
  readonly directory: string
  readonly disk: Disk
  readonly durability: 'full' | 'relaxed'
  readonly segmentBytes: number
}

export type OpenSimStore = (options: SimStoreOptions) => Promise<Store>

export interface SimCounts {
  commits: number
  crashes: number
  faults: number
  recoveries: number
}

/** A store broke its contract. */
export class Violation extends Error {}

const whenCrashed = Symbol('crashed')
const maxRecoveries = 5
let lives = 0

interface Pending {
  readonly commit: StoreCommit
  outcome: 'pending' | 'stored' | 'unknown' | 'not-applied'
}

/** A store on a simulated disk through several lives, each of which ends with a crash or a close. */
export async function simulate(seed: number, openStore: OpenSimStore, counts: SimCounts): Promise<void> {
  const random = randomWords(seed)
  const simulation = new Simulation(random, openStore, counts)
  for (let lives = 2 + (random() % 5); lives > 0; lives--) await simulation.live()
  await simulation.finish()
}

class Simulation {
  readonly #random: () => number
  readonly #openStore: OpenSimStore
  readonly #counts: SimCounts
  readonly #disk: SimDisk
  readonly #commits: Commits
  readonly #durability: 'full' | 'relaxed'
  readonly #segmentBytes: number
  /** The state that is certainly stored; later commits are pending. */
  #settled = new StoreModel()
  #pending: Pending[] = []
  #crash: (() => void) | undefined
  #life = {}
  /** The number of disk changes until the next event. */
  #untilEvent = 0
  #event: DiskEvent | undefined
  #lasting = false
  #lostPower = false
  #crashesSoon = false
  /** The next write to the index fails. */
  #indexFails = false
  /** A violation that a commit caused. */
  #broken: Violation | undefined

  constructor(random: () => number, openStore: OpenSimStore, counts: SimCounts) {
    this.#random = random
    this.#openStore = openStore
    this.#counts = counts
    this.#disk = new SimDisk(random)
    this.#commits = new Commits(random)
    this.#durability = random() % 4 === 0 ? 'relaxed' : 'full'
    this.#segmentBytes = [2 ** 10, 2 ** 12, 2 ** 14, 2 ** 16][random() % 4]!
  }

  async live(): Promise<void> {
    const crashed = new Promise<typeof whenCrashed>((resolve, reject) => {
      this.#crash = () => {
        try {
          this.#endLife()
          resolve(whenCrashed)
        } catch (error) {
          reject(error)
        }
      }
    })
    this.#plan()
    // Most crashes happen at a disk call; the others happen while the disk is idle.
    const end = await Promise.race([this.#work(), crashed])
    this.#event = undefined
    if (end !== whenCrashed && this.#random() % 2 === 0) this.#endLife()
  }

  /** Opens the store twice without faults and requires the expected contents each time. */
  async finish(): Promise<void> {
    for (let i = 0; i < 2; i++) {
      const store = await this.#open()
      await this.#check(store, 'at the end')
      if (i === 0) await store.reclaim?.({})
      await this.#check(store, 'after reclaiming')
      await this.#checkFiles(store)
      await store.close()
    }
  }

  /**
   * Requires that a check finds nothing. Only the index can have lost unsynced data in a power cut; the check rebuilds
   * it.
   */
  async #checkFiles(store: Store): Promise<void> {
    const found = await findings(store)
    const other = found.filter((text) => !this.#lostPower || !text.startsWith('file index/pages'))
    if (other.length > 0) throw new Violation(`at the end, a check found ${other.join(', ')}`)
    const left = found.length === 0 ? [] : await findings(store)
    if (left.length > 0)
      throw new Violation(`when the index was made again, a check found ${left.join(', ')}`)
  }

  #plan(): void {
    this.#event = undefined
    this.#crashesSoon = false
    const kind = this.#random() % 8
    if (kind === 7) return
    const { moment, part } = this.#moment()
    this.#lasting = kind === 6
    // Sometimes soon, so that events also happen during opening, which makes few calls.
    this.#untilEvent = this.#random() % (this.#random() % 3 === 0 ? 8 : 150)
    if (kind < 4) {
      this.#event = { moment, part, act: () => this.#die() }
    } else {
      const code = this.#random() % 2 === 0 ? 'EIO' : 'ENOSPC'
      this.#event = { moment: this.#lasting ? 'before' : moment, part, act: () => this.#fail(code) }
      this.#crashesSoon = !this.#lasting && this.#random() % 2 === 0
    }
  }

  #moment(): Pick<DiskEvent, 'moment' | 'part'> {
    const moment = (['before', 'middle', 'after'] as const)[this.#random() % 3]!
    return { moment, part: (this.#random() % 1000) / 1000 }
  }

  #choose(call: DiskCall): DiskEvent | undefined {
    if (this.#indexFails && call.operation === 'write' && dirname(call.path).endsWith('/index')) {
      this.#indexFails = false
      return { ...this.#moment(), act: () => this.#fail('EIO') }
    }
    if (this.#event === undefined || !diskChanges.includes(call.operation)) return undefined
    if (this.#untilEvent-- > 0) return undefined
    const event = this.#event
    if (!this.#lasting) this.#event = undefined
    // A crash may follow soon after a failure, while the store recovers.
    if (this.#crashesSoon) {
      this.#crashesSoon = false
      this.#untilEvent = this.#random() % 12
      this.#event = { ...this.#moment(), act: () => this.#die() }
    }
    return event
  }

  #fail(code: 'EIO' | 'ENOSPC'): never {
    this.#counts.faults++
    throw systemFailure(code, 'simulated')
  }

  #die(): Promise<never> {
    this.#crash!()
    return never()
  }

  #endLife(): void {
    this.#life = {}
    this.#indexFails = false
    this.#counts.crashes++
    const power = this.#durability === 'full' && this.#random() % 4 > 0
    this.#disk.crash(power ? 'power' : 'process')
    this.#lostPower ||= power
  }

  /** Waits for a promise, but never settles after the end of this life, so that its pending work cannot continue. */
  async #inThisLife<Result>(waiting: Promise<Result>): Promise<Result> {
    const life = this.#life
    try {
      return await waiting
    } finally {
      if (life !== this.#life) await never()
    }
  }

  async #open(): Promise<Store> {
    // Each process mounts the disk at its own path, so that locks of dead processes have no effect.
    const directory = `/life-${++lives}`
    const disk = hookedDisk(this.#disk.mount(directory), (call) => this.#choose(call))
    return this.#openStore({
      directory,
      disk,
      durability: this.#durability,
      segmentBytes: this.#segmentBytes,
    })
  }

  async #openOrRetry(): Promise<Store> {
    for (;;) {
      const faults = this.#counts.faults
      try {
        return await this.#inThisLife(this.#open())
      } catch (error) {
        if (this.#counts.faults === faults) throw violation('opening failed without a fault', error)
        requireCoded(error, 'opening')
        this.#event = undefined
      }
    }
  }

  async #work(): Promise<void> {
    const store = await this.#openOrRetry()
    await this.#check(store, 'after opening')
    for (let steps = this.#random() % 12; steps > 0; steps--) {
      if (this.#random() % 16 === 0) this.#indexFails = true
      const reclaimed = this.#random() % 4 === 0 ? this.#reclaim(store) : undefined
      await this.#commitSome(store)
      await reclaimed
      if (this.#broken !== undefined) throw this.#broken
      const next = this.#random() % 3
      const failed = this.#pending.some(({ outcome }) => outcome === 'unknown' || outcome === 'not-applied')
      if (failed || next === 0) await this.#recover(store)
      else if (next === 1) await this.#check(store, 'while open')
    }
    this.#indexFails = false
    if (this.#random() % 2 === 0) await this.#close(store)
    else await this.#die()
  }

  async #commitSome(store: Store): Promise<void> {
    const head = this.#head()
    const settled: Promise<void>[] = []
    for (let i = this.#random() % 24; i >= 0; i--) {
      const commit = this.#commits.next(head)
      const expected = head.apply(commit)
      if (expected) {
        const pending: Pending = { commit, outcome: 'pending' }
        this.#pending.push(pending)
        settled.push(this.#outcome(store.commit(commit), true, pending))
      } else settled.push(this.#outcome(store.commit(commit), false))
      if (this.#random() % 4 === 0) await this.#inThisLife(turns(this.#random() % 30))
    }
    await this.#inThisLife(Promise.all(settled))
  }

  async #outcome(stored: Promise<boolean>, expected: boolean, pending?: Pending): Promise<void> {
    try {
      const found = await this.#inThisLife(stored)
      if (found !== expected) this.#broken ??= new Violation(`a commit gave ${found}`)
      if (!pending) return
      pending.outcome = 'stored'
      this.#counts.commits++
    } catch (error) {
      const outcome = isCoded(error) ? error.details['outcome'] : undefined
      if (outcome !== 'unknown' && outcome !== 'not-applied')
        this.#broken ??= violation('a commit failed without a code or an outcome', error)
      else if (pending) pending.outcome = outcome
    }
  }

  async #reclaim(store: Store): Promise<void> {
    try {
      await this.#inThisLife(Promise.resolve(store.reclaim?.({})))
    } catch (error) {
      if (!isCoded(error)) this.#broken ??= violation('reclaiming failed without a code', error)
    }
  }

  async #recover(store: Store): Promise<void> {
    let failure: unknown
    for (let i = 0; i < maxRecoveries; i++) {
      // A permanent failure ends eventually.
      if (i === 2) this.#event = undefined
      // Reads continue during the failure.
      await this.#check(store, 'before recovering', false)
      try {
        await this.#inThisLife(Promise.resolve(store.recover?.()))
        this.#counts.recoveries++
        await this.#check(store, 'after recovering')
        return
      } catch (error) {
        if (error instanceof Violation) throw error
        requireCoded(error, 'recovering')
        failure = error
      }
    }
    throw violation('the store did not recover from a fault that was over', failure)
  }

  async #close(store: Store): Promise<void> {
    try {
      await this.#inThisLife(store.close())
    } catch (error) {
      requireCoded(error, 'closing')
    }
  }

  /** The state after all commits. */
  #head(): StoreModel {
    const head = new StoreModel(this.#settled)
    for (const { commit } of this.#pending) head.apply(commit)
    return head
  }

  /** Requires that the contents match a number of commits that includes all acknowledged ones. */
  async #check(store: Store, when: string, settles = true): Promise<void> {
    const description = this.#inThisLife(describeStore(store, this.#commits.known))
    const found = await description.catch((error: unknown) => {
      throw violation(`${when}, a read failed`, error)
    })
    // No commit after the first one that was not applied can be stored.
    const refused = this.#pending.findIndex(({ outcome }) => outcome === 'not-applied')
    const possible = refused < 0 ? this.#pending : this.#pending.slice(0, refused)
    if (refused >= 0 && this.#pending.some(({ outcome }, index) => outcome === 'stored' && index > refused))
      throw new Violation(`${when}, a commit was stored after one that failed`)
    const needed = possible.findLastIndex(({ outcome }) => outcome === 'stored') + 1
    const state = new StoreModel(this.#settled)
    let match: StoreModel | undefined
    let atNeeded = ''
    for (let count = 0; count <= possible.length; count++) {
      if (count > 0) state.apply(possible[count - 1]!.commit)
      if (count < needed) continue
      const described = state.describe()
      if (count === needed) atNeeded = described
      if (described === found) match = new StoreModel(state)
    }
    if (match === undefined) {
      const text = `${when}, ${needed} of ${possible.length} must be there:\n${differences(atNeeded, found)}`
      throw new Violation(text)
    }
    if (!settles) return
    this.#settled = match
    this.#pending = []
  }
}

async function findings(store: Store): Promise<string[]> {
  const found: string[] = []
  for await (const { object, message } of store.check?.({ signal: undefined }) ?? [])
    found.push(`${object}: ${message}`)
  return found
}

function never(): Promise<never> {
  return new Promise(() => {})
}

function requireCoded(error: unknown, what: string): void {
  if (!isCoded(error)) throw violation(`${what} failed without a code`, error)
}

function isCoded(error: unknown): error is EngineError {
  return error instanceof EngineError && error.reason !== 'INTERNAL'
}

function violation(what: string, cause: unknown): Violation {
  const text = cause instanceof EngineError ? `${cause.reason} ${JSON.stringify(cause.details)} ` : ''
  const stack = (cause as Error).stack ?? String(cause)
  const beneath =
    (cause as Error).cause === undefined ? '' : `\n  because of ${String((cause as Error).cause)}`
  return new Violation(`${what}: ${text}${stack}${beneath}`, { cause })
}

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await Promise.resolve()
}
