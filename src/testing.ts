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

/** Options of {@link fixedEnvironment}. */
export interface FixedEnvironmentOptions {
  /** The start of both clocks, in milliseconds since 1970; 2025-01-01T00:00:00Z by default. */
  readonly startMs?: number
  /** The milliseconds by which each read of a clock advances it; 1 by default. With 0, time does not pass. */
  readonly stepMs?: number
  /** Seed of the random bytes; 1 by default. The same seed gives the same ids. */
  readonly seed?: number
}

const fixedNames = { startMs: true, stepMs: true, seed: true } as const

const fixedShape = new Shape<FixedEnvironmentOptions>(fixedNames)

/** An environment whose clocks move only by `stepMs` at each read, and by `advance`. */
export interface FixedEnvironment extends Environment {
  /**
   * Moves both clocks forward by `ms` milliseconds.
   *
   * @example
   * const environment = fixedEnvironment()
   * environment.advance(60_000)
   */
  advance(ms: number): void
}

/**
 * Creates an environment with reproducible clocks and random bytes: the same calls give the same ids and
 * times in every run. Use it only for tests, because the ids can be guessed.
 *
 * @throws {EngineError} INVALID_ARGUMENT if an option is unknown or not a finite number.
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

/** The options of `openEngine` without `storage`, and those of {@link fixedEnvironment}. */
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

/**
 * Opens an in-memory engine with a {@link fixedEnvironment}, which suits most tests.
 *
 * @throws {EngineError} INVALID_ARGUMENT if an option is unknown or has the wrong form.
 *
 * @example
 * const engine = await openTestEngine({ seed: 7 })
 * const session = await engine.sessions.create({ files: { '/a.txt': 'one' } })
 */
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
 * Writes files into a session, in the format of memfs. Keys are paths. Relative paths start at `cwd`, `/` by
 * default. Values are contents, and null creates a directory. Missing parents are created, and existing files
 * are replaced. The call is not atomic. For an atomic write, use `session.files.batch`, or
 * `engine.sessions.create` for the first files of a session. Other errors are those of `session.fs.promises`.
 *
 * @throws {EngineError} INVALID_ARGUMENT if an argument has the wrong type.
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
 * Reads the files at and below a path. The result maps absolute paths to contents as UTF-8 text, sorted by
 * path within each directory. Tests can compare it or pass it to {@link fromJSON}. Empty directories are
 * null. As in memfs, symlinks in `path` itself are followed, and symlinks below it are omitted. A missing
 * path gives an empty object.
 *
 * @returns an object without a prototype.
 * @throws {EngineError} INVALID_ARGUMENT if `session` is not a session.
 *
 * @example
 * const files = await toJSON(session, '/app/src') // { '/app/src/a.ts': 'export const a = 1' }
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

/**
 * Creates a random number generator for test data. It returns integers from 0 to 2^32 − 1, and the same seed
 * gives the same numbers. The algorithm is "mulberry32" by Tommy Ettinger.
 *
 * @example
 * const next = randomWords(7)
 * const dice = 1 + (next() % 6)
 */
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
