import type { Core } from '../core.js'

/** Replays under way, by the sessions in memory of their engine. */
const readings = new WeakMap<Core['live'], Set<Promise<unknown>>>()

/** To be put around a read of stored history: what it began with is not taken away before it ended. */
export function whileReading<T>(core: Core, reading: Promise<T>): Promise<T> {
  let all = readings.get(core.live)
  if (all === undefined) readings.set(core.live, (all = new Set()))
  const settled: Promise<unknown> = reading.then(ignore, ignore).then(() => all.delete(settled))
  all.add(settled)
  return reading
}

/** Resolves when the reads that are under way now have ended; later ones find what is stored by now. */
export async function readingsEnded(core: Core): Promise<void> {
  const all = readings.get(core.live)
  if (all !== undefined) await Promise.all(all)
}

function ignore(): void {}
