import { runLoaded, runLoading, whenPresent, type LoadingSteps } from '../../base/cooperative.js'
import { Fault } from '../../base/fault.js'
import { limits } from '../../base/limits.js'
import { onlyItem } from '../../base/present.js'
import type { BlobRef } from '../../cas/blob.js'
import { isInOneBlock, layOverInSteps, truncate } from '../../cas/body-edit.js'
import { blockAt, ExtentBlock, sameBody, type Block, type LoadedBody } from '../../cas/body.js'
import { StagedBlobs } from '../../cas/staging.js'
import type { FileNode } from '../../tree/node.js'
import { pieceOf } from '../apply.js'
import type { Core } from '../core.js'
import type { RedoPiece } from '../../records/event.js'
import { admitAhead } from '../usage/session-bytes.js'
import type { PlanState } from './plan.js'

/** Pieces that replace ranges of a file, with the blobs that their event must store. */
export interface Patch {
  readonly size: number
  readonly pieces: readonly RedoPiece[]
  readonly blobs: readonly BlobRef[]
}

/**
 * The patch, with each block that would get too many extents rewritten as one blob. Otherwise many small
 * writes would slow down every later read of the block. Throws a Fault if a block must be read first.
 */
export function compact(core: Core, file: FileNode, patch: Patch, staged: StagedBlobs): Patch {
  const body = core.contentIds.body(file)
  const dense = denseBlocks(body, patch.pieces)
  if (dense.length === 0) return patch
  const { size, pieces, blobs, rewritten } = runLoaded(rewrite(body, file, patch, { dense, staged }))
  return { size, pieces, blobs: [...blobs, ...rewritten] }
}

/** Like {@link compact}, for a patch of a file that may rewrite many blocks. */
export class Compaction {
  readonly #core: Core
  readonly #staged: StagedBlobs
  #last:
    | {
        readonly body: LoadedBody
        readonly size: number
        readonly patch: Patch
        readonly rewritten: StagedBlobs
      }
    | undefined

  constructor(core: Core, staged: StagedBlobs) {
    this.#core = core
    this.#staged = staged
  }

  /**
   * The compact form of the patch. Throws a Fault that rewrites many blocks in turns of the event loop, and one that stores
   * them if they are large. If the file changed meanwhile, they are rewritten in one turn, because a fast writer could change
   * it again and again.
   */
  of(state: PlanState, file: FileNode, patch: Patch): Patch {
    const body = this.#core.contentIds.body(file)
    const { size } = file
    const last = this.#last
    if (last !== undefined && last.size === size && sameBody(last.body, body)) {
      admitAhead(this.#core, state, last.rewritten)
      last.rewritten.blobs()
      return { ...last.patch, blobs: [...last.patch.blobs, ...last.rewritten.toCommit()] }
    }
    const dense = denseBlocks(body, patch.pieces)
    if (dense.length === 0) return patch
    if (dense.length <= limits.blocksRewrittenAtOnce || last !== undefined)
      return compact(this.#core, file, patch, this.#staged)
    throw new Fault(async () => {
      const steps = rewrite(body, file, patch, { dense, staged: this.#staged })
      const { rewritten, ...kept } = await runLoading(steps, this.#core.environment)
      this.#last = { body, size, patch: kept, rewritten: new StagedBlobs(rewritten, this.#core) }
    })
  }
}

/** The patch with some blocks rewritten, if they have too many extents after it. The new blobs are in `rewritten`. */
function* rewrite(
  before: LoadedBody,
  file: FileNode,
  patch: Patch,
  { dense, staged }: { readonly dense: readonly number[]; readonly staged: StagedBlobs },
): LoadingSteps<Patch & { readonly rewritten: readonly BlobRef[] }> {
  const { size } = patch
  const body = yield* layOverInSteps(
    size < file.size ? truncate(before, size) : before,
    patch.pieces.map(pieceOf),
  )
  const numbers = new Set<number>()
  const pieces: RedoPiece[] = []
  const rewritten: BlobRef[] = []
  for (const blockNumber of dense) {
    const block = blockAt(body, blockNumber)
    if (!(block instanceof ExtentBlock) || block.count <= limits.extentsPerBlock) continue
    const offset = blockNumber * limits.blockBytes
    const length = Math.min(limits.blockBytes, size - offset)
    const blob = yield* whenPresent(() => staged.merged(body, offset, length))
    numbers.add(blockNumber)
    pieces.push([offset, length, blob, 0])
    rewritten.push(blob)
    yield
  }
  if (rewritten.length === 0) return { ...patch, rewritten }
  const kept = patch.pieces.filter(([offset, length]) => {
    const first = Math.floor(offset / limits.blockBytes)
    return !numbers.has(first) || offset + length > (first + 1) * limits.blockBytes
  })
  const named = new Set(kept.map(([, , blob]) => blob))
  return {
    size,
    pieces: [...kept, ...pieces],
    blobs: patch.blobs.filter((blob) => named.has(blob)),
    rewritten,
  }
}

/** Blocks that may end up with more extents than a block may have. Each piece adds at most two. */
function denseBlocks(body: LoadedBody, pieces: readonly RedoPiece[]): number[] {
  const only = onlyItem(pieces)
  if (only !== undefined && isInOneBlock(pieceOf(only))) {
    const blockNumber = Math.floor(only[0] / limits.blockBytes)
    return extentsOf(blockAt(body, blockNumber)) + 2 > limits.extentsPerBlock ? [blockNumber] : []
  }
  const counts = new Map<number, number>()
  for (const piece of pieces) {
    if (piece[2] === 0 && piece[1] > limits.blockBytes) continue
    const end = piece[0] + piece[1]
    for (let number = Math.floor(piece[0] / limits.blockBytes); number * limits.blockBytes < end; number++)
      counts.set(number, (counts.get(number) ?? extentsOf(blockAt(body, number))) + 2)
  }
  return [...counts].filter(([, count]) => count > limits.extentsPerBlock).map(([blockNumber]) => blockNumber)
}

function extentsOf(block: Block): number {
  return block instanceof ExtentBlock ? block.count : 1
}
