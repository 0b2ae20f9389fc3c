import { setImmediate as nextTurn } from 'node:timers/promises'

/** One of the things that are measured against each other. */
export interface Contestant {
  /** Operations in one run; the figures are per operation. */
  readonly count: number
  /** What a run needs and is not measured. */
  prepare?(): Promise<void>
  /**
   * Does `count` operations and waits for all of them. May tell the CPU milliseconds that another process
   * spent on them; those of this process count otherwise.
   */
  run(): Promise<number | void>
  /** Takes away what a run left, not measured. */
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

  /** CPU time of the whole process, threads of the collector and of storage included. */
  get cpuMedian(): number {
    return median(this.cpu)
  }
}

export interface RaceOptions {
  readonly rounds: number
  /** Runs before the first that counts, 1 by default; a single round has none. */
  readonly warmUps?: number
}

/**
 * Runs all contestants in turn, round after round, in one process: what disturbs the machine disturbs each of
 * them. The order rotates, so that nobody always runs behind the same one.
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

/** The median of the quotients round by round: neighbours in time met the same load. */
export function medianRatio(over: Timing, under: Timing, clock: 'wall' | 'cpu'): number {
  return median(over[clock].map((time, round) => time / under[clock][round]!))
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** Bytes of the JavaScript heap that are in use after full collections; contents of buffers not included. */
export async function heapBytes(): Promise<number> {
  // Later rounds take what the finalizers of earlier ones let go.
  for (let round = 0; round < 4; round++) await collectGarbage('major')
  return process.memoryUsage().heapUsed
}

async function collectGarbage(type: 'major' | 'minor'): Promise<void> {
  await nextTurn()
  if (globalThis.gc === undefined) throw new Error('start node with --expose-gc')
  // Asked for by name, the major collection leaves a lot behind.
  if (type === 'minor') globalThis.gc({ type })
  else globalThis.gc()
}

/** Stops a run that did not do what it was measured for. */
export function expect(condition: boolean, message: string): void {
  if (!condition) throw new Error(`the benchmark is wrong: ${message}`)
}
