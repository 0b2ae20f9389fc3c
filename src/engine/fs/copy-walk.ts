import { loaded } from '../base/slices.js'
import type { LiveSession } from '../session/table/live.js'
import { findNode } from '../session/reads/lookup.js'
import { Dir, Symlink, type FileNode, type Node } from '../tree/node.js'
import { plainPath, resolvePath, slashed } from './plain-path.js'
import { locate, type Call, type Context } from './calls.js'
import { mkdir, symlink, unlink, utimes } from './change-calls.js'
import { copyFile } from './copy-file.js'
import type { CopyOptions } from './copy-options.js'
import { cannotCopy, copyError, intoItself, isBelow } from './copy-errors.js'
import { codeOf, systemError, toSystemError, type SystemCall } from './errors.js'
import { listDirectory } from './listing.js'

/** One of the calls of which a copy is made. */
export interface CopyStep {
  readonly path: string
  readonly call: Call<unknown>
}

/** What the walk asks for: that something is loaded, the answer of the caller's filter, or time for others. */
export interface Question {
  readonly kind: 'load' | 'filter' | 'pause'
  readonly result: unknown
}

type Walk<T> = Generator<Question, T, unknown>

/**
 * Looks at everything that `cp` is to copy, by Node's rules, and gathers what is to be done. Changes nothing.
 * What changes meanwhile is found as it was or as it is then.
 */
export class CopyWalk {
  readonly names: SystemCall
  readonly steps: CopyStep[] = []
  readonly #ends: readonly [src: string, dest: string]
  readonly #context: Context
  readonly #options: CopyOptions
  #live!: LiveSession

  constructor(context: Context, { src, dest }: { src: string; dest: string }, options: CopyOptions) {
    this.#context = context
    this.#options = options
    this.#ends = [src, dest]
    this.names = { syscall: 'cp', path: src, dest }
  }

  *run(live: LiveSession): Walk<void> {
    this.#live = live
    const [src, dest] = this.#ends
    const found = yield* this.#check(src, dest)
    if (found === undefined) return
    yield* this.#checkParents(found.source, src, dest)
    const parent = resolvePath(dest, '..')
    if ((yield* this.#find('stat', parent, true)) === undefined)
      this.#step(parent, mkdir(this.#context, parent, { recursive: true }))
    yield* this.#copy(found, src, dest)
  }

  /** Both ends, checked; undefined when the filter leaves them out. */
  *#check(src: string, dest: string): Walk<Ends | undefined> {
    const { filter, dereference } = this.#options
    if (filter !== undefined && !(yield { kind: 'filter', result: filter(src, dest) })) return undefined
    const syscall = dereference ? 'stat' : 'lstat'
    const source = yield* this.#find(syscall, src)
    const target = yield* this.#find(syscall, dest, true)
    if (target !== undefined) {
      if (target.ino === source.ino) throw cannotCopy('src and dest cannot be the same', dest)
      if (source instanceof Dir && !(target instanceof Dir)) {
        throw copyError('ERR_FS_CP_DIR_TO_NON_DIR', 'Cannot overwrite non-directory with directory', {
          code: 'EISDIR',
          message: `cannot overwrite non-directory ${dest} with directory ${src}`,
          path: dest,
        })
      }
      if (!(source instanceof Dir) && target instanceof Dir) {
        throw copyError('ERR_FS_CP_NON_DIR_TO_DIR', 'Cannot overwrite directory with non-directory', {
          code: 'ENOTDIR',
          message: `cannot overwrite directory ${dest} with non-directory ${src}`,
          path: dest,
        })
      }
    }
    if (source instanceof Dir && isBelow(src, dest)) throw intoItself(src, dest)
    return { source, target }
  }

  /** Errors name the path just below the source. */
  *#checkParents(source: Node, src: string, dest: string): Walk<void> {
    const end = resolvePath(src, '..')
    let child = dest
    for (
      let parent = resolvePath(dest, '..');
      parent !== end && parent !== '/';
      parent = resolvePath(parent, '..')
    ) {
      const node = yield* this.#find('stat', parent, true)
      if (node === undefined) return
      if (node.ino === source.ino) throw intoItself(src, child)
      child = parent
    }
  }

