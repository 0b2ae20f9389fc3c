import { itemAt } from '../../base/present.js'
import { EngineError, invalid } from '../../base/errors.js'
import { parseMode } from '../../base/input.js'
import { Shape } from '../../base/shape.js'
import { Dir } from '../../tree/node.js'
import type { Core } from '../core.js'
import { eventTypes } from '../../records/event.js'
import type { LiveSession } from '../table/live.js'
import { makeParents } from './parents.js'
import type { Plan } from './plan.js'
import { alreadyExists, notADirectory, notFound, resolve } from '../reads/resolve.js'

/** The request of `session.files.createDirectory`. */
export interface CreateDirectoryRequest {
  /** Absolute path of a directory in the session, such as `/src`. */
  readonly path: string
  /** Permission bits, 0 to 0o7777; 0o755 by default. */
  readonly mode?: number
  /** true: creates missing parents too, and accepts an existing directory; false by default. */
  readonly recursive?: boolean
}

/** The request of `session.files.removeDirectory`. */
export interface RemoveDirectoryRequest {
  /** Absolute path of a directory in the session, such as `/src`. */
  readonly path: string
  /** true: removes the directory with its entries; false, the default: it must be empty. */
  readonly recursive?: boolean
}

export const createDirectoryShape = new Shape<CreateDirectoryRequest>({
  path: true,
  mode: true,
  recursive: true,
})

export const removeDirectoryShape = new Shape<RemoveDirectoryRequest>({ path: true, recursive: true })

export function planCreateDirectory(
  core: Core,
  live: LiveSession,
  request: CreateDirectoryRequest,
  recursive = false,
): Plan {
  const mode = parseMode(request.mode ?? 0o755)
  const at = resolve(live.tree, request.path, recursive)
  if (at.node !== undefined) {
    if (recursive && at.node instanceof Dir) return undefined
    throw alreadyExists(request.path)
  }
  const redo = makeParents(core, at, request.path, recursive ? 'create' : 'require', mode)
  const { path } = at
  redo.push(['d', path, mode, core.ids.newIno()])
  return { type: eventTypes.createDirectory, details: { path }, redo }
}

/** Removes an empty directory. If `recursive` is true, removes a directory with everything below it. */
export function planRemoveDirectory(
  live: LiveSession,
  request: { readonly path: string },
  recursive = false,
): Plan {
  const { path, names, node } = resolve(live.tree, request.path, false)
  if (node === undefined) throw notFound(request.path)
  if (!(node instanceof Dir)) throw notADirectory(request.path)
  if (names.length === 0) throw invalid('path', 'the root cannot be removed')
  if (!recursive) checkEmpty(live, node, request.path)
  return { type: eventTypes.removeDirectory, details: { path }, redo: [['u', path]] }
}

export function checkEmpty(live: LiveSession, dir: Dir, path: string): void {
  const first = itemAt(dir.pages ?? live.tree.loader.loadDir(dir), 0)
  if ((first.names ?? live.tree.loader.loadPage(first)).length === 0) return
  throw notEmpty(path)
}

export function notEmpty(path: string): EngineError {
  return new EngineError(
    'DIRECTORY_NOT_EMPTY',
    `directory ${path} is not empty; remove its entries first, or pass { recursive: true } to removeDirectory`,
    { path },
  )
}
