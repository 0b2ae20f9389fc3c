import type { BucketArguments } from './protocol.js'

export interface SharedWriterArguments {
  readonly postgres: {
    readonly connectionString: string
    readonly schema: string
    readonly leaseSeconds: number
  }
  /** Where the store has its large contents; absent: in the database. */
  readonly bucket?: BucketArguments
  /** The sessions to whose files it appends. */
  readonly sessions: readonly string[]
  readonly report: string
  /** Starts all lines of the writer. */
  readonly name: string
  readonly seed: number
  /** The maximum number of pending calls. */
  readonly pending: number
}

/** A line of a writer's report. */
export type SharedLine =
  | { readonly kind: 'call'; readonly text: string }
  | {
      readonly kind: 'settled'
      readonly text: string
      readonly outcome: 'ok' | 'not-applied' | 'unknown'
      readonly reason?: string
    }
