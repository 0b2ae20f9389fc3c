import type { PathStat } from '../../../engine/index.js'
import {
  cannotCopy,
  codeOf,
  copyError,
  givenPath,
  intoItself,
  isBelow,
  resolvePath,
  slashed,
  systemError,
  toCopyOptions,
  toSystemError,
  type CopyOptions,
} from '../../../engine/wire.js'
import type { RemoteFiles } from '../files.js'
import type { changesOf } from './changes.js'
import { locate } from './context.js'
import type { readsOf } from './reads.js'

interface Ends {
  readonly source: PathStat
  readonly target: PathStat | undefined
}

interface Calls extends ReturnType<typeof changesOf>, ReturnType<typeof readsOf> {}

/**
 * `cp` by Node's rules: looks at everything first, and changes nothing when that fails. Each step is a change of
 * its own; contents do not leave the server.
 */
export class RemoteCopy {
  readonly #files: RemoteFiles
  readonly #calls: Calls
  readonly #src: string
  readonly #dest: string
  readonly #options: CopyOptions
  readonly #steps: (() => Promise<unknown>)[] = []

  constructor(files: RemoteFiles, calls: Calls, [src, dest, options]: readonly unknown[]) {
    this.#files = files
    this.#calls = calls
    this.#options = toCopyOptions(options)
    this.#src = givenPath(src, 'src')
    this.#dest = givenPath(dest, 'dest')
  }

  async run(): Promise<void> {
    const [src, dest] = [this.#src, this.#dest]
    try {
      const found = await this.#check(src, dest)
      if (found === undefined) return
      await this.#checkParents(found.source, src, dest)
      const parent = resolvePath(dest, '..')
      if ((await this.#find('stat', parent, true)) === undefined)
        this.#steps.push(() => this.#calls.mkdir(parent, { recursive: true }))
      await this.#copy(found, src, dest)
      for (const step of this.#steps) await step()
    } catch (thrown) {
      throw toSystemError(thrown, { syscall: 'cp', path: src, dest })
    }
  }

  /** Both ends, checked; undefined when the filter leaves them out. Nothing is below what is not there. */
  async #check(src: string, dest: string, missing = false): Promise<Ends | undefined> {
    const { filter, dereference } = this.#options
    if (filter !== undefined && !(await filter(src, dest))) return undefined
    const syscall = dereference ? 'stat' : 'lstat'
    const source = (await this.#find(syscall, src))!
    const target = missing ? undefined : await this.#find(syscall, dest, true)
    if (target !== undefined) {
      if (target.inode === source.inode) throw cannotCopy('src and dest cannot be the same', dest)
      const [isDir, wasDir] = [source.kind === 'directory', target.kind === 'directory']
      if (isDir && !wasDir) {
        throw copyError('ERR_FS_CP_DIR_TO_NON_DIR', 'Cannot overwrite non-directory with directory', {
          code: 'EISDIR',
          message: `cannot overwrite non-directory ${dest} with directory ${src}`,
          path: dest,
        })
      }
      if (!isDir && wasDir) {
        throw copyError('ERR_FS_CP_NON_DIR_TO_DIR', 'Cannot overwrite directory with non-directory', {
          code: 'ENOTDIR',
          message: `cannot overwrite directory ${dest} with non-directory ${src}`,
          path: dest,
        })
      }
    }
    if (source.kind === 'directory' && isBelow(src, dest)) throw intoItself(src, dest)
    return { source, target }
  }

  /** Errors name the path just below the source. */
  async #checkParents(source: PathStat, src: string, dest: string): Promise<void> {
    const end = resolvePath(src, '..')
    let child = dest
    for (
      let parent = resolvePath(dest, '..');
      parent !== end && parent !== '/';
      parent = resolvePath(parent, '..')
    ) {
      const found = await this.#find('stat', parent, true)
      if (found === undefined) return
      if (found.inode === source.inode) throw intoItself(src, child)
      child = parent
    }
  }

  async #copy({ source, target }: Ends, src: string, dest: string): Promise<void> {
    if (source.kind === 'symlink') await this.#copySymlink(target, src, dest)
    else if (source.kind === 'file') this.#copyFile(source, target, src, dest)
    else if (this.#options.recursive) await this.#copyDirectory(source, target, src, dest)
    else {
      throw copyError('ERR_FS_EISDIR', 'Path is a directory', {
        code: 'EISDIR',
        message: `${src} is a directory (not copied)`,
        path: src,
      })
    }
  }

  #copyFile(source: PathStat, target: PathStat | undefined, src: string, dest: string): void {
    const { force, errorOnExist, mode, preserveTimestamps } = this.#options
    if (target !== undefined && !force) {
      if (!errorOnExist) return
      const what = { code: 'EEXIST', message: `${dest} already exists`, path: dest }
      throw copyError('ERR_FS_CP_EEXIST', 'Target already exists', what)
    }
    if (target !== undefined) this.#steps.push(() => this.#calls.unlink(dest))
    this.#steps.push(() => this.#calls.copyFile(src, dest, mode))
    if (!preserveTimestamps) return
    const time = new Date(Math.round(source.mtimeMs))
    this.#steps.push(() => this.#calls.utimes(dest, time, time))
  }

  async #copyDirectory(
    { mode }: PathStat,
    target: PathStat | undefined,
    src: string,
    dest: string,
  ): Promise<void> {
    if (target === undefined) this.#steps.push(() => this.#calls.mkdir(dest, { mode }))
    for (const name of (await this.#calls.readdir(src)) as string[]) {
      const ends: [string, string] = [resolvePath(src, name), resolvePath(dest, name)]
      const found = await this.#check(...ends, target === undefined)
      if (found !== undefined) await this.#copy(found, ...ends)
    }
  }

  async #copySymlink(target: PathStat | undefined, src: string, dest: string): Promise<void> {
    const own = (await this.#calls.readlink(src)) as string
    const kept = this.#options.verbatimSymlinks || own.startsWith('/')
    const text = kept ? own : resolvePath(resolvePath(src, '..'), own)
    if (target !== undefined) {
      if (target.kind !== 'symlink') throw systemError('EEXIST', { syscall: 'symlink', path: text, dest })
      const there = (await this.#calls.readlink(dest)) as string
      await this.#checkTargets(text, resolvePath(resolvePath(dest, '..'), there), src, dest)
      this.#steps.push(() => this.#calls.unlink(dest))
    }
    this.#steps.push(() => this.#calls.symlink(text, dest))
  }

  /** Where the symlinks at both ends lead. A relative text is in no directory, as there is no working one. */
  async #checkTargets(text: string, there: string, src: string, dest: string): Promise<void> {
    const placed = text.startsWith('/')
    if (placed && isBelow(text, there)) throw intoItself(text, there, dest)
    const led = (await this.#find('stat', src))!
    if (led.kind !== 'directory' || !placed || !isBelow(there, text)) return
    throw copyError('ERR_FS_CP_SYMLINK_TO_SUBDIRECTORY', 'Cannot overwrite symlink in subdirectory of self', {
      code: 'EINVAL',
      message: `cannot overwrite ${there} with ${text}`,
      path: dest,
    })
  }

  async #find(syscall: 'stat' | 'lstat', path: string, optional = false): Promise<PathStat | undefined> {
    try {
      const followSymlinks = syscall === 'stat' || slashed(path)
      return await this.#files.stat({ path: await locate(this.#files, path), followSymlinks })
    } catch (thrown) {
      if (optional && codeOf(thrown) === 'ENOENT') return undefined
      throw toSystemError(thrown, { syscall, path })
    }
  }
}
