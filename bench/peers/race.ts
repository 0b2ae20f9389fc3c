import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { median } from '../support/measure.js'
import type { Capability, Contender } from './contender.js'
import type { Acknowledged, Description, Measured, Task } from './messages.js'
import { ContenderProcess, Missing } from './process.js'
import type { Row } from './results.js'
import type { Plan, Scenario } from './scenarios/scenario.js'

/** A contender with its capabilities, or with the reason why it cannot run. */
export interface Entry {
  readonly contender: Contender
  readonly capabilities: readonly Capability[]
  readonly problem?: string
}

export interface RaceOptions {
  readonly plan: Plan
  readonly directory: string
  readonly module?: string
  /** After this time in its rounds, a contender runs no further ones. */
  readonly budgetMs: number
}

const startsAtOnce = 2
const fewestRounds = 1
/** A contender whose cold round took so many times its whole time has no other one. */
const slowShare = 3

/** Asks each contender for its capabilities, in a process of its own. */
export async function describe(contenders: readonly Contender[], options: RaceOptions): Promise<Entry[]> {
  return mapAtOnce(contenders, async (contender) => {
    const task = await taskFor(contender, 'describe', options)
    const child = await ContenderProcess.start(task)
    try {
      const { capabilities } = await child.ask<Description>({ do: 'describe' })
      return { contender, capabilities }
    } catch (error) {
      return { contender, capabilities: [], problem: problemOf(error) }
    } finally {
      // Closing also removes the files on a memory disk.
      await child.ask({ do: 'close' }, 10_000).catch(() => {})
      await child.kill()
      await rm(task.directory, { recursive: true, force: true })
    }
  })
}

/** Runs a scenario with all contenders that can, round after round, and returns a row for each contender. */
export async function race(
  scenario: Scenario,
  entries: readonly Entry[],
  options: RaceOptions,
): Promise<Row[]> {
  const able = entries.filter((entry) => isAble(scenario, entry))
  const starts = await mapAtOnce(able, (entry) => Run.start(scenario, entry, options))
  try {
    for (const run of starts) await run.round(0)
    if (scenario.unit !== 'bytes') {
      await mapAtOnce(starts, (run) => run.warmUp())
      for (let round = 0; round < options.plan.rounds; round++) {
        // The order rotates, so that each contender comes first in turn.
        const shift = (round * 7) % Math.max(1, starts.length)
        for (const run of [...starts.slice(shift), ...starts.slice(0, shift)])
          await run.round(options.plan.leastMs)
      }
    }
    for (const run of starts) await run.check()
    const rows = new Map(starts.map((run) => [run.entry, run.row()]))
    return entries.map((entry) => rows.get(entry) ?? emptyRow(entry))
  } finally {
    for (const run of starts) await run.end()
  }
}

function isAble(
  { name, needs, guarantees, unit }: Scenario,
  { contender, capabilities, problem }: Entry,
): boolean {
  const { guarantee, only, outsideHeap = false } = contender
  if (unit === 'bytes' && outsideHeap) return false
  if (problem !== undefined || (only !== undefined && !only.includes(name))) return false
  if (guarantees !== undefined && !guarantees.includes(guarantee)) return false
  return needs.every((capability) => capabilities.includes(capability))
}

function emptyRow({ contender, problem }: Entry): Row {
  const { name, family, guarantee, limit = false } = contender
  const outcome = problem === undefined ? 'n/a' : problem === 'not installed' ? problem : 'failed'
  const notes = outcome === 'failed' ? [`failed: ${problem}`] : []
  return { contender: name, family, guarantee, limit, outcome, notes }
}

/** One contender in one scenario. An error ends its part, not the race. */
class Run {
  readonly entry: Entry
  readonly #scenario: Scenario
  readonly #task: Task
  readonly #options: RaceOptions
  readonly #measured: Measured[] = []
  readonly #problems: string[] = []
  #child: ContenderProcess | undefined
  /** The number of the next round. */
  #next = 0
  #spentMs = 0

  private constructor(scenario: Scenario, entry: Entry, task: Task, options: RaceOptions) {
    this.#scenario = scenario
    this.entry = entry
    this.#task = task
    this.#options = options
  }

