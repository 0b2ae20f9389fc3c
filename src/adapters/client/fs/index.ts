import type { FsPromises } from '../../../engine/index.js'
import { constants } from '../../../engine/client-contract.js'
import type { RemoteFiles } from '../files.js'
import { changesOf } from './changes.js'
import { contentsOf } from './contents.js'
import { copy } from './copy.js'
import { readsOf } from './reads.js'

/**
 * `session.fs.promises` of a session on a server: the API of `node:fs/promises`, with Node's errors. The
 * `cause` of an error is the `EngineError`. A call may take several requests, and other clients may change
 * files in between.
 */
export type RemoteFsPromises = Omit<
  FsPromises,
  'glob' | 'lchmod' | 'mkdtempDisposable' | 'open' | 'opendir' | 'statfs' | 'watch'
>

/**
 * The view of a session's files that `session.fs` of a session on a server returns. Unlike the view of a
 * local session, it has promises only.
 */
export interface RemoteFs {
  /** The API of `node:fs/promises`, without open files, streams and watchers. */
  readonly promises: RemoteFsPromises
  /** The constants of `node:fs`. */
  readonly constants: RemoteFsPromises['constants']
}

export function createRemoteFs(files: RemoteFiles): RemoteFs {
  const calls = { ...readsOf(files), ...changesOf(files), ...contentsOf(files) }
  const promises = {
    ...calls,
    cp: async (...request: unknown[]): Promise<void> => copy(files, calls, request),
    constants,
  }
  const typed = promises as unknown as RemoteFsPromises
  return { promises: typed, constants: typed.constants }
}
