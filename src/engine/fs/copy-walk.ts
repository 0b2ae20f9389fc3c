import { loaded } from '../base/slices.js'
import { planSetAttributes } from '../session/attributes.js'
import { planCopyFile } from '../session/copies.js'
import type { Core } from '../session/core.js'
import { planCreateDirectory, planDelete } from '../session/files.js'
import { planCreateSymlink } from '../session/links.js'
import type { LiveSession } from '../session/live.js'
import { findNode } from '../session/lookup.js'
import type { Plan } from '../session/plan.js'
import { Dir, FileNode, Symlink, type Node } from '../tree/node.js'
import { resolvePath } from './arguments.js'
import { locate } from './calls.js'
import type { CopyOptions } from './copy-options.js'
import { codeOf, composedError, systemError, toSystemError } from './errors.js'
import { listDirectory } from './listing.js'

export interface CopyStep {
  readonly path: string
  readonly plan: (live: LiveSession) => Plan
}

/** What the walk asks for: that something is loaded, or the answer of the caller's filter. */
export interface Question {
  readonly kind: 'load' | 'filter'
  readonly result: unknown
}

type Walk<T> = Generator<Question, T, unknown>

/** Looks at everything that `cp` is to copy, by Node's rules, and gathers what is to be done. Changes nothing. */
export class CopyWalk {
  readonly src: string
  readonly dest: string
  readonly steps: CopyStep[] = []
  readonly #core: Core
  readonly #options: CopyOptions
  #live!: LiveSession

  constructor(core: Core, { src, dest }: { src: string; dest: string }, options: CopyOptions) {
    this.#core = core
    this.#options = options
    this.src = src
    this.dest = dest
  }

  *run(live: LiveSession): Walk<void> {
    this.#live = live
    const { src, dest } = this
    const found = yield* this.#check(src, dest)
    if (found === undefined) return
    yield* this.#checkParents(found.source, src, dest)
    const parent = resolvePath(dest, '..')
    if ((yield* this.#find('stat', parent, true)) === undefined)
      this.#step(parent, () => planCreateDirectory(this.#core, this.#live, { path: parent }, true))
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
      if (target.ino === source.ino) throw invalid('src and dest cannot be the same', dest)
      if (source instanceof Dir && !(target instanceof Dir)) {
        throw composedError('ERR_FS_CP_DIR_TO_NON_DIR', 'Cannot overwrite non-directory with directory', {
          code: 'EISDIR',
          message: `cannot overwrite non-directory ${dest} with directory ${src}`,
          path: dest,
          syscall: 'cp',
        })
      }
      if (!(source instanceof Dir) && target instanceof Dir) {
        throw composedError('ERR_FS_CP_NON_DIR_TO_DIR', 'Cannot overwrite directory with non-directory', {
          code: 'ENOTDIR',
          message: `cannot overwrite directory ${dest} with non-directory ${src}`,
          path: dest,
          syscall: 'cp',
        })
      }
    }
    if (source instanceof Dir && isBelow(src, dest)) throw intoItself(src, dest)
    return { source, target }
  }

  *#checkParents(source: Node, src: string, dest: string): Walk<void> {
    const end = resolvePath(src, '..')
    for (
      let parent = resolvePath(dest, '..');
      parent !== end && parent !== '/';
      parent = resolvePath(parent, '..')
    ) {
      const node = yield* this.#find('stat', parent, true)
      if (node === undefined) return
      if (node.ino === source.ino) throw intoItself(src, dest)
    }
  }

