import type { Buffer } from 'node:buffer'
import { Fault } from '../base/fault.js'
import { limits } from '../base/limits.js'
import type { SessionAccess } from '../session/access/session-access.js'
import type { Core } from '../session/core.js'
import type { Plan } from '../session/edits/plan.js'
import type { LiveSession } from '../session/table/live.js'
import { notADirectory, resolve } from '../session/reads/resolve.js'
import { Dir, type FileNode } from '../tree/node.js'
import { plainPath, slashed } from './resolve-path.js'
import type { SystemCall } from './errors.js'
import type { OpenFiles } from './open-files.js'

/** The three forms in which Node has each call; some of its errors name another system call in each. */
export type Form = 'promise' | 'callback' | 'sync'

/** The state that all calls of one `session.fs` share, and the form in which one was made. */
export interface Context {
  readonly access: SessionAccess
  readonly core: Core
  readonly files: OpenFiles
  readonly form: Form
}

/**
 * One call whose arguments are checked and copied; nothing has happened yet.
 *
 * With a plan it is a change: the plan is applied and recorded, then `look` gives the result without loading
 * anything. Without one, only `look` runs. Both may throw a Fault and then run again; they
 * have no effect before their last one.
 */
export interface Call<T> {
  /** The system call and paths that errors of the engine show. */
  readonly names: SystemCall
  readonly plan: ((live: LiveSession) => Plan) | undefined
  readonly look: (live: LiveSession) => T
  /** The result of a call that succeeds even if its session is unreachable. */
  readonly without?: () => T
  /** The actions that it needs; absent: a change with a plan, a read without one. */
  readonly needs?: readonly [FsAction, ...FsAction[]]
}

export type FsAction = 'fs.read' | 'fs.write'

export const readsAndWrites = ['fs.write', 'fs.read'] as const

/** Checks the arguments of a call, and throws Node's errors for them. */
export type Define<T> = (
  context: Context,
  a?: unknown,
  b?: unknown,
  c?: unknown,
  d?: unknown,
  e?: unknown,
) => Call<T>

export function read<T>(names: SystemCall, look: (live: LiveSession) => T): Call<T> {
  return { names, plan: undefined, look }
}

export function change(names: SystemCall, plan: (live: LiveSession) => Plan): Call<void> {
  return { names, plan, look: nothing }
}

export function changeWith<T>(
  names: SystemCall,
  plan: (live: LiveSession) => Plan,
  look: (live: LiveSession) => T,
): Call<T> {
  return { names, plan, look }
}

export function nothing(): void {}

/** The path in the form of the engine. A path with a trailing slash must be a directory, or not exist. */
export function locate(live: LiveSession, given: string): string {
  const path = plainPath(given)
  if (slashed(given)) {
    const { node } = resolve(live.tree, path, true)
    if (node !== undefined && !(node instanceof Dir)) throw notADirectory(path)
  }
  return path
}

/** The size limit of Node's buffers. */
const maxReadBytes = 2 ** 31 - 1

export function checkReadable(size: number): void {
  if (size <= maxReadBytes) return
  const error = new RangeError(`File size (${size}) is greater than 2 GiB`)
  throw Object.assign(error, { code: 'ERR_FS_FILE_TOO_LARGE' })
}

/**
 * One range of a file's content, read at once where that is possible. Otherwise, and for large ranges in the forms
 * that may wait, a Fault reads it: later attempts get the content of the first one.
 */
export class Content {
  #bytes: Buffer | undefined

  /** The content once a Fault has brought it, even if the file has changed since. */
  get ready(): Buffer | undefined {
    return this.#bytes
  }

  read({ core, form }: Context, file: FileNode, start: number, count: number): Buffer {
    const body = core.contentIds.body(file)
    const wait = form !== 'sync' && count > limits.importCommitBytes
    const bytes = wait ? undefined : core.content.readSync(body, start, count)
    if (bytes !== undefined) return bytes
    throw new Fault(async () => {
      this.#bytes = await core.content.read(body, start, count)
    })
  }
}
