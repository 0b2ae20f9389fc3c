/**
 * A session behind plain `node:fs`, `require` and `import`, by way of Node's `node:vfs`.
 *
 * @module
 */
import type { Session } from '../../engine/index.js'
import { EngineError, invalid } from '../../engine/ports.js'
import { SessionFileHandle } from './file-handle.js'
import { promised, type NodeFs } from './node-fs.js'
import { absolute, pathMethods } from './path-methods.js'

/** What `vfs.create` takes: an instance of the `VirtualProvider` of this Node. */
export interface SessionProvider {
  readonly readonly: boolean
  readonly supportsSymlinks: boolean
  readonly supportsWatch: boolean
}

/**
 * A provider for `node:vfs`, which serves the files of a session to everything that uses `node:fs`, and to
 * `require` and `import`, below the path that `mount()` gives. It needs Node 26 or newer, started with
 * `--experimental-vfs`; that module may change with every release of Node.
 *
 * Guarantees
 * - The session's state is the only state: what one side writes, the other reads at once, also through
 *   several mounts of one session. A mounted fork is as separate as the fork.
 * - A change whose promise or callback came is acknowledged, with the exceptions below.
 * - Errors are those of `session.fs`; their `path` is the one inside the session.
 *
 * What node:vfs does in its own way
 * - It calls sync methods where the caller awaits: for `open`, `chmod`, `chown`, `utimes` and streams.
 *   Those are acknowledged as sync calls of `session.fs` are, and can throw EAGAIN as they do.
 * - It has no call for `fsync` of a descriptor.
 * - Read streams take the whole file into memory. `rm` is many single steps. `cp` does not reach a mount.
 * - `parentPath` of what `readdir` gives with types is the path inside the session, but for its sync form.
 * - Absolute symlink targets start at the root of the session, not at the mount.
 *
 * @throws EngineError `NO_ADAPTER` when this Node has no `node:vfs`.
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
  // Only an instance counts: node:vfs takes any other object for options and serves an empty tree instead.
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
    const message = 'this Node has no node:vfs: Node 26 or newer has it when started with --experimental-vfs'
    throw new EngineError('NO_ADAPTER', message, { module: 'node:vfs' })
  }
  return module.VirtualProvider
}
