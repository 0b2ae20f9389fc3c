import { whenLoaded } from '../../base/fault.js'
import { parseFlag } from '../../base/input.js'
import { pageNames, type PageRequest } from '../../base/paging.js'
import { Shape } from '../../base/shape.js'
import { visitNames, visitPaths } from '../../tree/cursor.js'
import { Dir, kindOf, type NodeKind } from '../../tree/node.js'
import { reading, type Core } from '../core.js'
import { listNodes } from './listing.js'
import type { LiveSession } from '../table/live.js'
import { notADirectory, notFound, resolve } from './resolve.js'

/** A page of the entries of a directory. */
export interface DirectoryListRequest extends PageRequest {
  /** Absolute path of a directory in the session, such as `/src`. Symlinks are followed. */
  readonly path: string
  /** true: lists everything below the directory; false, the default: only its entries. */
  readonly recursive?: boolean
}

/** An entry of a directory. */
export interface DirectoryEntry {
  /** The path below the listed directory: `name`, or `dir/name` in a recursive listing. */
  readonly name: string
  /** `'file'`, `'directory'` or `'symlink'`. */
  readonly kind: NodeKind
}

/** A page of the entries of a directory. */
export interface DirectoryPage {
  /**
   * In the order of the UTF-8 bytes of their names. A recursive listing is depth first, with a directory
   * before its entries.
   */
  readonly entries: DirectoryEntry[]
  /** Pass it as `pageToken` for the next page. Empty when there is no further page. */
  readonly nextPageToken: string
}

export const directoryListShape = new Shape<DirectoryListRequest>({
  path: true,
  recursive: true,
  ...pageNames,
})

/**
 * A page of the entries of a directory. Symlinks in the path are followed, and those in the directory are
 * not. The request is a copy made by {@link directoryListShape}.
 */
export async function listDirectory(
  core: Core,
  live: LiveSession,
  request: DirectoryListRequest,
): Promise<DirectoryPage> {
  const recursive = parseFlag('recursive', request.recursive, false)
  // The state at the time of the call, even if nodes must be loaded later.
  const root = live.tree.freeze()
  return reading(core, [root], () => listIn(core, root, { ...request, recursive }))
}

async function listIn(
  core: Core,
  root: Dir,
  request: DirectoryListRequest & { readonly recursive: boolean },
): Promise<DirectoryPage> {
  const { path, recursive } = request
  const at = await whenLoaded(() => resolve({ root, loader: core.loader }, path, true))
  const dir = at.node
  if (dir === undefined) throw notFound(path)
  if (!(dir instanceof Dir)) throw notADirectory(path)
  const prefix = at.path === '/' ? '/' : `${at.path}/`
  const name = `${recursive ? 'tree' : 'directory'} ${at.path}`
  const { entries, nextPageToken } = await listNodes(core, request, name, {
    visit: (after, visit) =>
      recursive
        ? visitPaths(root, { prefix, after }, core.loader, visit)
        : visitNames(dir, { root, after }, core.loader, visit),
  })
  return {
    entries: entries.map(([key, node]) => ({
      name: recursive ? key.slice(prefix.length) : key,
      kind: kindOf(node),
    })),
    nextPageToken,
  }
}
