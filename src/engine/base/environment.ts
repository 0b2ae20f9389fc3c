/** What the engine knows of the world: passed in, so that tests can fix it. */
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
  return new Date(ms).toISOString()
}
