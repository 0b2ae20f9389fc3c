/** Long work that leaves the event loop free: it runs in slices of a few milliseconds, with some turns after each. */
import { Fault, releaseAll } from './fault.js'
import { limits } from './limits.js'

/** Work cut into steps. A step yields nothing, or a promise to wait for. `Steps<T, undefined>` never waits. */
export type Steps<T, Wait extends Promise<void> | undefined = Promise<void> | undefined> = Generator<
  Wait,
  T,
  void
>

/** The engine passes the environment of a tenant. An adapter passes `performance`, or a clock of {@link inGroup}. */
export type Clock = { monotonicMs(): number } | { now(): number }

interface Group {
  readonly name: string
  /** The clock that all groups share. */
  readonly origin: Clock
}

const groups = new WeakMap<Clock, Group>()

/**
 * Makes work with this clock wait in a group of its own, such as that of a tenant. Groups take turns, so that the work of one
 * does not wait for all the work of another.
 */
export function inGroup<C extends Clock>(clock: C, group: Group): C {
  groups.set(clock, group)
  return clock
}

/** The end of the first slice that began in this turn of the event loop, or since waiting work had a slice, for each clock. */
const ends = new Map<Clock, number>()

/**
 * All work that begins in one turn shares one slice. Otherwise, many requests that arrive together would stop the event
 * loop for a slice each.
 */
function endInThisTurn(clock: Clock, now: number): number {
  let end = ends.get(clock)
  if (end === undefined) {
    end = now + limits.sliceMs
    // If work waits, `runNext` clears it. Otherwise, new work would get a slice in each turn before the waiting work gets one.
    if (ends.size === 0 && waiting.size === 0) inNextTurn(() => ends.clear())
    ends.set(clock, end)
  }
  return end
}

/** Measures a slice. After each step, the work calls `next` if the slice is `over`. */
export class TimeSlice {
  readonly #now: () => number
  readonly #signal: AbortSignal | undefined
  readonly #group: string
  #end: number

  constructor(clock: Clock, signal?: AbortSignal) {
    const { name, origin } = groups.get(clock) ?? { name: '', origin: clock }
    this.#now = 'monotonicMs' in origin ? () => origin.monotonicMs() : () => origin.now()
    this.#signal = signal
    this.#group = name
    this.#end = endInThisTurn(origin, this.#now())
  }

  /** Whether the event loop should have a turn. Cheap. */
  get over(): boolean {
    return this.#now() >= this.#end
  }

  /** Gives the event loop a turn, and begins the next slice. Throws the signal's reason if it was aborted. */
  async next(): Promise<void> {
    await ownTurn(this.#group)
    this.#signal?.throwIfAborted()
    this.#end = this.#now() + limits.sliceMs
  }
}

/** Runs work in slices. Between two of them, it rejects with the signal's reason if the signal was aborted. */
export async function runInSlices<T>(work: Steps<T>, clock: Clock, signal?: AbortSignal): Promise<T> {
  const slice = new TimeSlice(clock, signal)
  try {
    for (;;) {
      const step = work.next()
      if (step.done === true) return step.value
      if (step.value !== undefined) await step.value
      if (slice.over) await slice.next()
    }
  } finally {
    // If a wait failed, the work stopped halfway. This releases the nodes that it loaded.
    work.return(undefined as T)
  }
}

/** Runs work that never waits, without a pause. */
export function runAtOnce<T>(work: Steps<T, undefined>): T {
  for (;;) {
    const { done, value } = work.next()
    if (done === true) return value
  }
}

/** Steps that yield each fault. They go on once it is resolved. */
export type LoadingSteps<T> = Generator<Fault | undefined, T, void>

/**
 * Runs steps like {@link runInSlices}. A fault repeats only the step that has it. After each step, the data that
 * its faults hold is released.
 */
export async function runLoading<T>(work: LoadingSteps<T>, clock: Clock): Promise<T> {
  const held: Fault[] = []
  const slice = new TimeSlice(clock)
  try {
    for (;;) {
      const step = work.next()
      if (step.done === true) return step.value
      const fault = step.value
      if (fault === undefined) {
        releaseAll(held)
        if (slice.over) await slice.next()
      } else {
        held.push(fault)
        await fault.resolve()
      }
    }
  } finally {
    releaseAll(held)
  }
}

/** Runs steps without a pause. Throws the first fault. */
export function runLoaded<T>(work: LoadingSteps<T>): T {
  for (;;) {
    const step = work.next()
    if (step.done === true) return step.value
    if (step.value !== undefined) throw step.value
  }
}

/** Inside loading steps: runs `attempt` until it no longer faults. */
export function* whenPresent<T>(attempt: () => T): LoadingSteps<T> {
  for (;;) {
    try {
      return attempt()
    } catch (thrown) {
      if (!(thrown instanceof Fault)) throw thrown
      yield thrown
    }
  }
}

/** Inside steps: runs `attempt` until it no longer faults. */
export function* loaded<T>(attempt: () => T): Steps<T> {
  const held: Fault[] = []
  try {
    for (;;) {
      try {
        return attempt()
      } catch (thrown) {
        if (!(thrown instanceof Fault)) throw thrown
        held.push(thrown)
        yield thrown.resolve()
      }
    }
  } finally {
    releaseAll(held)
  }
}

/** Whether some item passes a test that takes long. Each test after the first one is a step. */
export function* some<T>(items: readonly T[], test: (item: T) => boolean): Steps<boolean, undefined> {
  for (const [index, item] of items.entries()) {
    if (index > 0) yield
    if (test(item)) return true
  }
  return false
}

/**
 * `setImmediate` as it was when the engine was loaded. Fake timers of a test replace the global, and work would wait until
 * the test moves the time.
 */
export const { setImmediate: inNextTurn } = globalThis

/** The work that waits for a slice, by group. The group that has waited longest is first. */
const waiting = new Map<string, (() => void)[]>()
/** The turns of the event loop since waiting work had a slice. */
let turns = 0

/**
 * Lets timers and sockets run, and then the work that has waited longest in the next group. Only one slice runs in several
 * turns of the event loop. If the slices of all work ran in the same turn, a small request would wait for all of them,
 * several times. Node accepts one connection in each turn, so that a slice in each would delay new connections.
 */
function ownTurn(group: string): Promise<void> {
  return new Promise((resolve) => {
    const queue = waiting.get(group)
    if (queue !== undefined) {
      queue.push(resolve)
      return
    }
    if (waiting.size === 0) inNextTurn(runNext)
    waiting.set(group, [resolve])
  })
}

function runNext(): void {
  turns++
  if (turns < limits.turnsPerSlice) {
    inNextTurn(runNext)
    return
  }
  turns = 0
  ends.clear()
  const [next] = waiting
  if (next === undefined) return
  const [group, queue] = next
  const resolve = queue.shift()
  waiting.delete(group)
  if (queue.length > 0) waiting.set(group, queue)
  if (waiting.size > 0) inNextTurn(runNext)
  resolve?.()
}

/** Lets timers and sockets run. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    inNextTurn(resolve)
  })
}