  *#copy({ source, target }: Ends, src: string, dest: string): Walk<void> {
    if (source instanceof Dir) {
      if (!this.#options.recursive) {
        throw copyError('ERR_FS_EISDIR', 'Path is a directory', {
          code: 'EISDIR',
          message: `${src} is a directory (not copied)`,
          path: src,
          // The number does not fit the code, as in Node.
          ...(this.#context.form === 'sync' ? { errno: einval } : {}),
        })
      }
      yield* this.#copyDirectory(source, target, src, dest)
    } else if (source instanceof Symlink) yield* this.#copySymlink(source, target, src, dest)
    else this.#copyFile(source, target, src, dest)
  }

  #copyFile(source: FileNode, target: Node | undefined, src: string, dest: string): void {
    const { force, errorOnExist, mode, preserveTimestamps } = this.#options
    if (target !== undefined && !force) {
      if (!errorOnExist) return
      const what = { code: 'EEXIST', message: `${dest} already exists`, path: dest }
      throw copyError('ERR_FS_CP_EEXIST', 'Target already exists', what)
    }
    if (target !== undefined) this.#step(dest, unlink(this.#context, dest))
    this.#step(dest, copyFile(this.#context, src, dest, mode))
    if (!preserveTimestamps) return
    const time = new Date(Math.round(source.mtime))
    this.#step(dest, utimes(this.#context, dest, time, time))
  }

  *#copyDirectory(source: Dir, target: Node | undefined, src: string, dest: string): Walk<void> {
    if (target === undefined) this.#step(dest, mkdir(this.#context, dest, { mode: source.mode }))
    const names = yield* this.#ask(() => listDirectory(this.#live, source, '', {}) as string[])
    for (const name of names) {
      yield { kind: 'pause', result: undefined }
      const ends: [string, string] = [resolvePath(src, name), resolvePath(dest, name)]
      const found = yield* this.#check(...ends)
      if (found !== undefined) yield* this.#copy(found, ...ends)
    }
  }

  *#copySymlink(source: Symlink, target: Node | undefined, src: string, dest: string): Walk<void> {
    const kept = this.#options.verbatimSymlinks || source.target.startsWith('/')
    const text = kept ? source.target : resolvePath(resolvePath(src, '..'), source.target)
    if (target !== undefined) {
      if (!(target instanceof Symlink)) throw systemError('EEXIST', { syscall: 'symlink', path: text, dest })
      yield* this.#checkTargets(text, resolvePath(resolvePath(dest, '..'), target.target), src, dest)
      this.#step(dest, unlink(this.#context, dest))
    }
    this.#step(dest, symlink(this.#context, text, dest))
  }

  /** Where the symlinks at both ends lead. A relative text is in no directory, as there is no working one. */
  *#checkTargets(text: string, there: string, src: string, dest: string): Walk<void> {
    const placed = text.startsWith('/')
    if (placed && isBelow(text, there)) throw intoItself(text, there, dest)
    const led = yield* this.#find('stat', this.#context.form === 'sync' ? dest : src)
    if (!(led instanceof Dir) || !placed || !isBelow(there, text)) return
    throw copyError('ERR_FS_CP_SYMLINK_TO_SUBDIRECTORY', 'Cannot overwrite symlink in subdirectory of self', {
      code: 'EINVAL',
      message: `cannot overwrite ${there} with ${text}`,
      path: dest,
    })
  }

  #find(syscall: string, path: string): Walk<Node>
  #find(syscall: string, path: string, optional: true): Walk<Node | undefined>
  *#find(syscall: string, path: string, optional = false): Walk<Node | undefined> {
    try {
      return yield* this.#ask(() =>
        findNode(this.#live, locate(this.#live, path), syscall === 'stat' || slashed(path)),
      )
    } catch (thrown) {
      if (optional && codeOf(thrown) === 'ENOENT') return undefined
      throw toSystemError(thrown, { syscall, path })
    }
  }

  *#ask<T>(look: () => T): Walk<T> {
    const work = loaded(look)
    for (;;) {
      const { done, value } = work.next()
      if (done === true) return value
      yield { kind: 'load', result: value }
    }
  }

  #step(path: string, call: Call<unknown>): void {
    this.steps.push({ path: plainPath(path), call })
  }
}

interface Ends {
  readonly source: Node
  readonly target: Node | undefined
}

const einval = 22