  static async start(scenario: Scenario, entry: Entry, options: RaceOptions): Promise<Run> {
    const task = await taskFor(entry.contender, scenario.name, options)
    const run = new Run(scenario, entry, task, options)
    await run.#try(async () => {
      const filled = scenario.fill === undefined ? {} : { filled: await run.#fill() }
      run.#child = await ContenderProcess.start(task)
      await run.#child.ask({ do: 'start', scenario: scenario.name, ...filled })
    })
    return run
  }

  /** Measures once, over so many milliseconds at least. */
  async round(leastMs: number): Promise<void> {
    const { budgetMs } = this.#options
    if (this.#spentMs > slowShare * budgetMs) return
    if (this.#spentMs > budgetMs && this.#measured.length > fewestRounds) return
    await this.#try(async (child) => {
      const measured = await child.ask<Measured>({ do: 'rounds', from: this.#next, leastMs })
      this.#next = measured.next
      this.#measured.push(measured)
      this.#spentMs += measured.wall * measured.operations
    })
  }

  /** A slow contender has had its time in the cold round. */
  async warmUp(): Promise<void> {
    if (this.#spentMs > this.#options.plan.warmUp.ms) return
    await this.#try(async (child) => {
      this.#next = await child.ask<number>({ do: 'warm-up', from: this.#next })
    })
  }

  async check(): Promise<void> {
    await this.#try(async (child) => {
      this.#problems.push(...(await child.ask<string[]>({ do: 'check' })))
    })
    const { contender, capabilities } = this.entry
    const durable = contender.guarantee !== 'memory' && capabilities.includes('resume')
    if (durable && this.#scenario.name === 'write') await this.#checkKilled()
  }

  /** Kills the process after its last acknowledgement. Another one opens the store and looks for every write. */
  async #checkKilled(): Promise<void> {
    await this.#try(async (child) => {
      const written = await child.ask<Acknowledged>({ do: 'acknowledge' })
      await child.kill()
      this.#child = await ContenderProcess.start(this.#task)
      const lost = await this.#child.ask<number>({ do: 'recover', written })
      if (lost > 0) this.#problems.push(`wrong: lost ${lost} of ${written.files} after kill -9`)
    })
  }

  row(): Row {
    const { contender } = this.entry
    const { name, family, guarantee, limit = false } = contender
    const [cold, ...warm] = this.#measured
    const notes = this.#problems
    const failed = cold === undefined || notes.some((note) => note.startsWith('failed'))
    const head = { contender: name, family, guarantee, limit, notes }
    if (failed) return { ...head, outcome: 'failed' }
    const of = (figure: 'wall' | 'cpu' | 'rssBytes' | 'heapBytes'): number =>
      median((warm.length === 0 ? [cold] : warm).map((measured) => measured[figure]))
    return {
      ...head,
      outcome: 'measured',
      rounds: warm.length,
      rssBytes: of('rssBytes'),
      heapBytes: of('heapBytes'),
      ...(cold.bytes === undefined
        ? { cold: cold.wall, coldCpu: cold.cpu, wall: of('wall'), cpu: of('cpu') }
        : { bytes: cold.bytes }),
    }
  }

  async end(): Promise<void> {
    // A store may hold its directory, or files elsewhere, so it closes first.
    await this.#child?.ask({ do: 'close' }, 10_000).catch(() => {})
    await this.#child?.kill()
    await rm(this.#task.directory, { recursive: true, force: true })
  }

  async #fill(): Promise<string> {
    const child = await ContenderProcess.start(this.#task)
    try {
      const filled = await child.ask<string>({ do: 'fill', scenario: this.#scenario.name })
      await child.ask({ do: 'close' })
      return filled
    } finally {
      await child.kill()
    }
  }

  async #try(step: (child: ContenderProcess) => Promise<void>): Promise<void> {
    if (this.#problems.some((problem) => problem.startsWith('failed'))) return
    try {
      await step(this.#child!)
    } catch (error) {
      this.#problems.push(`failed: ${problemOf(error)}`)
    }
  }
}

function problemOf(error: unknown): string {
  return error instanceof Missing ? 'not installed' : (error as Error).message
}

let tasks = 0

async function taskFor(contender: Contender, name: string, options: RaceOptions): Promise<Task> {
  const directory = join(options.directory, `${name}-${++tasks}`)
  await mkdir(directory)
  const { plan, module } = options
  return { contender: contender.name, directory, plan, ...(module !== undefined && { module }) }
}

/** Maps with at most two calls under way. */
async function mapAtOnce<T, U>(items: readonly T[], map: (item: T) => Promise<U>): Promise<U[]> {
  const results: U[] = []
  let next = 0
  const work = async (): Promise<void> => {
    while (next < items.length) {
      const index = next++
      results[index] = await map(items[index]!)
    }
  }
  await Promise.all(Array.from({ length: startsAtOnce }, work))
  return results
}
