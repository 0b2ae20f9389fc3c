import { itemAt, present } from '../../base/present.js'
import { DigestTable } from '../../base/digest-table.js'
import { messageOf } from '../../base/errors.js'
import { sha256 } from '../../base/hash.js'
import { limits } from '../../base/limits.js'
import type { Store } from '../../storage/store.js'
import { withPlace, type Findings, type Place } from './findings.js'

/** The size that is noted for a damaged blob. */
const damaged = -1
const sizeBytes = 8

/**
 * The blobs of a store, and the findings about each. Each takes 40 to 60 bytes of memory. A damaged blob is
 * reported at each reference to it.
 */
export class CheckedBlobs {
  readonly #store: Store
  readonly #findings: Findings
  readonly #sizes = new DigestTable(sizeBytes)
  readonly #damaged = new Map<string, string>()
  readonly #reported = new Set<string>()
  count = 0
  bytes = 0

  constructor(store: Store, findings: Findings) {
    this.#store = store
    this.#findings = findings
  }

  /** Lists all blobs, and also reads each of them if `readData` is true. */
  async look(readData: boolean, rest: () => Promise<void>): Promise<void> {
    for (let after = ''; ;) {
      const page = (await this.#store.listBlobs?.(after, limits.recordsPerScan)) ?? []
      for (const { hash, bytes } of page) {
        this.count++
        const problem = readData ? await this.#read(hash, bytes) : undefined
        if (problem !== undefined) this.#damaged.set(hash, problem)
        this.#sizes.add(hash)?.writeDoubleLE(problem === undefined ? bytes : damaged)
        await rest()
      }
      if (page.length < limits.recordsPerScan) return
      after = itemAt(page, -1).hash
    }
  }

  /** Notes a reference to at least `length` bytes of a blob. */
  async uses(hash: string, length: number, place: Place): Promise<void> {
    const known = this.#sizes.get(hash)
    if (known !== undefined) {
      const size = known.readDoubleLE()
      if (size === damaged)
        this.#report(hash, 'damaged', present(this.#damaged.get(hash), 'the damage of a blob'), place)
      else if (size < length) this.#report(hash, 'damaged', `has ${size} bytes instead of ${length}`, place)
      return
    }
    // The blob may have been stored after the blobs were listed.
    const found = await this.#store.blob(hash, { offset: 0, length: 1 }).catch(() => undefined)
    if (found === undefined) this.#report(hash, 'missing', 'is not in the store', place)
  }

  /** Reports damaged blobs without references. */
  finish(): void {
    for (const [hash, message] of this.#damaged)
      if (!this.#reported.has(hash)) this.#report(hash, 'damaged', message, {})
  }

  #report(hash: string, problem: 'missing' | 'damaged', message: string, place: Place): void {
    this.#reported.add(hash)
    this.#findings.add(withPlace({ problem, object: `blob sha256:${hash}`, message }, place))
  }

  async #read(hash: string, bytes: number): Promise<string | undefined> {
    try {
      const content = await this.#store.blob(hash, { offset: 0, length: bytes })
      this.bytes += content?.byteLength ?? 0
      // The blob may have been deleted after it was listed. Its references decide whether that matters.
      if (content === undefined || (content.byteLength === bytes && sha256(content) === hash))
        return undefined
      return 'its bytes do not match its hash'
    } catch (error) {
      return messageOf(error)
    }
  }
}
