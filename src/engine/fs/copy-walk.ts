import { Fault } from '../base/fault.js'
import { resolvePath } from './resolve-path.js'
import type { CopyFilter, CopyOptions } from './copy-options.js'
import { cannotCopy, copyError, intoItself, isBelow } from './copy-errors.js'
import { codeOf, systemError, toSystemError } from './errors.js'

/** A file, directory or symlink at one end of a copy. */
export interface CopyNode {
  readonly kind: 'file' | 'directory' | 'symlink'
  readonly inode: number
  readonly mode: number
  readonly mtimeMs: number
}

/**
 * A question that the walk asks its driver. The driver returns the answer described below, or throws the
 * failure into the walk.
 */
export type CopyQuestion =
  /** Answer: a {@link CopyNode}. */
  | { readonly ask: 'find'; readonly path: string; readonly syscall: 'stat' | 'lstat' }
  /** Answer: the target text of a symlink. */
  | { readonly ask: 'readlink'; readonly path: string }
  /** Answer: the names in a directory. */
  | { readonly ask: 'readdir'; readonly path: string }
  /** Answer: the result of the filter. */
  | { readonly ask: 'filter'; readonly filter: CopyFilter; readonly src: string; readonly dest: string }

/** A change that is part of the copy. */
export type CopyStep =
  | { readonly op: 'mkdir'; readonly path: string; readonly recursive?: true; readonly mode?: number }
  | { readonly op: 'copyFile'; readonly src: string; readonly path: string; readonly mode: number }
  | { readonly op: 'symlink'; readonly target: string; readonly path: string }
  | { readonly op: 'unlink'; readonly path: string }
  | { readonly op: 'utimes'; readonly path: string; readonly time: Date }

type Walk<T> = Generator<CopyQuestion, T, unknown>

/** Runs a walk to its end and returns its steps. */
export async function runWalk(
  walk: Walk<readonly CopyStep[]>,
  answer: (question: CopyQuestion) => unknown,
): Promise<readonly CopyStep[]> {
  let turn = walk.next()
  while (turn.done !== true) {
    let found: unknown
    try {
      found = await answer(turn.value)
    } catch (thrown) {
      turn = walk.throw(thrown)
      continue
    }
    turn = walk.next(found)
  }
  return turn.value
}

/** The synchronous form of {@link runWalk}. */
export function runWalkNow(
  walk: Walk<readonly CopyStep[]>,
  answer: (question: CopyQuestion) => unknown,
): readonly CopyStep[] {
  let turn = walk.next()
  while (turn.done !== true) {
    let found: unknown
    try {
      found = answer(turn.value)
    } catch (thrown) {
      turn = walk.throw(thrown)
      continue
    }
    turn = walk.next(found)
  }
  return turn.value
}

interface Ends {
  readonly source: CopyNode
  readonly target: CopyNode | undefined
}

/**
 * Visits everything that `cp` will copy, by Node's rules, and collects the steps of the copy. It changes
 * nothing. `isSync` selects two details in which Node's `cpSync` differs.
 */
export class CopyWalk {
  readonly #options: CopyOptions
  readonly #isSync: boolean
  readonly #steps: CopyStep[] = []

  constructor(options: CopyOptions, { isSync }: { readonly isSync: boolean }) {
    this.#options = options
    this.#isSync = isSync
  }

