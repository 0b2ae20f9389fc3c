import { resolve } from 'node:path'
import {
  given,
  invalid,
  oneOf,
  Shape,
  type Engine,
  type ForkRequest,
  type Session,
} from '../../engine/index.js'
import { fromJSON } from './tree-json.js'

/** The files of a fixture. Pass exactly one of the fields. */
export interface FixtureBase {
  /** Contents by path, as in {@link fromJSON}: relative paths start at `/`, and null creates a directory. */
  readonly files?: Readonly<Record<string, string | Uint8Array | null>>
  /** A directory of this machine. Relative paths start at the working directory of the process. */
  readonly directory?: string
  /** A git repository on this machine. */
  readonly gitRepository?: FixtureRepository
  /** A tar, optionally with gzip, or a zip. */
  readonly archive?: Uint8Array | AsyncIterable<Uint8Array>
}

/** A git repository on this machine. */
export interface FixtureRepository {
  /** The directory of the repository. Relative paths start at the working directory of the process. */
  readonly path: string
  /** A branch, a tag or a commit id. `HEAD` by default. */
  readonly gitRef?: string
}

const baseShape = new Shape<FixtureBase>({
  files: true,
  directory: true,
  gitRepository: true,
  archive: true,
})
const repositoryShape = new Shape<FixtureRepository>({ path: true, gitRef: true })

/** Opens the engine of a fixture, with access to these directories of the host. */
export type OpenFixtureEngine = (roots: readonly string[]) => Promise<Engine>

/** A session of one test. `using` or `await using` deletes it at the end of the block. */
export type FixtureSession = Session & Disposable & AsyncDisposable

/** Files that tests share. Each test forks them. */
export class Fixture implements AsyncDisposable {
  /** The engine that has the fixture. */
  readonly engine: Engine
  /** The session that tests fork. Changes of it are visible in later forks. */
  readonly session: Session
  /** Deletions that were started and not awaited. */
  readonly #deletions = new Set<Promise<void>>()

  /** @internal */
  constructor(engine: Engine, session: Session) {
    this.engine = engine
    this.session = session
  }

  /**
   * A session with the files of the fixture. It takes microseconds for a fixture of any size, and no fork sees changes
   * of another.
   *
   * @throws {EngineError} STORE_CLOSED after the fixture was closed.
   *
   * @example
   * await using project = await fixture({ files: { '/a.ts': 'a', '/b.ts': 'b' } })
   * await using session = await project.fork()
   * await session.fs.promises.rm('/a.ts')
   */
  async fork(request: ForkRequest = {}): Promise<FixtureSession> {
    const session = await this.session.fork(request)
    return Object.assign(session, {
      [Symbol.dispose]: (): void => this.#delete(session),
      [Symbol.asyncDispose]: (): Promise<void> => deleted(session),
    })
  }

  /**
   * Closes the engine with all forks. Further calls do nothing.
   *
   * @throws {EngineError} STORE_FAILED when a session could not be deleted.
   *
   * @example
   * const project = await fixture({ files: { '/a.ts': 'a' } })
   * await project.close()
   */
  async close(): Promise<void> {
    await Promise.all(this.#deletions)
    await this.engine.close()
  }

  /** {@link close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #delete(session: Session): void {
    const deletion = deleted(session).finally(() => this.#deletions.delete(deletion))
    // `close` reports a failure.
    deletion.catch(() => undefined)
    this.#deletions.add(deletion)
  }
}

/** Creates a fixture from its base. */
export async function createFixture(open: OpenFixtureEngine, base: FixtureBase): Promise<Fixture> {
  const parsed = baseShape.read(base, 'base')
  const { files, directory, gitRepository, archive } = parsed
  if (Object.keys(parsed).length !== 1)
    throw invalid('base', oneOf(parsed, 'files, directory, gitRepository, archive'))
  if (files !== undefined) {
    const engine = await open([])
    return new Fixture(engine, await closedOnError(engine, () => sessionOfFiles(engine, files)))
  }
  const repository = gitRepository && repositoryShape.readPart(gitRepository, 'gitRepository')
  const path = archive === undefined ? resolve(textOf('path', directory ?? repository?.path)) : undefined
  const engine = await open(path === undefined ? [] : [path])
  const create =
    repository !== undefined && path !== undefined
      ? { gitRepository: { path } }
      : path !== undefined
        ? { hostPath: { path } }
        : { uploadedSnapshot: {} }
  const load =
    repository?.gitRef !== undefined
      ? { git: { gitRef: repository.gitRef } }
      : archive !== undefined
        ? { uploadedSnapshot: { content: archive } }
        : {}
  const session = await closedOnError(engine, async () => {
    const { sourceId } = await engine.sources.create({ displayName: 'fixture', ...create })
    const { revisionId } = await engine.sources.waitForJob(await engine.sources.startImport(sourceId, load))
    return engine.sessions.create({ sourceRef: { sourceId, revisionId } })
  })
  return new Fixture(engine, session)
}

async function sessionOfFiles(engine: Engine, files: NonNullable<FixtureBase['files']>): Promise<Session> {
  const session = await engine.sessions.create()
  await fromJSON(session, files)
  return session
}

async function closedOnError<T>(engine: Engine, make: () => Promise<T>): Promise<T> {
  try {
    return await make()
  } catch (error) {
    await engine.close()
    throw error
  }
}

/** Deletes a session, unless the test has done so, or has closed the engine. */
async function deleted(session: Session): Promise<void> {
  try {
    await session.delete()
  } catch (error) {
    const { reason } = error as { readonly reason?: string }
    if (reason !== 'SESSION_NOT_FOUND' && reason !== 'STORE_CLOSED') throw error
  }
}

function textOf(name: string, value: unknown): string {
  if (typeof value !== 'string') throw invalid(name, `must be a path; it is ${given(value)}`)
  return value
}
