import type { BigIntStats } from 'node:fs'
import type { HostKind, HostStat } from '../../engine/ports.js'

/** Times of the kernel may lag behind the clock by one of its ticks; those of some file systems are whole seconds. */
const tickNs = 20_000_000n
const secondNs = 1_000_000_000n

export function kindOf(stat: BigIntStats): HostKind {
  if (stat.isFile()) return 'file'
  if (stat.isDirectory()) return 'directory'
  return stat.isSymbolicLink() ? 'symlink' : 'other'
}

export function stampOf({ size, mtimeNs, ctimeNs, ino }: BigIntStats): string {
  return `${size}.${mtimeNs}.${ctimeNs}.${ino}`
}

/** Milliseconds with fractions. */
export function mtimeOf({ mtimeNs }: BigIntStats): number {
  return Number(mtimeNs / 1000n) / 1000
}

export function modeOf({ mode }: BigIntStats): number {
  return Number(mode & 0o7777n)
}

/** Whether a time is so late that what was changed right after `sinceMs` may have the same. */
export function isFresh(timeNs: bigint, sinceMs: number): boolean {
  const slack = timeNs % secondNs === 0n ? 2n * secondNs : tickNs
  return timeNs >= BigInt(Math.floor(sinceMs)) * 1_000_000n - slack
}

/** `times: 'content'`: the time of the last change of content is known to be set by hand. */
export function describeStat(stat: BigIntStats, times: 'all' | 'content' = 'all'): HostStat {
  const now = Date.now()
  return {
    kind: kindOf(stat),
    size: Number(stat.size),
    mode: modeOf(stat),
    mtimeMs: mtimeOf(stat),
    ino: `${stat.dev}.${stat.ino}`,
    nlink: Number(stat.nlink),
    stamp: stampOf(stat),
    fresh: isFresh(stat.mtimeNs, now) || (times === 'all' && isFresh(stat.ctimeNs, now)),
  }
}