  *run(src: string, dest: string): Walk<readonly CopyStep[]> {
    const found = yield* this.#check(src, dest)
    if (found === undefined) return this.#steps
    yield* this.#checkParents(found.source, src, dest)
    const parent = resolvePath(dest, '..')
    if ((yield* this.#find('stat', parent, true)) === undefined)
      this.#steps.push({ op: 'mkdir', path: parent, recursive: true })
    yield* this.#copy(found, src, dest)
    return this.#steps
  }

  /**
   * Finds and checks both ends; undefined if the filter excludes them. Nothing is looked up for a `missing`
   * target.
   */
  *#check(src: string, dest: string, missing = false): Walk<Ends | undefined> {
    const { filter, dereference } = this.#options
    if (filter !== undefined && !(yield { ask: 'filter', filter, src, dest })) return undefined
    const syscall = dereference ? 'stat' : 'lstat'
    const source = yield* this.#find(syscall, src)
    const target = missing ? undefined : yield* this.#find(syscall, dest, true)
    if (target !== undefined) {
      if (target.inode === source.inode) throw cannotCopy('src and dest cannot be the same', dest)
      const [isDirectory, wasDirectory] = [source.kind === 'directory', target.kind === 'directory']
      if (isDirectory && !wasDirectory) {
        throw copyError('ERR_FS_CP_DIR_TO_NON_DIR', 'Cannot overwrite non-directory with directory', {
          code: 'EISDIR',
          message: `cannot overwrite non-directory ${dest} with directory ${src}`,
          path: dest,
        })
      }
      if (!isDirectory && wasDirectory) {
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

  /** Errors contain the path directly below the source: `dest` or one of its ancestors. */
  *#checkParents(source: CopyNode, src: string, dest: string): Walk<void> {
    const end = resolvePath(src, '..')
    let child = dest
    for (
      let parent = resolvePath(dest, '..');
      parent !== end && parent !== '/';
      parent = resolvePath(parent, '..')
    ) {
      const node = yield* this.#find('stat', parent, true)
      if (node === undefined) return
      if (node.inode === source.inode) throw intoItself(src, child)
      child = parent
    }
  }

  *#copy({ source, target }: Ends, src: string, dest: string): Walk<void> {
    if (source.kind === 'symlink') yield* this.#copySymlink(target, src, dest)
    else if (source.kind === 'file') this.#copyFile(source, target, src, dest)
    else if (this.#options.recursive) yield* this.#copyDirectory(source, target, src, dest)
    else {
      throw copyError('ERR_FS_EISDIR', 'Path is a directory', {
        code: 'EISDIR',
        message: `${src} is a directory (not copied)`,
        path: src,
        // As in Node, the number does not match the code.
        ...(this.#isSync && { errno: einval }),
      })
    }
  }

  #copyFile(source: CopyNode, target: CopyNode | undefined, src: string, dest: string): void {
    const { force, errorOnExist, mode, preserveTimestamps } = this.#options
    if (target !== undefined && !force) {
      if (!errorOnExist) return
      const what = { code: 'EEXIST', message: `${dest} already exists`, path: dest }
      throw copyError('ERR_FS_CP_EEXIST', 'Target already exists', what)
    }
    if (target !== undefined) this.#steps.push({ op: 'unlink', path: dest })
    this.#steps.push({ op: 'copyFile', src, path: dest, mode })
    if (preserveTimestamps)
      this.#steps.push({ op: 'utimes', path: dest, time: new Date(Math.round(source.mtimeMs)) })
  }

  *#copyDirectory({ mode }: CopyNode, target: CopyNode | undefined, src: string, dest: string): Walk<void> {
    if (target === undefined) this.#steps.push({ op: 'mkdir', path: dest, mode })
    for (const name of (yield { ask: 'readdir', path: src }) as readonly string[]) {
      const ends: [string, string] = [resolvePath(src, name), resolvePath(dest, name)]
      const found = yield* this.#check(...ends, target === undefined)
      if (found !== undefined) yield* this.#copy(found, ...ends)
    }
  }

  *#copySymlink(target: CopyNode | undefined, src: string, dest: string): Walk<void> {
    const own = (yield { ask: 'readlink', path: src }) as string
    const kept = this.#options.verbatimSymlinks || own.startsWith('/')
    const text = kept ? own : resolvePath(resolvePath(src, '..'), own)
    if (target !== undefined) {
      if (target.kind !== 'symlink') throw systemError('EEXIST', { syscall: 'symlink', path: text, dest })
      const there = (yield { ask: 'readlink', path: dest }) as string
      yield* this.#checkTargets(text, resolvePath(resolvePath(dest, '..'), there), src, dest)
      this.#steps.push({ op: 'unlink', path: dest })
    }
    this.#steps.push({ op: 'symlink', target: text, path: dest })
  }

  /**
   * Checks the targets of the symlinks at both ends. A relative target is below no directory, because a
   * session has no working directory.
   */
  *#checkTargets(text: string, there: string, src: string, dest: string): Walk<void> {
    const placed = text.startsWith('/')
    if (placed && isBelow(text, there)) throw intoItself(text, there, dest)
    const led = yield* this.#find('stat', this.#isSync ? dest : src)
    if (led.kind !== 'directory' || !placed || !isBelow(there, text)) return
    throw copyError('ERR_FS_CP_SYMLINK_TO_SUBDIRECTORY', 'Cannot overwrite symlink in subdirectory of self', {
      code: 'EINVAL',
      message: `cannot overwrite ${there} with ${text}`,
      path: dest,
    })
  }

  #find(syscall: 'stat' | 'lstat', path: string): Walk<CopyNode>
  #find(syscall: 'stat' | 'lstat', path: string, optional: true): Walk<CopyNode | undefined>
  *#find(syscall: 'stat' | 'lstat', path: string, optional = false): Walk<CopyNode | undefined> {
    try {
      return (yield { ask: 'find', path, syscall }) as CopyNode
    } catch (thrown) {
      if (thrown instanceof Fault) throw thrown
      if (optional && codeOf(thrown) === 'ENOENT') return undefined
      throw toSystemError(thrown, { syscall, path })
    }
  }
}

const einval = 22
