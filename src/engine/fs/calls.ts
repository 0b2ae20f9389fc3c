import type { Buffer } from 'node:buffer'
import { runLoaded, type LoadingSteps } from '../base/cooperative.js'
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

/**
 * The three forms of each call in Node. Some of Node's errors contain a different system call in each form.
 */
export type Form = 'promise' | 'callback' | 'sync'

/** The state that all calls of one `session.fs` share, and the form of the current call. */
export interface Context {
  readonly access: SessionAccess
  readonly core: Core
  readonly files: OpenFiles
  readonly form: Form
}

/**
 * One call whose arguments are checked and copied. It has not run yet.
 *
 * A call with a plan is a change. The plan is applied and recorded, then `look` returns the result without
 * loading anything. For a call without a plan, only `look` runs. Both functions may throw a Fault and then
 * run again. Only the last run has effects.
 */
export interface Call<T> {
  /** The system call and the paths for the message of an error of the engine. */
  readonly names: SystemCall
  readonly plan: ((live: LiveSession) => Plan) | undefined
  readonly look: (live: LiveSession) => T
  /**
   * `look` in steps, between which the forms that may wait pause. It finds the nodes to start from at once. They never
   * change afterwards.
   */
  readonly steps?: (live: LiveSession) => LoadingSteps<T>
  /** Returns the result if the session is unreachable. Only calls that then still succeed have it. */
  readonly without?: () => T
  /** The permissions that the call needs. If absent: `fs.write` with a plan, `fs.read` without one. */
  readonly needs?: readonly [FsAction, ...FsAction[]]
}

/** A call that is a change. */
export interface ChangeCall<T> extends Call<T> {
  readonly plan: (live: LiveSession) => Plan
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

/** A read that may visit very many entries. */
export function readInSteps<T>(names: SystemCall, steps: (live: LiveSession) => LoadingSteps<T>): Call<T> {
  return { names, plan: undefined, look: (live) => runLoaded(steps(live)), steps }
}

export function change(names: SystemCall, plan: (live: LiveSession) => Plan): Call<void> {
  return { names, plan, look: nothing }
}

export function changeWith<T>(
  names: SystemCall,
  plan: (live: LiveSession) => Plan,
  look: (live: LiveSession) => T,
): ChangeCall<T> {
  return { names, plan, look }
}

export function nothing(): void {}

/** Converts a path to the engine's form. A path with a trailing slash must be a directory, or not exist. */
export function locate(live: LiveSession, given: string): string {
  const path = plainPath(given)
  if (slashed(given)) {
    const { node } = resolve(live.tree, path, true)
    if (node !== undefined && !(node instanceof Dir)) throw notADirectory(path)
  }
  return path
}

export function checkReadable(size: number): void {
  if (size <= limits.readBytes) return
  const error = new RangeError(`File size (${size}) is greater than 2 GiB`)
  throw Object.assign(error, { code: 'ERR_FS_FILE_TOO_LARGE' })
}

/**
 * One range of a file's content, read synchronously if possible. Otherwise `read` throws a Fault that loads
 * the range. The forms that may wait also do this for large ranges. Later attempts return the content that
 * the first one loaded.
 */
export class Content {
  #bytes: Buffer | undefined

  /** The content that a Fault loaded, even if the file has changed since then. */
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
