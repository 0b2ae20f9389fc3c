import { EngineError } from '../base/errors.js'
import { parsePath, joinPath } from '../base/path.js'
import { planSetAttributes } from '../session/edits/attributes.js'
import { planDelete } from '../session/edits/delete.js'
import { planCreateDirectory, planRemoveDirectory } from '../session/edits/directories.js'
import { planRename } from '../session/edits/rename.js'
import { planCreateSymlink, planLink } from '../session/edits/links.js'
import type { LiveSession } from '../session/table/live.js'
import { findNode } from '../session/reads/lookup.js'
import type { Plan } from '../session/edits/plan.js'
import { notADirectory, notFound, resolve } from '../session/reads/resolve.js'
import { planResize } from '../session/edits/writes.js'
import { Dir, Symlink } from '../tree/node.js'
import { codedError } from './argument-errors.js'
import { checkBoolean, toLength, toMode, toOwner, toRemoveOptions, toTime } from './values.js'
import { encodeName, toOptions } from './arguments.js'
import { ancestor, givenPath, plainPath, slashed } from './resolve-path.js'
import { change, changeWith, locate, read, type Context, type Define, type Form } from './calls.js'
import { codeOf, rmOfDirectory, systemError } from './errors.js'

interface MkdirOptions {
  readonly recursive?: boolean
  readonly mode?: number | string
}

/** With `recursive`, the result is the first directory that was created, if any. */
export const mkdir: Define<string | undefined> = ({ core, form }, path, options) => {
  const { recursive: givenRecursive, mode: givenMode } = (
    typeof options === 'object' && options !== null ? options : { mode: options }
  ) as MkdirOptions
  const recursive = checkBoolean('options.recursive', givenRecursive ?? false)
  const given = givenPath(path)
  const mode = toMode(typeof givenMode === 'function' ? undefined : givenMode, 0o755)
  let first: string | undefined
  return changeWith(
    { syscall: 'mkdir', path: given },
    (live) => {
      const name = recursive ? locate(live, given) : plainPath(given)
      if (recursive) refuseDangling(live, name, form)
      const plan = planCreateDirectory(core, live, { path: name, mode }, recursive)
      first = plan === undefined || !recursive ? undefined : ancestor(given, plan.redo.length - 1)
      return plan
    },
    () => first,
  )
}

