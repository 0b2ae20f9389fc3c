import type { EngineError, TimeSlice } from '../../../engine/ports.js'
import { gitLimits } from '../limits.js'
import { corruptPack } from './pack-errors.js'

export interface DeltaHead {
  readonly baseSize: number
  readonly resultSize: number
  /** The offset of the first instruction. */
  readonly end: number
}

/** Reads the sizes of the base and of the result from the start of a delta. Throws GIT_CORRUPT. */
export function readDeltaHead(delta: Buffer): DeltaHead {
  const base = readSize(delta, 0)
  const result = readSize(delta, base.end)
  return { baseSize: base.size, resultSize: result.size, end: result.end }
}

/** Computes the result of a delta. The caller must have checked its size. Throws GIT_CORRUPT. */
export function applyDelta(delta: Buffer, base: Uint8Array, slice: TimeSlice): Buffer | Promise<Buffer> {
  const run = new DeltaRun(delta, base)
  const result = Buffer.allocUnsafe(run.size)
  const end = run.fill(result)
  return run.done ? result : applyRest(run, result, end, slice)
}

async function applyRest(run: DeltaRun, result: Buffer, start: number, slice: TimeSlice): Promise<Buffer> {
  for (let end = start; !run.done;) {
    if (slice.over) await slice.next()
    end += run.fill(result.subarray(end))
  }
  return result
}

/** Like `applyDelta`, but yields the result in pieces. */
export async function* deltaPieces(
  delta: Buffer,
  base: Uint8Array,
  slice: TimeSlice,
): AsyncGenerator<Buffer, void, undefined> {
  const run = new DeltaRun(delta, base)
  for (let left = run.size; !run.done;) {
    const piece = Buffer.allocUnsafeSlow(Math.min(left, gitLimits.pieceBytes))
    const length = run.fill(piece)
    left -= length
    if (length > 0) yield piece.subarray(0, length)
    if (slice.over) await slice.next()
  }
}

/** Computes the result of a delta step by step. Throws GIT_CORRUPT if the delta does not fit its base. */
class DeltaRun {
  /** The length of the result, according to the delta. */
  readonly size: number
  readonly #delta: Buffer
  readonly #base: Uint8Array
  #at: number
  /** The number of bytes of the result that are not covered by the instructions read so far. */
  #left: number
  // The rest of an instruction that did not fit into the last piece.
  #source: Uint8Array
  #from = 0
  #pending = 0

  constructor(delta: Buffer, base: Uint8Array) {
    const head = readDeltaHead(delta)
    if (head.baseSize !== base.length) throw corruptPack('a delta is for another base')
    this.size = head.resultSize
    this.#left = head.resultSize
    this.#delta = delta
    this.#base = base
    this.#source = base
    this.#at = head.end
  }

  get done(): boolean {
    return this.#pending === 0 && this.#left === 0 && this.#at === this.#delta.length
  }

  /**
   * Writes the next bytes of the result, until `out` is full, the result is complete, or `gitLimits.deltaInstructions`
   * instructions have run. Returns the number of bytes written.
   */
  fill(out: Buffer): number {
    const steps = gitLimits.deltaInstructions
    let end = 0
    for (let step = 0; step < steps; step++) {
      if (this.#pending === 0) {
        if (this.#at === this.#delta.length) {
          if (this.#left > 0) throw misfit()
          break
        }
        this.#next()
      }
      const count = Math.min(this.#pending, out.length - end)
      copy(this.#source, this.#from, out, end, count)
      end += count
      this.#from += count
      this.#pending -= count
      if (end === out.length && (this.#pending > 0 || this.#left > 0)) break
    }
    return end
  }

  /** Reads the next instruction. */
  #next(): void {
    const delta = this.#delta
    let at = this.#at
    const instruction = byteAt(delta, at++)
    if (instruction & 128) {
      let from = 0
      let count = 0
      if (instruction & 1) from = byteAt(delta, at++)
      if (instruction & 2) from += byteAt(delta, at++) * 2 ** 8
      if (instruction & 4) from += byteAt(delta, at++) * 2 ** 16
      if (instruction & 8) from += byteAt(delta, at++) * 2 ** 24
      if (instruction & 16) count = byteAt(delta, at++)
      if (instruction & 32) count += byteAt(delta, at++) * 2 ** 8
      if (instruction & 64) count += byteAt(delta, at++) * 2 ** 16
      if (count === 0) count = 2 ** 16
      if (from + count > this.#base.length) throw misfit()
      this.#source = this.#base
      this.#from = from
      this.#pending = count
    } else {
      if (instruction === 0 || at + instruction > delta.length) throw misfit()
      this.#source = delta
      this.#from = at
      this.#pending = instruction
      at += instruction
    }
    this.#at = at
    this.#left -= this.#pending
    if (this.#left < 0) throw misfit()
  }
}

/** Read once, for the hot loop. */
const loopBytes = gitLimits.copyLoopBytes

function copy(source: Uint8Array, from: number, target: Buffer, at: number, count: number): void {
  if (count > loopBytes) target.set(source.subarray(from, from + count), at)
  else for (let index = 0; index < count; index++) target[at + index] = source[from + index]!
}

function byteAt(delta: Buffer, at: number): number {
  const byte = delta[at]
  if (byte === undefined) throw misfit()
  return byte
}

function readSize(delta: Buffer, start: number): { size: number; end: number } {
  let size = 0
  let at = start
  for (let factor = 1; ; factor *= 128) {
    const byte = delta[at++]
    if (byte === undefined || factor > 2 ** 49) throw misfit()
    size += (byte & 127) * factor
    if (byte < 128) break
  }
  if (!Number.isSafeInteger(size)) throw misfit()
  return { size, end: at }
}

function misfit(): EngineError {
  return corruptPack('a delta is malformed')
}
