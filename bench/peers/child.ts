/** Runs one contender in one scenario, as the requests of the parent say, and measures it. */
import { once } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { cpuOfChildren } from '../support/cpu-of-children.js'
import { capabilitiesOf, type Contender, type Store } from './contender.js'
import { findContender } from './find-contender.js'
import type { Acknowledged, Answer, Measured, Request, Round, Task } from './messages.js'
import { NotInstalled } from './packages.js'
import { acknowledgedFiles, keepWriting } from './scenarios/acknowledged.js'
import { scenarios } from './scenarios/index.js'
import { read, type Act, type Scenario, type Stage } from './scenarios/scenario.js'

/** A measurement with long preparations ends after so many times the time that it should take. */
const preparationShare = 5

const [task] = (await once(process, 'message')) as [Task]
const contender: Contender = await findContender(task.contender, task.module)
let store: Store | undefined
let act: Act | undefined
let scenario: Scenario | undefined

process.on('message', (request: Request) => {
  answer(request).then(
    (answer) => process.send!(answer),
    () => process.exit(1),
  )
})
process.send!({ value: undefined } satisfies Answer)

async function answer(request: Request): Promise<Answer> {
  try {
    return { value: await handle(request) }
  } catch (error) {
    if (error instanceof NotInstalled) return { error: 'not installed', missing: error.message }
    const { message, stack = message } = error as Error
    return { error: process.env['BENCH_STACKS'] === '1' ? stack : message }
  }
}

async function handle(request: Request): Promise<unknown> {
  switch (request.do) {
    case 'describe':
      return { capabilities: await capabilitiesOf(await openOnce()) }
    case 'fill':
      return scenarioNamed(request.scenario).fill!(stage())
    case 'start':
      scenario = scenarioNamed(request.scenario)
      act = await scenario.start(stage(request.filled))
      return 'started'
    case 'rounds':
      return rounds(request.from, request.leastMs)
    case 'warm-up':
      return warmUp(request.from)
    case 'check':
      return act!.check()
    case 'acknowledge':
      return keepWriting(await openOnce(), task.plan)
    case 'recover':
      return lost(request.written)
    // `close` is the only other request.
    default:
      await store?.close()
      return 'closed'
  }
}

function scenarioNamed(name: string): Scenario {
  return scenarios.find((scenario) => scenario.name === name)!
}

function stage(filled?: string): Stage {
  const reopen = (): Promise<Store> => contender.open(task.directory)
  const limit = contender.limit === true
  return { plan: task.plan, limit, store: openOnce, reopen, ...(filled !== undefined && { filled }) }
}

async function openOnce(): Promise<Store> {
  return (store ??= await contender.open(task.directory))
}

/** Runs rounds until the code is compiled. Returns the number of the next round. */
async function warmUp(from: number): Promise<number> {
  const { operations, ms } = task.plan.warmUp
  const end = performance.now() + ms
  let done = 0
  let round = from
  while (done < operations && performance.now() < end) {
    await act!.prepare?.(round)
    done += await act!.run(round++)
  }
  return round
}

/** The number of acknowledged files that an earlier process wrote and this one does not find. */
async function lost({ workspace, files }: Acknowledged): Promise<number> {
  const found = await (await openOnce()).resume!(workspace)
  let missing = 0
  for (const [path, content] of acknowledgedFiles(files)) {
    const kept = await read(found, path)
    if (kept === undefined || Buffer.compare(kept, content) !== 0) missing++
  }
  return missing
}

/**
 * Measures rounds for twice `leastMs`. Those that begin in the first half do not count: after a pause, they load the
 * caches again, and V8 asks for memory that it has given back. A round of four times `leastMs` counts by itself.
 */
async function rounds(from: number, leastMs: number): Promise<Measured> {
  const counted: Round[] = []
  const end = performance.now() + preparationShare * leastMs
  let spent = 0
  let round = from
  let measured: Round
  do {
    await act!.prepare?.(round)
    measured = await measure(() => act!.run(round))
    round++
    if (spent >= leastMs) counted.push(measured)
    spent += measured.wall * measured.operations
  } while (spent < (counted.length === 0 ? 4 : 2) * leastMs && performance.now() < end)
  return { ...together(counted.length === 0 ? [measured] : counted), next: round }
}

function together(measured: readonly Round[]): Round {
  const operations = measured.reduce((sum, one) => sum + one.operations, 0)
  const mean = (figure: 'wall' | 'cpu'): number =>
    measured.reduce((sum, one) => sum + one[figure] * one.operations, 0) / operations
  return { ...measured.at(-1)!, operations, wall: mean('wall'), cpu: mean('cpu') }
}

async function measure(run: () => Promise<number>): Promise<Round> {
  await nextTurn()
  // Frees the garbage of the preparation.
  if (act!.prepare !== undefined) globalThis.gc!({ type: 'minor' })
  const childrenBefore = cpuOfChildren()
  const before = process.cpuUsage()
  const start = performance.now()
  const operations = await run()
  const wall = performance.now() - start
  const { user, system } = process.cpuUsage(before)
  const cpu = (user + system) / 1000 + cpuOfChildren() - childrenBefore
  const { rss: rssBytes, heapUsed: heapBytes } = process.memoryUsage()
  const memory = { rssBytes, heapBytes }
  if (scenario!.unit === 'bytes') return { operations: 1, wall, cpu, bytes: operations, ...memory }
  return { operations, wall: wall / operations, cpu: cpu / operations, ...memory }
}