export const rmdir: Define<void> = ({ form }, path, options) => {
  const given = givenPath(path)
  const { recursive } = toRemoveOptions(options)
  const syscall = recursive ? (form === 'promise' ? 'stat' : 'lstat') : 'rmdir'
  return change({ syscall, path: given }, (live) => {
    if (plainPath(given) === '/') throw systemError('EBUSY', { syscall: 'rmdir', path: given })
    const name = plainPath(given)
    if (/(?:^|\/)\.\/*$/.test(given)) throw systemError('EINVAL', { syscall: 'rmdir', path: given })
    if (recursive && !(findNode(live, name, false) instanceof Dir))
      throw systemError('ENOTDIR', { syscall: 'rmdir', path: given })
    return planRemoveDirectory(live, { path: name }, recursive)
  })
}

export const unlink: Define<void> = ({ core }, path) => {
  const given = givenPath(path)
  return change({ syscall: 'unlink', path: given }, (live) => {
    const path = plainPath(given)
    if (slashed(given) && !(findNode(live, path, false) instanceof Dir)) throw notADirectory(path)
    return planDelete(core, live, { path })
  })
}

/** As in Node, a missing path fails at `lstat`, which follows a link with a trailing slash; a directory needs `recursive`. */
export const rm: Define<void> = ({ core, form }, path, options) => {
  const given = givenPath(path)
  const { recursive, force } = toRemoveOptions(options)
  const syscall = form === 'sync' && recursive && force ? 'unlink' : 'lstat'
  return change({ syscall, path: given }, (live) => {
    const name = locate(live, given)
    const { node } = resolve(live.tree, name, slashed(given))
    if (node === undefined) {
      if (force) return undefined
      throw notFound(name)
    }
    if (!(node instanceof Dir)) return planDelete(core, live, { path: name })
    if (recursive) return planRemoveDirectory(live, { path: name }, true)
    throw rmOfDirectory(given)
  })
}

export const rename: Define<void> = ({ core }, oldPath, newPath) => {
  const path = givenPath(oldPath, 'oldPath')
  const dest = givenPath(newPath, 'newPath')
  return change({ syscall: 'rename', path, dest }, (live) => {
    const sourcePath = plainPath(path)
    const destinationPath = plainPath(dest)
    if (slashed(path) || slashed(dest)) refuseSlash(live, sourcePath, destinationPath)
    return planRename(core, live, { sourcePath, destinationPath })
  })
}

/** Only a directory can be renamed from, or to, a path with a trailing slash. Missing paths fail before that. */
function refuseSlash(live: LiveSession, from: string, to: string): void {
  const { node } = resolve(live.tree, from, false)
  if (node === undefined || node instanceof Dir) return
  const { node: parent } = resolve(live.tree, joinPath(parsePath(to).slice(0, -1)), true)
  if (parent instanceof Dir) throw notADirectory(from)
}

export const link: Define<void> = (_context, existingPath, newPath) => {
  const path = givenPath(existingPath, 'existingPath')
  const dest = givenPath(newPath, 'newPath')
  return change({ syscall: 'link', path, dest }, (live) => {
    const name = locate(live, path)
    const srcPath = slashed(path) ? resolve(live.tree, name, true).path : name
    const dstPath = freeName(live, dest)
    return planLink(live, { srcPath, dstPath })
  })
}

/** The target is stored exactly as given. The type of link that Windows needs is ignored. */
export const symlink: Define<void> = ({ core }, target, path, type) => {
  const text = givenPath(target, 'target')
  const given = givenPath(path)
  if (typeof type === 'string' && !['dir', 'file', 'junction'].includes(type)) {
    const message = `Symlink type must be one of "dir", "file", or "junction". Received "${type}"`
    throw codedError('ERR_FS_INVALID_SYMLINK_TYPE', message)
  }
  return change({ syscall: 'symlink', path: text, dest: given }, (live) => {
    if (text === '') throw notFound('')
    return planCreateSymlink(core, live, { linkPath: freeName(live, given), target: text })
  })
}

/** Converts the path of a new link. With a trailing slash it would be a directory, so it fails as on Linux. */
function freeName(live: LiveSession, given: string): string {
  const path = plainPath(given)
  if (slashed(given) && resolve(live.tree, path, false).node === undefined) throw notFound(path)
  return path
}

export const chmod: Define<void> = (_context, path, mode) => {
  const given = givenPath(path)
  const bits = toMode(mode)
  return change({ syscall: 'chmod', path: given }, (live) =>
    planSetAttributes(live, { path: locate(live, given) }, { mode: bits }),
  )
}

/** A symlink has no mode of its own, so the call changes nothing for one. */
export const lchmod: Define<void> = (_context, path, mode) => {
  const given = givenPath(path)
  const bits = toMode(mode)
  return change({ syscall: 'lchmod', path: given }, (live) =>
    planSetAttributes(live, { path: locate(live, given), followLast: slashed(given) }, { mode: bits }),
  )
}

/** Owners are not stored. The call only checks its arguments and that the file exists. */
function chownBy(syscall: 'chown' | 'lchown'): Define<void> {
  return (_context, path, uid, gid) => {
    const given = givenPath(path)
    toOwner('uid', uid)
    toOwner('gid', gid)
    return read({ syscall, path: given }, (live) => {
      findNode(live, locate(live, given), syscall === 'chown' || slashed(given))
    })
  }
}

export const chown = chownBy('chown')
export const lchown = chownBy('lchown')

/** The access time is not stored. */
function utimesBy(syscall: 'utime' | 'lutime'): Define<void> {
  return (context, path, atime, mtime) => {
    const given = givenPath(path)
    const time = toTimes(context, atime, mtime)
    return change({ syscall, path: given }, (live) =>
      planSetAttributes(
        live,
        { path: locate(live, given), followLast: syscall === 'utime' || slashed(given) },
        { mtime: time },
      ),
    )
  }
}

export const utimes = utimesBy('utime')
export const lutimes = utimesBy('lutime')

export function toTimes({ core }: Context, atime: unknown, mtime: unknown, named = false): number {
  const now = (): number => core.environment.wallClockMs()
  toTime(atime, now, named ? 'atime' : 'time')
  return toTime(mtime, now, named ? 'mtime' : 'time')
}

export const truncate: Define<void> = (_context, path, length) => {
  const given = givenPath(path)
  const size = toLength(length)
  return change({ syscall: 'open', path: given }, (live) => {
    const name = locate(live, given)
    findNode(live, name, true)
    return resized(() => planResize(_context.core, live, { path: name }, size))
  })
}

/** As in Node, the error for a size over the limit contains the system call that sets it, `ftruncate`. */
export function resized(plan: () => Plan): Plan {
  try {
    return plan()
  } catch (thrown) {
    if (codeOf(thrown) === 'EFBIG') throw systemError('EFBIG', { syscall: 'ftruncate' }, thrown)
    throw thrown
  }
}

const mkdtempLetters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'

export const mkdtemp: Define<string | Buffer> = ({ core }, prefix, options) => {
  const { encoding } = toOptions(options)
  const given = givenPath(prefix, 'prefix')
  let made = ''
  return changeWith(
    { syscall: 'mkdtemp', path: `${given}XXXXXX` },
    (live) => {
      for (;;) {
        made = given + randomLetters(core.environment.randomFill.bind(core.environment))
        try {
          return planCreateDirectory(core, live, { path: plainPath(made), mode: 0o700 })
        } catch (thrown) {
          if (!(thrown instanceof EngineError) || thrown.reason !== 'ALREADY_EXISTS') throw thrown
        }
      }
    },
    () => encodeName(made, encoding),
  )
}

function randomLetters(randomFill: (bytes: Uint8Array) => void): string {
  const bytes = new Uint8Array(6)
  randomFill(bytes)
  return [...bytes].map((byte) => mkdtempLetters[byte % mkdtempLetters.length]).join('')
}

/**
 * A recursive mkdir creates nothing through a dangling symlink. The synchronous form fails with the whole
 * path; the other forms fail with the path of the link, unless the link is the last name.
 */
function refuseDangling(live: LiveSession, path: string, form: Form): void {
  const names = parsePath(path)
  if (resolve(live.tree, path, true).path === path) return
  for (let depth = 1; depth <= names.length; depth++) {
    const part = joinPath(names.slice(0, depth))
    const { node } = resolve(live.tree, part, false)
    if (node === undefined) return
    if (!(node instanceof Symlink) || resolve(live.tree, part, true).node !== undefined) continue
    if (form === 'sync' || depth === names.length) throw notFound(path)
    throw systemError('ENOTDIR', { syscall: 'mkdir', path: part })
  }
}
