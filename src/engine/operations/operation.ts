import type { ErrorReason } from '../base/errors.js'
import type { EventType } from '../records/event.js'
import type { Tag } from './tags.js'

/**
 * Permissions of a handle, which `session.narrow` can withhold. An operation needs a capability for each of
 * its effects.
 */
export const capabilities = [
  'files.read',
  'files.write',
  'history',
  'fork',
  'delete',
  'locks',
  'locks.force',
  'annotations',
  'approvals',
  'approvals.decide',
  'commit',
  'checkout',
  'exec',
  'promote',
  'cache',
  'bus',
  'health',
  'secrets',
  'sources',
  'sessions',
  'usage',
] as const

/**
 * A permission of a handle, which `session.narrow` can withhold. An operation needs a capability for each of
 * its effects; {@link capabilitiesOf} lists them.
 *
 * @useDeclaredType
 */
export type Capability = (typeof capabilities)[number]

/** A property of a request that requires additional capabilities. */
export type Condition = 'checkpoint' | 'borrowed' | 'otherSession' | 'source'

/** The capabilities that an operation requires. */
export interface Needs {
  /** Required by every request. */
  readonly capabilities: readonly [Capability, ...Capability[]]
  /**
   * Additional capabilities for a request that refers to a checkpoint, borrows content, refers to another
   * session by its id, or refers to a source.
   */
  readonly when?: Readonly<Partial<Record<Condition, readonly Capability[]>>>
}

/** One operation of the interface. */
export interface Operation extends Needs {
  readonly tag: Tag
  /** A few words, without a full stop. */
  readonly summary: string
  /** The effect and guarantees, in CommonMark. The errors are in `errors`. */
  readonly description: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Parameters are written as `{name}`. */
  readonly path: string
  /** Other paths of the same operation. */
  readonly aliases?: readonly string[]
  /** Parameters in the query of the URL. */
  readonly query?: readonly string[]
  /**
   * The library method that implements it, for example `session.files.rename`. The method takes the request
   * without `sessionId` and returns the response. If it is absent, the library's form differs, and
   * `facade/call.ts` converts it.
   */
  readonly implementedBy?: `session.${string}` | `engine.${string}`
  /** True if the operation is not part of the interface. The contract marks it as an extension. */
  readonly extension?: true
  /** True if the operation returns a stream of responses, which stays open. */
  readonly stream?: true
  /** The type of the event that it records for a change. */
  readonly event?: EventType
  /** Its errors, in addition to {@link commonErrors}. */
  readonly errors: readonly ErrorReason[]
}

/** Errors that every operation can have. */
export const commonErrors = [
  'INVALID_ARGUMENT',
  'TOO_LARGE',
  'PERMISSION_DENIED',
  'STORE_CLOSED',
  'STORE_FAILED',
  'STORE_FULL',
  'STORE_MOVED',
  'STORE_TAKEN',
  'BUDGET',
  'DATA_LOSS',
  'INTERNAL',
] as const satisfies readonly ErrorReason[]

/** Keeps the literal types of the operation names and `implementedBy` in a table. */
export function defineOperations<const Methods extends Readonly<Record<string, unknown>>>(operations: {
  readonly [Name in keyof Methods]: Operation & { readonly implementedBy?: Methods[Name] }
}): { readonly [Name in keyof Methods]: Operation & { readonly implementedBy?: Methods[Name] } } {
  return operations
}
