import {
  given,
  invalid,
  memoryStorage,
  Shape,
  type Engine,
  type Environment,
  type Session,
} from './engine/index.js'
import { openEngine, type EngineOptions } from './index.js'

export interface FixedEnvironmentOptions {
  /** Where both clocks start, in milliseconds since the epoch; 2025-01-01T00:00:00Z by default. */
  readonly startMs?: number
  /** What each look at a clock adds, in milliseconds; 1 by default, 0 stops time. */
  readonly stepMs?: number
  /** Seed of the random bytes; the same seed gives the same ids. */
  readonly seed?: number
}

const fixedNames = { startMs: true, stepMs: true, seed: true } as const

const fixedShape = new Shape<FixedEnvironmentOptions>(fixedNames)

/** A clock that moves only as told. */
export interface FixedEnvironment extends Environment {
  /** Moves both clocks on. */
  advance(ms: number): void
}

/**
 * Clocks and randomness that repeat: the same calls give the same ids and times in every run. Not for
 * anything but tests: the ids can be guessed.
 *
 * @example
 * const environment = fixedEnvironment({ seed: 7 })
 * const engine = await openEngine({ environment })
 */
export function fixedEnvironment(options: FixedEnvironmentOptions = {}): FixedEnvironment {
  const { startMs = Date.UTC(2025, 0, 1), stepMs = 1, seed = 1 } = fixedShape.read(options, 'options')
  for (const [name, value] of Object.entries({ startMs, stepMs, seed }))
    if (!Number.isFinite(value)) throw invalid(name, `must be a number; it is ${given(value)}`)
  let now = startMs
  const random = randomWords(seed)
  const tick = (): number => {
    now += stepMs
    return now
  }
  return {
    wallClockMs: tick,
    monotonicMs: tick,
    advance: (ms) => {
      now += ms
    },
    randomFill: (bytes) => {
      const words = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
      for (let i = 0; i < bytes.length; i++) words.setUint8(i, random() & 255)
    },
  }
}

export type TestEngineOptions = Omit<EngineOptions, 'storage'> & FixedEnvironmentOptions

const testShape = new Shape<TestEngineOptions>({
  ...fixedNames,
  environment: true,
  maxFileBytes: true,
  cacheBytes: true,
  memoryBudgetBytes: true,
  budgets: true,
  automaticCollection: true,
  sessionTtlSeconds: true,
  git: true,
  authorize: true,
  log: true,
  secrets: true,
  hostPaths: true,
  imports: true,
  allowGitNames: true,
  approvals: true,
})

/** An engine in memory with a {@link fixedEnvironment}: what most tests want. */
export async function openTestEngine(options: TestEngineOptions = {}): Promise<Engine> {
  const { startMs, stepMs, seed, ...rest } = testShape.read(options, 'options')
  const fixed = {
    ...(startMs !== undefined && { startMs }),
    ...(stepMs !== undefined && { stepMs }),
    ...(seed !== undefined && { seed }),
  }
  return openEngine({ environment: fixedEnvironment(fixed), ...rest })
}

export { memoryStorage }

/**
 * Writes files into a session, as memfs does: keys are paths, relative ones start at `cwd` (`/` by default);
 * missing parents are made, files that exist are replaced, and null makes a directory. Not atomic: for that,
 * and for files of a session from its beginning, see `session.files.batch` and `engine.sessions.create`.
 * The errors are those of `session.fs.promises`.
 *
 * @example
 * await fromJSON(session, { 'package.json': '{}', 'src/a.ts': 'export const a = 1', empty: null }, '/app')
 */
export async function fromJSON(
  session: Session,
  files: Readonly<Record<string, string | Uint8Array | null>>,
  cwd = '/',
): Promise<void> {
  const { promises } = viewOf(session)
  if (typeof files !== 'object' || files === null)
    throw invalid('files', `must be an object of contents by their paths; it is ${given(files)}`)
  if (typeof cwd !== 'string') throw invalid('cwd', `must be a string; it is ${given(cwd)}`)
  for (const [name, content] of Object.entries(files)) {
    const path = name.startsWith('/') ? name : `${cwd}/${name}`
    await promises.mkdir(content === null ? path : `${path}/..`, { recursive: true })
    if (content !== null) await promises.writeFile(path, content)
  }
}

/**
 * The files at and below a path by their absolute paths, with their contents as text, sorted by path within
 * each directory: what {@link fromJSON} takes, and what a test compares. Empty directories are null. As with
 * memfs, symlinks on the way are followed in `path` and left out below it, and nothing at `path` gives an
 * object without entries.
 *
 * @returns an object without a prototype.
 *
 * @example
 * expect(await toJSON(session, '/app/src')).toEqual({ '/app/src/a.ts': 'export const a = 1' })
 */
export async function toJSON(session: Session, path = '/'): Promise<Record<string, string | null>> {
  const { promises } = viewOf(session)
  const found = Object.create(null) as Record<string, string | null>
  const start = await promises.realpath(path).catch(nothingThere)
  if (start === undefined) return found
  if ((await promises.stat(start)).isFile()) {
    found[start] = await promises.readFile(start, 'utf8')
    return found
  }
  const addDirectory = async (directory: string): Promise<void> => {
    const entries = await promises.readdir(directory === '' ? '/' : directory, { withFileTypes: true })
    if (entries.length === 0 && directory !== '') found[directory] = null
    for (const entry of entries) {
      const child = `${directory}/${entry.name}`
      if (entry.isDirectory()) await addDirectory(child)
      else if (entry.isFile()) found[child] = await promises.readFile(child, 'utf8')
    }
  }
  await addDirectory(start === '/' ? '' : start)
  return found
}

function nothingThere(error: unknown): undefined {
  if ((error as { code?: string }).code !== 'ENOENT') throw error
}

/** 32-bit numbers for test data that repeat for a seed: the generator "mulberry32" of Tommy Ettinger. */
export function randomWords(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let word = Math.imul(state ^ (state >>> 15), state | 1)
    word = (word + Math.imul(word ^ (word >>> 7), word | 61)) ^ word
    return (word ^ (word >>> 14)) >>> 0
  }
}

function viewOf(session: Session): Session['fs'] {
  if (typeof session?.fs !== 'object') throw invalid('session', `must be a session; it is ${given(session)}`)
  return session.fs
}
