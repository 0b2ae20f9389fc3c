import { EngineError } from '../../base/errors.js'
import { Dir, FileNode, Symlink, type Node } from '../../tree/node.js'
import type { LiveSession } from '../table/live.js'
import type { Tree } from '../../tree/tree.js'
import { isADirectory, notADirectory, notFound, resolve } from './resolve.js'

/** The file that a path leads to, for reading. */
export function findFile({ tree }: { readonly tree: Pick<Tree, 'root' | 'loader'> }, path: string): FileNode {
  const { node } = resolve(tree, path, true)
  if (node === undefined) throw notFound(path)
  if (!(node instanceof FileNode)) throw isADirectory(path)
  return node
}

export function findDirectory(live: LiveSession, path: string): Dir {
  const { node } = resolve(live.tree, path, true)
  if (node === undefined) throw notFound(path)
  if (!(node instanceof Dir)) throw notADirectory(path)
  return node
}

export function findNode(live: LiveSession, path: string, followLast: boolean): Node {
  const { node } = resolve(live.tree, path, followLast)
  if (node === undefined) throw notFound(path)
  return node
}

export function findSymlink(live: LiveSession, path: string): Symlink {
  const node = findNode(live, path, false)
  if (!(node instanceof Symlink)) throw new EngineError('NOT_A_SYMLINK', `${path} is not a symlink`, { path })
  return node
}
