/** Serves a repository of generated files, as a session or by `git http-backend`, and reports the CPU time and memory of serving. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openEngine } from 'forkspace'
import { gitHandler } from 'forkspace/git'
import { serve, staticTokens } from 'forkspace/http'
import { levelStorage } from 'forkspace/level'
import { GitRepository } from '../../test/support/git-repository.js'
import { serveGit } from '../../test/support/git-server.js'
import { cpuOfChildren } from './cpu-of-children.js'
import { projectPaths, sourceText } from './project-files.js'

export type ServingSide = 'memory' | 'level' | 'http-backend'

export interface ServeStep {
  readonly step: 'serve'
  readonly side: ServingSide
  readonly files: number
  readonly directory: string
}

/** `change` writes this many files. `figures` reports the CPU time and memory since the last report. */
export type ServingStep =
  | ServeStep
  | { readonly step: 'change'; readonly count: number }
  | { readonly step: 'figures' }

export interface ServingFigures {
  readonly url: string
  readonly cpuMs: number
  /** The memory that serving has added to that of the process at its peak, or the peak of the largest process of git. */
  readonly peakBytes: number
}

interface Side {
  readonly url: string
  change(count: number): Promise<void>
}

const token = 'bench'
const caller = { tenant: 'bench', principal: 'bench' }

async function serveSession({ side, files, directory }: ServeStep): Promise<Side> {
  const storage = levelStorage(join(directory, 'store'), { durability: 'relaxed' })
  const engine = await openEngine(side === 'level' ? { storage } : {})
  const server = await serve(gitHandler(engine, { authenticate: staticTokens({ [token]: caller }) }))
  const paths = projectPaths(files)
  const session = await engine.as(caller).sessions.create({
    files: Object.fromEntries(paths.map((path, index) => [path, sourceText(index)])),
  })
  let changes = 0
  return {
    url: `${server.url.replace('://', `://git:${token}@`)}/sessions/${session.id}.git`,
    async change(count) {
      changes++
      for (const [index, path] of paths.slice(0, count).entries())
        await session.files.write({ path, content: `// change ${changes}\n${sourceText(index)}` })
    },
  }
}

async function serveRepository({ files, directory }: ServeStep): Promise<Side> {
  const server = await serveGit(directory)
  const repository = GitRepository.create(join(directory, 'project.git'))
  const paths = projectPaths(files).map((path) => path.slice(1))
  repository.commitFiles(paths.map((path, index) => ['100644', path, sourceText(index)]))
  repository.git(['repack', '-adq'])
  let changes = 0
  return {
    url: `${server.url}/project.git`,
    change(count) {
      changes++
      const entries = paths
        .slice(0, count)
        .map((path, index) => ['100644', path, `// change ${changes}\n${sourceText(index)}`] as const)
      repository.commitFiles(entries)
      return Promise.resolve()
    },
  }
}

/** The CPU time of this process and of its ended children. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000 + cpuOfChildren()
}

/** The most memory of this process, or of a process of git that runs now. */
function peakOfGit(): number {
  let peak = 0
  const visit = (pid: string): void => {
    try {
      peak = Math.max(peak, memoryOf(pid).peak)
      for (const child of readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' '))
        if (child !== '') visit(child)
    } catch {
      // The process has ended.
    }
  }
  for (const child of readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').split(' '))
    if (child !== '') visit(child)
  return peak
}

let side: Side
let used = 0
let peak = 0
let start = 0

async function take(step: ServingStep): Promise<ServingFigures> {
  if (step.step === 'serve') {
    side = await (step.side === 'http-backend' ? serveRepository(step) : serveSession(step))
    if (step.side === 'http-backend') setInterval(() => (peak = Math.max(peak, peakOfGit())), 2)
  } else if (step.step === 'change') await side.change(step.count)
  const before = used
  used = cpuMs()
  if (step.step === 'serve') start = resetPeak()
  const peakBytes = peak > 0 ? peak : memoryOf('self').peak - start
  return { url: side.url, cpuMs: used - before, peakBytes }
}

/** Forgets the peak so far, which is that of creating the files. Returns the memory that they take. */
function resetPeak(): number {
  globalThis.gc?.()
  writeFileSync('/proc/self/clear_refs', '5')
  return memoryOf('self').now
}

function memoryOf(pid: string): { readonly now: number; readonly peak: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const [, peakKb = 0] = /^VmHWM:\s+(\d+) kB/m.exec(status) ?? []
  const [, nowKb = 0] = /^VmRSS:\s+(\d+) kB/m.exec(status) ?? []
  return { now: Number(nowKb) * 1024, peak: Number(peakKb) * 1024 }
}

process.on('message', (step: ServingStep) => {
  take(step).then(
    (figures) => process.send?.(figures),
    (error: unknown) => process.send?.({ error: String(error) }),
  )
})
