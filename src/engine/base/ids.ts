import { Buffer } from 'node:buffer'
import type { Environment } from './environment.js'
import { limits } from './limits.js'

/** Crockford's base 32 in lower case. Its digits sort like their byte values. */
const alphabet = Buffer.from('0123456789abcdefghjkmnpqrstvwxyz')
export const idLength = 36
const timeDigits = 10
/** The first digit leaves the upper half of the range of times for {@link IdSource} to count on in. */
const idPattern = /^[0-9a-f][0-9a-hjkmnp-tv-z]{35}$/
const ticksPerMs = 32

export function isId(text: unknown): text is string {
  return typeof text === 'string' && idPattern.test(text)
}

/**
 * Makes ids and inode numbers. An id is 10 characters of time, strictly increasing within a process, followed
 * by 26 random ones (130 bits). So the order of ids is the order of creation.
 */
export class IdSource {
  readonly #environment: Environment
  readonly #pool = new Uint32Array(limits.randomWords)
  readonly #text = Buffer.alloc(idLength)
  #used: number = limits.randomWords
  #lastTick = 0

  constructor(environment: Environment) {
    this.#environment = environment
  }

  /**
   * Makes an id that is greater than all earlier ids of this source without an `after`, and greater than `after`, which
   * may be from an earlier process or a bundle. An `after` far in the future has no effect on other ids.
   */
  newId(after?: string): string {
    const now = Math.min(Math.floor(this.#environment.wallClockMs() * ticksPerMs), limits.idTicks)
    this.#lastTick = Math.max(this.#lastTick + 1, now)
    const tick = after === undefined ? this.#lastTick : Math.max(this.#lastTick, tickOf(after) + 1)
    const text = this.#text
    let high = Math.floor(tick / 2 ** 25)
    let low = tick % 2 ** 25
    for (let i = timeDigits / 2 - 1; i >= 0; i--) {
      text[i] = alphabet[high & 31]!
      text[i + timeDigits / 2] = alphabet[low & 31]!
      high >>>= 5
      low >>>= 5
    }
    let bits = 0
    for (let i = timeDigits; i < idLength; i++) {
      // Each word gives six digits of five bits.
      if ((i - timeDigits) % 6 === 0) bits = this.#word()
      text[i] = alphabet[bits & 31]!
      bits >>>= 5
    }
    // One flat string. A string joined from pieces would keep all of them alive.
    return text.toString('latin1')
  }

  /** A random 53-bit number, never 0. */
  newIno(): number {
    return (this.#word() & 0x1fffff) * 2 ** 32 + this.#word() || 1
  }

  #word(): number {
    if (this.#used === limits.randomWords) {
      this.#environment.randomFill(new Uint8Array(this.#pool.buffer))
      this.#used = 0
    }
    return this.#pool[this.#used++]!
  }
}

function tickOf(id: string): number {
  let tick = 0
  for (let i = 0; i < timeDigits; i++) tick = tick * 32 + alphabet.indexOf(id.charCodeAt(i))
  return tick
}
