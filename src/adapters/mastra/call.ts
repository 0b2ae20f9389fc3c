import type { SessionApi } from '../../engine/index.js'
import type { Workspace } from '../tools/parts.js'

/** The tool call in whose course a filesystem or sandbox is called, if a hook has said so. */
export interface CurrentCall {
  readonly callId?: string
  readonly turn?: string
  readonly signal?: AbortSignal
}

/** The parts that a filesystem and its copies for single calls share. */
export interface Shared {
  readonly workspace: Workspace
  readonly turn: () => { readonly turn?: string }
}

/** A handle whose events have the marks of the call. */
export function handleFor({ workspace, turn }: Shared, call: CurrentCall): SessionApi {
  return workspace.sessionFor({ ...turn(), ...call })
}

/** Gives the same filesystem or sandbox for one call. */
export const forCall = Symbol('for one call')

/** A filesystem or sandbox of these adapters. */
export interface Callable {
  [forCall](call: CurrentCall): object
}
