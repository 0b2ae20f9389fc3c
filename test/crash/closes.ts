import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { levelStorage } from '../../src/adapters/level/index.js'
import { EngineError, memoryStorage, openEngine, type Session } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { Verifier } from './verifier.js'
import { Workload } from './workload.js'

export interface CloseOptions {
  readonly closes: number
  readonly seed: number
  readonly onProgress: (line: string) => void
}

export interface CloseResult {
  closes: number
  acknowledged: number
  /** Calls made after the engine was closed. */
  late: number
  lost: number
  torn: number
}

const closesPerStore = 20

/** Closes engines with calls in progress. Accepted calls must be stored, later calls rejected. */
export async function runCloses(options: CloseOptions): Promise<CloseResult> {
  const random = randomWords(options.seed)
  const result: CloseResult = { closes: 0, acknowledged: 0, late: 0, lost: 0, torn: 0 }
  while (result.closes < options.closes && result.lost + result.torn === 0) {
    const directory = await mkdtemp(join(tmpdir(), 'close-'))
    const onDisk = random() % 2 === 0
    const storage = onDisk
      ? levelStorage(directory, { durability: random() % 2 === 0 ? 'full' : 'relaxed' })
      : memoryStorage({ durable: true })
    const verifier = new Verifier(random, options.onProgress)
    const workload = new Workload(verifier, random)
    for (let i = 0; i < closesPerStore && result.closes < options.closes && !verifier.damaged; i++) {
      const engine = await openEngine({ storage })
      await verifier.check(engine)
      await workload.open(engine)
      const { sessions } = await engine.sessions.list({ pageSize: 1 })
      const session = await engine.sessions.open(sessions[0]!.id)
      const running = workload.run(200, 1 + (random() % 32))
      await turns(random() % 400)
      const closing = engine.close()
      // A call may still be accepted while the engine closes.
      const late = await isRefused(session)
      const failures = await running
      for (const failure of failures)
        if (failure.reason !== 'STORE_CLOSED') throw new Error('a call failed otherwise', { cause: failure })
      result.late += failures.length
      await closing
      if (!(await isRefused(session))) throw new Error('a write was taken after the close')
      if (late) result.late++
      result.closes++
    }
    const engine = await openEngine({ storage })
    await verifier.check(engine)
    await engine.close()
    result.acknowledged += verifier.acknowledged
    result.lost += verifier.lost
    result.torn += verifier.torn
    await rm(directory, { recursive: true })
    options.onProgress(`${result.closes}/${options.closes} closes, ${result.acknowledged} acknowledged`)
  }
  return result
}

async function isRefused(session: Session): Promise<boolean> {
  try {
    await session.files.read({ path: '/late' })
    return false
  } catch (error) {
    if (error instanceof EngineError && error.reason === 'PATH_NOT_FOUND') return false
    if (error instanceof EngineError && error.reason === 'STORE_CLOSED') return true
    throw error
  }
}

/** Waits for turns of the event loop, some of which let disk operations proceed. */
async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    if (i % 16 === 0) await new Promise((resolve) => setImmediate(resolve))
    else await Promise.resolve()
  }
}
