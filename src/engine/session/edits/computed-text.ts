import { runAtOnce, runInSlices, type Steps } from '../../base/cooperative.js'
import { Fault } from '../../base/fault.js'
import { formatHash, sha256 } from '../../base/hash.js'
import { EngineError } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import { StagedContent } from '../../cas/staging.js'
import { byteTextOf, bytesOf, type ByteText } from '../../text/byte-text.js'
import type { FileNode } from '../../tree/node.js'
import type { Core } from '../core.js'

/** A new content that was computed from the text of a file. */
export interface NewText<Result> {
  readonly staged: StagedContent
  readonly contentHash: string
  readonly isChanged: boolean
  readonly result: Result
}

/**
 * The new content of a file, computed once for a plan that may run several times. A small text is computed at once.
 * For a larger one, the plan throws a Fault, which computes it in slices while later changes of the session wait.
 */
export class ComputedText<Result extends { readonly text: ByteText }> {
  readonly #core: Core
  readonly #compute: (text: ByteText) => Steps<Result, undefined>
  readonly #weight: number
  readonly #known = new Map<string, NewText<Result>>()

  /** `weight`: about how often the text is searched. */
  constructor(core: Core, weight: number, compute: (text: ByteText) => Steps<Result, undefined>) {
    this.#core = core
    this.#weight = weight
    this.#compute = compute
  }

  of(file: FileNode, path: string): NewText<Result> {
    const { content, contentIds, environment } = this.#core
    checkTextSize(file, path)
    // On a shared store, the plan may run again on another content of the same size and time.
    const key = contentIds.contentKey(file)
    const known = this.#known.get(key)
    if (known !== undefined) return known
    const body = contentIds.body(file)
    const ready = content.readSync(body, 0, file.size)
    if (ready !== undefined && file.size * this.#weight <= limits.computedAtOnceBytes) {
      const text = byteTextOf(ready)
      return this.#keep(key, text, runAtOnce(this.#compute(text)))
    }
    throw new Fault(async () => {
      const text = byteTextOf(await content.read(body, 0, file.size))
      this.#keep(key, text, await runInSlices(this.#compute(text), environment))
    })
  }

  #keep(key: string, before: ByteText, result: Result): NewText<Result> {
    const bytes = bytesOf(result.text)
    const computed = {
      staged: new StagedContent(bytes, this.#core),
      contentHash: formatHash(sha256(bytes)),
      isChanged: result.text !== before,
      result,
    }
    this.#known.set(key, computed)
    return computed
  }
}

/** @throws {EngineError} TOO_LARGE when the file is too large for work on its text. */
export function checkTextSize(file: FileNode, path: string): void {
  if (file.size <= limits.textFileBytes) return
  throw new EngineError(
    'TOO_LARGE',
    `${path} has ${file.size} bytes; edits of text take files up to ${limits.textFileBytes} bytes. Use session.files.patchSegments`,
    { path, limit: String(limits.textFileBytes) },
  )
}
