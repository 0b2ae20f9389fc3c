import { Buffer } from 'node:buffer'
import { limits } from '../base/limits.js'
import type { MeteredStore } from '../storage/metered-store.js'
import { BlobRef, copyBytes } from './blob.js'
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
    return new BlobRef(bytes.byteLength, owned(bytes), hash)
  }

  override async readBlob(blob: BlobRef): Promise<Uint8Array> {
    return blob.bytes ?? super.readBlob(blob)
  }
}

/** Bytes that keep little more memory than they need. */
function owned(bytes: Uint8Array): Buffer {
  const { buffer, byteOffset, byteLength } = bytes
  if (byteLength <= limits.copiedBytes || buffer.byteLength > byteLength * 1.25) return copyBytes(bytes)
  return Buffer.from(buffer, byteOffset, byteLength)
}
