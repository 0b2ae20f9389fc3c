import { medianRatio, type Timing } from './measure.js'
import { noFigures, type Figures, type Row, type Target, type Unit } from './scenario.js'

export interface TimingRow {
  readonly what: string
  readonly ours: Timing
  readonly peer?: { readonly name: string; readonly timing: Timing }
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
export function timingRow({ what, ours, peer, target, clock = 'wall', perSecond = false }: TimingRow): Row {
  const figures = (timing: Timing): Figures => {
    if (perSecond) return { median: 1000 / timing.median, best: 1000 / timing.best }
    const { median, best } = timing
    return clock === 'none' ? { median, best } : { median, best, cpu: timing.cpuMedian }
  }
  return {
    what,
    unit: perSecond ? 'per second' : 'time',
    ...figures(ours),
    ...(peer && {
      peer: { name: peer.name, ...figures(peer.timing) },
      speed: medianRatio(peer.timing, ours, clock === 'cpu' ? 'cpu' : 'wall'),
    }),
    ...(target && { target }),
  }
}

/** A row of a figure that was taken once. */
export function singleRow(what: string, unit: Unit, figure: number, target?: Target): Row {
  return { what, unit, median: figure, best: figure, ...(target && { target }) }
}

/** The same of a difference: what is no more than nothing was not seen. */
export function differenceRow(what: string, unit: Unit, figure: number, target?: Target): Row {
  return figure > 0
    ? singleRow(what, unit, figure, target)
    : { what, unit, ...noFigures, ...(target && { target }) }
}
