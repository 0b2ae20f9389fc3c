/** The engine's access to the outside world: passed in, so that tests can fix it. */
export interface Environment {
  /** Milliseconds since the epoch; may jump either way. */
  wallClockMs(): number
  /** Milliseconds from any origin; never goes back. */
  monotonicMs(): number
  /** Fills with unpredictable bytes. */
  randomFill(bytes: Uint8Array): void
}

/** RFC 3339, UTC, milliseconds. */
export function formatTime(ms: number): string {
  // Neighbouring operations ask for the same milliseconds again.
  const slot = ms & (formatted.length - 1)
  const known = formatted[slot]
  if (known?.ms === ms) return known.text
  const text = new Date(ms).toISOString()
  formatted[slot] = { ms, text }
  return text
}

const formatted: ({ readonly ms: number; readonly text: string } | undefined)[] = Array.from({ length: 64 })
