/** Measures the library and its peers in one run. `npm run bench -- --help` shows the options. */
import { mkdtemp, mkdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { peersUsage, readPeerSettings, runPeers } from './peers/run.js'
import { scenarios as peerScenarios } from './peers/scenarios/index.js'
import { agents } from './scenarios/agents.js'
import { checkouts } from './scenarios/checkouts.js'
import { collection } from './scenarios/collection.js'
import { durable } from './scenarios/durable.js'
import { fs } from './scenarios/fs.js'
import { gitServer } from './scenarios/git-server.js'
import { git } from './scenarios/git.js'
import { growth } from './scenarios/growth.js'
import { heap } from './scenarios/heap.js'
import { http } from './scenarios/http.js'
import { importTime } from './scenarios/import-time.js'
import { inspector } from './scenarios/inspector.js'
import { memoryBounds } from './scenarios/memory-bounds.js'
import { memoryFiles } from './scenarios/memory-files.js'
import { pauses } from './scenarios/pauses.js'
import { postgres } from './scenarios/postgres.js'
import { services } from './scenarios/services.js'
import { treesOnDisk } from './scenarios/trees-on-disk.js'
import { trees } from './scenarios/trees.js'
import { versionsOfTrees } from './scenarios/versions.js'
import { renderGrowth } from './support/growth-chart.js'
import { isMet, type Context, type Row, type Scenario } from './support/scenario.js'
import { renderLine, renderTable, summarize } from './support/table.js'

const usage = `npm run bench -- [group or scenario]... [--n N] [--files 1000,10000] [--json]
npm run bench -- --list

  --n       number of rounds, 7 by default; some scenarios limit it
  --files   tree sizes, in files
  --json    print one JSON document instead of tables, with times in milliseconds
  --chart   the file for a chart of \`growth\`, as SVG

${peersUsage}`

const core = [
  importTime,
  memoryFiles,
  fs,
  durable,
  postgres,
  heap,
  memoryBounds,
  trees,
  treesOnDisk,
  growth,
  versionsOfTrees,
  collection,
  pauses,
  git,
  gitServer,
  services,
  http,
  agents,
  checkouts,
  inspector,
]
/** `smoke` shows that every scenario runs, or those that follow it. Its figures are not meaningful. */
const groups: Record<string, readonly Scenario[]> = { core, smoke: core }

const options = {
  n: { type: 'string' },
  files: { type: 'string' },
  json: { type: 'boolean', default: false },
  chart: { type: 'string' },
  list: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const

const [group, ...peerArgs] = process.argv.slice(2)
// This group has options of its own.
if (group === 'peers' && !peerArgs.includes('--help')) {
  process.exit(await runPeers(await readPeerSettings(peerArgs).catch(refuse)))
}

const { values, positionals } = orRefuse(() => parseArgs({ allowPositionals: true, options }))
if (values.help) console.log(usage)
else if (values.list) list()
else await main(positionals.length === 0 ? ['core'] : positionals)

/** If the arguments are wrong, prints one line and exits. */
function orRefuse<T>(parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    return refuse(error)
  }
}

function refuse(error: unknown): never {
  // After its first sentence, parseArgs adds hints that do not apply here.
  const [line] = (error as Error).message.split(/\. |\n/)
  console.error(`bench: ${line} (see npm run bench -- --help)`)
  return process.exit(1)
}

function list(): void {
  for (const [group, scenarios] of Object.entries(groups)) {
    console.log(`${group}: ${scenarios.map(({ name }) => name).join(' ')}`)
  }
  console.log(`peers: ${peerScenarios.map(({ name }) => name).join(' ')}`)
}

async function main(names: readonly string[]): Promise<void> {
  const smoke = names.includes('smoke')
  const { chosen, rounds, files } = orRefuse(() => ({
    chosen: chosenOf(names),
    rounds: values.n === undefined ? (smoke ? 1 : 7) : number('--n', values.n),
    files:
      values.files?.split(',').map((text) => number('--files', text)) ??
      (smoke ? [200] : [1000, 10_000, 100_000]),
  }))
  const root = await mkdtemp(join(tmpdir(), 'forkspace-bench-'))
  const all: { scenario: string; rows: Row[] }[] = []
  try {
    for (const scenario of chosen) {
      const directory = join(root, scenario.name)
      await mkdir(directory)
      const count = (full: number): number => (smoke ? Math.max(2, Math.ceil(full / 50)) : full)
      const context: Context = { rounds, files, smoke, directory, count }
      const rows: Row[] = []
      for await (const measured of scenario.run(context)) {
        const row = smoke ? withoutTarget(measured) : measured
        rows.push(row)
        // Tables go to stdout. These progress lines go to stderr.
        if (!smoke) console.error(renderLine(scenario, row))
      }
      all.push({ scenario: scenario.name, rows })
      if (!values.json) console.log(renderTable(scenario, rows))
      await rm(directory, { recursive: true })
    }
  } finally {
    await rm(root, { recursive: true, force: true })
  }
  report(all, rounds)
  if (values.chart !== undefined) await writeFile(values.chart, renderGrowth(all.flatMap(({ rows }) => rows)))
}

function chosenOf(names: readonly string[]): ReadonlySet<Scenario> {
  const others = names.filter((name) => name !== 'smoke')
  const chosen = new Set((others.length === 0 ? names : others).flatMap(find))
  if (values.chart !== undefined && !chosen.has(growth))
    throw new Error('--chart draws growth, so add growth')
  return chosen
}

function find(name: string): readonly Scenario[] {
  const scenario = core.find((scenario) => scenario.name === name)
  if (name === 'peers') throw new Error('peers runs alone: npm run bench -- peers')
  const found = (Object.hasOwn(groups, name) ? groups[name] : undefined) ?? (scenario && [scenario])
  if (found === undefined) {
    const known = [...Object.keys(groups), ...core.map((scenario) => scenario.name)]
    throw new Error(`no group or scenario ${name}; the names are ${known.join(', ')}`)
  }
  return found
}

/** Removes the target, because one short round is too noisy to meet it. */
function withoutTarget(row: Row): Row {
  const { target, ...rest } = row
  return target === undefined ? row : rest
}

function report(all: readonly { scenario: string; rows: readonly Row[] }[], rounds: number): void {
  const { met, targets, belowNoise } = summarize(all.flatMap(({ rows }) => rows))
  if (values.json) {
    const scenarios = all.map(({ scenario, rows }) => ({
      scenario,
      rows: rows.map((row) => ({ ...row, met: isMet(row) })),
    }))
    console.log(
      JSON.stringify({ node: process.version, rounds, scenarios, met, targets, belowNoise }, undefined, 2),
    )
    return
  }
  console.log(
    `${rounds} ${rounds === 1 ? 'round' : 'rounds'} on node ${process.version}. Targets for speeds use the median of the rounds. Upper limits use the best round.`,
  )
  const unseen = belowNoise === 0 ? '' : `, ${belowNoise} below noise`
  if (targets + belowNoise > 0) console.log(`${met} of ${targets} targets met${unseen}`)
  else console.log('no targets checked (smoke runs have none)')
}

function number(option: string, text: string): number {
  const parsed = Number(text)
  if (!Number.isSafeInteger(parsed) || parsed < 1)
    throw new Error(`${option} takes whole numbers of at least 1, not ${text === '' ? 'nothing' : text}`)
  return parsed
}
