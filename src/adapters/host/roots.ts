import { promises as fs } from 'node:fs'
import { basename, dirname, isAbsolute, relative, resolve, sep } from 'node:path'
import { given, invalid } from '../../engine/ports.js'
import { DirectoryHandle } from './directory-handle.js'
import { errnoOf, explained, hostFailed, hostPathNotAllowed, hostPathNotFound } from './host-errors.js'

/** A caller's path with all symlinks resolved: a root, and the names below it. */
interface Place {
  readonly root: string
  readonly names: readonly string[]
  /** The number of names at the end that do not exist. */
  readonly missing: number
}

/** The directories of the host that may be used, with everything below them. */
export class Roots {
  readonly #roots: readonly string[]

  constructor(roots: readonly string[]) {
    for (const root of roots)
      if (typeof root !== 'string' || !isAbsolute(root)) throw notAbsolute('hostPaths.roots', root)
    this.#roots = roots
  }

  /**
   * Opens a directory, name by name from its root. With `create`, missing directories are created. Throws
   * HOST_PATH_NOT_ALLOWED if the path is outside all roots, and HOST_PATH_NOT_FOUND if the directory is
   * missing.
   */
  open(path: string, create = false): Promise<{ directory: DirectoryHandle; realPath: string }> {
    return explained(path, async () => {
      const { root, names, missing } = await this.#locate(path)
      if (missing > 0 && !create) throw hostPathNotFound(path)
      let directory = await DirectoryHandle.open(root)
      if (directory === undefined) throw hostPathNotAllowed(path)
      for (const [index, name] of names.entries()) {
        const parent: DirectoryHandle = directory
        try {
          if (index >= names.length - missing)
            await parent.at(name, (at) => fs.mkdir(at, 0o755)).catch(unlessExists)
          directory = await parent.enter(name)
        } finally {
          await parent.close()
        }
        // A real path consists of directories. Anything else is a file as the last existing name, or was
        // swapped in later.
        if (directory === undefined) {
          if (
            index === names.length - missing - 1 &&
            (await isFile(resolve(root, ...names.slice(0, index + 1))))
          )
            throw hostPathNotFound(path)
          throw hostPathNotAllowed(path)
        }
      }
      return { directory, realPath: resolve(root, ...names) }
    })
  }

  async #locate(path: string): Promise<Place> {
    if (typeof path !== 'string' || !isAbsolute(path)) throw notAbsolute('path', path)
    if (path.includes('\0')) throw invalid('path', 'contains a NUL character')
    let existing = resolve(path)
    const missing: string[] = []
    let errno: string | undefined
    let real: string | undefined
    // For a missing path, the location decides the error, so that the error reveals nothing about paths
    // outside the roots.
    for (;;) {
      try {
        real = await fs.realpath(existing)
        break
      } catch (error) {
        const code = errnoOf(error)
        if (code !== 'ENOENT' && code !== 'ENOTDIR') errno = code
        // A dangling symlink may lead anywhere later.
        const stat = await fs.lstat(existing).catch(() => undefined)
        if (stat?.isSymbolicLink() === true || dirname(existing) === existing) throw hostPathNotAllowed(path)
        missing.unshift(basename(existing))
        existing = dirname(existing)
      }
    }
    const root = await this.#rootOf(real)
    if (root === undefined) throw hostPathNotAllowed(path)
    if (errno !== undefined) throw hostFailed(errno, path)
    const below = relative(root, real)
    const names = below === '' ? [] : below.split(sep)
    return { root, names: [...names, ...missing], missing: missing.length }
  }

  /** Returns the innermost root that is the real path or above it. */
  async #rootOf(real: string): Promise<string | undefined> {
    let found: string | undefined
    for (const root of this.#roots) {
      const realRoot = await fs.realpath(root).catch(() => undefined)
      if (realRoot === undefined) continue
      const prefix = realRoot.endsWith(sep) ? realRoot : realRoot + sep
      if ((real === realRoot || real.startsWith(prefix)) && realRoot.length > (found?.length ?? -1))
        found = realRoot
    }
    return found
  }
}

function notAbsolute(field: string, path: unknown): Error {
  return invalid(field, `must be an absolute path; it is ${given(path)}`)
}

function unlessExists(error: unknown): void {
  if (errnoOf(error) !== 'EEXIST') throw error
}

async function isFile(path: string): Promise<boolean> {
  return (await fs.lstat(path).catch(() => undefined))?.isFile() === true
}