  *#copy({ source, target }: Ends, src: string, dest: string): Walk<void> {
    if (source instanceof Dir) {
      if (!this.#options.recursive) {
        throw composedError('ERR_FS_EISDIR', 'Path is a directory', {
          code: 'EISDIR',
          message: `${src} is a directory (not copied)`,
          path: src,
          syscall: 'cp',
        })
      }
      yield* this.#copyDirectory(source, target, src, dest)
    } else if (source instanceof Symlink) yield* this.#copySymlink(source, target, src, dest)
    else this.#copyFile(source, target, src, dest)
  }

  #copyFile(source: FileNode, target: Node | undefined, src: string, dest: string): void {
    const { force, errorOnExist, preserveTimestamps } = this.#options
    const core = this.#core
    const path = locate(this.#live, dest)
    const sourcePath = locate(this.#live, src)
    if (target !== undefined && !force) {
      if (!errorOnExist) return
      const what = { code: 'EEXIST', message: `${dest} already exists`, path: dest, syscall: 'cp' }
      throw composedError('ERR_FS_CP_EEXIST', 'Target already exists', what)
    }
    if (target !== undefined) this.#step(path, (live) => planDelete(core, live, { path }))
    this.#step(path, (live) => planCopyFile(core, live, { sourcePath, destinationPath: path }))
    const { mode, mtime } = source
    const kept = preserveTimestamps ? { mode, mtime } : { mode }
    this.#step(path, (live) => planSetAttributes(live, { path }, kept))
  }

  *#copyDirectory(source: Dir, target: Node | undefined, src: string, dest: string): Walk<void> {
    if (target === undefined) {
      const path = locate(this.#live, dest)
      this.#step(path, (live) => planCreateDirectory(this.#core, live, { path, mode: source.mode }))
    }
    const names = yield* this.#ask(() => listDirectory(this.#live, source, '', {}) as string[])
    for (const name of names) {
      const ends: [string, string] = [below(src, name), below(dest, name)]
      const found = yield* this.#check(...ends)
      if (found !== undefined) yield* this.#copy(found, ...ends)
    }
  }

  *#copySymlink(source: Symlink, target: Node | undefined, src: string, dest: string): Walk<void> {
    const from = resolvePath(src, '..')
    const text = this.#options.verbatimSymlinks ? source.target : resolvePath(from, source.target)
    const link = source.target.startsWith('/') ? source.target : text
    const path = locate(this.#live, dest)
    if (target !== undefined) {
      if (!(target instanceof Symlink)) throw systemError('EEXIST', { syscall: 'symlink', path: link, dest })
      const there = resolvePath(resolvePath(dest, '..'), target.target)
      if (isBelow(link, there)) throw intoItself(link, there, dest)
      const led = yield* this.#find('stat', src)
      if (led instanceof Dir && isBelow(there, link)) {
        throw composedError(
          'ERR_FS_CP_SYMLINK_TO_SUBDIRECTORY',
          'Cannot overwrite symlink in subdirectory of self',
          {
            code: 'EINVAL',
            message: `cannot overwrite ${there} with ${link}`,
            path: dest,
            syscall: 'cp',
          },
        )
      }
      this.#step(path, (live) => planDelete(this.#core, live, { path }))
    }
    this.#step(path, (live) => planCreateSymlink(this.#core, live, { linkPath: path, target: link }))
  }

  #find(syscall: string, path: string): Walk<Node>
  #find(syscall: string, path: string, optional: true): Walk<Node | undefined>
  *#find(syscall: string, path: string, optional = false): Walk<Node | undefined> {
    try {
      return yield* this.#ask(() => findNode(this.#live, locate(this.#live, path), syscall === 'stat'))
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

  #step(path: string, plan: (live: LiveSession) => Plan): void {
    this.steps.push({ path, plan })
  }
}

interface Ends {
  readonly source: Node
  readonly target: Node | undefined
}

function invalid(message: string, path: string): Error {
  return composedError('ERR_FS_CP_EINVAL', 'Invalid src or dest', {
    code: 'EINVAL',
    message,
    path,
    syscall: 'cp',
  })
}

function intoItself(src: string, dest: string, path = dest): Error {
  return invalid(`cannot copy ${src} to a subdirectory of self ${dest}`, path)
}

/** By the texts of the paths alone. */
function isBelow(parent: string, path: string): boolean {
  const above = resolvePath('/', parent)
  const own = resolvePath('/', path)
  return above === '/' || own === above || own.startsWith(`${above}/`)
}

function below(path: string, name: string): string {
  return path.endsWith('/') ? `${path}${name}` : `${path}/${name}`
}
