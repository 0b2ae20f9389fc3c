import { Buffer } from 'node:buffer'
import { createWriter, headerLength } from '@ipld/car/buffer-writer'
import { varint } from 'multiformats'
import type { BundleBlock } from '../../engine/ports.js'
import { cidOf } from './blocks.js'
import { carLimits } from './limits.js'

/** Writes a CARv1 file. The first block must be the root: a JSON block with the hash `rootHash`. */
export async function* writeBlocks(
  rootHash: string,
  blocks: AsyncIterable<BundleBlock>,
): AsyncGenerator<Uint8Array, void> {
  const roots = [cidOf('json', rootHash)]
  const header = createWriter(new ArrayBuffer(headerLength({ roots })), { roots })
  const head = header.close()
  let waiting: Uint8Array[] = [head]
  let waitingBytes = head.byteLength
  for await (const { kind, hash, bytes } of blocks) {
    const cid = cidOf(kind, hash).bytes
    const length = cid.byteLength + bytes.byteLength
    const prefix = varint.encodeTo(length, new Uint8Array(varint.encodingLength(length)))
    waiting.push(prefix, cid, bytes)
    waitingBytes += prefix.byteLength + length
    if (waitingBytes < carLimits.pieceBytes) continue
    // Copies, because the memory of a block may be reused.
    yield Buffer.concat(waiting, waitingBytes)
    waiting = []
    waitingBytes = 0
  }
  if (waitingBytes > 0) yield Buffer.concat(waiting, waitingBytes)
}
