/**
 * Plans of collections against an exact model of snapshots and redo. Collections are interrupted between any two of their
 * commits, while the session gets further events, restores, checkpoints and readers.
 */
import { expect, test } from 'vitest'
import { planHistory, type HistoryFacts } from '../../src/engine/session/history/retention.js'
import { randomWords } from '../../src/testing.js'
import { runs, seed } from '../support/seed.js'

/** The redo of an event: effects, effects so small that they are never removed, the target of a restore, or none. */
type Redo = 'effects' | 'small effects' | 'none' | number

/** A plan that loses a state. */
class Lost extends Error {}

class History {
  readonly #below: (count: number) => number
  /** By the number of the event. State 0 is the start. */
  readonly #redo: Redo[] = ['effects']
  /** The states with a snapshot, and whether redo was pruned up to it. */
  readonly #snapshots = new Map<number, boolean>()
  readonly #hasBase: boolean
  #isBaseGone = false
  #checkpoints: number[] = []
  /** States that a reader uses. */
  #used: number[] = []

  constructor(next: () => number) {
    this.#below = (count) => next() % count
    this.#hasBase = this.#chance(3)
    if (this.#chance(6)) this.#import()
  }

  /** A collection, which may end between any two commits, and changes before, during and after it. */
  collect(): void {
    this.#grow(this.#below(9), false)
    this.#forget()
    const keepRedo = this.#chance(3)
    const last = this.#newest
    // The newest event is read before the other facts.
    this.#grow(this.#below(4), true)
    if (this.#chance(2)) this.#forget()
    const facts = this.#facts(last)
    const plan = planHistory(facts, { keepRedo, spacing: 2 + this.#below(6) })
    const check = (): void => {
      const lost = this.#needed(facts.prunedTo).find((state) => !this.#isReadable(state))
      if (lost !== undefined) throw new Lost(`state ${lost}: ${JSON.stringify({ facts, plan, keepRedo })}`)
    }
    check()
    for (const state of plan.write)
      if (!this.#isReadable(state))
        throw new Lost(`a snapshot of ${state}: ${JSON.stringify({ facts, plan })}`)
    this.#carryOut(plan, facts, check)
  }

  #carryOut(
    plan: ReturnType<typeof planHistory>,
    { prunedTo, snapshots }: HistoryFacts,
    check: () => void,
  ): void {
    const mayEnd = this.#chance(4)
    for (const state of plan.write) {
      if (mayEnd && this.#chance(3)) return
      if (!this.#snapshots.has(state)) this.#snapshots.set(state, false)
      check()
    }
    this.#grow(this.#below(4), true)
    check()
    // The session that this one was forked from is collected too. This one has snapshots of its own by then.
    if (this.#hasBase && plan.write.length + snapshots.length > 0 && this.#chance(2)) this.#isBaseGone = true
    check()
    for (let event = prunedTo + 1; event <= plan.pruneTo; event++) {
      if (this.#redo[event] === 'effects') this.#redo[event] = 'none'
      check()
      if (mayEnd && this.#chance(5)) return
    }
    if (plan.pruneTo > prunedTo && this.#snapshots.has(plan.pruneTo)) this.#snapshots.set(plan.pruneTo, true)
    check()
    for (const state of plan.drop) {
      this.#snapshots.delete(state)
      check()
      if (mayEnd && this.#chance(4)) return
    }
  }

  get #newest(): number {
    return this.#redo.length - 1
  }

  #chance(oneIn: number): boolean {
    return this.#below(oneIn) === 0
  }

  /** A session from a bundle has no redo of its first events. */
  #import(): void {
    const count = 1 + this.#below(6)
    for (let i = 0; i < count; i++) this.#redo.push('none')
    this.#snapshots.set(0, false).set(count, false)
    if (this.#chance(2)) return
    const checkpoint = 1 + this.#below(count)
    this.#snapshots.set(checkpoint, false)
    this.#checkpoints.push(checkpoint)
  }

  /** Adds events. A restore during a collection stores a snapshot of its own. */
  #grow(count: number, isCollecting: boolean): void {
    for (let i = 0; i < count; i++) {
      const event = this.#newest + 1
      const kind = this.#below(10)
      const target = this.#below(event)
      if (kind < 4 && this.#isReadable(target)) {
        this.#redo.push(target)
        if (isCollecting) this.#snapshots.set(event, false)
        continue
      }
      this.#redo.push(kind < 6 ? 'small effects' : 'effects')
      if (this.#chance(12)) this.#snapshots.set(event, false)
      if (kind === 7) this.#checkpoints.push(event)
    }
  }

  /** Deletes some checkpoints, ends some readers, and begins one. */
  #forget(): void {
    this.#checkpoints = this.#checkpoints.filter(() => !this.#chance(6))
    if (this.#chance(3)) this.#used = this.#used.filter(() => this.#chance(2))
    const state = this.#below(this.#newest + 1)
    if (this.#chance(3) && this.#isReadable(state)) this.#used.push(state)
  }

  /** The states that must be readable. A reader of a state before pruned redo has it in memory. */
  #needed(prunedTo: number): number[] {
    return [this.#newest, ...this.#checkpoints, ...this.#used.filter((state) => state >= prunedTo)]
  }

  /** Whether replay from a snapshot gives the state. A restore goes on from its target. */
  #isReadable(state: number): boolean {
    for (let event = state; event > 0; event--) {
      if (this.#snapshots.has(event)) return true
      const redo = this.#redo[event]
      if (redo === 'none') return false
      // The loop continues at the target itself.
      if (typeof redo === 'number') event = redo + 1
    }
    return this.#snapshots.has(0) || !(this.#hasBase && this.#isBaseGone)
  }

  #facts(last: number): HistoryFacts {
    const prunedTo = Math.max(
      0,
      ...[...this.#snapshots].filter(([, isPruned]) => isPruned).map(([state]) => state),
    )
    const referenced = [...this.#checkpoints, ...this.#used]
    const restores: [number, number][] = []
    const gaps: [number, number][] = []
    for (let event = prunedTo + 1; event <= this.#newest; event++) {
      const redo = this.#redo[event]
      const gap = gaps.at(-1)
      if (typeof redo === 'number' && event > last) {
        if (redo < last) referenced.push(redo)
      } else if (typeof redo === 'number') restores.push([event, redo])
      else if (redo === 'none' && gap?.[1] === event - 1) gap[1] = event
      else if (redo === 'none') gaps.push([event, event])
    }
    const snapshots = [...this.#snapshots.keys()].filter((state) => state <= last).sort((a, b) => a - b)
    return { last, referenced, snapshots, prunedTo, restores, gaps, hasBase: this.#hasBase }
  }
}

test(
  `interrupted collections keep every state that is needed (FORKSPACE_SEED=${seed})`,
  { timeout: 300_000 },
  () => {
    for (let run = 0; run < runs(100_000); run++) {
      const history = new History(randomWords(seed * 1_000_000 + run))
      expect(() => {
        for (let step = 0; step < 5; step++) history.collect()
      }, `run ${run}`).not.toThrow()
    }
  },
)
