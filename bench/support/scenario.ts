/** A benchmark: one subject, printed as one table. */
export interface Scenario {
  readonly name: string
  readonly title: string
  /** The clock of the speeds, 'wall' by default. */
  readonly clock?: 'wall' | 'cpu'
  run(context: Context): AsyncIterable<Row>
}

export interface Context {
  /** Measured rounds of each contestant. */
  readonly rounds: number
  /** Sizes of trees, in files. */
  readonly files: readonly number[]
  /** Whether this is a short run, which only shows that every scenario works. */
  readonly smoke: boolean
  /** An empty directory for this scenario, which is removed afterwards. */
  readonly directory: string
  /** The number of operations, reduced in a smoke run. */
  count(full: number): number
}

/** Times are in milliseconds. */
export type Unit = 'time' | 'bytes' | 'per second' | 'count'

export interface Figures {
  readonly median: number
  /** The best round. For a single measurement it equals the median. */
  readonly best: number
  readonly cpu?: number
  /** The measurement does not exceed the noise, so the figures are 0. */
  readonly belowNoise?: true
}

export interface Row extends Figures {
  readonly what: string
  readonly unit: Unit
  readonly peer?: Peer
  /** How many times as fast as the peer. 2 means half its time. */
  readonly speed?: number
  readonly target?: Target
  /** The place of the row in a chart of cost against size. */
  readonly growing?: Growing
}

/** What grows, and how large it is. */
export interface Growing {
  readonly operation: string
  readonly axis: 'files' | 'forks' | 'events'
  readonly size: number
}

export interface Peer extends Figures {
  readonly name: string
}

/**
 * `speedAtLeast` applies to the median of the rounds. `atMost` applies to the best round, because a busy machine can
 * only increase a figure.
 */
export type Target = { readonly speedAtLeast: number } | { readonly atMost: number }

export const noFigures: Figures = { median: 0, best: 0, belowNoise: true }

/** Undefined if the row has no target, or if its figures are below noise. */
export function isMet({ target, speed, best, belowNoise }: Row): boolean | undefined {
  if (target === undefined || belowNoise === true) return undefined
  if ('atMost' in target) return best <= target.atMost
  if (speed === undefined) throw new Error('a row has a target for its speed but no speed')
  return speed >= target.speedAtLeast
}

/** The factor by which a row is too slow or too large. It is infinite if the limit is 0. */
export function missedBy({ target, speed, best }: Row): number {
  if (target === undefined) return 1
  return 'atMost' in target ? best / target.atMost : target.speedAtLeast / speed!
}
