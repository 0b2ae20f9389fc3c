/** A benchmark: one subject, printed as one table. */
export interface Scenario {
  readonly name: string
  readonly title: string
  /** By which time the speed is taken; 'wall' by default. */
  readonly clock?: 'wall' | 'cpu'
  run(context: Context): AsyncIterable<Row>
}

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

export interface Figures {
  readonly median: number
  /** The best round; that of a figure taken once is the figure. */
  readonly best: number
  readonly cpu?: number
  /** What was to be measured does not stand out of the noise; the figures are 0. */
  readonly belowNoise?: true
}

export interface Row extends Figures {
  readonly what: string
  readonly unit: Unit
  readonly peer?: Peer
  /** How many times as fast as the peer: 2 takes half its time. */
  readonly speed?: number
  readonly target?: Target
}

export interface Peer extends Figures {
  readonly name: string
}

/**
 * A speed is held against the median of its rounds. A figure is held against its best round, because a busy
 * machine only ever adds to it.
 */
export type Target = { readonly speedAtLeast: number } | { readonly atMost: number }

export const noFigures: Figures = { median: 0, best: 0, belowNoise: true }

/** Undefined where there is no target, or nothing to hold against it. */
export function isMet({ target, speed, best, belowNoise }: Row): boolean | undefined {
  if (target === undefined || belowNoise === true) return undefined
  if ('atMost' in target) return best <= target.atMost
  if (speed === undefined) throw new Error('a target for a speed that is not there')
  return speed >= target.speedAtLeast
}

/** How many times too slow or too large; infinite where nothing at all is allowed. */
export function missedBy({ target, speed, best }: Row): number {
  if (target === undefined) return 1
  return 'atMost' in target ? best / target.atMost : target.speedAtLeast / speed!
}
