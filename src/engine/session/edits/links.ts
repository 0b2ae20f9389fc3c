import { Buffer } from 'node:buffer'
import { EngineError, invalid } from '../../base/errors.js'
import { parseText } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { parsePath } from '../../base/path.js'
import { Shape } from '../../base/shape.js'
import { Dir, Symlink } from '../../tree/node.js'
import type { Core } from '../core.js'
import { eventTypes, type Redo } from '../../records/event.js'
import type { LiveSession } from '../table/live.js'
import { requireParents } from './parents.js'
import type { Plan } from './plan.js'
import { alreadyExists, notFound, resolve } from '../reads/resolve.js'

/** The request of `session.files.createSymlink`. */
export interface CreateSymlinkRequest {
  /** Absolute path of the new symlink, such as `/bin/tool`. */
  readonly linkPath: string
  /**
   * The path that the symlink points to, absolute or relative to its directory, at most 4,095 bytes. It need
   * not exist, and is resolved on each use, inside the session.
   */
  readonly target: string
}

export const createSymlinkShape = new Shape<CreateSymlinkRequest>({ linkPath: true, target: true })

export function planCreateSymlink(core: Core, live: LiveSession, request: CreateSymlinkRequest): Plan {
  parsePath(request.linkPath, 'linkPath')
  const target = parseTarget(request.target)
  const at = resolve(live.tree, request.linkPath, false)
  if (at.node !== undefined) throw alreadyExists(request.linkPath)
  requireParents(at, request.linkPath)
  const linkPath = at.path
  const redo: Redo[] = [['s', linkPath, target, core.ids.newIno()]]
  return { type: eventTypes.createSymlink, details: { linkPath, target }, redo }
}

/** The target of a new symlink, checked. */
export function parseTarget(given: unknown): string {
  const target = parseText('target', given, Infinity)
  if (target === '' || target.includes('\0')) throw invalid('target', 'must not be empty or contain NUL')
  const bytes = Buffer.byteLength(target)
  if (bytes <= limits.symlinkTargetBytes) return target
  const message = `target: the target of a symlink has ${bytes} bytes; at most ${limits.symlinkTargetBytes} are allowed`
  throw new EngineError('NAME_TOO_LONG', message, { field: 'target' })
}

/** The request of `session.files.link`. */
export interface LinkRequest {
  /** Absolute path of a file, or of a symlink, which is not followed. */
  readonly srcPath: string
  /** Absolute path of the new name, such as `/src/b.ts`. */
  readonly dstPath: string
}

export const linkShape = new Shape<LinkRequest>({ srcPath: true, dstPath: true })

/** Adds a name to a file. Content, mode, attributes and locks are the same under each name. */
export function planLink(live: LiveSession, { srcPath, dstPath }: LinkRequest): Plan {
  parsePath(srcPath, 'srcPath')
  parsePath(dstPath, 'dstPath')
  const from = resolve(live.tree, srcPath, false)
  if (from.node === undefined) throw notFound(srcPath)
  const to = resolve(live.tree, dstPath, false)
  if (to.node !== undefined) throw alreadyExists(dstPath)
  requireParents(to, dstPath)
  const { node } = from
  if (node instanceof Dir)
    throw new EngineError(
      'NOT_PERMITTED',
      `${srcPath} is a directory; only files and symlinks can have a second name`,
      { path: srcPath },
    )
  const details = { srcPath: from.path, dstPath: to.path }
  // A symlink never changes, so an equal symlink serves as its second name.
  const redo: Redo =
    node instanceof Symlink ? ['s', to.path, node.target, node.ino] : ['h', from.path, to.path]
  return { type: eventTypes.createHardLink, details, redo: [redo] }
}
