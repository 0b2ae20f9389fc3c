import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { GitRepository, hasGit } from '../../test/support/git-repository.js'
import { serveGit } from '../../test/support/git-server.js'
import type { GitSide, GitStep, StepFigures } from '../support/git-steps.js'
import { race, type Contestant, type Timing } from '../support/measure.js'
import { projectPaths, shuffled, sourceText } from '../support/project-files.js'
import { singleRow, timingRow } from '../support/rows.js'
import type { Context, Row, Scenario } from '../support/scenario.js'

const importSizes = [200, 2500, 15_000]
const pushSize = 50_000
const refreshedFiles = 200
const pushedFiles = 10
const peakTarget = 300 * 2 ** 20
const delayTargetMs = 100

/** Import, refresh and push through `git http-backend`. Each contestant runs in its own process. */
export const git: Scenario = {
  name: 'git',
  title: 'Git over HTTP on loopback',
  async *run(context) {
    if (!hasGit) return
    const repositories = join(context.directory, 'served')
    const server = await serveGit(repositories)
    try {
      for (const size of context.smoke ? [importSizes[0]!] : importSizes) {
        const served = await Served.create(repositories, `import-${size}`, size, server.url)
        yield* imports(context, served)
        if (size === importSizes.at(-1) || context.smoke) {
          for (const changed of [0, refreshedFiles]) yield* refreshes(context, served, changed)
        }
      }
      const served = await Served.create(repositories, 'push', context.count(pushSize), server.url)
      yield* pushes(context, served)
    } finally {
      await server.close()
    }
  },
}

/** A repository of generated files in one pack, as on a git server. */
class Served {
  readonly paths: readonly string[]
  readonly remoteUrl: string
  readonly #repository: GitRepository
  #changes = 0

  private constructor(repository: GitRepository, paths: readonly string[], remoteUrl: string) {
    this.#repository = repository
    this.paths = paths
    this.remoteUrl = remoteUrl
  }

  static async create(root: string, name: string, size: number, serverUrl: string): Promise<Served> {
    await mkdir(root, { recursive: true })
    const repository = GitRepository.create(join(root, `${name}.git`))
    const paths = projectPaths(size).map((path) => path.slice(1))
    repository.commitFiles(paths.map((path, index) => ['100644', path, sourceText(index)]))
    repository.git(['repack', '-adq'])
    return new Served(repository, paths, `${serverUrl}/${name}.git`)
  }

  /** Commits new content for `count` files. */
  change(count: number): void {
    const paths = shuffled(this.paths).slice(0, count)
    const number = ++this.#changes
    const marked = (index: number): string => `// change ${number}\n${sourceText(index)}`
    this.#repository.commitFiles(paths.map((path, index) => ['100644', path, marked(index)]))
  }
}

/** A process that runs and measures the steps of one side. */
class Worker {
  readonly #child: ChildProcess
  readonly #directory: string

  private constructor(child: ChildProcess, directory: string) {
    this.#child = child
    this.#directory = directory
  }

  static async start(side: GitSide, remoteUrl: string, parent: string): Promise<Worker> {
    const directory = await mkdtemp(join(parent, 'worker-'))
    const script = new URL('../support/git-worker.js', import.meta.url)
    const worker = new Worker(fork(script, { execArgv: [] }), directory)
    await worker.do({ step: 'start', side, remoteUrl, directory })
    return worker
  }

