import { joinPath } from '../../base/path.js'
import type { Core } from '../core.js'
import type { Redo } from '../../records/event.js'
import { parentNotFound, type Location } from '../reads/resolve.js'

/**
 * 'create': missing parents are created, with mode 0o755 by default. 'require': a missing parent is
 * PATH_NOT_FOUND.
 */
export type Parents = 'create' | 'require'

export function makeParents(
  core: Core,
  at: Location,
  path: string,
  parents: Parents = 'create',
  mode = 0o755,
): Redo[] {
  if (parents === 'require') {
    requireParents(at, path)
    return []
  }
  const redo: Redo[] = []
  for (let depth = at.parents + 1; depth < at.names.length; depth++) {
    redo.push(['d', joinPath(at.names.slice(0, depth)), mode, core.ids.newIno()])
  }
  return redo
}

export function requireParents(at: Location, path: string): void {
  if (at.parents < at.names.length - 1)
    throw parentNotFound(path, joinPath(at.names.slice(0, at.parents + 1)))
}
