import { posix } from 'node:path'
import type { FsStat } from 'just-bash'
import { fsError, isMissing } from './errors.js'
import { justBashLimits } from './limits.js'
import { normalPath, type PrivateLayer } from './private-layer.js'
import type { SessionCalls } from './session-calls.js'

/** A path in one of the two layers. */
export interface Place {
  readonly layer: 'private' | 'session'
  readonly path: string
}

/** Finds the layer that has a path. */
export class Layers {
  readonly session: SessionCalls
  readonly private: PrivateLayer

  constructor(session: SessionCalls, privateLayer: PrivateLayer) {
    this.session = session
    this.private = privateLayer
  }

  /**
   * Runs a read at a path. The usual path has no symlink from one layer to the other, so the walk is only for those
   * that the first layer does not have.
   */
  async read<T>(path: string, syscall: string, run: (place: Place) => Promise<T>, follow = true): Promise<T> {
    const first = this.#placeOf(checked(path, syscall))
    try {
      return await run(first)
    } catch (error) {
      if (!isMissing(error)) throw error
      const { place } = await this.#walk(first.path, syscall, follow)
      if (isSame(place, first)) throw error
      return await run(place)
    }
  }

  /**
   * The place of a change. A path of the session beneath a private directory cannot be changed there.
   *
   * @throws {Error} EROFS for such a path, unless the change replaces it in the private layer.
   */
  async change(
    path: string,
    syscall: string,
    { follow = true, replaces = false }: { readonly follow?: boolean; readonly replaces?: boolean } = {},
  ): Promise<Place> {
    const first = this.#placeOf(checked(path, syscall))
    // Symlinks within the session are the session's own matter, unless they lead to nothing there.
    if (first.layer === 'session' && !(await this.#leadsNowhere(first.path, follow))) return first
    const { place } = await this.#walk(first.path, syscall, follow)
    if (place.layer === 'private' || !this.private.has(place.path)) return place
    if (replaces) return { layer: 'private', path: place.path }
    throw fsError('EROFS', syscall, path)
  }

  /** Information about a path in either layer, without following a symlink at its end. */
  async lstat({ layer, path }: Place): Promise<FsStat> {
    if (layer === 'private') return this.private.memory.lstat(path)
    return toFsStat(await this.session.lstat(path))
  }

  async readlink({ layer, path }: Place): Promise<string> {
    return layer === 'private' ? this.private.memory.readlink(path) : this.session.readlink(path)
  }

  #placeOf(path: string): Place {
    return { layer: this.private.has(path) ? 'private' : 'session', path }
  }

  /** Whether the session does not have the path, or its parent for a path that is not followed. */
  async #leadsNowhere(path: string, follow: boolean): Promise<boolean> {
    try {
      await this.session.stat(follow ? path : posix.dirname(path))
      return false
    } catch (error) {
      if (!isMissing(error)) return false
      return true
    }
  }

  /** Follows a path name by name, through both layers. */
  async #walk(path: string, syscall: string, follow: boolean): Promise<{ readonly place: Place }> {
    let place: Place = { layer: 'session', path: '/' }
    let names = path.split('/').filter((name) => name !== '')
    for (let hops = 0; names.length > 0;) {
      const [name = '', ...rest] = names
      const next = posix.join(place.path, name)
      const found = await this.#find(next)
      if (found === undefined) return { place: this.#placeOf(posix.join(next, ...rest)) }
      names = rest
      if (!found.isLink || (rest.length === 0 && !follow)) {
        place = found.place
        continue
      }
      if (++hops > justBashLimits.symlinkHops) throw fsError('ELOOP', syscall, path)
      const target = posix.resolve(place.path, await this.readlink(found.place))
      names = [...target.split('/').filter((part) => part !== ''), ...rest]
      place = { layer: 'session', path: '/' }
    }
    return { place }
  }

  /** The layer that has a path. The private layer hides the session. */
  async #find(path: string): Promise<{ readonly place: Place; readonly isLink: boolean } | undefined> {
    const layers = this.private.has(path) ? (['private', 'session'] as const) : (['session'] as const)
    for (const layer of layers) {
      const place = { layer, path }
      const stat = await this.lstat(place).catch(() => undefined)
      if (stat !== undefined) return { place, isLink: stat.isSymbolicLink }
    }
    // The parents of private directories exist even if the session does not have them.
    return this.private.isShared(path) ? { place: { layer: 'private', path }, isLink: false } : undefined
  }
}

/** @throws {Error} ENOENT for a path that no file can have. */
function checked(path: string, syscall: string): string {
  if (path.includes('\0')) throw fsError('ENOENT', syscall, path.replaceAll('\0', '\\0'))
  return normalPath(path)
}

function isSame(one: Place, other: Place): boolean {
  return one.layer === other.layer && one.path === other.path
}

/** The information of a session in the form of just-bash. */
export function toFsStat(stat: Awaited<ReturnType<SessionCalls['lstat']>>): FsStat {
  return {
    isFile: stat.isFile(),
    isDirectory: stat.isDirectory(),
    isSymbolicLink: stat.isSymbolicLink(),
    mode: Number(stat.mode) & 0o7777,
    size: Number(stat.size),
    mtime: stat.mtime,
    identity: `session:${stat.ino}`,
  }
}
