import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { EngineError, openEngine, type Engine, type ImportJob, type ImportOptions } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import type { AttackOptions, AttackResult } from './attacks.js'
import { compiledAttacks } from './compiled-attacks.js'
import { stalledJobs, stalledOptions, type StalledJob } from './stalled-jobs.js'
import { makeStalledDirectories } from './stalled-directories.js'
import { serveStalled } from './stalled-remotes.js'

interface End {
  readonly name: string
  /** Engine options that end the job automatically. */
  readonly imports?: ImportOptions
  /** Ends the job. */
  readonly end?: (engine: Engine, job: ImportJob) => Promise<unknown>
  /** The error code of the job. */
  readonly errorCode: string
}

const ends: readonly End[] = [
  { name: 'abort', end: (engine, job) => engine.sources.abortJob(job), errorCode: 'INTERRUPTED' },
  {
    name: 'delete',
    end: (engine, { sourceId }) => engine.sources.delete(sourceId),
    errorCode: 'INTERRUPTED',
  },
  { name: 'close', end: (engine) => engine.close(), errorCode: 'INTERRUPTED' },
  { name: 'deadline', imports: { deadlineSeconds: 0.3 }, errorCode: 'DEADLINE_EXCEEDED' },
  {
    name: 'rate',
    imports: { minBytesPerSecond: 2 ** 20, rateWindowSeconds: 0.2 },
    errorCode: 'DEADLINE_EXCEEDED',
  },
]

/** A generous limit: a call that hangs never ends. */
const patienceMs = 20_000
const atOnce = 16

/**
 * Imports from sources that never end and ends each job in each way; then imports from all of them in a process that
 * gets SIGTERM.
 */
export async function stallingSources({ n, seed, onProgress }: AttackOptions): Promise<AttackResult> {
  await using server = await serveStalled()
  await using directories = await makeStalledDirectories()
  const jobs = stalledJobs((name) => server.url(name), directories.paths)
  const tries = jobs.flatMap((job) =>
    ends.filter(({ name }) => job.sends || name !== 'rate').map((end) => ({ job, end })),
  )
  const random = randomWords(seed)
  const order = tries.map((one) => ({ one, at: random() })).sort((a, b) => a.at - b.at)
  const chosen = order.slice(0, n).map(({ one }) => one)
  const hung: string[] = []
  for (let at = 0; at < chosen.length; at += atOnce) {
    await Promise.all(
      chosen.slice(at, at + atOnce).map(async ({ job, end }) => {
        const wrong = await within(tryEnd(job, end, directories.root))
        if (wrong === undefined) return
        hung.push(`${job.name}, ${end.name}: ${wrong}`)
        onProgress(hung.at(-1)!)
      }),
    )
    onProgress(`${Math.min(at + atOnce, chosen.length)}/${chosen.length}`)
  }
  const stopped = await stopsOnSignal()
  if (stopped !== undefined) onProgress(`SIGTERM: ${stopped}`)
  return {
    line: `${chosen.length} jobs of ${tries.length}, ${hung.length} not ended as they should; SIGTERM ${stopped ?? 'ends the process'}`,
    failed: hung.length > 0 || stopped !== undefined,
  }
}

/** A description of the failure; undefined if there is none. */
async function tryEnd(
  stalled: StalledJob,
  { end, imports, errorCode }: End,
  root: string,
): Promise<string | undefined> {
  const hostPaths = { roots: [root] }
  const engine = await openEngine({ ...stalledOptions, hostPaths, ...(imports && { imports }) })
  const expected = [errorCode, ...(stalled.endings ?? (stalled.endless ? [] : ['REMOTE_UNREACHABLE']))]
  const job = await stalled.start(engine).catch(codeOf)
  if (typeof job === 'string') {
    await engine.close()
    return stalled.endings?.includes(job) === true ? undefined : `not started: ${job}`
  }
  const outcome = engine.sources.waitForJob(job).then(() => 'success', codeOf)
  if (end !== undefined) {
    await pause(50)
    // A job that has already ended cannot be aborted.
    await end(engine, job).catch((error: unknown) => {
      if (stalled.endings === undefined) throw error
    })
  }
  const code = await outcome
  await engine.close()
  return expected.includes(code) ? undefined : `${code} instead of ${errorCode}`
}

function codeOf(error: unknown): string {
  return error instanceof EngineError ? (error.details['errorCode'] ?? error.reason) : String(error)
}

async function within(work: Promise<string | undefined>): Promise<string | undefined> {
  const timer = new AbortController()
  const late = pause(patienceMs, 'it hangs', { signal: timer.signal })
  late.catch(() => undefined)
  try {
    return await Promise.race([work, late])
  } finally {
    timer.abort()
  }
}

async function stopsOnSignal(): Promise<string | undefined> {
  const child = fork(join(await compiledAttacks(), 'stalling-child.js'))
  await once(child, 'message')
  const exited = once(child, 'exit').then(([code]) => (code === 0 ? undefined : `gives code ${String(code)}`))
  child.kill('SIGTERM')
  const wrong = await within(exited)
  if (wrong !== undefined) child.kill('SIGKILL')
  return wrong
}
