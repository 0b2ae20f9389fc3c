/** The kinds of data that service calls store; the number of a call identifies its data. */
export const kinds = ['annotation', 'approval', 'cache', 'message', 'lock', 'secret', 'report'] as const

export type Kind = (typeof kinds)[number]

/** A line of the writer's report, written before a call and after its promise has resolved. */
export type ServiceLine =
  | { readonly session: string }
  | { readonly call: number; readonly kind: Kind }
  | { readonly done: number }

export interface ServiceWriterArguments {
  readonly directory: string
  readonly report: string
  readonly durability: 'full' | 'relaxed'
  readonly seed: number
  /** '' for a new session. */
  readonly sessionId: string
  readonly firstNumber: number
  readonly pending: number
}

export const masterKey = new Uint8Array(32).fill(7)
export const cacheKeys = 30
export const secretNames = 20

/** Short values are stored in a record, long ones in blobs. */
export function valueOf(n: number): string {
  return `${n}:${'x'.repeat(n % 3 === 0 ? 10_000 + (n % 100) : n % 200)}`
}

/** The number of test cases in the report with this number. */
export function casesOf(n: number): number {
  return 1 + (n % 50)
}
