import { Shape } from '../../base/shape.js'
import { Dir } from '../../tree/node.js'
import type { Core } from '../core.js'
import { eventTypes, type EventType } from '../../records/event.js'
import { checkDeleteGuard } from './guards.js'
import type { Plan, PlanState } from './plan.js'
import { isADirectory, notFound, resolve } from '../reads/resolve.js'

/** The request of `session.files.delete` and `session.files.unlink`. */
export interface DeleteRequest {
  /** Absolute path in the session, such as `/src/a.ts`. A symlink at the path is not followed. */
  readonly path: string
  /** The content of the file must have this hash, `sha256:<hex>`. Absent or '': any content. */
  readonly expectedHash?: string
}

export const deleteShape = new Shape<DeleteRequest>({ path: true, expectedHash: true })

/** Deletes a file or symlink. A symlink at the end of the path is not followed. */
export function planDelete(
  core: Core,
  state: PlanState,
  request: DeleteRequest,
  type: EventType = eventTypes.deleteFile,
): Plan {
  const { path, node } = resolve(state.tree, request.path, false)
  if (node === undefined) throw notFound(request.path)
  if (node instanceof Dir)
    throw isADirectory(request.path, 'remove it with removeDirectory or rm, and recursive: true')
  checkDeleteGuard(core, request.path, node, request.expectedHash)
  return { type, details: { path }, redo: [['u', path]] }
}
