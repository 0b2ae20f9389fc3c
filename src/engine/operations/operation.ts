import type { ErrorReason } from '../base/errors.js'
import type { Tag } from './tags.js'

/**
 * What a handle may be allowed to do, or not: see `session.narrow`. Every operation needs exactly one of them.
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

/** One operation of the interface. */
export interface Operation {
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
  /** Beyond the interface: marked as an extension in the contract. */
  readonly extension?: true
  /** What it gives is a stream of responses, which stays open. */
  readonly stream?: true
  readonly capability: Capability
  /** The type of the event that it records when it changes something. */
  readonly event?: `v1.${string}.${string}`
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
  'BUDGET',
  'DATA_LOSS',
  'INTERNAL',
] as const satisfies readonly ErrorReason[]

/** Keeps the names of a table's operations. */
export function defineOperations<Name extends string>(
  operations: Readonly<Record<Name, Operation>>,
): Readonly<Record<Name, Operation>> {
  return operations
}
