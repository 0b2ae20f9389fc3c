import { invalid } from '../../base/errors.js'
import { given, parseMode } from '../../base/input.js'
import { Shape } from '../../base/shape.js'
import { attributesOf, FileNode, Symlink, type Node } from '../../tree/node.js'
import { eventTypes, type FileTarget, type Redo } from '../../records/event.js'
import { currentFile, FileReference, targetOf } from '../file-references.js'
import type { LiveSession } from '../table/live.js'
import { findNode } from '../reads/lookup.js'
import type { Plan } from './plan.js'
import { resolve } from '../reads/resolve.js'

/** A path, or a reference to an open file. */
export type AttributeTarget =
  | {
      readonly path: string
      /** false: a symlink at the path is itself the target; true by default. */
      readonly followLast?: boolean
    }
  | FileReference

/** The request of `session.files.setAttributes`. An absent attribute stays as it is. */
export interface SetAttributesRequest {
  /** Absolute path in the session, such as `/src/a.ts`. */
  readonly path: string
  /** Permission bits, 0 to 0o7777; absent keeps them. A symlink has none of its own. */
  readonly mode?: number
  /** The time of the last change, in milliseconds since 1970, with fractions; absent keeps it. */
  readonly mtimeMs?: number
  /** false: a symlink at the path is itself the target; true by default. */
  readonly followSymlinks?: boolean
}

export const setAttributesShape = new Shape<SetAttributesRequest>({
  path: true,
  mode: true,
  mtimeMs: true,
  followSymlinks: true,
})

export const setModeShape = new Shape<Required<Pick<SetAttributesRequest, 'path' | 'mode'>>>({
  path: true,
  mode: true,
})

export interface AttributeChange {
  /** Permission bits; a symlink has none of its own. */
  readonly mode?: number
  /** Milliseconds since the epoch, with fractions. */
  readonly mtime?: number
}

export function planSetAttributes(live: LiveSession, target: AttributeTarget, change: AttributeChange): Plan {
  const { mode, mtime } = change
  if (mode !== undefined) parseMode(mode)
  if (mtime !== undefined && !Number.isFinite(mtime))
    throw invalid('mtime', `must be milliseconds since the epoch; it is ${given(mtime)}`)
  const { at, node } = locate(live, target)
  const setsMode = mode !== undefined && !(node instanceof Symlink) && node.mode !== mode
  if (!setsMode && mtime === undefined) return undefined
  if (at === undefined) {
    const reference = target as FileReference
    if (node instanceof FileNode) reference.last = node.with({ ...attributesOf(node), ...change })
    return undefined
  }
  const redo: Redo[] = []
  if (setsMode) redo.push(['c', at, mode])
  if (mtime !== undefined) redo.push(['t', at, mtime])
  return { type: eventTypes.setAttributes, details: { path: target.path }, redo }
}

function locate(live: LiveSession, target: AttributeTarget): { at: FileTarget | undefined; node: Node } {
  if (target instanceof FileReference) return { at: targetOf(live, target), node: currentFile(live, target) }
  const { path, followLast = true } = target
  const node = findNode(live, path, followLast)
  return { at: resolve(live.tree, path, followLast).path, node }
}
