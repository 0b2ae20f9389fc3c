/**
 * The long loops from the command line; see `npm run crash -- --help`. Exits with 1 when acknowledged data was lost, an
 * operation was stored in part, a path outside was reached, or a test failed; with 2 for wrong arguments.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { runFsx } from '../model/fsx.js'
import { missedPhases, runCollectKills, type CollectKillResult } from './collect.js'
import { runKills, type KillOptions, type KillResult } from './kill.js'
import { count, isLoop, loopForms, loops, loopTexts, type LoopName } from './loops.js'
import { runServiceKills } from './services.js'
import { runSwaps } from './swap.js'
import { runSourceKills } from './sources.js'
import { runVersionKills } from './versions.js'

const usage = `npm run crash -- kill  [--n 200] [--seed 1] [--durability full|relaxed] [--files 100000 | --format-1]
npm run crash -- model [--n 1000] [--seed 1]
npm run crash -- scale [--n 10000]
npm run crash -- fsx   [--n 100000] [--seed 1]
npm run crash -- services [--n 200] [--seed 1] [--durability full|relaxed]
npm run crash -- swap  [--n 60000] [--seed 1]
npm run crash -- sources [--n 200] [--seed 1] [--durability full|relaxed]
npm run crash -- collect [--n 200] [--seed 1] [--durability full|relaxed]
npm run crash -- versions [--n 200] [--seed 1] [--durability full|relaxed]
${loopForms()}

  kill    kills a writing process n times, and checks after each what the next opener finds; with files that are there already, or from a store of format 1
  model   n runs of random operations on each storage in memory, half as many on disk, against a model
  scale   n pairs of checkpoint and restore, a chain of n forks, a tree of 10 n files
  fsx     n random reads and changes of files, on each storage in turn, against plain bytes
  services  as kill, for annotations, approvals, locks, cache, bus, secrets and reports
  sources   as kill, at any stage of import, refresh, promotion and push
  collect   as kill, in each phase of collections that run beside the writers
  versions  as kill, for merges and their conflicts, undo, redo, rebase and restore
${loopTexts()}`

/** The runs in test/model for one unit of the environment variables. */
const modelRuns = 25
const scalePairs = 10_000

const options = {
  n: { type: 'string' },
  seeds: { type: 'string' },
  minutes: { type: 'string' },
  engines: { type: 'string' },
  blobs: { type: 'string' },
  collect: { type: 'boolean' },
  files: { type: 'string' },
  'format-1': { type: 'boolean' },
  seed: { type: 'string' },
  durability: { type: 'string' },
  help: { type: 'boolean', short: 'h', default: false },
} as const

const killLoops = {
  kill: runKills,
  services: runServiceKills,
  sources: runSourceKills,
  collect: runCollectKills,
  versions: runVersionKills,
}

/** A run with fewer kills may miss phases of a collection. */
const killsForAllPhases = 100

type LoopValues = ReturnType<typeof parse>['values']

class UsageError extends Error {}

try {
  process.exitCode = await main()
} catch (error) {
  if (!(error instanceof UsageError)) throw error
  console.error(`crash: ${error.message}\n${usage}`)
  process.exitCode = 2
}

async function main(): Promise<number> {
  const { values, positionals } = parse()
  if (values.help) {
    console.log(usage)
    return 0
  }
  const [loop, ...surplus] = positionals
  if (loop === undefined || surplus.length > 0) throw new UsageError('name one of the loops')
  const seed = number('seed', values.seed ?? process.env['FORKSPACE_SEED'], Date.now() % 2 ** 31, 0)
  if (values.files !== undefined && loop !== 'kill') throw new UsageError('--files is for kill')
  const { 'format-1': fromFormat1 = false } = values
  if (fromFormat1 && (loop !== 'kill' || values.files !== undefined))
    throw new UsageError('--format-1 is for kill without --files')
  const files = values.files === undefined ? undefined : number('files', values.files, 100_000)
  if (isKillLoop(loop)) {
    return kill(killLoops[loop], number('n', values.n, 200), {
      seed,
      files,
      fromFormat1,
      durability: values.durability,
    })
  }
  if (values.durability !== undefined)
    throw new UsageError(`--durability is for ${Object.keys(killLoops).join(', ')}`)
  if (loop === 'model') {
    const n = number('n', values.n, 1000)
    const env = { FORKSPACE_TEST_SIZE: String(n / modelRuns), FORKSPACE_SEED: String(seed) }
    return vitest(`model: n ${count(n)}, FORKSPACE_SEED=${seed}`, 'test/model/model.test.ts', env)
  }
  if (loop === 'scale') {
    if (values.seed !== undefined) throw new UsageError('nothing is random in scale')
    const n = number('n', values.n, 10_000)
    return vitest(`scale: n ${count(n)}`, 'test/model/scale.test.ts', {
      FORKSPACE_SCALE: String(n / scalePairs),
    })
  }
  if (loop === 'fsx') return fsx(number('n', values.n, 100_000), seed)
  if (loop === 'swap') return swap(number('n', values.n, 60_000), seed)
  if (isLoop(loop)) return runLoop(loop, values, seed)
  throw new UsageError(`no loop ${loop}`)
}

