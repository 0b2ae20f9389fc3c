import { memoryStorage, type Engine, type Environment } from './engine/index.js'
import { openEngine, type EngineOptions } from './index.js'

export interface FixedEnvironmentOptions {
  /** Where both clocks start, in milliseconds since the epoch; 2025-01-01T00:00:00Z by default. */
  readonly startMs?: number
  /** What each look at a clock adds, in milliseconds; 1 by default, 0 stops time. */
  readonly stepMs?: number
  /** Seed of the random bytes; the same seed gives the same ids. */
  readonly seed?: number
}

/** A clock that moves only as told. */
export interface FixedEnvironment extends Environment {
  /** Moves both clocks on. */
  advance(ms: number): void
}

/**
 * Clocks and randomness that repeat: the same calls give the same ids and times in every run. Not for
 * anything but tests: the ids can be guessed.
 *
 * @example
 * const environment = fixedEnvironment({ seed: 7 })
 * const engine = await openEngine({ environment })
 */
export function fixedEnvironment(options: FixedEnvironmentOptions = {}): FixedEnvironment {
  const { startMs = Date.UTC(2025, 0, 1), stepMs = 1, seed = 1 } = options
  let now = startMs
  const random = randomWords(seed)
  const tick = (): number => {
    now += stepMs
    return now
  }
  return {
    wallClockMs: tick,
    monotonicMs: tick,
    advance: (ms) => {
      now += ms
    },
    randomFill: (bytes) => {
      const words = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
      for (let i = 0; i < bytes.length; i++) words.setUint8(i, random() & 255)
    },
  }
}

/** An engine in memory with a {@link fixedEnvironment}: what most tests want. */
export function openTestEngine(
  options: Omit<EngineOptions, 'storage'> & FixedEnvironmentOptions = {},
): Promise<Engine> {
  return openEngine({ environment: fixedEnvironment(options), ...options })
}

export { memoryStorage }

/** 32-bit numbers for test data that repeat for a seed: the generator "mulberry32" of Tommy Ettinger. */
export function randomWords(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let word = Math.imul(state ^ (state >>> 15), state | 1)
    word = (word + Math.imul(word ^ (word >>> 7), word | 61)) ^ word
    return (word ^ (word >>> 14)) >>> 0
  }
}
