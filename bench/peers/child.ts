/** Runs one contender in one scenario, as the requests of the parent say, and measures it. */
import { once } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { cpuOfChildren } from '../support/cpu-of-children.js'
import { capabilitiesOf, type Contender, type Store } from './contender.js'
import { findContender } from './find-contender.js'
import type { Acknowledged, Answer, Measured, Request, Task } from './messages.js'
import { NotInstalled } from './packages.js'
import { acknowledgedFiles, keepWriting } from './scenarios/acknowledged.js'
import { scenarios } from './scenarios/index.js'
import { read, type Act, type Scenario, type Stage } from './scenarios/scenario.js'

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
    case 'round':
      await act!.prepare?.(request.round)
      return measure(() => act!.run(request.round))
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
  let done = 0
  let spent = 0
  let round = from
  while (done < operations && spent < ms) {
    await act!.prepare?.(round)
    const start = performance.now()
    done += await act!.run(round++)
    spent += performance.now() - start
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

async function measure(run: () => Promise<number>): Promise<Measured> {
  await nextTurn()
  globalThis.gc!({ type: 'minor' })
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
