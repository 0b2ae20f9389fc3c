import { limits } from '../../base/limits.js'
import { onlyItem } from '../../base/present.js'
import type { BlobRef } from '../../cas/blob.js'
import { forEachBlock, isInOneBlock, layOver, truncate } from '../../cas/body-edit.js'
import { blockAt, ExtentBlock, type Block, type LoadedBody } from '../../cas/body.js'
import type { StagedBlobs } from '../../cas/staging.js'
import type { FileNode } from '../../tree/node.js'
import { pieceOf } from '../apply.js'
import type { Core } from '../core.js'
import type { RedoPiece } from '../../records/event.js'

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
  const next = layOver(patch.size < file.size ? truncate(body, patch.size) : body, patch.pieces.map(pieceOf))
  const rewritten = new Set<number>()
  const pieces: RedoPiece[] = []
  const blobs: BlobRef[] = []
  for (const blockNumber of dense) {
    const block = blockAt(next, blockNumber)
    if (!(block instanceof ExtentBlock) || block.count <= limits.extentsPerBlock) continue
    const offset = blockNumber * limits.blockBytes
    const length = Math.min(limits.blockBytes, patch.size - offset)
    const blob = staged.merged(next, offset, length)
    rewritten.add(blockNumber)
    pieces.push([offset, length, blob, 0])
    blobs.push(blob)
  }
  if (rewritten.size === 0) return patch
  const kept = patch.pieces.filter(([offset, length]) => {
    const first = Math.floor(offset / limits.blockBytes)
    return !rewritten.has(first) || offset + length > (first + 1) * limits.blockBytes
  })
  const named = new Set(kept.map(([, , blob]) => blob))
  return {
    size: patch.size,
    pieces: [...kept, ...pieces],
    blobs: [...patch.blobs.filter((blob) => named.has(blob)), ...blobs],
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
    forEachBlock(pieceOf(piece), (blockNumber) => {
      let count = counts.get(blockNumber)
      if (count === undefined) {
        count = extentsOf(blockAt(body, blockNumber))
      }
      counts.set(blockNumber, count + 2)
    })
  }
  return [...counts].filter(([, count]) => count > limits.extentsPerBlock).map(([blockNumber]) => blockNumber)
}

function extentsOf(block: Block): number {
  return block instanceof ExtentBlock ? block.count : 1
}
