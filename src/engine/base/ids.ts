import type { Environment } from './environment.js'

/** Crockford's base 32 in lower case: its order is the order of its bytes. */
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
const pairs = Array.from({ length: 1024 }, (_, i) => alphabet[i >> 5]! + alphabet[i & 31]!)

const idPattern = /^[0-9a-hjkmnp-tv-z]{36}$/
const ticksPerMs = 32
const poolWords = 1024

export function isId(text: unknown): text is string {
  return typeof text === 'string' && idPattern.test(text)
}

/**
 * Makes ids and inode numbers. An id is 10 characters of time, strictly growing within a process, then 26
 * random ones (130 bits), so that the order of ids is the order of creation.
 */
export class IdSource {
  readonly #environment: Environment
  readonly #pool = new Uint32Array(poolWords)
  #used = poolWords
  #lastTick = 0

  constructor(environment: Environment) {
    this.#environment = environment
  }

  newId(): string {
    const tick = Math.max(this.#lastTick + 1, this.#environment.wallClockMs() * ticksPerMs)
    this.#lastTick = tick
    const high = Math.floor(tick / 2 ** 30)
    const low = tick % 2 ** 30
    let id =
      pairs[(high >>> 10) & 1023]! +
      pairs[high & 1023]! +
      pairs[low >>> 20]! +
      pairs[(low >>> 10) & 1023]! +
      pairs[low & 1023]!
    // Thirteen pairs of 10 bits each, three pairs a word.
    for (let word = 0; word < 4; word++) {
      const bits = this.#word()
      id += pairs[bits & 1023]! + pairs[(bits >>> 10) & 1023]! + pairs[(bits >>> 20) & 1023]!
    }
    return id + pairs[this.#word() & 1023]!
  }

  /** A random 53-bit number, never 0. */
  newIno(): number {
    return (this.#word() & 0x1fffff) * 2 ** 32 + this.#word() || 1
  }

  #word(): number {
    if (this.#used === poolWords) {
      this.#environment.randomFill(new Uint8Array(this.#pool.buffer))
      this.#used = 0
    }
    return this.#pool[this.#used++]!
  }
}
