import { EngineError } from '../base/errors.js'
import { StagedContent } from '../cas/staging.js'
import type { Plan } from '../session/edits/plan.js'
import type { LiveSession } from '../session/table/live.js'
import { isADirectory, notADirectory, notFound, resolve, type Location } from '../session/reads/resolve.js'
import { requireParents } from '../session/edits/parents.js'
import { planWrite } from '../session/edits/writes.js'
import { Dir, Symlink } from '../tree/node.js'
import { givenPath, plainPath, slashed } from './resolve-path.js'
import { toMode } from './values.js'
import {
  changeWith,
  read,
  readsAndWrites,
  type Call,
  type Context,
  type Define,
  type FsAction,
} from './calls.js'
import { systemError } from './errors.js'
import { toFlags, type Flags } from './flags.js'
import type { OpenFile } from './open-files.js'

/** The default mode of a new file: Node's 0o666 under the usual umask. */
const defaultMode = 0o644

export function openCall(context: Context, path: unknown, flags: unknown, mode: unknown): Call<OpenFile> {
  const given = givenPath(path)
  const settings = toFlags(flags)
  const bits = toMode(typeof mode === 'function' ? undefined : mode, defaultMode)
  const names = { syscall: 'open', path: given }
  const needs = usesOf(settings)
  if (!settings.create && !settings.truncate) {
    const look = (live: LiveSession): OpenFile =>
      context.files.open(live, openedAt(live, given, settings), settings)
    return { needs, ...read(names, look) }
  }
  let at: Location
  const call = changeWith(
    names,
    (live) => {
      at = openedAt(live, given, settings)
      return planOpen(context, live, at.path, { at, flags: settings, mode: bits })
    },
    (live) => context.files.open(live, resolve(live.tree, at.path, false), settings),
  )
  return { needs, ...call }
}

/** Returns the permissions that the flags need. */
export function usesOf({ read: reads, write, create, truncate }: Flags): readonly [FsAction, ...FsAction[]] {
  if (!write && !create && !truncate) return ['fs.read']
  return reads ? readsAndWrites : ['fs.write']
}

/** `open` in the callback and synchronous forms, which return a number. */
export const open: Define<number> = (context, path, flags, mode) => {
  const { names, plan, needs, look } = openCall(context, path, flags, mode)
  return { names, plan, ...(needs && { needs }), look: (live) => look(live).number }
}

/**
 * Finds the location to open, with the errors of open(2). A missing file is an error unless the flags create
 * it.
 */
export function openedAt(live: LiveSession, given: string, flags: Flags): Location {
  // Linux has no call that creates a directory and opens it.
  if (flags.create && flags.directory) throw systemError('EINVAL', { syscall: 'open', path: given })
  const path = plainPath(given)
  if (slashed(given) && flags.create) refuseFileName(live, path)
  const followLast = !flags.exclusive && !flags.noFollow
  const at = resolve(live.tree, path, followLast || slashed(given))
  if (at.node === undefined) {
    if (!flags.create) throw notFound(path)
    return at
  }
  if (flags.exclusive) throw new EngineError('ALREADY_EXISTS', `${path} already exists`, { path })
  if (at.node instanceof Symlink) {
    if (flags.directory) throw notADirectory(path)
    throw new EngineError('SYMLINK_LOOP', `${path} is a symlink`, { path })
  }
  if (!(at.node instanceof Dir)) {
    if (flags.directory || slashed(given)) throw notADirectory(path)
  } else if (flags.write || flags.create || flags.truncate) throw isADirectory(path)
  return at
}

/** A call that may create a file takes no name with a slash at the end. As on Linux, errors of its directory come first. */
export function refuseFileName(live: LiveSession, path: string): never {
  requireParents(resolve(live.tree, path, false), path)
  throw isADirectory(path)
}

/** Creates or truncates the file if the flags require it. */
export function planOpen(
  { core }: Context,
  live: LiveSession,
  path: string,
  { at, flags, mode }: { at: Location; flags: Flags; mode: number },
): Plan {
  if (at.node !== undefined && !flags.truncate) return undefined
  const staged = new StagedContent('', core)
  const request = at.node === undefined ? { path, content: '', mode } : { path, content: '' }
  return planWrite(core, live, request, staged, { parents: 'require', exclusive: flags.exclusive })
}
