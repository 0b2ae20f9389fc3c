/**
 * Serves a session to plain `node:fs`, `require` and `import`, through Node's `node:vfs`.
 *
 * @module
 */
import type { Session } from '../../engine/index.js'
import { EngineError, invalid } from '../../engine/ports.js'
import { SessionFileHandle } from './file-handle.js'
import { promised, type NodeFs } from './node-fs.js'
import { absolute, pathMethods } from './path-methods.js'

/** An instance of Node's `VirtualProvider`, for `vfs.create`. */
export interface SessionProvider {
  /** Always false: the mount is writable. */
  readonly readonly: boolean
  /** Always true. */
  readonly supportsSymlinks: boolean
  /** Always true. */
  readonly supportsWatch: boolean
}

/**
 * A provider for `node:vfs`. It serves the files of a session to all code that uses `node:fs`, `require` or
 * `import`, below the path that `mount()` returns. It needs Node 26 or newer, started with
 * `--experimental-vfs`. The module `node:vfs` may change with every release of Node.
 *
 * Guarantees
 * - The provider has no state of its own. A write through the session is visible in the mount immediately,
 *   and vice versa. Several mounts of one session share its state. A mounted fork is separate from its
 *   parent.
 * - A change is acknowledged when its promise resolves or its callback is called, with the exceptions below.
 * - Errors are those of `session.fs`. Their `path` is the path inside the session.
 *
 * Limits of node:vfs
 * - For the promise forms of `open`, `chmod`, `chown`, `utimes` and streams it calls the sync methods. Such a
 *   call is acknowledged like a sync call of `session.fs`, and can throw EAGAIN like one.
 * - It does not support `fsync` of a descriptor.
 * - Read streams load the whole file into memory. `rm` is many separate changes. `cp` does not work in a
 *   mount.
 * - The entries of `readdir` with `withFileTypes` have the path inside the session as `parentPath`. Those of
 *   `readdirSync` have the path in the mount.
 * - Absolute symlink targets start at the root of the session, not at the mount.
 *
 * @throws {EngineError} INVALID_ARGUMENT if the value is not a session
 * @throws {EngineError} NO_ADAPTER if this Node has no `node:vfs`
 *
 * @example
 * import vfs from 'node:vfs'
 * import fs from 'node:fs'
 * import { sessionProvider } from 'forkspace/node-vfs'
 *
 * const mounted = vfs.create(sessionProvider(session))
 * const root = mounted.mount()
 * fs.readFileSync(`${root}/package.json`, 'utf8')
 * mounted.unmount()
 */
export function sessionProvider(session: Session): SessionProvider {
  if (typeof session?.fs !== 'object') throw invalid('session', 'must be a session')
  const fs: NodeFs = session.fs
  // It must be an instance of the class: node:vfs treats any other object as options, and serves an empty
  // tree.
  const provider = new (virtualProvider())()
  Object.defineProperties(provider, {
    supportsSymlinks: { value: true },
    supportsWatch: { value: true },
  })
  return Object.assign(provider, pathMethods(fs), openMethods(fs), watchMethods(fs))
}

function openMethods(fs: NodeFs): object {
  return {
    openSync: (path: string, flags: string | number = 'r', mode?: number) =>
      new SessionFileHandle(fs, fs.openSync(absolute(path), flags, mode)),
    open: async (path: string, flags: string | number = 'r', mode?: number) =>
      new SessionFileHandle(fs, await promised<number>((done) => fs.open(absolute(path), flags, mode, done))),
  }
}

function watchMethods(fs: NodeFs): object {
  return {
    watch: (path: string, options?: object) => fs.watch(absolute(path), options ?? {}),
    watchFile: (path: string, options?: object, listener?: unknown) =>
      fs.watchFile(absolute(path), options ?? {}, listener as StatListener),
    unwatchFile: (path: string, listener?: unknown) =>
      fs.unwatchFile(absolute(path), listener as StatListener),
    watchAsync: (path: string, options?: object) => fs.promises.watch(absolute(path), options),
  }
}

type StatListener = (current: unknown, previous: unknown) => void

function virtualProvider(): new () => SessionProvider {
  const module: { readonly VirtualProvider?: new () => SessionProvider } | undefined =
    process.getBuiltinModule('node:vfs')
  if (module?.VirtualProvider === undefined) {
    const message = 'node:vfs is not available: start Node 26 or newer with --experimental-vfs'
    throw new EngineError('NO_ADAPTER', message, { module: 'node:vfs' })
  }
  return module.VirtualProvider
}
