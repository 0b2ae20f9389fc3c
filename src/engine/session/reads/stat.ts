import { parseFlag } from '../../base/input.js'
import { Shape } from '../../base/shape.js'
import { describeNode, type NodeDescription } from '../../tree/describe.js'
import type { Node } from '../../tree/node.js'
import type { LiveSession } from '../table/live.js'
import { notFound, resolve } from './resolve.js'

export interface StatRequest {
  readonly path: string
  /** false: a symlink at the path is meant itself; true by default. */
  readonly followSymlinks?: boolean
  /** Whether `contentHash` is wanted: that of a large file may take a pass over it. */
  readonly includeContentHash?: boolean
}

/** The node at a path. */
export interface PathStat extends NodeDescription {
  /** Without the symlinks that led here. */
  readonly path: string
  /** `sha256:<hex>` of a file, where it was asked for; else ''. */
  readonly contentHash: string
}

const statShape = new Shape<StatRequest>({ path: true, followSymlinks: true, includeContentHash: true })

export function parseStat(request: StatRequest): Required<StatRequest> {
  const { path, followSymlinks, includeContentHash } = statShape.read(request)
  return {
    path,
    followSymlinks: parseFlag('followSymlinks', followSymlinks, true),
    includeContentHash: parseFlag('includeContentHash', includeContentHash, false),
  }
}

/** The node, and all of it but its hash. PATH_NOT_FOUND. */
export function statPath(
  live: LiveSession,
  { path, followSymlinks }: Required<StatRequest>,
): { readonly node: Node; readonly stat: PathStat } {
  const at = resolve(live.tree, path, followSymlinks)
  const { node } = at
  if (node === undefined) throw notFound(path)
  return { node, stat: { ...describeNode(node), path: at.path, contentHash: '' } }
}
