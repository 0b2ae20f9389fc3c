import { Buffer } from 'node:buffer'
import { Fault } from '../base/fault.js'
import { EngineError, invalid } from '../base/errors.js'
import { isBytes, kindOf, readBytes } from '../base/input.js'
import { unreadable } from '../base/shape.js'
import { limits } from '../base/limits.js'
import { nextTurn } from '../base/cooperative.js'
import { eachBlock } from '../base/copy-in-turns.js'
import { lossCheck } from '../storage/loss-check.js'
import type { MeteredStore } from '../storage/metered-store.js'
import type { WritePins } from '../storage/recent-writes.js'
import type { Store, StoredBlob } from '../storage/store.js'
import { BlobRef, totalLength } from './blob.js'
import { listExtents, sameExtents, type Extent, type LoadedBody } from './body.js'
import type { ContentStore } from './content.js'

export interface StagingContext {
  readonly store: Store & Pick<MeteredStore, 'admit' | 'reserve'>
  readonly content: ContentStore
  readonly pins: WritePins
}

/** Blobs that are about to be stored, of at most one block each. */
export class StagedBlobs {
  #blobs: readonly BlobRef[]
  /** Bytes of a caller that are not copied yet. */
  #uncopied: Uint8Array | undefined
  /** The bytes of all blobs, also before they are copied. */
  readonly size: number
  readonly #store: StagingContext['store']
  readonly #content: ContentStore
  readonly #pins: WritePins
  /** Contents too large for one storage commit are stored before the event that refers to them. */
  readonly #needsStoring: boolean
  #stored = false
  #checkLosses: () => void = () => undefined
  readonly #merged: { readonly extents: readonly Extent[]; readonly blob: BlobRef }[] = []

  /** Copies large bytes of a caller only when they are needed, in turns of the event loop. */
  constructor(content: readonly BlobRef[] | Uint8Array, context: StagingContext) {
    this.#store = context.store
    this.#content = context.content
    this.#pins = context.pins
    if (content instanceof Uint8Array) {
      this.size = content.byteLength
      const isLarge = this.size > limits.copiedAtOnceBytes
      this.#uncopied = isLarge ? content : undefined
      this.#blobs = isLarge ? [] : cutIntoBlobs(content)
    } else {
      this.size = totalLength(content)
      this.#blobs = content
    }
    this.#needsStoring = context.content.mustStoreAhead(this.size)
  }

  /**
   * The blobs, in order. Throws a Fault until large bytes are copied, and until blobs that must be stored first
   * are stored.
   */
  blobs(): readonly BlobRef[] {
    if (this.#uncopied !== undefined) throw this.#copied(this.#uncopied)
    if (!this.ready) throw this.#storedAhead()
    this.#checkLosses()
    return this.#blobs
  }

  /** The blobs that the event's own commit must contain. */
  toCommit(): readonly BlobRef[] {
    return this.#needsStoring ? [] : this.#blobs
  }

  /**
   * A range of a body as one blob. Each call with the same extents returns the same blob. Throws a Fault if
   * the bytes must be read first.
   */
  merged(body: LoadedBody, offset: number, length: number): BlobRef {
    const extents = listExtents(body, { from: offset, to: offset + length })
    const known = this.#merged.find((merged) => sameExtents(merged.extents, extents))
    if (known !== undefined) return known.blob
    const keep = (bytes: Buffer): BlobRef => {
      const blob = BlobRef.of(bytes)
      this.#merged.push({ extents, blob })
      return blob
    }
    const bytes = this.#content.readSync(body, offset, length)
    if (bytes !== undefined) return keep(bytes)
    throw new Fault(async () => {
      keep(await this.#content.read(body, offset, length))
    })
  }

  #copied(bytes: Uint8Array): Fault {
    return new Fault(async () => {
      const blobs: BlobRef[] = []
      for (const [part] of eachBlock('content', bytes, this.size)) {
        blobs.push(BlobRef.copyOf(part))
        await nextTurn()
      }
      this.#blobs = blobs
      this.#uncopied = undefined
    })
  }

  /** Whether no blobs must be stored before the event. */
  get ready(): boolean {
    return !this.#needsStoring || this.#stored
  }

  /**
   * A Fault that stores the blobs. It protects them from collection until the code that needs them has run.
   * After that, the event of that code may refer to them.
   */
  #storedAhead(): Fault {
    let pin: Disposable | undefined
    return new Fault(
      () => {
        pin = this.#pins.pin({ writesSince: 'now' })
        return this.#storeAhead()
      },
      () => pin?.[Symbol.dispose](),
    )
  }

