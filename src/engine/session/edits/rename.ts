import { EngineError, invalid } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import { parsePath } from '../../base/path.js'
import { Shape } from '../../base/shape.js'
import { Dir, LinkedFile } from '../../tree/node.js'
import { eventTypes } from '../../records/event.js'
import type { Core } from '../core.js'
import type { LiveSession } from '../table/live.js'
import { makeParents, requireParents } from './parents.js'
import type { Plan } from './plan.js'
import { alreadyExists, isADirectory, notADirectory, notFound, resolve } from '../reads/resolve.js'
import { checkEmpty, notEmpty } from './directories.js'

/** The request of `session.files.rename`. */
export interface RenameRequest {
  /** Absolute path of the file, directory or symlink to move. A symlink at the path is not followed. */
  readonly sourcePath: string
  /** The new absolute path, such as `/src/b.ts`. A symlink at the path is replaced, not followed. */
  readonly destinationPath: string
  /** true: fails if the destination exists; false, the default: replaces it as POSIX does. */
  readonly exclusive?: boolean
  /** true: creates missing parents of the destination; false by default. */
  readonly createParents?: boolean
}

export const renameShape = new Shape<RenameRequest>({
  sourcePath: true,
  destinationPath: true,
  exclusive: true,
  createParents: true,
})

/**
 * Renames as in POSIX. It replaces an existing file. A directory may replace an empty directory. If both
 * paths are the same, nothing happens. With `exclusive`, it replaces nothing, like RENAME_NOREPLACE of Linux.
 */
export function planRename(
  core: Core,
  live: LiveSession,
  { sourcePath, destinationPath, exclusive = false, createParents = false }: RenameRequest,
): Plan {
  parsePath(sourcePath, 'sourcePath')
  parsePath(destinationPath, 'destinationPath')
  const from = resolve(live.tree, sourcePath, false)
  if (from.parents < from.names.length - 1) throw notFound(sourcePath)
  const to = resolve(live.tree, destinationPath, false)
  if (from.node === undefined) throw notFound(sourcePath)
  if (from.names.length === 0) throw invalid('sourcePath', 'the root cannot be moved')
  if (exclusive && to.node !== undefined) throw alreadyExists(destinationPath)
  if (!createParents) requireParents(to, destinationPath)
  if (from.path === to.path) return undefined
  // If both paths are names of one file, POSIX keeps both.
  if (from.node instanceof LinkedFile && to.node instanceof LinkedFile && from.node.ino === to.node.ino)
    return undefined
  if (from.node instanceof Dir && from.names.every((name, index) => to.names[index] === name)) {
    throw invalid('destinationPath', 'a directory cannot be moved into itself')
  }
  if (to.names.length < from.names.length && to.names.every((name, index) => from.names[index] === name)) {
    throw notEmpty(destinationPath)
  }
  if (from.node instanceof Dir && !fits(live, to.names.length, from.node)) {
    const message = `destinationPath: the moved directory would be nested over ${limits.pathDepth} levels deep`
    throw new EngineError('NAME_TOO_LONG', message, { field: 'destinationPath' })
  }
  if (from.node instanceof Dir && to.node !== undefined) {
    if (!(to.node instanceof Dir)) throw notADirectory(destinationPath)
    checkEmpty(live, to.node, destinationPath)
  } else if (to.node instanceof Dir) throw isADirectory(destinationPath)
  const details = { sourcePath: from.path, destinationPath: to.path }
  const parents = makeParents(core, to, destinationPath)
  return { type: eventTypes.rename, details, redo: [...parents, ['m', from.path, to.path]] }
}

/**
 * Whether a directory fits at a depth. Its `height` is an upper bound, so it is measured only if the bound is
 * too high.
 */
function fits(live: LiveSession, depth: number, dir: Dir): boolean {
  if (depth + dir.height > limits.pathDepth) dir.height = measureHeight(live, dir)
  return depth + dir.height <= limits.pathDepth
}

function measureHeight(live: LiveSession, dir: Dir): number {
  let height = 0
  for (const page of dir.pages ?? live.tree.loader.loadDir(dir)) {
    if ((page.names ?? live.tree.loader.loadPage(page)).length > 0) height = Math.max(height, 1)
    for (const node of page.nodes)
      if (node instanceof Dir) height = Math.max(height, 1 + measureHeight(live, node))
  }
  return height
}
