import { Buffer } from 'node:buffer'
import type { HttpError } from '../http-error.js'
import type { Budget } from './concurrency-limit.js'

/** The first bytes of a zip. */
const zipStarts = [Buffer.from('PK\x03\x04'), Buffer.from('PK\x05\x06')]

/**
 * The bytes of an upload that an import keeps in memory until its job has ended: those of a git bundle or a zip. A tar
 * is read as it arrives, and takes nothing.
 */
export class HeldUpload {
  readonly #budget: Budget
  /** The first bytes, until they show the kind of the content. Undefined afterwards. */
  #start: Buffer | undefined
  #bytes = 0
  #isHeld = true
  #refusal: HttpError | undefined

  constructor(budget: Budget, kind: 'bundle' | 'archive') {
    this.#budget = budget
    if (kind === 'archive') this.#start = Buffer.alloc(0)
  }

  /** The error of a piece that did not fit. */
  get refusal(): HttpError | undefined {
    return this.#refusal
  }

  /** @throws HttpError `QUOTA` if the piece does not fit into the budget. */
  add(piece: Uint8Array): void {
    if (!this.#isHeld) return
    try {
      this.#budget.take(piece.byteLength)
    } catch (error) {
      this.#refusal = error as HttpError
      throw error
    }
    this.#bytes += piece.byteLength
    if (this.#start === undefined) return
    const start = Buffer.concat([this.#start, piece.subarray(0, 4)]).subarray(0, 4)
    this.#start = start.length < 4 ? start : undefined
    if (start.length === 4 && !zipStarts.some((zip) => zip.equals(start))) this.release()
  }

  /** Returns the bytes to the budget. Later pieces take nothing. */
  release(): void {
    this.#isHeld = false
    this.#budget.give(this.#bytes)
    this.#bytes = 0
  }
}
