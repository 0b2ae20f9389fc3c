import { isAbsolute, resolve } from 'node:path'
import { EngineError, given, invalid, itemAt, TimeSlice } from '../../../engine/ports.js'
import { Roots } from '../../host/index.js'
import { gitLimits } from '../limits.js'
import { errorCode } from './local-files.js'
import { writeObjects } from './local-objects.js'
import { LocalRefs } from './local-refs.js'
import { formatOf, type ObjectFormat } from '../objects/object-id.js'
import type { RevisionSource } from '../objects/revision-objects.js'
import { openObjectStore, type ObjectStore } from './object-store.js'
import { branchMoved, pushRejected } from '../remote/remote-errors.js'
import type { PushRequest, RemoteRefs, Repository, RevisionRequest } from '../repository.js'
import { parseRepositoryConfig } from './repository-config.js'
import { RepositoryDirectory } from './repository-directory.js'

/**
 * Opens a repository on this host: a bare one, one with a `.git` directory, or a linked worktree. Throws
 * GIT_REPO_NOT_FOUND if the directory does not exist. Throws PERMISSION_DENIED if its real path, or that of a
 * directory that it refers to, is outside the roots. Throws GIT_NOT_A_REPOSITORY if it is not a repository,
 * or contains special files or symlinks in place of git's regular files and directories (see
 * RepositoryDirectory).
 */
export async function openLocalRepository(path: string, roots: readonly string[]): Promise<Repository> {
  if (!isAbsolute(path)) throw invalid('repositoryPath', `must be an absolute path; it is ${given(path)}`)
  return explained(() => open(path, roots))
}

async function open(path: string, rootPaths: readonly string[]): Promise<Repository> {
  const roots = new Roots(rootPaths)
  const opened: RepositoryDirectory[] = []
  /** Records a directory, so that it is closed together with the repository. */
  const keep = <T extends RepositoryDirectory | undefined>(directory: T): T => {
    if (directory !== undefined) opened.push(directory)
    return directory
  }
  try {
    const directory = keep(await RepositoryDirectory.open(path, roots))
    if (directory === undefined) {
      throw new EngineError('GIT_REPO_NOT_FOUND', 'the directory does not exist', { path })
    }
    const gitDir = keep(await findGitDir(directory, roots)) ?? directory
    if ((await gitDir.kind('HEAD')) === undefined) throw notARepository(path)
    const common = (await gitDir.readPlaces('commondir'))?.trim()
    const commonDir =
      common === undefined
        ? gitDir
        : keep(await RepositoryDirectory.open(resolve(gitDir.path, common), roots))
    if (commonDir === undefined) throw notARepository(path)
    const { format, isBare } = parseRepositoryConfig((await commonDir.readText('config')) ?? '', path)
    const objects = keep(await commonDir.enter('objects'))
    const refs = keep(await commonDir.enter('refs'))
    if (objects === undefined || refs === undefined) throw notARepository(path)
    const objectDirs = [objects]
    for await (const alternate of alternatesOf(objects, roots)) objectDirs.push(keep(alternate))
    return new LocalRepository({ gitDir, commonDir, objectDirs, opened, format, isBare })
  } catch (error) {
    await closeAll(opened)
    throw error
  }
}

interface Places {
  /** Contains HEAD. */
  readonly gitDir: RepositoryDirectory
  /** Contains refs and objects. In a linked worktree, it differs from `gitDir`. */
  readonly commonDir: RepositoryDirectory
  /** The object directory and its alternates. */
  readonly objectDirs: readonly RepositoryDirectory[]
  /** All open directories. */
  readonly opened: readonly RepositoryDirectory[]
  readonly format: ObjectFormat
  readonly isBare: boolean
}

class LocalRepository implements Repository {
  readonly #places: Places
  readonly #refs: LocalRefs
  readonly #stores: ObjectStore[] = []

  constructor(places: Places) {
    this.#places = places
    this.#refs = new LocalRefs(places)
  }

