import { limits } from '../../base/limits.js'
import type { Core } from '../core.js'

/**
 * When a stored record with a time to live expires, by the monotonic clock. Call `core.fineClockSpans.note` when such a
 * record is written.
 *
 * A record may be read again while the engine is open, because its session was evicted. The wall clock may have jumped
 * meanwhile, and neither ends the time to live nor begins it anew. Only if the clock was set back, and showed the time of
 * the record twice, the later time counts. The clock of a shared store decides alone, because it may have jumped while only
 * other engines wrote.
 */
export function deadlineOf(core: Core, expiresAt: number, ttlMs: number): number {
  const { environment, fineClockSpans, opened, sharing } = core
  fineClockSpans.note(environment)
  const now = environment.monotonicMs()
  const left = (wallMs: number): number => Math.min(Math.max(0, expiresAt - wallMs), ttlMs)
  if (sharing !== undefined || !fineClockSpans.hasJumped) return now + left(environment.wallClockMs())
  const writtenAt = fineClockSpans.shownAt(expiresAt - ttlMs, now + limits.smallJumpMs)
  if (writtenAt !== undefined) return writtenAt + ttlMs
  // It was written before the engine was opened, or before the oldest jump that is remembered. A lock must not end early.
  const times = [opened, fineClockSpans.start]
  return Math.max(...times.map(({ wallMs, monotonicMs }) => monotonicMs + left(wallMs)))
}
