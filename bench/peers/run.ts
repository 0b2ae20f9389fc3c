import { readFileSync, statfsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { cpus, release, tmpdir, totalmem, type } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import type { Contender } from './contender.js'
import { renderChart } from './chart.js'
import { parseReport, slower } from './compare.js'
import { allContenders } from './find-contender.js'
import { describe, race, type RaceOptions } from './race.js'
import { ranked, type Report, type Table } from './results.js'
import type { Plan, Scenario } from './scenarios/scenario.js'
import { scenarios } from './scenarios/index.js'
import { renderSvg } from './svg.js'
import { renderMarkdown, renderPeers } from './tables.js'

export const peersUsage = `npm run bench -- peers [scenario]... [options]

  --contenders A,B    only contenders whose names start with one of these; the limits always run
  --with FILE         a module that exports more contenders
  --quick             small sizes, few rounds, no warm-up, and no variants with synchronous calls
  --files N           files of large trees: 10,000 by default, 500 with --quick
  --n N               warm measurements: 3 by default, 1 with --quick
  --count N           operations in one round: 2,000 by default, 400 with --quick
  --json FILE         write all figures
  --save FILE         the same, for a later --compare
  --compare FILE      exit with 1 if a ratio to the limit is higher than in FILE
  --tolerance T       for --compare: 1.15 by default
  --markdown FILE     write the tables as Markdown
  --svg FILE          write bar charts of the ratios to the limits
  --chart FILE        write one chart of the ratios of forkspace to its best peers
  --from FILE         write these files from the figures of --save, and measure nothing`

const options = {
  contenders: { type: 'string' },
  with: { type: 'string' },
  quick: { type: 'boolean', default: false },
  files: { type: 'string' },
  n: { type: 'string' },
  count: { type: 'string' },
  json: { type: 'string' },
  save: { type: 'string' },
  compare: { type: 'string' },
  tolerance: { type: 'string' },
  markdown: { type: 'string' },
  svg: { type: 'string' },
  chart: { type: 'string' },
  from: { type: 'string' },
} as const

interface Settings {
  readonly chosen: readonly Scenario[]
  readonly contenders: readonly Contender[]
  readonly race: Omit<RaceOptions, 'directory'>
  readonly outputs: readonly { readonly file: string; readonly render: (report: Report) => string }[]
  readonly baseline: Report | undefined
  /** Figures of an earlier run, in place of new ones. */
  readonly saved: Report | undefined
  readonly tolerance: number
}

const inMemory = 0x01021994

/** Reads the arguments after `peers`. @throws {Error} with one line if they are wrong. */
export async function readPeerSettings(args: readonly string[]): Promise<Settings> {
  const { values, positionals } = parseArgs({ args: [...args], allowPositionals: true, options })
  const tolerance = toleranceOf(values.tolerance)
  const module = values.with === undefined ? undefined : resolve(values.with)
  const number = (name: 'files' | 'n' | 'count', full: number, quick: number): number =>
    values[name] === undefined ? (values.quick ? quick : full) : whole(`--${name}`, values[name])
  const plan: Plan = {
    count: number('count', 2000, 400),
    files: number('files', 10_000, 500),
    largeBytes: (values.quick ? 16 : 256) * 2 ** 20,
    sessions: values.quick ? 20 : 50,
    rounds: number('n', 3, 1),
    leastMs: values.quick ? 0 : 100,
    warmUp: values.quick ? { operations: 0, ms: 0 } : { operations: 20_000, ms: 1500 },
    roundMs: values.quick ? 60 : 400,
  }
  const json = (report: Report): string => `${JSON.stringify(report, undefined, 2)}\n`
  const outputs = [
    [values.json, json],
    [values.save, json],
    [values.markdown, renderMarkdown],
    [values.svg, renderSvg],
    [values.chart, renderChart],
  ] as const
  if (values.tolerance !== undefined && values.compare === undefined)
    throw new Error('--tolerance needs --compare')
  return {
    chosen: positionals.length === 0 ? scenarios : scenarios.filter(({ name }) => named(positionals, name)),
    contenders: choose(await allContenders(module), values.contenders, values.quick),
    race: { plan, budgetMs: values.quick ? 200 : 1200, ...(module !== undefined && { module }) },
    outputs: outputs.flatMap(([file, render]) => (file === undefined ? [] : [{ file, render }])),
    baseline: reportIn(values.compare),
    saved: reportIn(values.from),
    tolerance,
  }
}

/** Runs the scenarios, prints their tables and writes the files. Returns the exit code. */
export async function runPeers(settings: Settings): Promise<number> {
  const report = settings.saved ?? (await newReport(settings))
  for (const { file, render } of settings.outputs) await writeFile(file, render(report))
  return settings.baseline === undefined ? 0 : printSlower(report, settings.baseline, settings.tolerance)
}

async function newReport(settings: Settings): Promise<Report> {
  const directory = await mkdtemp(join(tmpdir(), 'forkspace-peers-'))
  const { type: fileSystem } = statfsSync(directory)
  if (fileSystem === inMemory)
    console.error(
      'The temporary directory is in memory. Set TMPDIR to a disk, or figures of disks mean nothing.',
    )
  try {
    const race = { ...settings.race, directory }
    return { node: process.version, machine: machineOf(), tables: await measure(settings, race) }
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** For example `2 × AMD EPYC, 24 GiB, Linux 6.1`. */
function machineOf(): string {
  const [cpu] = cpus()
  const memory = Math.ceil(totalmem() / 2 ** 30)
  return `${cpus().length} × ${cpu?.model.trim() ?? 'unknown processor'}, ${memory} GiB, ${type()} ${release().split('.', 2).join('.')}`
}

async function measure({ chosen, contenders }: Settings, options: RaceOptions): Promise<Table[]> {
  const entries = await describe(contenders, options)
  const tables: Table[] = []
  for (const scenario of chosen) {
    const { name, unit = 'time' } = scenario
    const rows = ranked(await race(scenario, entries, options))
    const table: Table = { scenario: name, title: scenario.title(options.plan), unit, rows }
    tables.push(table)
    console.log(renderPeers(table))
  }
  const missing = entries.some(({ problem }) => problem === 'not installed')
  if (missing) console.log('Some contenders are not installed: npm ci --prefix bench')
  return tables
}

function printSlower(report: Report, baseline: Report, tolerance: number): number {
  const lines = slower(report, baseline, tolerance)
  if (lines.length === 0) console.log(`No row is slower than ${tolerance} times the baseline.`)
  else console.log(`Slower than ${tolerance} times the baseline:\n${lines.join('\n')}`)
  return lines.length === 0 ? 0 : 1
}

function reportIn(file: string | undefined): Report | undefined {
  return file === undefined ? undefined : parseReport(readFileSync(file, 'utf8'), file)
}

function named(names: readonly string[], name: string): boolean {
  const unknown = names.find((name) => !scenarios.some((scenario) => scenario.name === name))
  if (unknown === undefined) return names.includes(name)
  throw new Error(
    `no scenario ${unknown} of peers; the names are ${scenarios.map(({ name }) => name).join(', ')}`,
  )
}

function choose(all: readonly Contender[], list: string | undefined, quick: boolean): readonly Contender[] {
  if (list === undefined) return quick ? all.filter(({ name }) => !name.endsWith(', sync')) : all
  const starts = list.split(',')
  const unknown = starts.find((start) => !all.some(({ name }) => name.startsWith(start)))
  if (unknown === undefined)
    return all.filter(({ name, limit }) => limit === true || starts.some((start) => name.startsWith(start)))
  throw new Error(`no contender ${unknown}; the names are ${all.map(({ name }) => `'${name}'`).join(', ')}`)
}

function whole(option: string, text: string): number {
  const parsed = Number(text)
  if (Number.isSafeInteger(parsed) && parsed >= 1) return parsed
  throw new Error(`${option} takes whole numbers of at least 1, not ${text === '' ? 'nothing' : text}`)
}

function toleranceOf(text = '1.15'): number {
  const parsed = Number(text)
  if (Number.isFinite(parsed) && parsed >= 1) return parsed
  throw new Error(`--tolerance takes a number of at least 1, not ${text === '' ? 'nothing' : text}`)
}
