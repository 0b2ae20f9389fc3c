import { medianRatio, type Timing } from './measure.js'
import { noFigures, type Figures, type Row, type Target, type Unit } from './scenario.js'

export interface TimingRow {
  readonly what: string
  readonly ours: Timing
  readonly peer?: { readonly name: string; readonly timing: Timing }
  readonly target?: Target | undefined
  /**
   * The clock of the speed, 'wall' by default. 'cpu' time does not grow while other processes use the core. 'none' is
   * 'wall' without a column for CPU time, for measurements that have none.
   */
  readonly clock?: 'wall' | 'cpu' | 'none'
  /** Whether to show operations per second instead of time per operation. */
  readonly perSecond?: boolean
}

/** A row with the rounds of a race. */
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

/** A row with a single measurement. */
export function singleRow(what: string, unit: Unit, figure: number, target?: Target): Row {
  return { what, unit, median: figure, best: figure, ...(target && { target }) }
}

/** A row with a difference of two measurements. A difference of 0 or less is below noise. */
export function differenceRow(what: string, unit: Unit, figure: number, target?: Target): Row {
  return figure > 0
    ? singleRow(what, unit, figure, target)
    : { what, unit, ...noFigures, ...(target && { target }) }
}
