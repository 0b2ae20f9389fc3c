import type { IFileSystem } from 'just-bash'
import { invalid, Shape, type Session } from '../../engine/index.js'
import { WorkspaceFileSystem } from './file-system.js'
import { PrivateLayer } from './private-layer.js'
import { WorkspaceShell, type WorkspaceShellOptions } from './shell.js'

export type { ShellChange, ShellExecOptions, ShellResult, WorkspaceShellOptions } from './shell.js'
export type { WorkspaceShell } from './shell.js'

/** Options of {@link workspaceFileSystem}. */
export interface WorkspaceFileSystemOptions {
  /** true: `/tmp` belongs to the file system, and not to the session; false by default. */
  readonly privateTmp?: boolean
}

/** The files of a session for just-bash, with the synchronous methods that its shells call when they are created. */
export interface WorkspaceFiles extends IFileSystem {
  /** Creates a directory. */
  mkdirSync(path: string, options?: { readonly recursive?: boolean }): void
  /** Writes a whole file. */
  writeFileSync(path: string, content: string | Uint8Array): void
}

const optionsShape = new Shape<WorkspaceFileSystemOptions>({ privateTmp: true })

/**
 * The files of a session as a file system of just-bash, for `new Bash({ fs, cwd: '/' })`. Each change is an event of
 * the session of its own; {@link workspaceShell} makes one event of each command.
 *
 * Guarantees
 * - `/bin`, `/dev`, `/proc` and `/usr/bin` are private to the file system, in memory and without versions. Files of
 *   the session at such paths are visible below the private ones, and cannot be changed there: EROFS.
 * - A call resolves when its change is acknowledged. Errors have the codes and texts of `node:fs`.
 * - Writes make missing parents, as in the file systems of just-bash.
 *
 * Pass `cwd` to `new Bash`. Without it, just-bash makes `/home/user` and `/tmp` in the session.
 *
 * @throws {EngineError} INVALID_ARGUMENT if the value is not a session, or an option is unknown.
 *
 * @example
 * import { Bash } from 'just-bash'
 * import { workspaceFileSystem } from 'forkspace/just-bash'
 *
 * const bash = new Bash({ fs: workspaceFileSystem(session), cwd: '/' })
 * await bash.exec('mkdir -p /src && echo one > /src/a.txt')
 */
export function workspaceFileSystem(
  session: Pick<Session, 'fs'>,
  options: WorkspaceFileSystemOptions = {},
): WorkspaceFiles {
  const { privateTmp = false } = optionsShape.read(options, 'options')
  if (typeof session?.fs !== 'object') throw invalid('session', 'must be a session')
  if (typeof privateTmp !== 'boolean') throw invalid('privateTmp', 'must be true or false')
  const { fs } = session
  return new WorkspaceFileSystem(() => fs, new PrivateLayer({ privateTmp }), 'each change')
}

/**
 * A shell of just-bash on a session. Each command is one event, so `session.undo()` undoes a whole command. Commands
 * reach the files of the session and nothing else; the network is closed by default.
 *
 * @throws {EngineError} INVALID_ARGUMENT if the value is not a session, or an option is unknown or has the wrong form.
 *
 * @example
 * import { workspaceShell } from 'forkspace/just-bash'
 *
 * const shell = workspaceShell(session)
 * const { stdout, exitCode, changes } = await shell.exec('echo one > a.txt && wc -c a.txt')
 */
export function workspaceShell(session: Session, options: WorkspaceShellOptions = {}): WorkspaceShell {
  return new WorkspaceShell(session, options)
}
