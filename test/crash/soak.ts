import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { levelStorage } from '../../src/adapters/level/index.js'
import { memoryStorage, openEngine, type Engine, type Session } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { filesIn } from './bitrot.js'

export interface SoakOptions {
  readonly minutes: number
  readonly seed: number
  readonly onProgress: (line: string) => void
}

export interface SoakResult {
  operations: number
  rejections: number
  /** The least-squares slope of each measure on each storage, over the second half of the time. */
  readonly slopes: Slope[]
}

export interface Slope {
  readonly what: string
  readonly perMinute: number
  readonly mean: number
  readonly grows: boolean
}

type Sample = Readonly<Record<string, number>>

const liveSessions = 12
const filesPerSession = 40
/** Memory and files fluctuate within less time than this. */
const settledMinutes = 1
/**
 * A measure grows when its line rises by this share of its mean over the time, and by at least this many of its units.
 */
const grownPart = 0.3
const grownBy: Sample = { heapMB: 16, rssMB: 64, externalMB: 16, descriptors: 8, storeMB: 32 }

/** Uses all features of a store for a long time, and detects memory and files that grow without bound. */
export async function runSoak(options: SoakOptions): Promise<SoakResult> {
  let rejections = 0
  const note = (reason: unknown): void => {
    rejections++
    options.onProgress(`nobody handles ${String(reason)}`)
  }
  process.on('unhandledRejection', note)
  const directory = await mkdtemp(join(tmpdir(), 'soak-'))
  const result: SoakResult = { operations: 0, rejections: 0, slopes: [] }
  try {
    for (const name of ['level', 'memory'] as const) {
      const storage = name === 'level' ? levelStorage(join(directory, 'data')) : memoryStorage()
      const engine = await openEngine({ storage })
      const soak = new Soak(engine, randomWords(options.seed))
      const samples = await soak.run(
        options.minutes * 30_000,
        name === 'level' ? directory : undefined,
        (line) => options.onProgress(`${name}: ${line}`),
      )
      result.operations += soak.operations
      result.slopes.push(...slopesOf(name, samples, options.minutes / 2))
      await engine.close()
    }
  } finally {
    process.off('unhandledRejection', note)
    await rm(directory, { recursive: true })
  }
  result.rejections = rejections
  return result
}

/** Creates, changes, forks, restores and deletes sessions, keeping their number roughly constant. */
class Soak {
  operations = 0
  readonly #engine: Engine
  readonly #random: () => number
  readonly #sessions: Session[] = []

  constructor(engine: Engine, random: () => number) {
    this.#engine = engine
    this.#random = random
  }

  async run(
    ms: number,
    directory: string | undefined,
    onProgress: (line: string) => void,
  ): Promise<Sample[]> {
    const samples: Sample[] = []
    const end = performance.now() + ms
    const everyMs = Math.max(100, ms / 60)
    let next = performance.now() + everyMs
    while (performance.now() < end) {
      await Promise.all(Array.from({ length: 8 }, () => this.#operate()))
      if (performance.now() < next) continue
      for (const session of this.#sessions) await session.pruneCheckpoints({ keepLast: 10 })
      await this.#engine.collect()
      samples.push(await measure(directory))
      if (samples.length % 10 === 0)
        onProgress(`${this.operations} operations, ${JSON.stringify(samples.at(-1))}`)
      next = performance.now() + everyMs
    }
    return samples
  }

  async #operate(): Promise<void> {
    this.operations++
    const kind = this.#random() % 100
    if (this.#sessions.length < 3 || (kind < 2 && this.#sessions.length < liveSessions)) {
      this.#sessions.push(await this.#engine.sessions.create())
      return
    }
    const at = this.#random() % this.#sessions.length
    const session = this.#sessions[at]!
    const path = `/${this.#random() % filesPerSession}`
    if (kind < 4 && this.#sessions.length > 4) {
      this.#sessions.splice(at, 1)
      // Other calls may still be using it.
      await session.delete().catch(expected)
    } else await this.#use(session, kind, path).catch(expected)
  }

  async #use(session: Session, kind: number, path: string): Promise<void> {
    if (kind < 7 && this.#sessions.length < liveSessions) this.#sessions.push(await session.fork({}))
    else if (kind < 12)
      await session.checkpoint({ checkpointLabel: `c${this.#random() % 4}-${this.operations}` })
    else if (kind < 15) await this.#restore(session)
    else if (kind < 30) await session.cache.put({ key: path, value: Buffer.from(path) })
    else if (kind < 40) await session.cache.get({ key: path })
    else if (kind < 45) await session.bus.publish({ topic: 'n', payload: Buffer.from(path) })
    else if (kind < 60) await session.files.read({ path })
    else if (kind < 65) await session.files.delete({ path })
    else if (kind < 68) await session.manifest({ pageSize: 100 })
    else await session.files.write({ path, content: Buffer.alloc(this.#random() % 5000, this.operations) })
  }

  async #restore(session: Session): Promise<void> {
    const { checkpoints } = await session.listCheckpoints({ pageSize: 5 })
    const last = checkpoints.at(-1)
    if (last !== undefined) await session.restore({ checkpointLabel: last.checkpointLabel })
  }
}

const refusals = new Set(['NOT_FOUND', 'SESSION_NOT_FOUND', 'ALREADY_EXISTS', 'FAILED_PRECONDITION'])

/** Accepts the errors for a session that another call deleted and for a missing file. */
function expected(error: unknown): void {
  const code = (error as { code?: unknown }).code
  if (typeof code !== 'string' || !refusals.has(code)) throw error
}

async function measure(directory: string | undefined): Promise<Sample> {
  globalThis.gc?.()
  const { heapUsed, rss, external } = process.memoryUsage()
  const descriptors = await readdir('/proc/self/fd').then(
    (names) => names.length,
    () => 0,
  )
  const sample = { heapMB: heapUsed / 1e6, rssMB: rss / 1e6, externalMB: external / 1e6, descriptors }
  return directory === undefined ? sample : { ...sample, storeMB: (await bytesIn(directory)) / 1e6 }
}

async function bytesIn(directory: string): Promise<number> {
  let bytes = 0
  for (const path of await filesIn(directory)) {
    bytes += await stat(path).then(
      ({ size }) => size,
      () => 0,
    )
  }
  return bytes
}

/** Only the second half is used, because caches fill during the first. */
function slopesOf(storage: string, samples: readonly Sample[], minutes: number): Slope[] {
  const half = samples.slice(Math.floor(samples.length / 2))
  const names = Object.keys(half[0] ?? {})
  return names.map((name) => {
    const values = half.map((sample) => sample[name]!)
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length
    const rise = slope(values) * values.length
    const counts = minutes >= settledMinutes || name === 'descriptors'
    const grows = counts && rise > grownPart * mean && rise > grownBy[name]!
    return { what: `${storage} ${name}`, perMinute: rise / (minutes / 2), mean, grows }
  })
}

/** The least-squares slope per step. */
function slope(values: readonly number[]): number {
  const middle = (values.length - 1) / 2
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length
  let [up, across] = [0, 0]
  for (const [at, value] of values.entries()) {
    up += (at - middle) * (value - mean)
    across += (at - middle) ** 2
  }
  return across === 0 ? 0 : up / across
}
