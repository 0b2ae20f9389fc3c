/** Runs the steps that the git benchmark sends, one after the other, and answers each with its figures. */
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { promisify } from 'node:util'
import git from 'isomorphic-git'
import http from 'isomorphic-git/http/node'
import { openEngine, type Session } from 'forkspace'
import { levelStorage } from 'forkspace/level'
import { gitEnvironment } from '../../test/support/git-repository.js'
import { cpuOfChildren } from './cpu-of-children.js'
import type { GitStep, StepFigures } from './git-steps.js'

type Start = Extract<GitStep, { step: 'start' }>

interface Side {
  import(files: number): Promise<void>
  refresh(): Promise<void>
  change(paths: readonly string[], content: string): Promise<void>
  push(branch: string): Promise<void>
}

const run = promisify(execFile)
const author = { name: 'Ada Author', email: 'ada@example.org' }
const message = 'a change'

async function openForkspace({ side, remoteUrl, directory }: Start): Promise<Side> {
  const storage = levelStorage(join(directory, 'store'), { durability: 'relaxed' })
  const engine = await openEngine({
    git: { allowPrivateAddresses: true },
    ...(side === 'level' && { storage }),
  })
  const { sourceId } = await engine.sources.create({ displayName: 'project', gitRemote: { remoteUrl } })
  let session: Session
  return {
    async import(files) {
      const job = await engine.sources.waitForJob(await engine.sources.startImport(sourceId))
      session = await engine.sessions.create({ sourceRef: { sourceId } })
      if (job.filesProcessed !== files) throw new Error(`${job.filesProcessed} files instead of ${files}`)
    },
    async refresh() {
      await engine.sources.waitForJob(await engine.sources.refresh(sourceId))
    },
    async change(paths, content) {
      for (const path of paths) await session.files.write({ path: `/${path}`, content })
    },
    async push(branchName) {
      await session.commit({ message, author, gitBranch: { branchName } })
    },
  }
}

async function openGit({ side, remoteUrl, directory }: Start): Promise<Side> {
  const clone = join(directory, 'clone')
  const checkout = side === 'git'
  const runGit = async (args: readonly string[], cwd = clone): Promise<void> => {
    await run('git', args, { cwd, env: gitEnvironment })
  }
  return {
    import: () =>
      runGit(
        ['clone', '-q', '--depth', '1', ...(checkout ? [] : ['--no-checkout']), remoteUrl, clone],
        directory,
      ),
    async refresh() {
      await runGit(['fetch', '-q', '--depth', '1', 'origin', 'main'])
      if (checkout) await runGit(['reset', '-q', '--hard', 'FETCH_HEAD'])
    },
    async change(paths, content) {
      for (const path of paths) await writeFile(join(clone, path), content)
    },
    async push(branch) {
      await runGit(['commit', '-qam', message])
      await runGit(['push', '-q', 'origin', `HEAD:refs/heads/${branch}`])
    },
  }
}

/** Clones into a directory, where isomorphic-git can keep a pack, and reads every file once. */
async function openIsomorphic({ remoteUrl, directory }: Start): Promise<Side> {
  const place = { fs, dir: join(directory, 'isomorphic') }
  const cache = {}
  const readAll = async (): Promise<number> => {
    let files = 0
    const trees = [git.TREE({ ref: 'HEAD' })]
    const map = async (_path: string, [entry]: (git.WalkerEntry | null)[]): Promise<void> => {
      if ((await entry?.type()) === 'blob' && (await entry!.content()) !== undefined) files++
    }
    await git.walk({ ...place, cache, trees, map })
    return files
  }
  return {
    async import(files) {
      await git.clone({
        ...place,
        cache,
        http,
        url: remoteUrl,
        depth: 1,
        singleBranch: true,
        noCheckout: true,
      })
      if ((await readAll()) !== files) throw new Error('files are missing')
    },
    async refresh() {
      await git.fetch({ ...place, cache, http, depth: 1, singleBranch: true, ref: 'main' })
    },
    change: () => Promise.reject(new Error('not measured')),
    push: () => Promise.reject(new Error('not measured')),
  }
}

let side: Side

async function carryOut(step: GitStep): Promise<void> {
  switch (step.step) {
    case 'start': {
      const open = { memory: openForkspace, level: openForkspace, 'isomorphic-git': openIsomorphic }
      side = await (step.side in open ? open[step.side as keyof typeof open] : openGit)(step)
      return
    }
    case 'import':
      return side.import(step.files)
    case 'refresh':
      return side.refresh()
    case 'change':
      return side.change(step.paths, step.content)
    case 'push':
      return side.push(step.branch)
  }
}

/** CPU time of this process and of the child processes that have ended. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000 + cpuOfChildren()
}

async function measured(step: GitStep): Promise<StepFigures> {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  const baseBytes = process.memoryUsage.rss()
  const cpuBefore = cpuMs()
  const start = performance.now()
  delay.enable()
  await carryOut(step)
  const wallMs = performance.now() - start
  delay.disable()
  return {
    wallMs,
    cpuMs: cpuMs() - cpuBefore,
    peakBytes: process.resourceUsage().maxRSS * 1024,
    baseBytes,
    delayMs: delay.max / 1e6,
  }
}

let before: Promise<unknown> = Promise.resolve()
process.on('message', (step: GitStep) => {
  before = before.then(async () => {
    const answer = await measured(step).catch((error: unknown) => ({ error: String(error) }))
    process.send!(answer)
  })
})
process.on('disconnect', () => process.exit())
