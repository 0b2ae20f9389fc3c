import { execFile, fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gitEnvironment, hasGit } from '../../test/support/git-repository.js'
import type { ServingFigures, ServingSide, ServingStep } from '../support/git-server-worker.js'
import { race, type Contestant } from '../support/measure.js'
import { differenceRow, timingRow } from '../support/rows.js'
import type { Context, Row, Scenario } from '../support/scenario.js'

const cloneSizes = [200, 2500, 15_000]
const changedFiles = 20
const run = promisify(execFile)

/** Clones and fetches by native git, served as a session and by `git http-backend`. CPU time is that of the server. */
export const gitServer: Scenario = {
  name: 'git-server',
  title: 'Sessions as git remotes, on loopback',
  clock: 'cpu',
  async *run(context) {
    if (!hasGit) return
    for (const size of context.smoke ? [cloneSizes[0]!] : cloneSizes) {
      const servers = {
        memory: await Server.start('memory', size, context.directory),
        level: await Server.start('level', size, context.directory),
        'git http-backend': await Server.start('http-backend', size, context.directory),
      }
      try {
        yield* compare(context, `first clone of ${size} files`, servers, () => 'first')
        yield* compare(context, `clone of ${size} files`, servers, () => 'clone')
        yield* compare(
          context,
          `fetch after ${changedFiles} changes in ${size} files`,
          servers,
          () => 'fetch',
        )
        for (const [name, { peakBytes }] of Object.entries(servers))
          yield differenceRow(`memory of serving, ${size} files, ${name}`, 'bytes', peakBytes)
      } finally {
        for (const server of Object.values(servers)) await server.end()
      }
    }
  },
}

type Servers = Readonly<Record<'memory' | 'level' | 'git http-backend', Server>>

async function* compare(
  { rounds }: Context,
  what: string,
  servers: Servers,
  step: () => 'first' | 'clone' | 'fetch',
): AsyncGenerator<Row> {
  const isOnce = step() === 'first'
  const contestant = (server: Server): Contestant => ({
    count: 1,
    prepare: () => (step() === 'fetch' ? server.beforeFetch() : server.beforeClone()),
    run: () => (step() === 'fetch' ? server.fetch() : server.clone()),
  })
  const { memory, level, 'git http-backend': backend } = servers
  const timings = await race(
    { memory: contestant(memory), level: contestant(level), backend: contestant(backend) },
    { rounds: isOnce ? 1 : rounds },
  )
  const peer = { name: 'git http-backend', timing: timings.backend }
  yield timingRow({ what: `${what}, memory`, ours: timings.memory, peer, clock: 'cpu' })
  yield timingRow({ what: `${what}, level`, ours: timings.level, peer, clock: 'cpu' })
}

/** A process that serves one repository, and a directory of its client. */
class Server {
  peakBytes = 0
  readonly #child: ChildProcess
  readonly #directory: string
  #url = ''

  private constructor(child: ChildProcess, directory: string) {
    this.#child = child
    this.#directory = directory
  }

  static async start(side: ServingSide, files: number, parent: string): Promise<Server> {
    const directory = await mkdtemp(join(parent, 'server-'))
    const script = new URL('../support/git-server-worker.js', import.meta.url)
    const server = new Server(fork(script, { execArgv: ['--expose-gc'] }), directory)
    server.#url = (await server.#do({ step: 'serve', side, files, directory })).url
    return server
  }

  async beforeClone(): Promise<void> {
    await rm(join(this.#directory, 'clone'), { recursive: true, force: true })
    await this.#do({ step: 'figures' })
  }

  /** Returns the CPU time of the server. */
  async clone(): Promise<number> {
    await this.#git(['clone', '--quiet', '--bare', this.#url, 'clone'], this.#directory)
    return this.#figures()
  }

  async beforeFetch(): Promise<void> {
    await this.#do({ step: 'change', count: changedFiles })
  }

  async fetch(): Promise<number> {
    await this.#git(['fetch', '--quiet', 'origin', '+main:main'], join(this.#directory, 'clone'))
    return this.#figures()
  }

  async end(): Promise<void> {
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await exited
    await rm(this.#directory, { recursive: true })
  }

  async #figures(): Promise<number> {
    const { cpuMs, peakBytes } = await this.#do({ step: 'figures' })
    this.peakBytes = Math.max(this.peakBytes, peakBytes)
    return cpuMs
  }

  async #git(args: readonly string[], cwd: string): Promise<void> {
    await run('git', args, { cwd, env: gitEnvironment })
  }

  async #do(step: ServingStep): Promise<ServingFigures> {
    this.#child.send(step)
    const [answer] = (await once(this.#child, 'message')) as [ServingFigures | { readonly error: string }]
    if ('error' in answer) throw new Error(`${step.step}: ${answer.error}`)
    return answer
  }
}
