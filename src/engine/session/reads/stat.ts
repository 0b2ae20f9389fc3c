import { parseFlag } from '../../base/input.js'
import { Shape } from '../../base/shape.js'
import { describeNode, type NodeDescription } from '../../tree/describe.js'
import type { Node } from '../../tree/node.js'
import type { LiveSession } from '../table/live.js'
import { notFound, resolve } from './resolve.js'

/** The request of `session.files.stat`. */
export interface StatRequest {
  /** Absolute path in the session, such as `/src/a.ts`. */
  readonly path: string
  /** false: a symlink at the path is itself the target; true by default. */
  readonly followSymlinks?: boolean
  /**
   * true: the result has the `contentHash` of a file, for which a large file may have to be read; false by
   * default.
   */
  readonly includeContentHash?: boolean
}

/** The attributes of the file, directory or symlink at a path. */
export interface PathStat extends NodeDescription {
  /** Absolute path after symlinks were resolved. */
  readonly path: string
  /** `sha256:<hex>` of the content of a file, with `includeContentHash`; else ''. */
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

/**
 * The node at a path, and its attributes except the hash.
 *
 * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
 */
export function statPath(
  live: LiveSession,
  { path, followSymlinks }: Required<StatRequest>,
): { readonly node: Node; readonly stat: PathStat } {
  const at = resolve(live.tree, path, followSymlinks)
  const { node } = at
  if (node === undefined) throw notFound(path)
  return { node, stat: { path: at.path, contentHash: '', ...describeNode(node) } }
}
