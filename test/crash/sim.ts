import { inspect } from 'node:util'
import { randomWords } from '../../src/testing.js'
import { simulate, Violation, type OpenSimStore, type SimCounts } from './sim-run.js'

export interface SimOptions {
  readonly seeds: number
  /** The first seed; the others are derived from it. */
  readonly seed: number
  readonly open: OpenSimStore
  readonly onProgress: (line: string) => void
  /** Stops after this many failed simulations; 20 by default. */
  readonly mostFailures?: number
}

export interface SimResult extends SimCounts {
  seeds: number
  /** The seeds of the failed simulations. */
  readonly failed: number[]
  perSecond: number
}

const mostWaitMs = 60_000

/** Simulates one store for each seed. */
export async function runSimulations(options: SimOptions): Promise<SimResult> {
  const result: SimResult = {
    seeds: 0,
    commits: 0,
    crashes: 0,
    faults: 0,
    recoveries: 0,
    failed: [],
    perSecond: 0,
  }
  const { mostFailures = 20 } = options
  const start = performance.now()
  const random = randomWords(options.seed)
  let unhandled: unknown
  const note = (reason: unknown): void => {
    unhandled = reason
  }
  process.on('unhandledRejection', note)
  for (let seed = options.seed; result.seeds < options.seeds; seed = random()) {
    try {
      await ends(onChanceClock(seed, () => simulate(seed, options.open, result)))
      // Unhandled rejections are reported after the microtasks.
      await new Promise((resolve) => setImmediate(resolve))
      if (unhandled !== undefined) throw new Violation(`nobody handles ${inspect(unhandled)}`)
    } catch (error) {
      result.failed.push(seed)
      const text = error instanceof Violation ? error.message : inspect(error)
      options.onProgress(`FAILED --seed ${seed}: ${text}`)
    }
    unhandled = undefined
    result.seeds++
    if (result.seeds % 1000 === 0) options.onProgress(`${result.seeds}/${options.seeds}`)
    if (result.failed.length >= mostFailures) break
  }
  process.off('unhandledRejection', note)
  result.perSecond = (result.seeds * 1000) / (performance.now() - start)
  return result
}

/** Ends time slices of long work at random instead of by the clock, so that a seed determines the whole history. */
async function onChanceClock(seed: number, run: () => Promise<void>): Promise<void> {
  const random = randomWords(seed)
  const clock = Object.getOwnPropertyDescriptor(performance, 'now')
  let now = 0
  Object.defineProperty(performance, 'now', { configurable: true, value: () => (now += random() % 2) })
  try {
    await run()
  } finally {
    if (clock === undefined) Reflect.deleteProperty(performance, 'now')
    else Object.defineProperty(performance, 'now', clock)
  }
}

/** Limits the time of a simulation, so that a store that waits forever does not block the others. */
async function ends(simulation: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const stuck = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Violation('it never ended')), mostWaitMs)
  })
  await Promise.race([simulation, stuck]).finally(() => clearTimeout(timer))
}
