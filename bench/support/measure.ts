import { setImmediate as nextTurn } from 'node:timers/promises'

/** One of the operations that a race compares. */
export interface Contestant {
  /** Operations in one run. Figures are per operation. */
  readonly count: number
  /** Prepares a run. This time is not measured. */
  prepare?(): Promise<void>
  /**
   * Does `count` operations and waits for all of them. It may return the CPU time in milliseconds that another
   * process spent on them. Otherwise the CPU time of this process counts.
   */
  run(): Promise<number | void>
  /** Removes the results of a run. This time is not measured. */
  cleanUp?(): Promise<void>
}

/** The rounds of one contestant: milliseconds per operation. */
export class Timing {
  readonly wall: number[] = []
  readonly cpu: number[] = []

  get median(): number {
    return median(this.wall)
  }

  get best(): number {
    return Math.min(...this.wall)
  }

  /** CPU time of the whole process, including the threads of the garbage collector and of storage. */
  get cpuMedian(): number {
    return median(this.cpu)
  }
}

export interface RaceOptions {
  readonly rounds: number
  /** Unmeasured rounds before the others, 1 by default and at most `rounds - 1`. */
  readonly warmUps?: number
}

/**
 * Runs all contestants in turn, round after round, in one process. So a disturbance of the machine affects all of
 * them. The order rotates, so that each contestant comes first in turn.
 */
export async function race<Name extends string>(
  contestants: Readonly<Record<Name, Contestant>>,
  options: RaceOptions,
): Promise<Record<Name, Timing>> {
  const { rounds } = options
  const warmUps = Math.min(options.warmUps ?? 1, rounds - 1)
  const entries = Object.entries<Contestant>(contestants)
  const timings = new Map(entries.map(([name]) => [name, new Timing()]))
  await collectGarbage('major')
  for (let round = -warmUps; round < rounds; round++) {
    for (let turn = 0; turn < entries.length; turn++) {
      const [name, contestant] = entries[(turn + round + warmUps) % entries.length]!
      await contestant.prepare?.()
      await collectGarbage('minor')
      const timing = timings.get(name)!
      const cpuBefore = process.cpuUsage()
      const start = performance.now()
      const cpuElsewhere = await contestant.run()
      const wall = performance.now() - start
      const { user, system } = process.cpuUsage(cpuBefore)
      await contestant.cleanUp?.()
      if (round < 0) continue
      timing.wall.push(wall / contestant.count)
      timing.cpu.push((cpuElsewhere ?? (user + system) / 1000) / contestant.count)
    }
  }
  return Object.fromEntries(timings) as Record<Name, Timing>
}

/** The median of the ratios of the rounds. Runs of the same round meet a similar load. */
export function medianRatio(over: Timing, under: Timing, clock: 'wall' | 'cpu'): number {
  return median(over[clock].map((time, round) => time / under[clock][round]!))
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** Bytes of the JavaScript heap in use after full collections, without the contents of buffers. */
export async function heapBytes(): Promise<number> {
  // Later rounds collect the objects that finalizers released in earlier ones.
  for (let round = 0; round < 4; round++) await collectGarbage('major')
  return process.memoryUsage().heapUsed
}

export async function collectGarbage(type: 'major' | 'minor'): Promise<void> {
  await nextTurn()
  if (globalThis.gc === undefined) throw new Error('start node with --expose-gc')
  // A collection requested with `type: 'major'` leaves much garbage, so this calls `gc` without options.
  if (type === 'minor') globalThis.gc({ type })
  else globalThis.gc()
}

/** Stops the benchmark if a run gave a wrong result. */
export function expect(condition: boolean, message: string): void {
  if (!condition) throw new Error(`the benchmark is wrong: ${message}`)
}
