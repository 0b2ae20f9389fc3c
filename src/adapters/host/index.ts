import { Shape, type Host } from '../../engine/ports.js'
import { OpenHostTree } from './host-tree.js'
import { Roots } from './roots.js'
import { Scan } from './scan.js'

/** These exports are for the git adapter, which opens repositories on this host in the same way. */
export { DirectoryHandle } from './directory-handle.js'
export { kindOf } from './host-stat.js'
export { listNames, statAll } from './list-names.js'
export { openFile } from './read-file.js'
export { Roots } from './roots.js'

export { runProcess } from './run-process.js'

export interface HostOptions {
  /** Directories that may be read and written, with everything below them. */
  readonly roots: readonly string[]
}

const optionsShape = new Shape<HostOptions>({ roots: true })

/**
 * Reads and writes directories of this host at and below the roots, and nothing outside. Other processes with
 * write access may swap directories for symlinks at any time. On Linux, this has no effect, because
 * directories are kept open and every name is looked up in an open directory. Without `/proc/self/fd`, paths
 * are compared before and after each step, which detects a swap only afterwards. Users with write access
 * above the roots are trusted. Throws INVALID_ARGUMENT for an unknown option, and for a root that is not
 * absolute.
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
