import type { ErrorReason } from '../base/errors.js'
import type { EventType } from '../records/event.js'
import type { Tag } from './tags.js'

/**
 * What a handle may be allowed to do, or not: see `session.narrow`. An operation needs every capability that its effect
 * amounts to.
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
  'promote',
  'cache',
  'bus',
  'health',
  'secrets',
  'sources',
  'sessions',
  'usage',
] as const

export type Capability = (typeof capabilities)[number]

/** What a request has that makes it need more than its operation. */
export type Condition = 'checkpoint' | 'borrowed' | 'otherSession' | 'source'

/** What an operation needs of a handle. */
export interface Needs {
  /** All of these. */
  readonly capabilities: readonly [Capability, ...Capability[]]
  /** And these, where the request names a checkpoint, borrows content, names another session by its id, or names a source. */
  readonly when?: Readonly<Partial<Record<Condition, readonly Capability[]>>>
}

/** One operation of the interface. */
export interface Operation extends Needs {
  readonly tag: Tag
  /** A few words, without a full stop. */
  readonly summary: string
  /** What it does and guarantees, in CommonMark; its errors stand in `errors`. */
  readonly description: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** With `{name}` for each part that is a parameter. */
  readonly path: string
  /** Further paths of the same operation. */
  readonly aliases?: readonly string[]
  /** Parameters that stand in the query of the URL. */
  readonly query?: readonly string[]
  /**
   * The method that carries it out, as a user of the library calls it: `session.files.rename`. It takes the request
   * without `sessionId` and gives the response. Absent: the operation has a row in `facade/call.ts`, because the library
   * has another form of it.
   */
  readonly implementedBy?: `session.${string}` | `engine.${string}`
  /** Beyond the interface: marked as an extension in the contract. */
  readonly extension?: true
  /** What it gives is a stream of responses, which stays open. */
  readonly stream?: true
  /** The type of the event that it records when it changes something. */
  readonly event?: EventType
  /** What it may fail with, besides {@link commonErrors}. */
  readonly errors: readonly ErrorReason[]
}

/** What every operation may fail with. */
export const commonErrors = [
  'INVALID_ARGUMENT',
  'TOO_LARGE',
  'PERMISSION_DENIED',
  'STORE_CLOSED',
  'STORE_FAILED',
  'STORE_FULL',
  'STORE_MOVED',
  'BUDGET',
  'DATA_LOSS',
  'INTERNAL',
] as const satisfies readonly ErrorReason[]

/** Keeps the names of a table's operations, and of the methods that carry them out. */
export function defineOperations<const Methods extends Readonly<Record<string, unknown>>>(operations: {
  readonly [Name in keyof Methods]: Operation & { readonly implementedBy?: Methods[Name] }
}): { readonly [Name in keyof Methods]: Operation & { readonly implementedBy?: Methods[Name] } } {
  return operations
}
