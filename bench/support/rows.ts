import { medianRatio, type Timing } from './measure.js'
import type { Peer, RatioKind, Row, Target, Unit } from './scenario.js'

export interface TimingRow {
  readonly what: string
  readonly ours: Timing
  readonly peer?: { readonly name: string; readonly timing: Timing }
  readonly ratio?: RatioKind
  readonly target?: Target | undefined
  /**
   * 'wall' by default. 'cpu' where both sides only compute, in this process: it does not grow while others
   * have the core. 'none' where other processes do the work, whose CPU time is not known.
   */
  readonly clock?: 'wall' | 'cpu' | 'none'
  /** Operations a second instead of time per operation. */
  readonly perSecond?: boolean
}

/** A row from the rounds of a race. */
export function timingRow(row: TimingRow): Row {
  const { what, ours, peer, ratio = 'ours / peer', target, clock = 'wall', perSecond = false } = row
  const figures = (timing: Timing): Omit<Peer, 'name'> => {
    if (perSecond) return { median: 1000 / timing.median, best: 1000 / timing.best }
    const { median, best } = timing
    return clock === 'none' ? { median, best } : { median, best, cpu: timing.cpuMedian }
  }
  return {
    what,
    unit: perSecond ? 'per second' : 'time',
    ...figures(ours),
    ...(peer && { peer: { name: peer.name, ...figures(peer.timing) }, ratio: ratioOf(ours, peer.timing) }),
    ...(target && { target }),
  }

  function ratioOf(ours: Timing, theirs: Timing): number {
    const ratioClock = clock === 'cpu' ? 'cpu' : 'wall'
    const upsideDown = (ratio === 'peer / ours') !== perSecond
    return upsideDown ? medianRatio(theirs, ours, ratioClock) : medianRatio(ours, theirs, ratioClock)
  }
}

/** A row of a figure that was taken once. */
export function singleRow(what: string, unit: Unit, figure: number, target?: Target): Row {
  return { what, unit, median: figure, best: figure, ...(target && { target }) }
}
