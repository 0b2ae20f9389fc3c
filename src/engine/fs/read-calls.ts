import { limits } from '../base/limits.js'
import { present } from '../base/present.js'
import { EngineError } from '../base/errors.js'
import { findDirectory, findNode, findSymlink } from '../session/reads/lookup.js'
import type { LiveSession } from '../session/table/live.js'
import { notFound, resolve } from '../session/reads/resolve.js'
import { describeNode } from '../tree/describe.js'
import { FileNode, Symlink, type Dir, type Node } from '../tree/node.js'
import { checkBoolean, toModeBits } from './values.js'
import { encodeName, toOptions, type Options } from './arguments.js'
import { givenPath, plainPath, resolvePath, slashed } from './resolve-path.js'
import { locate, read, readInSteps, type Context, type Define } from './calls.js'
import { constants } from './constants.js'
import { codeOf, systemError } from './errors.js'
import { listDirectory, listInSteps, type Listed, type ListOptions } from './listing.js'
import { newStats, StatFs, type BigIntStats, type Stats } from './stats.js'

interface StatOptions {
  readonly bigint?: boolean
  readonly throwIfNoEntry?: boolean
}

function statBy(syscall: 'stat' | 'lstat'): Define<Stats | BigIntStats | undefined> {
  return ({ form }, path, options) => {
    const given = givenPath(path)
    const { bigint, throwIfNoEntry = true } = (options ?? {}) as StatOptions
    const optional = form === 'sync' && !throwIfNoEntry
    return read({ syscall, path: given }, (live) => {
      const follow = syscall === 'stat' || slashed(given)
      if (!optional) return newStats(describeNode(findNode(live, locate(live, given), follow)), bigint)
      try {
        return newStats(describeNode(findNode(live, locate(live, given), follow)), bigint)
      } catch (thrown) {
        if (['ENOENT', 'ENOTDIR'].includes(codeOf(thrown) ?? '')) return undefined
        throw thrown
      }
    })
  }
}

/** The result describes the whole session and is the same for every path. */
export const statfs: Define<StatFs<number> | StatFs<bigint>> = (_context, path, options) => {
  const given = givenPath(path)
  const { bigint } = (typeof options === 'object' && options !== null ? options : {}) as StatOptions
  return read({ syscall: 'statfs', path: given }, (live) => {
    findNode(live, locate(live, given), true)
    return bigint === true ? new StatFs(BigInt) : new StatFs(Number)
  })
}

export const stat = statBy('stat')
export const lstat = statBy('lstat')

/** Reading and writing are never denied. A file without an execute bit is not executable. */
export const access: Define<void> = (_context, path, mode) => {
  const given = givenPath(path)
  const executable = (toModeBits(mode) & constants.X_OK) !== 0
  return read({ syscall: 'access', path: given }, (live) => {
    const node = findNode(live, locate(live, given), true)
    if (executable && node instanceof FileNode && (node.mode & 0o111) === 0)
      throw systemError('EACCES', { syscall: 'access', path: given })
  })
}

export const exists: Define<boolean> = (_context, path) => {
  let given: string
  try {
    given = givenPath(path)
  } catch {
    return read({ syscall: 'access' }, () => false)
  }
  return read({ syscall: 'access', path: given }, (live) => {
    try {
      return resolve(live.tree, locate(live, given), true).node !== undefined
    } catch (thrown) {
      if (thrown instanceof EngineError && thrown.reason !== 'WOULD_BLOCK') return false
      throw thrown
    }
  })
}

export const readlink: Define<string | Buffer> = (_context, path, options) => {
  const { encoding } = toOptions(options)
  const given = givenPath(path, 'oldPath')
  return read({ syscall: 'readlink', path: given }, (live) => {
    const name = locate(live, given)
    const path = slashed(given) ? resolve(live.tree, name, true).path : name
    return encodeName(findSymlink(live, path).target, encoding)
  })
}

export const realpathNative: Define<string | Buffer> = (_context, path, options) => {
  const { encoding } = toOptions(options)
  const given = givenPath(path)
  return read({ syscall: 'realpath', path: given }, (live) => {
    const at = resolve(live.tree, locate(live, given), true)
    if (at.node === undefined) throw notFound(given)
    return encodeName(at.path, encoding)
  })
}

/** Walks the path as Node does, so that an error contains the part of the path that failed. */
export const realpath: Define<string | Buffer> = (context, path, options) => {
  if (context.form === 'promise') return realpathNative(context, path, options)
  const { encoding } = toOptions(options)
  const given = givenPath(path)
  return read({ syscall: 'lstat', path: given }, (live) => {
    let rest = plainPath(given)
    let current = ''
    for (let hops = 0; rest !== '' && rest !== '/';) {
      const end = rest.indexOf('/', 1)
      const base = current + (end < 0 ? rest : rest.slice(0, end))
      const node = part(live, 'lstat', base, false)
      rest = end < 0 ? '' : rest.slice(end)
      if (!(node instanceof Symlink)) {
        current = base
        continue
      }
      if (++hops > limits.realpathHops) throw systemError('ELOOP', { syscall: 'stat', path: base })
      part(live, 'stat', base, true)
      rest = resolvePath(current, node.target) + rest
      current = ''
    }
    return encodeName(current === '' ? '/' : current, encoding)
  })
}

function part(live: LiveSession, syscall: string, path: string, follow: boolean): Node {
  try {
    return findNode(live, path, follow)
  } catch (thrown) {
    if (!(thrown instanceof EngineError)) throw thrown
    throw systemError(present(codeOf(thrown), 'the code of an error'), { syscall, path }, thrown)
  }
}

interface ReaddirOptions extends Options, ListOptions {}

const readdirNames = ['recursive', 'withFileTypes'] as const

export const readdir: Define<readonly Listed[]> = ({ form }: Context, path, options) => {
  const { encoding, recursive, withFileTypes } = toOptions<ReaddirOptions>(options, readdirNames)
  const given = givenPath(path)
  if (form !== 'promise' && recursive != null) checkBoolean('options.recursive', recursive)
  const names = { syscall: 'scandir', path: given }
  const dirOf = (live: LiveSession): Dir => findDirectory(live, locate(live, given))
  const how = { encoding, recursive, withFileTypes }
  return recursive === true
    ? readInSteps(names, (live) => listInSteps(live, dirOf(live), given, how))
    : read(names, (live) => listDirectory(live, dirOf(live), given, how))
}
