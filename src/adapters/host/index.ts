import { Shape, type Host } from '../../engine/ports.js'
import { OpenHostTree } from './host-tree.js'
import { Roots } from './roots.js'
import { Scan } from './scan.js'

/** For the git adapter, which opens repositories of this host as directories are opened here. */
export { HeldDirectory } from './held-directory.js'
export { kindOf } from './host-stat.js'
export { listNames, statAll } from './list-names.js'
export { openFile } from './read-file.js'
export { Roots } from './roots.js'

export interface HostOptions {
  /** Directories that may be read and written, with everything below them. */
  readonly roots: readonly string[]
}

const optionsShape = new Shape<HostOptions>({ roots: true })

/**
 * Reads and writes directories of this host at and below its roots, and nothing outside of them, whatever others who
 * can write there swap for symlinks meanwhile: on Linux directories are held open, and every name is looked up in the
 * open directory. Where there is no `/proc/self/fd` paths are compared before and after each step, which finds a swap
 * only once it has happened. Who can write above the roots is trusted.
 * INVALID_ARGUMENT for an unknown option, and for a root that is not absolute.
 */
export function createHost(options: HostOptions): Host {
  const { roots } = optionsShape.read(options, 'options')
  const allowed = new Roots(roots)
  return {
    async check(path) {
      const { directory, realPath } = await allowed.open(path)
      await directory.close()
      return realPath
    },
    async scan({ path }, sink, context) {
      context.signal.throwIfAborted()
      const { directory } = await allowed.open(path)
      try {
        return await new Scan(sink, context).run(directory)
      } finally {
        await directory.close()
      }
    },
    async open(path, { create }) {
      const { directory, realPath } = await allowed.open(path, create)
      return new OpenHostTree(realPath, directory)
    },
  }
}
