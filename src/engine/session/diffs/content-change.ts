import { runInSlices, type Steps } from '../../base/cooperative.js'
import { whenLoaded } from '../../base/fault.js'
import { limits } from '../../base/limits.js'
import { isSameNode } from '../../cas/body.js'
import { diffLines, type LineChange } from '../../text/line-diff.js'
import { byteTextOf, hasManyLines, isBinary } from '../../text/byte-text.js'
import { LineTable, splitLines } from '../../text/lines.js'
import { FileNode, Symlink } from '../../tree/node.js'
import type { Core } from '../core.js'
import type { FileChange, Leaf } from './file-changes.js'
import { readWhole } from './read-whole.js'

/** How the content of a file changed. */
export type ContentChange =
  | { readonly kind: 'same' }
  /** The contents are over a limit, and were not read. */
  | { readonly kind: 'large' }
  | {
      readonly kind: 'binary'
      /** Whether the contents are text of too many lines. */
      readonly isTruncated: boolean
      readonly before: Uint8Array | undefined
      readonly after: Uint8Array | undefined
    }
  | {
      readonly kind: 'text'
      readonly before: readonly string[]
      readonly after: readonly string[]
      readonly changes: readonly LineChange[]
    }

/** Reads and compares contents, up to limits for each file and for all files of one reading of a diff. */
export class ContentComparison {
  readonly #core: Core
  #bytesLeft: number = limits.diffBytes

  constructor(core: Core) {
    this.#core = core
  }

  /** The bytes that were read so far. */
  get bytesRead(): number {
    return limits.diffBytes - this.#bytesLeft
  }

  async compare({ before, after }: FileChange): Promise<ContentChange> {
    if (await this.#isSame(before, after)) return { kind: 'same' }
    const sizes = [sizeOf(before), sizeOf(after)]
    const bytes = sizes.reduce((sum, size) => sum + size, 0)
    if (Math.max(...sizes) > limits.diffFileBytes || bytes > this.#bytesLeft) return { kind: 'large' }
    this.#bytesLeft -= bytes
    const old = before && (await readWhole(this.#core, before))
    const current = after && (await readWhole(this.#core, after))
    const sides = [old, current].filter((side) => side !== undefined)
    const isTruncated = !sides.some(isBinary)
    if (!isTruncated || sides.some(hasManyLines))
      return { kind: 'binary', isTruncated, before: old, after: current }
    return runInSlices(compareText(old, current), this.#core.environment)
  }

  async #isSame(before: Leaf | undefined, after: Leaf | undefined): Promise<boolean> {
    if (before instanceof Symlink && after instanceof Symlink) return before.target === after.target
    if (!(before instanceof FileNode) || !(after instanceof FileNode)) return false
    if (before.size !== after.size) return false
    const { contentIds } = this.#core
    if (isSameNode(before.body, after.body)) return true
    const id = await whenLoaded(() => contentIds.contentId(before))
    return id === (await whenLoaded(() => contentIds.contentId(after)))
  }
}

function sizeOf(node: Leaf | undefined): number {
  return node instanceof FileNode ? node.size : 0
}

function* compareText(
  old: Uint8Array | undefined,
  current: Uint8Array | undefined,
): Steps<ContentChange, undefined> {
  const before = yield* linesOf(old)
  const after = yield* linesOf(current)
  const table = new LineTable()
  const changes = yield* diffLines(yield* table.idsOf(before), yield* table.idsOf(after))
  return { kind: 'text', before, after, changes }
}

function* linesOf(bytes: Uint8Array | undefined): Steps<string[], undefined> {
  return bytes === undefined ? [] : yield* splitLines(byteTextOf(bytes))
}