  format(): Promise<ObjectFormat> {
    return Promise.resolve(this.#places.format)
  }

  async listRefs({
    prefixes,
    signal,
  }: {
    prefixes: readonly string[]
    signal: AbortSignal
  }): Promise<RemoteRefs> {
    const refs = await explained(() => this.#refs.list(prefixes, new TimeSlice(performance, signal)))
    signal.throwIfAborted()
    return { refs, symrefs: new Map(), peeled: new Map() }
  }

  async openObjects(request: RevisionRequest): Promise<RevisionSource> {
    const { want, signal } = request
    const onBytes = (count: number): void => request.onBytes(count)
    const { objectDirs, format } = this.#places
    const store = await explained(() => openObjectStore(objectDirs, format, signal))
    this.#stores.push(store)
    if (!(await explained(() => store.has(want)))) {
      throw new EngineError('GIT_REF_NOT_FOUND', `the repository has no object ${want}`, { gitRef: want })
    }
    return {
      async read(oid) {
        const object = await explained(() => store.read(oid))
        onBytes(object.body.length)
        return object
      },
      async readBlob(oid) {
        const chunks = await explained(() => store.readBlob(oid))
        return chunks === undefined ? undefined : counted(chunks, onBytes)
      },
      history: () =>
        Promise.resolve((oid) =>
          explained(async () => ((await store.has(oid)) ? store.read(oid) : undefined)),
        ),
    }
  }

  push(request: PushRequest): Promise<void> {
    return explained(() => this.#push(request))
  }

  async close(): Promise<void> {
    await Promise.all(this.#stores.map((store) => store.close()))
    await closeAll(this.#places.opened)
  }

  async #push({ ref, expectedOid, newOid, pack, signal }: PushRequest): Promise<void> {
    const { objectDirs, format } = this.#places
    if (formatOf(newOid) !== format) throw pushRejected('the repository is of another object format', '')
    const slice = new TimeSlice(performance, signal)
    const tip = await this.#refs.read(ref, slice)
    if (tip === newOid) return
    if (tip !== null && tip !== expectedOid) throw branchMoved(ref, expectedOid, tip)
    await this.#refuseCheckedOut(ref)
    await writeObjects(itemAt(objectDirs, 0), pack, format, slice)
    signal.throwIfAborted()
    await this.#refs.compareAndSet({ ref, expectedOid: tip, newOid }, slice)
  }

  /**
   * Refuses to move a checked-out branch. Otherwise the files of the working directory would appear modified.
   */
  async #refuseCheckedOut(ref: string): Promise<void> {
    const { commonDir, isBare } = this.#places
    const worktrees = await commonDir.list('worktrees')
    const heads = worktrees.map(({ name }) => `worktrees/${name}/HEAD`)
    if (!isBare) heads.push('HEAD')
    for (const head of heads) {
      if ((await readHead(commonDir, head)) === `ref: ${ref}`)
        throw pushRejected('branch is currently checked out', '')
    }
  }
}

/** Converts errors of the file system to GIT_REMOTE_ERROR. */
async function explained<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const errno = errorCode(error)
    if (error instanceof EngineError || errno === undefined || error instanceof DOMException) throw error
    throw new EngineError(
      'GIT_REMOTE_ERROR',
      `the repository cannot be used: ${errno}`,
      { errno },
      { cause: error },
    )
  }
}

/** Yields the chunks unchanged and reports the size of each. */
async function* counted(
  chunks: AsyncIterable<Uint8Array>,
  onBytes: (count: number) => void,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const chunk of chunks) {
    onBytes(chunk.length)
    yield chunk
  }
}

/**
 * Opens the `.git` directory, or the directory to which a `.git` file points. Returns undefined if there is
 * none.
 */
async function findGitDir(
  directory: RepositoryDirectory,
  roots: Roots,
): Promise<RepositoryDirectory | undefined> {
  const kind = await directory.kind('.git')
  if (kind === undefined) return undefined
  // A symlink is resolved like the path of the repository. Its target must be below the roots.
  if (kind !== 'file' && kind !== 'other') return gitDirAt(resolve(directory.path, '.git'), roots)
  const pointer = /^gitdir: (.+)$/m.exec((await directory.readPlaces('.git')) ?? '')?.[1]
  return pointer === undefined ? undefined : gitDirAt(resolve(directory.path, pointer), roots)
}

async function gitDirAt(path: string, roots: Roots): Promise<RepositoryDirectory | undefined> {
  const gitDir = await RepositoryDirectory.open(path, roots)
  if (gitDir === undefined || (await gitDir.kind('HEAD')) !== undefined) return gitDir
  await gitDir.close()
  return undefined
}

/** Returns the text of a HEAD file. A symlink, which old versions of git created, reads as a symbolic ref. */
async function readHead(commonDir: RepositoryDirectory, path: string): Promise<string | undefined> {
  if ((await commonDir.kind(path)) === 'symlink') return `ref: ${await commonDir.readLink(path)}`
  return (await commonDir.readText(path))?.trim()
}

/**
 * Opens the directories listed in `info/alternates`, and recursively those listed in their `info/alternates`.
 * Each must be below the roots.
 */
async function* alternatesOf(
  objects: RepositoryDirectory,
  roots: Roots,
): AsyncGenerator<RepositoryDirectory> {
  const seen = new Set([objects.path])
  const pending = [objects]
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
    const text = (await next.readPlaces('info/alternates')) ?? ''
    for (const line of text.split('\n')) {
      if (line === '' || line.startsWith('#')) continue
      const path = resolve(next.path, line)
      if (seen.has(path)) continue
      if (seen.size === gitLimits.objectDirectories) throw tooManyAlternates()
      seen.add(path)
      const alternate = await RepositoryDirectory.open(path, roots)
      if (alternate === undefined) continue
      yield alternate
      pending.push(alternate)
    }
  }
}

async function closeAll(directories: readonly RepositoryDirectory[]): Promise<void> {
  await Promise.all(directories.map((directory) => directory.close()))
}

function tooManyAlternates(): EngineError {
  return new EngineError(
    'GIT_TOO_LARGE',
    `the repository has over ${gitLimits.objectDirectories} object directories in info/alternates`,
    { limit: String(gitLimits.objectDirectories) },
  )
}

function notARepository(path: string): EngineError {
  return new EngineError('GIT_NOT_A_REPOSITORY', 'the directory is not a git repository', { path })
}
