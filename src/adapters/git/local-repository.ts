import { promises } from 'node:fs'
import { dirname, isAbsolute, join, resolve, sep } from 'node:path'
import { EngineError, invalid } from '../../engine/ports.js'
import { errorCode, readOptional } from './local-files.js'
import { writeObjects } from './local-objects.js'
import { LocalRefs } from './local-refs.js'
import { formatOf, type ObjectFormat } from './object-id.js'
import type { ObjectSource } from './object-source.js'
import { openObjectStore, type ObjectStore } from './object-store.js'
import { createPacer } from './pacer.js'
import { branchMoved, pushRejected } from './remote-errors.js'
import type { PushRequest, RemoteRefs, Repository, RevisionRequest } from './repository.js'

/**
 * A repository directory of this host: bare, with a `.git` directory, or a linked worktree. It and every
 * directory that it refers to must lie below one of the roots, by real path, else PERMISSION_DENIED.
 */
export async function openLocalRepository(path: string, roots: readonly string[]): Promise<Repository> {
  if (!isAbsolute(path)) throw invalid('repositoryPath', 'must be an absolute path')
  return explained(() => open(path, roots))
}

async function open(path: string, roots: readonly string[]): Promise<Repository> {
  const allowed = await realRoots(roots)
  const directory = await allowedPath(path, allowed)
  if (directory === undefined) {
    throw new EngineError('GIT_REPO_NOT_FOUND', 'there is no such directory', { path })
  }
  const gitDir = await findGitDir(directory, allowed)
  if (gitDir === undefined) throw notARepository(path)
  const common = (await readOptional(join(gitDir, 'commondir')))?.trim()
  const commonDir = common === undefined ? gitDir : await allowedPath(resolve(gitDir, common), allowed)
  if (commonDir === undefined) throw notARepository(path)
  const format = await readFormat(commonDir, path)
  const objectDirs = await findObjectDirs(commonDir, allowed)
  return new LocalRepository({ gitDir, commonDir, objectDirs, allowed, format })
}

interface Places {
  /** Holds HEAD. */
  readonly gitDir: string
  /** Holds refs and objects; differs for a linked worktree. */
  readonly commonDir: string
  /** The object directory and its alternates. */
  readonly objectDirs: readonly string[]
  readonly allowed: readonly string[]
  readonly format: ObjectFormat
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
    const refs = await explained(() => this.#refs.list(prefixes))
    signal.throwIfAborted()
    return { refs, symrefs: new Map(), peeled: new Map() }
  }

  async openObjects(request: RevisionRequest): Promise<ObjectSource> {
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
    }
  }

  push(request: PushRequest): Promise<void> {
    return explained(() => this.#push(request))
  }

  async close(): Promise<void> {
    await Promise.all(this.#stores.map((store) => store.close()))
  }

  async #push({ ref, expectedOid, newOid, pack, signal }: PushRequest): Promise<void> {
    const { commonDir, format } = this.#places
    if (formatOf(newOid) !== format) throw pushRejected('the repository is of another object format', '')
    const tip = await this.#refs.read(ref)
    if (tip === newOid) return
    if (tip !== null && tip !== expectedOid) throw branchMoved(ref, expectedOid, tip)
    await this.#refuseCheckedOut(ref)
    await writeObjects(join(commonDir, 'objects'), pack, format, createPacer(signal))
    signal.throwIfAborted()
    await this.#refs.compareAndSet({ ref, expectedOid: tip, newOid })
  }

  /** Moving the branch under a working directory would make all its files look changed. */
  async #refuseCheckedOut(ref: string): Promise<void> {
    const { commonDir } = this.#places
    const worktrees = await promises.readdir(join(commonDir, 'worktrees')).catch(() => [])
    const gitDirs = worktrees.map((name) => join(commonDir, 'worktrees', name))
    if (!(await isBare(commonDir))) gitDirs.push(commonDir)
    for (const gitDir of gitDirs) {
      const head = await readOptional(join(gitDir, 'HEAD'))
      if (head?.trim() === `ref: ${ref}`) throw pushRejected('branch is currently checked out', '')
    }
  }
}

/** Gives an error of the file system the form of the others. */
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

/** As they are, but told of as they come. */
async function* counted(
  chunks: AsyncIterable<Uint8Array>,
  onBytes: (count: number) => void,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const chunk of chunks) {
    onBytes(chunk.length)
    yield chunk
  }
}

async function realRoots(roots: readonly string[]): Promise<string[]> {
  const real = await Promise.all(roots.map((root) => promises.realpath(root).catch(() => undefined)))
  return real.filter((root) => root !== undefined)
}

/** The real path; undefined when it does not exist. Throws PERMISSION_DENIED outside the roots. */
async function allowedPath(path: string, roots: readonly string[]): Promise<string | undefined> {
  let existing = resolve(path)
  let real: string | undefined
  // What does not exist is judged by where it would be, so that the answer tells nothing about other places.
  while ((real = await promises.realpath(existing).catch(() => undefined)) === undefined) {
    existing = dirname(existing)
  }
  const below = roots.some((root) => real === root || real.startsWith(root.endsWith(sep) ? root : root + sep))
  if (!below) throw new EngineError('PERMISSION_DENIED', 'the path is outside the allowed roots', { path })
  return existing === resolve(path) ? real : undefined
}

async function findGitDir(directory: string, roots: readonly string[]): Promise<string | undefined> {
  const dotGit = join(directory, '.git')
  const pointer = /^gitdir: (.+)$/m.exec((await readOptional(dotGit)) ?? '')?.[1]
  const candidates = [pointer === undefined ? dotGit : resolve(directory, pointer), directory]
  for (const candidate of candidates) {
    const gitDir = await allowedPath(candidate, roots)
    if (gitDir !== undefined && (await readOptional(join(gitDir, 'HEAD'))) !== undefined) return gitDir
  }
  return undefined
}

async function readFormat(commonDir: string, path: string): Promise<ObjectFormat> {
  const config = (await readOptional(join(commonDir, 'config'))) ?? ''
  if (/^\s*refstorage\s*=\s*"?reftable/im.test(config)) {
    throw new EngineError('GIT_NOT_A_REPOSITORY', 'the format of the repository is not supported', { path })
  }
  const complete = await Promise.all(
    ['objects', 'refs'].map((name) => promises.stat(join(commonDir, name)).catch(() => undefined)),
  )
  if (!complete.every((stat) => stat?.isDirectory() === true)) throw notARepository(path)
  return /^\s*objectformat\s*=\s*"?sha256/im.test(config) ? 'sha256' : 'sha1'
}

async function isBare(commonDir: string): Promise<boolean> {
  return /^\s*bare\s*=\s*true\s*$/im.test((await readOptional(join(commonDir, 'config'))) ?? '')
}

/** Alternates may have alternates; each must lie below the roots. */
async function findObjectDirs(commonDir: string, roots: readonly string[]): Promise<string[]> {
  const found: string[] = []
  const pending = [join(commonDir, 'objects')]
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
    const directory = await allowedPath(next, roots)
    if (directory === undefined || found.includes(directory)) continue
    found.push(directory)
    const alternates = (await readOptional(join(directory, 'info', 'alternates'))) ?? ''
    for (const line of alternates.split('\n')) {
      if (line !== '' && !line.startsWith('#')) pending.push(resolve(directory, line))
    }
  }
  return found
}

function notARepository(path: string): EngineError {
  return new EngineError('GIT_NOT_A_REPOSITORY', 'the directory is no git repository', { path })
}