  /** Stores the blobs in commits of their own. The event loop gets a turn after each block of bytes. */
  async #storeAhead(): Promise<void> {
    this.#store.reserve?.(this.#blobs)
    this.#checkLosses = lossCheck(this.#store)
    let hashed = 0
    for (const group of this.#groups()) {
      const blobs: StoredBlob[] = []
      for (const blob of group) {
        blobs.push(blob.toStore())
        hashed += blob.length
        if (hashed < limits.blockBytes) continue
        hashed = 0
        await nextTurn()
      }
      await this.#store.commit({ blobs })
    }
    // Only now may the bytes be dropped. If this run had failed, a second one would need them.
    for (const blob of this.#blobs) this.#content.stored(blob)
    this.#stored = true
  }

  /**
   * Copies large bytes, and queues the blobs that must be stored ahead, without waiting. An event that is
   * committed next comes after them.
   */
  storeNow(): void {
    if (this.#uncopied !== undefined) this.#blobs = cutIntoBlobs(this.#uncopied)
    this.#uncopied = undefined
    if (this.ready) return
    this.#store.admit?.(this.#blobs)
    this.#stored = true
    for (const group of this.#groups()) {
      const blobs = group.map((blob) => blob.toStore())
      this.#store.commit({ blobs }).then(
        () => {
          for (const blob of group) this.#content.stored(blob)
        },
        // The event that follows fails too.
        () => undefined,
      )
    }
  }

  /** Groups the blobs into commits of bounded size. */
  *#groups(): Generator<readonly BlobRef[]> {
    let group: BlobRef[] = []
    let bytes = 0
    for (const blob of this.#blobs) {
      if (bytes + blob.length > limits.importCommitBytes) {
        yield group
        group = []
        bytes = 0
      }
      group.push(blob)
      bytes += blob.length
    }
    if (group.length > 0) yield group
  }
}

/**
 * The content of a file that is about to be stored, cut into blobs. It is copied from the caller immediately,
 * or in the case of large bytes before the write ends.
 */
export class StagedContent extends StagedBlobs {
  constructor(input: unknown, context: StagingContext & { maxFileBytes: number }, field = 'content') {
    const bytes = toBytes(input, field)
    checkFileSize(bytes.byteLength, context.maxFileBytes)
    super(bytes, context)
  }
}

/**
 * The content of a call of `session.fs`. Unlike {@link StagedContent}, it has no bound of its own: the plan checks the
 * size of the file, so that the error is that of the call.
 */
export class StagedCall extends StagedBlobs {
  readonly #mayWait: boolean

  constructor(input: unknown, context: StagingContext, { mayWait }: { readonly mayWait: boolean }) {
    super(toBytes(input), context)
    this.#mayWait = mayWait
  }

  /** Without waiting, large bytes are copied and queued here, once the plan needs them. */
  override blobs(): readonly BlobRef[] {
    if (!this.#mayWait) this.storeNow()
    return super.blobs()
  }
}

/** A copy of a caller's bytes as blobs of one block each, the last one shorter. */
export function cutIntoBlobs(bytes: Uint8Array): BlobRef[] {
  // An array that grows takes 130 bytes more than one made whole.
  if (bytes.byteLength > 0 && bytes.byteLength <= limits.blockBytes) return [BlobRef.copyOf(bytes)]
  const blobs: BlobRef[] = []
  for (let offset = 0; offset < bytes.byteLength; offset += limits.blockBytes) {
    const length = Math.min(limits.blockBytes, bytes.byteLength - offset)
    const part = length === bytes.byteLength ? bytes : bytes.subarray(offset, offset + length)
    blobs.push(BlobRef.copyOf(part))
  }
  return blobs
}

export function checkFileSize(size: number, maxFileBytes: number): void {
  if (size <= maxFileBytes) return
  throw new EngineError(
    'FILE_TOO_LARGE',
    `the file would have ${size} bytes; the option maxFileBytes allows ${maxFileBytes}`,
    {
      limit: String(maxFileBytes),
    },
  )
}

export function toBytes(input: unknown, field = 'content'): Uint8Array {
  if (typeof input === 'string') return Buffer.from(input)
  if (isBytes(input)) return readBytes(field, input)
  if (ArrayBuffer.isView(input)) return viewOf(field, input)
  throw invalid(field, notContent(input))
}

/** The words of an error for a value that is neither text nor bytes. */
export function notContent(input: unknown): string {
  const advice = isData(input) ? '. For JSON, pass JSON.stringify(value)' : ''
  return `must be a string or a Uint8Array; it is ${kindOf(input)}${advice}`
}

function isData(input: unknown): boolean {
  return ['an object', 'an array'].includes(kindOf(input))
}

/** The bytes of any other view, such as a DataView or an Int32Array. */
function viewOf(field: string, view: ArrayBufferView): Uint8Array {
  try {
    return new Uint8Array(view.buffer, view.byteOffset, view.byteLength)
  } catch (cause) {
    throw unreadable(field, cause)
  }
}
