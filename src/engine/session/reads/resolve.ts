import { itemAt, present } from '../../base/present.js'
import { EngineError } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import { joinPath, parsePath, type PathNames } from '../../base/path.js'
import { resolveEntry } from '../../tree/links.js'
import { Dir, Symlink, type Entry, type Node } from '../../tree/node.js'
import { findName } from '../../tree/page.js'
import type { Tree } from '../../tree/tree.js'

/** The place that a path leads to after its symlinks are resolved. */
export interface Location {
  /** The path without symlinks among its directories. */
  readonly path: string
  /** The names of `path`. */
  readonly names: PathNames
  readonly node: Node | undefined
  /**
   * The number of leading names that are existing directories. It is below `names.length − 1` if parents are
   * missing.
   */
  readonly parents: number
}

/**
 * Resolves a path inside the session. Symlinks among the directories are followed. A symlink at the end is
 * followed only if `followLast` is true. `..` in a target stops at the root, so no path leads out of the
 * session.
 *
 * @throws {EngineError} NOT_A_DIRECTORY when the path has a file in place of a directory.
 * @throws {EngineError} SYMLINK_LOOP when the path takes more than 40 symlinks.
 */
export function resolve(tree: Pick<Tree, 'root' | 'loader'>, path: string, followLast: boolean): Location {
  const names = parsePath(path)
  let node: Entry | undefined = tree.root
  for (let i = 0; i < names.length; i++) {
    if (!(node instanceof Dir)) {
      if (node === undefined) return { path, names, node: undefined, parents: i - 1 }
      if (node instanceof Symlink) return followLinks(tree, names, followLast)
      throw notADirectory(joinPath(names.slice(0, i)))
    }
    node = findName(node, present(names[i], 'a name'), tree.loader)
  }
  if (followLast && node instanceof Symlink) return followLinks(tree, names, true)
  return { path, names, node: resolveEntry(node, tree.root, tree.loader), parents: names.length - 1 }
}

function followLinks(tree: Pick<Tree, 'root' | 'loader'>, names: PathNames, followLast: boolean): Location {
  const pending = [...names].reverse()
  const resolved: string[] = []
  const dirs: Dir[] = [tree.root]
  let hops = 0
  for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
    if (name === '' || name === '.') continue
    if (name === '..') {
      if (resolved.length > 0) {
        resolved.pop()
        dirs.pop()
      }
      continue
    }
    const node = findName(itemAt(dirs, -1), name, tree.loader)
    const last = pending.length === 0
    if (node instanceof Symlink && (!last || followLast)) {
      if (++hops > limits.symlinkHops)
        throw new EngineError(
          'SYMLINK_LOOP',
          `${joinPath(names)} goes through more than ${limits.symlinkHops} symlinks`,
          { path: joinPath(names) },
        )
      if (node.target.startsWith('/')) {
        resolved.length = 0
        dirs.length = 1
      }
      for (const part of node.target.split('/').reverse()) pending.push(part)
      continue
    }
    if (last) {
      const found = resolveEntry(node, tree.root, tree.loader)
      return { node: found, parents: resolved.length, ...checked([...resolved, name]) }
    }
    if (node instanceof Dir) {
      resolved.push(name)
      dirs.push(node)
    } else if (node !== undefined) throw notADirectory(joinPath([...resolved, name]))
    else {
      // A target that ends with a slash must be a directory, and no operation creates a directory through
      // such a target.
      const slashed = pending[0] === '' || pending[0] === '.'
      const rest = pending.reverse().filter((part) => part !== '' && part !== '.')
      if (slashed || rest.includes('..')) throw notFound(joinPath([...resolved, name]))
      return { node: undefined, parents: resolved.length, ...checked([...resolved, name, ...rest]) }
    }
  }
  return { node: itemAt(dirs, -1), parents: resolved.length - 1, ...checked(resolved) }
}

/** Checks names from symlink targets like those of any other path. */
function checked(names: PathNames): { path: string; names: PathNames } {
  const path = joinPath(names)
  return { path, names: parsePath(path) }
}

export function notFound(path: string): EngineError {
  return new EngineError('PATH_NOT_FOUND', `${path} does not exist`, { path })
}

export function notADirectory(path: string): EngineError {
  return new EngineError('NOT_A_DIRECTORY', `${path} is not a directory`, { path })
}

/** The error PATH_NOT_FOUND for a path that cannot be made, because a directory above it is missing. */
export function parentNotFound(path: string, missing: string): EngineError {
  const message = `${path} cannot be created: the directory ${missing} does not exist. Create it first, with createDirectory or mkdir and recursive: true`
  return new EngineError('PATH_NOT_FOUND', message, { path })
}

export function isADirectory(path: string, instead?: string): EngineError {
  const message = `${path} is a directory${instead === undefined ? '' : `: ${instead}`}`
  return new EngineError('IS_A_DIRECTORY', message, { path })
}

export function alreadyExists(path: string): EngineError {
  return new EngineError('ALREADY_EXISTS', `${path} already exists`, { path })
}