async function runLoop(name: LoopName, values: LoopValues, seed: number): Promise<number> {
  const loop = loops[name]
  console.log(`FORKSPACE_SEED=${seed}`)
  const minutes = Number(values.minutes ?? 30)
  if (!(minutes > 0)) throw new UsageError('--minutes takes a number above 0')
  const n = number('n', values.seeds ?? values.n, loop.n)
  if (values.engines !== undefined && name !== 'postgres') throw new UsageError('--engines is for postgres')
  const { collect = false } = values
  if (collect && name !== 'postgres') throw new UsageError('--collect is for postgres')
  const engines = number('engines', values.engines, collect ? 3 : 1)
  if (values.blobs !== undefined && (name !== 'postgres' || values.blobs !== 's3'))
    throw new UsageError('--blobs s3 is for postgres')
  const { line, failed } = await loop.run({
    n,
    minutes,
    seed,
    engines,
    collect,
    blobs: values.blobs !== undefined,
    onProgress: (text) => console.log(text),
  })
  console.log(`${name}: ${line}`)
  return failed ? 1 : 0
}

interface KillValues {
  readonly seed: number
  readonly files: number | undefined
  readonly fromFormat1: boolean
  readonly durability: string | undefined
}

async function kill(
  run: (options: KillOptions) => Promise<KillResult>,
  kills: number,
  values: KillValues,
): Promise<number> {
  const { seed, files, fromFormat1, durability = 'full' } = values
  if (durability !== 'full' && durability !== 'relaxed') throw new UsageError(`no durability ${durability}`)
  console.log(`FORKSPACE_SEED=${seed}, durability ${durability}`)
  let killed = '0'
  const onProgress = (line: string): void => {
    const now = /^(\d+)\/\d+ killed/.exec(line)?.[1] ?? ''
    // The number does not change if the writer had ended before the kill.
    if (now === killed) return
    killed = now || killed
    console.log(line)
  }
  const result = await run({
    kills,
    seed,
    durability,
    fromFormat1,
    ...(files !== undefined && { files }),
    onProgress,
  })
  const openMs = result.openMs.toSorted((a, b) => a - b)
  console.log(
    `kill: ${count(result.kills)} kills, ${count(result.acknowledged)} acknowledged, ${count(result.lost)} lost, ` +
      `${count(result.torn)} torn, opened in ${ms(openMs[openMs.length >> 1])}, at most ${ms(openMs.at(-1))}`,
  )
  if ('phases' in result && !reportPhases(result as CollectKillResult)) return 1
  return result.lost + result.torn === 0 ? 0 : 1
}

/** Whether every phase of a collection had a kill; not required of a run with few kills. */
function reportPhases(result: CollectKillResult): boolean {
  for (const [form, phases] of Object.entries(result.phases)) {
    const counts = Object.entries(phases).map(([phase, kills]) => `${phase} ${kills}`)
    console.log(`collections ${form}: ${counts.join(', ')}`)
  }
  const missed = missedPhases(result)
  if (missed.length === 0 || result.kills < killsForAllPhases) return true
  console.log(`no kill fell into: ${missed.join(', ')}`)
  return false
}

function ms(value = 0): string {
  return `${Math.round(value)} ms`
}

async function fsx(operations: number, seed: number): Promise<number> {
  console.log(`FORKSPACE_SEED=${seed}`)
  try {
    const result = await runFsx({ seed, operations, onProgress: (line) => console.log(line) })
    const perSecond = Math.round(result.operations / result.seconds)
    console.log(`fsx: ${count(result.operations)} operations, 0 mismatches, ${count(perSecond)} a second`)
    return 0
  } catch (error) {
    console.error(error)
    console.log(`fsx: FORKSPACE_SEED=${seed}, ${(error as Error).message}`)
    return 1
  }
}

async function swap(tries: number, seed: number): Promise<number> {
  console.log(`FORKSPACE_SEED=${seed}`)
  const { control, ...result } = await runSwaps({ tries, seed, onProgress: (line) => console.log(line) })
  console.log(
    `control: ${count(control.tries)} tries of a path that is checked and then opened, ${count(control.escapes)} escapes`,
  )
  console.log(
    `swap: ${count(result.tries)} tries, ${count(result.met)} met a swap, ${count(result.escapes)} escapes`,
  )
  return result.escapes === 0 ? 0 : 1
}

/** Runs a test file and prints its result in the last line. */
async function vitest(what: string, file: string, env: Record<string, string>): Promise<number> {
  const root = dirname(fileURLToPath(import.meta.resolve('forkspace/package.json')))
  const script = join(dirname(fileURLToPath(import.meta.resolve('vitest/package.json'))), 'vitest.mjs')
  const child = spawn(process.execPath, [script, 'run', file], {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let end = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    process.stdout.write(text)
    end = (end + text).slice(-1000)
  })
  const [status] = (await once(child, 'close')) as [number | null]
  const last = end.trimEnd().split('\n').at(-1)!
  console.log(`${what}: ${/^\d+ passed, .*/.exec(last)?.[0] ?? 'ended early'}`)
  return status ?? 1
}

function isKillLoop(loop: string): loop is keyof typeof killLoops {
  return Object.hasOwn(killLoops, loop)
}

function parse() {
  try {
    return parseArgs({ allowPositionals: true, options })
  } catch (error) {
    throw new UsageError((error as Error).message.split(/\. |\n/)[0])
  }
}

function number(option: string, text: string | undefined, byDefault: number, least = 1): number {
  const parsed = text === undefined ? byDefault : text.trim() === '' ? NaN : Number(text)
  if (Number.isSafeInteger(parsed) && parsed >= least) return parsed
  throw new UsageError(`--${option} takes whole numbers from ${least} on`)
}
