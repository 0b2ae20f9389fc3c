import { tooLarge } from '../base/input.js'
import { limits } from '../base/limits.js'

/** The lines with which the parts of one patch may still be compared. */
export class PatchWork {
  #left: number

  constructor(lines: number = limits.patchWork) {
    this.#left = lines
  }

  /** @throws {EngineError} TOO_LARGE when all parts together were compared with too many lines. */
  spend(lines: number): void {
    this.#left -= lines
    if (this.#left < 0) throw tooLarge('patch', 'comparisons with lines of the files', limits.patchWork)
  }
}
