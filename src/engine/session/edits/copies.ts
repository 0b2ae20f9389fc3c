import { parsePath } from '../../base/path.js'
import { Shape } from '../../base/shape.js'
import { FileNode } from '../../tree/node.js'
import type { Core } from '../core.js'
import { eventTypes, type Redo } from '../../records/event.js'
import type { LiveSession } from '../table/live.js'
import { findFile } from '../reads/lookup.js'
import { requireParents } from './parents.js'
import type { Plan } from './plan.js'
import { alreadyExists, resolve } from '../reads/resolve.js'
import { fileOrMissing } from './writes.js'

/** The request of `session.files.copy`. */
export interface CopyFileRequest {
  /** Absolute path of the file to copy, such as `/src/a.ts`. Symlinks are followed. */
  readonly sourcePath: string
  /** Absolute path of the copy, such as `/src/b.ts`. */
  readonly destinationPath: string
  /** true: fails with ALREADY_EXISTS if the path exists; false by default. */
  readonly exclusive?: boolean
}

export const copyFileShape = new Shape<CopyFileRequest>({
  sourcePath: true,
  destinationPath: true,
  exclusive: true,
})

/**
 * Copies the content and mode of a file, in O(1). Both files share the content until one of them is changed.
 */
export function planCopyFile(core: Core, live: LiveSession, request: CopyFileRequest): Plan {
  const { sourcePath, destinationPath, exclusive = false } = request
  parsePath(sourcePath, 'sourcePath')
  parsePath(destinationPath, 'destinationPath')
  const file = findFile(live, sourcePath)
  const to = resolve(live.tree, destinationPath, !exclusive)
  if (exclusive && to.node !== undefined) throw alreadyExists(destinationPath)
  const existing = fileOrMissing(to, destinationPath)
  requireParents(to, destinationPath)
  if (existing instanceof FileNode && existing.ino === file.ino) return undefined
  const { path } = to
  const redo: Redo[] = existing === undefined ? [['w', path, file.mode, core.ids.newIno(), 0]] : []
  redo.push(['k', resolve(live.tree, sourcePath, true).path, path])
  if (existing !== undefined && existing.mode !== file.mode) redo.push(['c', path, file.mode])
  return { type: eventTypes.writeFile, details: { path }, redo }
}
