import { setTimeout } from 'node:timers/promises'
import type { FileHandle } from 'node:fs/promises'
import { EngineError, isRefName, KeyedMutex, type TimeSlice } from '../../../engine/ports.js'
import type { DirectoryHandle } from '../../host/index.js'
import { gitLimits } from '../limits.js'
import { errorCode } from './local-files.js'
import { isObjectId } from '../objects/object-id.js'
import { branchMoved, pushRejected } from '../remote/remote-errors.js'
import { create, remove, rename, type RepositoryDirectory } from './repository-directory.js'

interface RefChange {
  readonly ref: string
  /** Null if the ref must not exist. */
  readonly expectedOid: string | null
  readonly newOid: string
}

/**
 * The refs of a repository directory: files below `refs`, and lines of `packed-refs` for refs without a file.
 */
export class LocalRefs {
  readonly #gitDir: RepositoryDirectory
  readonly #commonDir: RepositoryDirectory

  constructor(places: { readonly gitDir: RepositoryDirectory; readonly commonDir: RepositoryDirectory }) {
    this.#gitDir = places.gitDir
    this.#commonDir = places.commonDir
  }

  /** Lists the refs whose names start with one of the prefixes, or all refs if there are no prefixes. */
  async list(prefixes: readonly string[], slice: TimeSlice): Promise<Map<string, string>> {
    const packed = await this.#packed(slice)
    const names = new Set<string>()
    const files = new Set(await this.#loose('refs', slice))
    for (const group of [['HEAD'], packed.keys(), files]) {
      for (const name of group) {
        if (slice.over) await slice.next()
        if (prefixes.length === 0 || prefixes.some((prefix) => name.startsWith(prefix))) names.add(name)
      }
    }
    // The listing omits some refs, such as those below a symlink. Reading such a ref by its name throws an
    // error with the cause.
    for (const prefix of prefixes) if (isRefName(prefix)) names.add(prefix)
    const refs = new Map<string, string>()
    for (const name of names) {
      if (slice.over) await slice.next()
      const known = prefixes.includes(name) || mayHaveFile(name, files) ? undefined : packed.get(name)
      const { oid, damaged } =
        known === undefined ? await this.#resolve(name, packed) : { oid: known, damaged: undefined }
      // A damaged ref does not hide the others, unless the caller asks for it by its name.
      if (damaged !== undefined && prefixes.includes(name)) throw damagedRef(damaged)
      if (oid !== undefined) refs.set(name, oid)
    }
    return refs
  }

  /**
   * Returns the id that a ref points to, or null if there is no such ref. Follows symbolic refs. Throws
   * GIT_CORRUPT for a damaged ref, which must not pass for a missing one.
   */
  async read(name: string, slice: TimeSlice): Promise<string | null> {
    const { oid, damaged } = await this.#resolve(name, await this.#packed(slice))
    if (damaged !== undefined) throw damagedRef(damaged)
    return oid ?? null
  }

  /** Returns the id that a ref points to, or the name of the damaged ref on the way to it. */
  async #resolve(
    name: string,
    packed: ReadonlyMap<string, string>,
  ): Promise<{ readonly oid?: string | undefined; readonly damaged?: string }> {
    let ref = name
    for (let depth = 0; depth < gitLimits.symrefDepth; depth++) {
      const text = await this.#text(ref)
      if (text === undefined) return { oid: packed.get(ref) }
      const target = symrefTarget(text)
      if (target === undefined) return isObjectId(text) ? { oid: text } : { damaged: ref }
      if (!isRefName(target)) return { damaged: ref }
      ref = target
    }
    return { damaged: ref }
  }

  /**
   * Sets the ref to `newOid` under git's own lock, if it still points to `expectedOid`. Otherwise throws
   * BRANCH_MOVED. Throws GIT_PUSH_REJECTED if the ref is symbolic or its name conflicts with another ref, and
   * GIT_REMOTE_ERROR if another process keeps the lock.
   */
  async compareAndSet(change: RefChange, slice: TimeSlice): Promise<void> {
    const { ref } = change
    await this.#refuseNameConflict(ref, slice)
    const place = this.#directoryOf(ref)
    // Writers of this process wait here, so that the wait for git's lock is only for other processes.
    await writers.run(`${place.path}/${ref}`, () => this.#setLocked(place, change, slice))
  }

  async #setLocked(
    place: RepositoryDirectory,
    { ref, expectedOid, newOid }: RefChange,
    slice: TimeSlice,
  ): Promise<void> {
    await place.inParent(ref, async (directory, name) => {
      const lock = `${name}.lock`
      const file = await openLock(directory, lock)
      try {
        try {
          if (symrefTarget((await this.#text(ref)) ?? '') !== undefined) {
            throw pushRejected('the branch is a symbolic ref', '')
          }
          const tip = await this.read(ref, slice)
          if (tip !== expectedOid) throw branchMoved(ref, expectedOid, tip)
          await file.writeFile(`${newOid}\n`)
          await file.sync()
        } finally {
          await file.close()
        }
        await rename(directory, lock, name)
      } catch (error) {
        await remove(directory, lock)
        throw error
      }
    })
  }

  /**
   * Returns the trimmed text of a loose ref. A symlink to a ref, which old versions of git created, reads as
   * a symbolic ref.
   */
  async #text(ref: string): Promise<string | undefined> {
    const directory = this.#directoryOf(ref)
    if ((await directory.kind(ref)) === 'symlink') {
      const target = await directory.readLink(ref)
      if (target?.startsWith('refs/') === true) return `ref: ${target}`
    }
    return (await directory.readText(ref))?.trim()
  }

  #directoryOf(ref: string): RepositoryDirectory {
    // HEAD and other names outside `refs` belong to the worktree.
    return ref.startsWith('refs/') ? this.#commonDir : this.#gitDir
  }

