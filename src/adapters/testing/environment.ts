import { given, invalid, Shape, type Environment } from '../../engine/index.js'

/** Options of {@link fixedEnvironment}. */
export interface FixedEnvironmentOptions {
  /** The start of both clocks, in milliseconds since 1970; 2025-01-01T00:00:00Z by default. */
  readonly startMs?: number
  /** The milliseconds by which each read of a clock advances it; 1 by default. With 0, time does not pass. */
  readonly stepMs?: number
  /** Seed of the random bytes; 1 by default. The same seed gives the same ids. */
  readonly seed?: number
}

export const fixedNames = { startMs: true, stepMs: true, seed: true } as const

const fixedShape = new Shape<FixedEnvironmentOptions>(fixedNames)

/** An environment whose clocks move only by `stepMs` at each read, and by `advance`. */
export interface FixedEnvironment extends Environment {
  /**
   * Moves both clocks forward by `ms` milliseconds.
   *
   * @example
   * const environment = fixedEnvironment()
   * environment.advance(60_000)
   */
  advance(ms: number): void
}

/**
 * Creates an environment with reproducible clocks and random bytes: the same calls give the same ids and
 * times in every run. Use it only for tests, because the ids can be guessed.
 *
 * @throws {EngineError} INVALID_ARGUMENT if an option is unknown or not a finite number.
 *
 * @example
 * const environment = fixedEnvironment({ seed: 7 })
 * const engine = await openEngine({ environment })
 */
export function fixedEnvironment(options: FixedEnvironmentOptions = {}): FixedEnvironment {
  const { startMs = Date.UTC(2025, 0, 1), stepMs = 1, seed = 1 } = fixedShape.read(options, 'options')
  for (const [name, value] of Object.entries({ startMs, stepMs, seed }))
    if (!Number.isFinite(value)) throw invalid(name, `must be a number; it is ${given(value)}`)
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

/**
 * Creates a random number generator for test data. It returns integers from 0 to 2^32 − 1, and the same seed
 * gives the same numbers. The algorithm is "mulberry32" by Tommy Ettinger.
 *
 * @example
 * const next = randomWords(7)
 * const dice = 1 + (next() % 6)
 */
export function randomWords(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let word = Math.imul(state ^ (state >>> 15), state | 1)
    word = (word + Math.imul(word ^ (word >>> 7), word | 61)) ^ word
    return (word ^ (word >>> 14)) >>> 0
  }
}
