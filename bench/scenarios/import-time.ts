import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { race, type Contestant, type Timing } from '../support/measure.js'
import { singleRow, timingRow } from '../support/rows.js'
import { noFigures, type Context, type Figures, type Row, type Scenario } from '../support/scenario.js'

const run = promisify(execFile)
const root = dirname(fileURLToPath(import.meta.resolve('forkspace/package.json')))

/** Imports in fresh processes, where no module is loaded yet. */
export const importTime: Scenario = {
  name: 'import',
  title: 'Import in a fresh process',
  clock: 'cpu',
  async *run(context) {
    const rounds = context.smoke ? 1 : Math.max(context.rounds, 11)
    const timings = await race(
      {
        empty: child(''),
        forkspace: child("await import('forkspace')"),
        client: child("await import('forkspace/client')"),
        memfs: child("await import('memfs')"),
      },
      { rounds },
    )
    const { empty, forkspace, client, memfs } = timings
    const peer = { name: 'empty node', timing: empty }
    yield timingRow({
      what: "node, import('forkspace')",
      ours: forkspace,
      peer,
      clock: 'cpu',
    })
    yield timingRow({
      what: "node, import('forkspace/client')",
      ours: client,
      peer,
      clock: 'cpu',
    })
    const ours = beyond(forkspace, empty)
    const theirs = beyond(memfs, empty)
    yield {
      what: "import('forkspace') alone",
      unit: 'time',
      ...ours,
      peer: { name: 'memfs', ...theirs },
      ...(ours.cpu && theirs.cpu && { speed: theirs.cpu / ours.cpu }),
    }
    yield* loadedModules(context)
  },
}

/** Runs a process from start to end and returns its CPU time. */
function child(script: string): Contestant {
  const printCpu = 'const { user, system } = process.cpuUsage(); console.log((user + system) / 1000)'
  return {
    count: 1,
    run: async () => {
      const args = ['--input-type=module', '-e', `${script}; ${printCpu}`]
      return Number((await run(process.execPath, args, { cwd: root })).stdout)
    },
  }
}

/** The cost of an import without that of an empty process, unless it is below the noise of the empty process. */
function beyond(whole: Timing, empty: Timing): Figures {
  const median = whole.median - empty.median
  const best = whole.best - empty.best
  const cpu = whole.cpuMedian - empty.cpuMedian
  const noise = empty.median - empty.best
  return median > noise && best > 0 && cpu > 0 ? { median, best, cpu } : noFigures
}

async function* loadedModules({ directory }: Context): AsyncGenerator<Row> {
  const coverage = join(directory, 'coverage')
  await mkdir(coverage)
  const script = `
    const addons = []
    const { dlopen } = process
    process.dlopen = (...args) => { addons.push(args[1]); return dlopen.apply(process, args) }
    await import('forkspace')
    console.log(JSON.stringify(addons))`
  const env = { ...process.env, NODE_V8_COVERAGE: coverage }
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], { cwd: root, env })
  const scripts: string[] = []
  for (const file of await readdir(coverage)) {
    const { result } = JSON.parse(await readFile(join(coverage, file), 'utf8')) as {
      result: { url: string }[]
    }
    scripts.push(...result.map(({ url }) => url).filter((url) => url.startsWith('file:')))
  }
  const packages = new Set(scripts.map(packageOf).filter((name) => name !== undefined))
  const others = packages.size === 0 ? '' : ` (${[...packages].sort().join(', ')})`
  const git = scripts.filter((url) => packageOf(url) === 'isomorphic-git' || url.includes('/adapters/git/'))
  const none = { atMost: 0 }
  yield singleRow(`modules loaded${others}`, 'count', scripts.length)
  yield singleRow('native addons loaded', 'count', (JSON.parse(stdout) as string[]).length, none)
  yield singleRow('modules for git loaded', 'count', git.length, none)
}

function packageOf(url: string): string | undefined {
  return /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1]
}
