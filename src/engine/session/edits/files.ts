import { EngineError, invalid } from '../../base/errors.js'
import { parseMode } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { parsePath } from '../../base/path.js'
import { Shape } from '../../base/shape.js'
import { Dir, LinkedFile } from '../../tree/node.js'
import type { Core } from '../core.js'
import { eventTypes, type EventType } from '../../records/event.js'
import { checkDeleteGuard } from './guards.js'
import type { LiveSession } from '../table/live.js'
import { makeParents, requireParents } from './parents.js'
import type { Plan } from './plan.js'
import { alreadyExists, isADirectory, notADirectory, notFound, resolve } from '../reads/resolve.js'

export interface DeleteRequest {
  readonly path: string
  /** Absent or `''`: no guard. Else: the file's content must have this hash. */
  readonly expectedHash?: string
}

export const deleteShape = new Shape<DeleteRequest>({ path: true, expectedHash: true })

/** A file or symlink; the last symlink of the path is not followed. */
export function planDelete(
  core: Core,
  live: LiveSession,
  request: DeleteRequest,
  type: EventType = eventTypes.deleteFile,
): Plan {
  const { path, node } = resolve(live.tree, request.path, false)
  if (node === undefined) throw notFound(request.path)
  if (node instanceof Dir) throw isADirectory(request.path)
  checkDeleteGuard(core, request.path, node, request.expectedHash)
  return { type, details: { path }, redo: [['u', path]] }
}

export interface CreateDirectoryRequest {
  readonly path: string
  /** Permission bits, 0o755 by default. */
  readonly mode?: number
  /** true: missing parents are made too, and a directory that exists is none the worse. */
  readonly recursive?: boolean
}

export interface RemoveDirectoryRequest {
  readonly path: string
  /** true: with all that is below it. */
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

/** Only an empty directory, unless it is to go with all that is below it. */
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

export interface RenameRequest {
  readonly sourcePath: string
  readonly destinationPath: string
}

export const renameShape = new Shape<RenameRequest>({ sourcePath: true, destinationPath: true })

/** As POSIX has it: replaces a file, or an empty directory by a directory; onto itself nothing happens. */
export function planRename(live: LiveSession, { sourcePath, destinationPath }: RenameRequest): Plan {
  parsePath(sourcePath, 'sourcePath')
  parsePath(destinationPath, 'destinationPath')
  const from = resolve(live.tree, sourcePath, false)
  if (from.parents < from.names.length - 1) throw notFound(sourcePath)
  const to = resolve(live.tree, destinationPath, false)
  if (from.node === undefined) throw notFound(sourcePath)
  if (from.names.length === 0) throw invalid('sourcePath', 'the root cannot be moved')
  requireParents(to, destinationPath)
  if (from.path === to.path) return undefined
  // Two names of one file: POSIX leaves both.
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
  return { type: eventTypes.rename, details, redo: [['m', from.path, to.path]] }
}

/** Whether a directory may stand at a depth. Its height is a bound; only one that is too high is measured. */
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

function checkEmpty(live: LiveSession, dir: Dir, path: string): void {
  const [first] = dir.pages ?? live.tree.loader.loadDir(dir)
  if ((first!.names ?? live.tree.loader.loadPage(first!)).length === 0) return
  throw notEmpty(path)
}

function notEmpty(path: string): EngineError {
  return new EngineError(
    'DIRECTORY_NOT_EMPTY',
    `directory ${path} is not empty; remove its entries first, or pass { recursive: true } to removeDirectory`,
    { path },
  )
}