  async #packed(slice: TimeSlice): Promise<Map<string, string>> {
    const refs = new Map<string, string>()
    const text = (await this.#commonDir.readText('packed-refs', gitLimits.refsBytes)) ?? ''
    for (let start = 0, end = 0; start < text.length; start = end + 1) {
      if (slice.over) await slice.next()
      end = text.indexOf('\n', start)
      if (end < 0) end = text.length
      const line = text.slice(start, end)
      // Comments, and the ids that tags peel to.
      if (line === '' || line.startsWith('#') || line.startsWith('^')) continue
      const [, oid, name] = /^([0-9a-f]{40}|[0-9a-f]{64}) (.+)$/s.exec(line) ?? []
      if (oid === undefined || name === undefined)
        throw new EngineError('GIT_CORRUPT', 'the file packed-refs has a line that is not an id and a ref')
      // As in git, a ref with another name does not exist. Such a name could also lead out of the repository.
      if (name.startsWith('refs/') && isRefName(name)) refs.set(name, oid)
    }
    return refs
  }

  async #loose(directory: string, slice: TimeSlice, names: string[] = []): Promise<string[]> {
    // Git cannot use longer paths either.
    if (directory.length > gitLimits.refNameBytes) return names
    for (const { name, kind } of await this.#commonDir.list(directory, gitLimits.refs - names.length)) {
      if (slice.over) await slice.next()
      const ref = `${directory}/${name}`
      if (kind === 'directory') await this.#loose(ref, slice, names)
      else if (isRefName(ref)) names.push(ref)
    }
    return names
  }

  /** A branch `a` and a branch `a/b` cannot both exist. */
  async #refuseNameConflict(ref: string, slice: TimeSlice): Promise<void> {
    for (const names of [(await this.#packed(slice)).keys(), await this.#loose('refs/heads', slice)]) {
      for (const name of names) {
        if (slice.over) await slice.next()
        if (name.startsWith(`${ref}/`) || ref.startsWith(`${name}/`))
          throw pushRejected(`${ref} conflicts with ${name}`, '')
      }
    }
    // Deleted branches may have left empty directories.
    await this.#commonDir.removeEmptyDirectories(ref)
  }
}

/**
 * Whether a ref may have a file, according to a listing of all files. Looking for the files of a million packed refs
 * takes minutes. A listing has no long paths, and no files below a symlink.
 */
function mayHaveFile(name: string, files: ReadonlySet<string>): boolean {
  if (name === 'HEAD' || name.length > gitLimits.refNameBytes || files.has(name)) return true
  for (let cut = name.lastIndexOf('/'); cut > 0; cut = name.lastIndexOf('/', cut - 1))
    if (files.has(name.slice(0, cut))) return true
  return false
}

/** The turns of the writers in this process, by the path of the ref. */
const writers = new KeyedMutex()

function damagedRef(ref: string): EngineError {
  return new EngineError(
    'GIT_CORRUPT',
    `the ref ${ref} is damaged: it does not lead to an id. Set it to a commit with git update-ref, or delete it`,
    { ref },
  )
}

function symrefTarget(text: string): string | undefined {
  return /^ref: *(\S+)$/.exec(text)?.[1]
}

async function openLock(directory: DirectoryHandle, lock: string): Promise<FileHandle> {
  const end = performance.now() + gitLimits.lockWaitMs
  for (;;) {
    try {
      return await create(directory, lock, 0o644)
    } catch (error) {
      if (errorCode(error) !== 'EEXIST') throw error
      if (performance.now() > end)
        throw new EngineError(
          'GIT_REMOTE_ERROR',
          'another git process holds the lock of the branch; try again later',
        )
      await setTimeout(gitLimits.lockRetryMs)
    }
  }
}
