import { posix } from 'node:path'
import type { SessionApi } from '../../engine/index.js'
import { EngineError, given, invalid } from '../../engine/ports.js'
import { errorResult, type Workspace } from '../tools/parts.js'
import { currentCall, type CurrentCall } from './call.js'

/** The state of one backend: the versions of files that its agent has read, and the marks of its events. */
export interface BackendScope {
  readonly workspace: Workspace
  readonly turn: () => { readonly turn?: string }
}

/** Phrases of the protocol for errors that callers look for in the text. */
const phrases: Readonly<Record<string, string>> = {
  PATH_NOT_FOUND: 'File not found: ',
  NO_MATCH: 'String not found: ',
  NOT_UNIQUE: 'Multiple occurrences, which replace_all replaces together: ',
}

/** A handle whose events have the marks of the call. */
export function handleFor({ workspace, turn }: BackendScope, call: CurrentCall): SessionApi {
  return workspace.sessionFor({ ...call, ...turn() })
}

/**
 * The result of a call. An error of the session is a text, from which a model learns what to do, so the loop goes on. An
 * abort rejects with its reason.
 */
export async function answer<Result extends object>(
  scope: BackendScope,
  work: (call: CurrentCall) => Promise<Result>,
): Promise<Result | { readonly error: string }> {
  const call = currentCall()
  call.signal?.throwIfAborted()
  try {
    return await work(call)
  } catch (error) {
    call.signal?.throwIfAborted()
    scope.workspace.noteMissing(error)
    return { error: errorText(error) }
  }
}

/** An error of the session as a text with its reason. Other errors are thrown on. */
export function errorText(error: unknown): string {
  const phrase = error instanceof EngineError ? phrases[error.reason] : undefined
  return (phrase ?? '') + errorResult(error).text
}

/**
 * An absolute path of the session. It may end with a slash, as listings show directories. `.` and `..` are refused: the
 * permission rules of Deep Agents compare the text of a path, which these could evade.
 *
 * @throws {EngineError} INVALID_ARGUMENT when it is no absolute path.
 */
export function pathOf(path: unknown): string {
  if (typeof path !== 'string' || !posix.isAbsolute(path))
    throw invalid('path', `must be absolute, such as /src/a.ts; it is ${given(path)}`)
  return `/${path.split('/').filter(Boolean).join('/')}`
}

/** Whether a call failed because nothing exists at its path. */
export function isMissing(error: unknown): boolean {
  return error instanceof EngineError && error.reason === 'PATH_NOT_FOUND'
}
