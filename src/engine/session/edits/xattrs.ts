import { Buffer } from 'node:buffer'
import { EngineError, invalid } from '../../base/errors.js'
import { parseText, tooLarge, given } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { Shape } from '../../base/shape.js'
import { BlobRef } from '../../cas/blob.js'
import { toBytes } from '../../cas/staging.js'
import { Symlink, type Dir, type FileNode } from '../../tree/node.js'
import { findXattr } from '../../tree/xattrs.js'
import { eventTypes } from '../../records/event.js'
import type { LiveSession } from '../table/live.js'
import type { Plan } from './plan.js'
import { notFound, resolve } from '../reads/resolve.js'

/** The request of `session.files.getXattr` and `session.files.removeXattr`. */
export interface XattrRequest {
  /** Absolute path of a file or directory in the session. Symlinks are followed. */
  readonly path: string
  /** The name of the attribute, 1 to 255 bytes, such as `user.origin`. */
  readonly name: string
}

/** The request of `session.files.setXattr`. */
export interface SetXattrRequest extends XattrRequest {
  /** The value, as text in UTF-8 or as bytes, at most 64 KiB. */
  readonly value: string | Uint8Array
}

export const xattrShape = new Shape<XattrRequest>({ path: true, name: true })

export const setXattrShape = new Shape<SetXattrRequest>({ path: true, name: true, value: true })

/** Copies the caller's value, for an event. */
export function parseXattrValue(value: unknown): BlobRef {
  const bytes = toBytes(value, 'value')
  if (bytes.byteLength > limits.xattrValueBytes) throw tooLarge('value', 'bytes', limits.xattrValueBytes)
  return BlobRef.of(Buffer.from(bytes))
}

export function planSetXattr(live: LiveSession, request: XattrRequest, value: BlobRef): Plan {
  const { path, node, name } = locate(live, request)
  const count = node.xattrs?.length ?? 0
  if (count >= limits.xattrsPerNode && findXattr(node.xattrs, name) === undefined)
    throw tooLarge('name', 'attributes', limits.xattrsPerNode)
  return {
    type: eventTypes.setXattr,
    details: { path, name },
    redo: [['x', path, name, value]],
    blobs: [value],
  }
}

export function planRemoveXattr(live: LiveSession, request: XattrRequest): Plan {
  const { path } = findXattrAt(live, request)
  const { name } = request
  return { type: eventTypes.removeXattr, details: { path, name }, redo: [['x', path, name, 0]] }
}

export function findXattrAt(live: LiveSession, request: XattrRequest): { path: string; value: BlobRef } {
  const { path, node, name } = locate(live, request)
  const value = findXattr(node.xattrs, name)
  if (value === undefined)
    throw new EngineError(
      'XATTR_NOT_FOUND',
      `${request.path} has no extended attribute ${given(name)}; listXattrs() lists its attributes`,
      { name },
    )
  return { path, value }
}

export function listXattrs(live: LiveSession, path: string): string[] {
  return (nodeAt(live, path).node.xattrs ?? []).map(([name]) => name)
}

function locate(
  live: LiveSession,
  request: XattrRequest,
): { path: string; node: FileNode | Dir; name: string } {
  const name = parseText('name', request.name, limits.xattrNameBytes)
  if (name === '' || name.includes('\0')) throw invalid('name', 'must not be empty or contain NUL')
  return { ...nodeAt(live, request.path), name }
}

function nodeAt(live: LiveSession, given: string): { path: string; node: FileNode | Dir } {
  const { path, node } = resolve(live.tree, given, true)
  if (node === undefined || node instanceof Symlink) throw notFound(given)
  return { path, node }
}
