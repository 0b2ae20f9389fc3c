import { Buffer } from 'node:buffer'
import { limits } from '../base/limits.js'
import type { MeteredStore } from '../storage/metered-store.js'
import { BlobRef } from './blob.js'
import { ContentStore } from './content.js'

/** The contents of a store that is not durable: their handles are the only copies. */
export class MemoryContent extends ContentStore {
  /** Copying a whole content in memory takes less time than comparing it with the old one. */
  override get storesPatches(): boolean {
    return false
  }

  override stored(): void {
    // The bytes stay with their handle.
  }

  override mustStoreAhead(): boolean {
    return false
  }

  override keepInMemory(store: MeteredStore, bytes: Uint8Array, hash?: string): BlobRef {
    store.admit?.([{ hash: '', length: bytes.byteLength }])
    store.wrote(bytes.byteLength)
    return kept(bytes, hash)
  }

  override async readBlob(blob: BlobRef): Promise<Uint8Array> {
    return blob.bytes ?? super.readBlob(blob)
  }
}

/** A blob that keeps little more memory than its bytes need. */
function kept(bytes: Uint8Array, hash: string | undefined): BlobRef {
  const { buffer, byteOffset, byteLength } = bytes
  if (byteLength <= limits.copiedBytes || buffer.byteLength > byteLength * 1.25)
    return BlobRef.copyOf(bytes, hash)
  return BlobRef.of(Buffer.from(buffer, byteOffset, byteLength), hash)
}
