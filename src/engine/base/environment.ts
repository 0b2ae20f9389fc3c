/** The engine's access to the outside world. It is passed in, so that tests can control it. */
export interface Environment {
  /**
   * Milliseconds since the epoch. The clock may jump forward or back. Without a time from 1970 to 9999, such as NaN, the
   * engine uses the time before, and logs an error.
   */
  wallClockMs(): number
  /** Milliseconds from any origin. They never decrease. */
  monotonicMs(): number
  /** Fills `bytes` with unpredictable values. */
  randomFill(bytes: Uint8Array): void
}

/** A time in the form of RFC 3339, in UTC, with milliseconds. */
export function formatTime(ms: number): string {
  // Operations that run shortly after each other format the same milliseconds again.
  const slot = ms & (formatted.length - 1)
  const known = formatted[slot]
  if (known?.ms === ms) return known.text
  const text = new Date(ms).toISOString()
  formatted[slot] = { ms, text }
  return text
}

const formatted: ({ readonly ms: number; readonly text: string } | undefined)[] = Array.from({ length: 64 })
