/** A benchmark: one subject, printed as one table. */
export interface Scenario {
  readonly name: string
  readonly title: string
  /** Where the ratio column is made as said here, a row of a peer shows it. */
  readonly ratio: RatioKind
  run(context: Context): AsyncIterable<Row>
}

/** Of times, the first is good when it is high, the second when it is low; of operations a second, the other way. */
export type RatioKind = 'peer / ours' | 'ours / peer'

export interface Context {
  /** Measured rounds of each contestant. */
  readonly rounds: number
  /** Sizes of trees, in files. */
  readonly files: readonly number[]
  /** A short form that only shows that everything runs. */
  readonly smoke: boolean
  /** An empty directory of this scenario alone; it is removed afterwards. */
  readonly directory: string
  /** A number of operations, cut down in the short form. */
  count(full: number): number
}

/** Times are in milliseconds. */
export type Unit = 'time' | 'bytes' | 'per second' | 'count'

export interface Row {
  readonly what: string
  readonly unit: Unit
  readonly median: number
  /** The best round; that of a figure taken once is the figure. */
  readonly best: number
  readonly cpu?: number
  readonly peer?: Peer
  readonly ratio?: number
  readonly target?: Target
}

export interface Peer {
  readonly name: string
  readonly median: number
  readonly best: number
  readonly cpu?: number
}

/**
 * A ratio is held against the median of its rounds. A figure is held against its best round, because a busy
 * machine only ever adds to it.
 */
export type Target =
  | { readonly ratioAtLeast: number }
  | { readonly ratioAtMost: number }
  | { readonly atMost: number }

export function isMet({ target, ratio, best }: Row): boolean | undefined {
  if (target === undefined) return undefined
  if ('atMost' in target) return best <= target.atMost
  if (ratio === undefined) throw new Error('a target for a ratio that is not there')
  return 'ratioAtLeast' in target ? ratio >= target.ratioAtLeast : ratio <= target.ratioAtMost
}
