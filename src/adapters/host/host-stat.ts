import type { BigIntStats } from 'node:fs'
import type { HostKind, HostStat } from '../../engine/ports.js'

/** File times may lag the clock by one tick of the kernel. Some file systems have only whole seconds. */
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

/** The mtime in milliseconds, with fractions. */
export function mtimeOf({ mtimeNs }: BigIntStats): number {
  return Number(mtimeNs / 1000n) / 1000
}

export function modeOf({ mode }: BigIntStats): number {
  return Number(mode & 0o7777n)
}

/** Whether a file time is so recent that a change right after `sinceMs` could get the same time. */
export function isFresh(timeNs: bigint, sinceMs: number): boolean {
  const slack = timeNs % secondNs === 0n ? 2n * secondNs : tickNs
  return timeNs >= BigInt(Math.floor(sinceMs)) * 1_000_000n - slack
}

/**
 * With `times: 'content'`, `fresh` ignores the ctime. This is for files that this process has just changed.
 */
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