  async do(step: GitStep): Promise<StepFigures> {
    this.#child.send(step)
    const [answer] = (await once(this.#child, 'message')) as [StepFigures | { readonly error: string }]
    if ('error' in answer) throw new Error(`${step.step}: ${answer.error}`)
    return answer
  }

  async end(): Promise<void> {
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await exited
    await rm(this.#directory, { recursive: true })
  }
}

/** The peak memory and the longest event loop delay over the steps of one side. */
class Peaks {
  peakBytes = 0
  delayMs = 0

  add({ peakBytes, delayMs }: StepFigures): void {
    this.peakBytes = Math.max(this.peakBytes, peakBytes)
    this.delayMs = Math.max(this.delayMs, delayMs)
  }
}

/** Runs each round in its own process. The steps in `before` are not measured. */
function contestant(
  context: Context,
  { remoteUrl }: Served,
  side: GitSide,
  steps: { readonly before?: readonly GitStep[]; readonly step: () => GitStep; readonly peaks?: Peaks },
): Contestant {
  let worker: Worker
  return {
    count: 1,
    async prepare() {
      worker = await Worker.start(side, remoteUrl, context.directory)
      for (const step of steps.before ?? []) await worker.do(step)
    },
    async run() {
      const figures = await worker.do(steps.step())
      steps.peaks?.add(figures)
      return figures.cpuMs
    },
    cleanUp: () => worker.end(),
  }
}

async function* imports(context: Context, served: Served): AsyncGenerator<Row> {
  const files = served.paths.length
  const peaks = { memory: new Peaks(), level: new Peaks() }
  const step = (): GitStep => ({ step: 'import', files })
  const timings = await race(
    {
      memory: contestant(context, served, 'memory', { step, peaks: peaks.memory }),
      level: contestant(context, served, 'level', { step, peaks: peaks.level }),
      git: contestant(context, served, 'git', { step }),
      'git --no-checkout': contestant(context, served, 'git --no-checkout', { step }),
      'isomorphic-git': contestant(context, served, 'isomorphic-git', { step }),
    },
    { rounds: Math.min(context.rounds, 5) },
  )
  const what = `import of ${files} files`
  for (const side of ['memory', 'level'] as const) {
    const name = side === 'memory' ? what : `${what}, disk (relaxed)`
    yield byCpu(name, timings[side], 'git clone --depth 1', timings.git, 1)
    yield byCpu(name, timings[side], 'git clone --depth 1 --no-checkout', timings['git --no-checkout'])
    yield byCpu(name, timings[side], 'isomorphic-git', timings['isomorphic-git'], 5)
    yield singleRow(`${name}: peak memory`, 'bytes', peaks[side].peakBytes, { atMost: peakTarget })
    yield singleRow(`${name}: longest event loop delay`, 'time', peaks[side].delayMs, {
      atMost: delayTargetMs,
    })
  }
}

async function* refreshes(context: Context, served: Served, changed: number): AsyncGenerator<Row> {
  const files = served.paths.length
  const before: GitStep[] = [{ step: 'import', files }]
  const peaks = new Peaks()
  const step = (): GitStep => ({ step: 'refresh' })
  const sides = ['memory', 'level', 'git', 'git --no-checkout'] as const
  const entries = sides.map((side) => {
    const own = contestant(context, served, side, {
      before,
      step,
      ...(side === 'memory' && { peaks }),
    })
    const prepare = async (): Promise<void> => {
      await own.prepare!()
      if (changed > 0) served.change(changed)
    }
    return [side, { ...own, prepare }] as const
  })
  const timings = await race(Object.fromEntries(entries) as Record<(typeof sides)[number], Contestant>, {
    rounds: Math.min(context.rounds, 5),
  })
  const what = `refresh of ${files} files, ${changed} changed`
  for (const side of ['memory', 'level'] as const) {
    const name = side === 'memory' ? what : `${what}, disk (relaxed)`
    yield byWall(name, timings[side], 'git fetch --depth 1', timings['git --no-checkout'], 1 / 1.5)
    yield byWall(name, timings[side], 'git fetch, git reset --hard', timings.git)
  }
  yield singleRow(`${what}: longest event loop delay`, 'time', peaks.delayMs, { atMost: delayTargetMs })
}

async function* pushes(context: Context, served: Served): AsyncGenerator<Row> {
  const files = served.paths.length
  const paths = shuffled(served.paths).slice(0, pushedFiles)
  let number = 0
  const sides = ['memory', 'level', 'git'] as const
  const entries = sides.map((side) => {
    const before: GitStep[] = [
      { step: 'import', files },
      { step: 'change', paths, content: 'changed\n' },
    ]
    const step = (): GitStep => ({ step: 'push', branch: `b${++number}` })
    return [side, contestant(context, served, side, { before, step })] as const
  })
  const timings = await race(Object.fromEntries(entries) as Record<(typeof sides)[number], Contestant>, {
    rounds: Math.min(context.rounds, 5),
  })
  const what = `commit and push of ${pushedFiles} files in ${files}`
  yield byWall(what, timings.memory, 'git commit -a, git push', timings.git)
  yield byWall(`${what}, disk (relaxed)`, timings.level, 'git commit -a, git push', timings.git)
}

function byCpu(what: string, ours: Timing, name: string, peer: Timing, speedAtLeast?: number): Row {
  const target = speedAtLeast === undefined ? undefined : { speedAtLeast }
  return timingRow({ what, ours, peer: { name, timing: peer }, target, clock: 'cpu' })
}

function byWall(what: string, ours: Timing, name: string, peer: Timing, speedAtLeast?: number): Row {
  const target = speedAtLeast === undefined ? undefined : { speedAtLeast }
  return timingRow({ what, ours, peer: { name, timing: peer }, target })
}
