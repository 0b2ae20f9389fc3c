import { Shape } from '../../base/shape.js'
import { Dir } from '../../tree/node.js'
import type { Core } from '../core.js'
import { eventTypes, type EventType } from '../../records/event.js'
import { checkDeleteGuard } from './guards.js'
import type { LiveSession } from '../table/live.js'
import type { Plan } from './plan.js'
import { isADirectory, notFound, resolve } from '../reads/resolve.js'

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
