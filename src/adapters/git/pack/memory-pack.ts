import { TimeSlice, type GitObject } from '../../../engine/ports.js'
import { ByteCache } from './byte-cache.js'
import { gitLimits } from '../limits.js'
import type { ObjectFormat } from '../objects/object-id.js'
import type { ObjectSource } from '../objects/object-source.js'
import { VerifiedSource, wholeBody } from './opened-object.js'
import { PackEntries } from './pack-entries.js'
import { readPack } from './pack-reader.js'
import { PackedObjects } from './packed-objects.js'
import type { RandomBytes } from './random-bytes.js'

export interface MemoryPack extends ObjectSource {
  has(oid: string): boolean
}

export interface MemoryPackOptions {
  readonly signal: AbortSignal
  /** Returns an object that is not in the pack, for deltas that build on it. */
  getBase?(oid: string): Promise<GitObject | undefined>
}

/**
 * Opens a pack in memory, which must not change. The whole pack is read and checked before this resolves.
 * Throws the errors of {@link readPack}.
 */
export async function openPackInMemory(
  pack: RandomBytes,
  format: ObjectFormat,
  options: MemoryPackOptions,
): Promise<MemoryPack> {
  const { signal } = options
  const entries = new PackEntries(format)
  const find = (oid: string): number | undefined => {
    const entry = entries.find(oid)
    return entry === undefined ? undefined : entries.offset(entry)
  }
  const getBase = async (oid: string): Promise<GitObject | undefined> => options.getBase?.(oid)
  const objects = new PackedObjects(pack, {
    name: '',
    cache: new ByteCache(gitLimits.baseCacheBytes),
    format,
    slice: new TimeSlice(performance, signal),
    find,
    getBase,
  })
  await readPack(chunksOf(pack), {
    format,
    signal,
    entries,
    onObject() {},
    async onBlob(chunks) {
      for await (const _ of chunks);
    },
    async getBase(oid) {
      const offset = find(oid)
      if (offset === undefined) return getBase(oid)
      const object = await objects.open(offset)
      return { oid, type: object.type, body: await wholeBody(object) }
    },
  })
  const source = new VerifiedSource(format, async (oid) => {
    const offset = find(oid)
    return offset === undefined ? undefined : objects.open(offset)
  })
  return {
    has: (oid) => find(oid) !== undefined,
    read: (oid) => source.read(oid),
    readBlob: (oid) => source.readBlob(oid),
  }
}

async function* chunksOf(pack: RandomBytes): AsyncGenerator<Buffer, void, undefined> {
  for (let at = 0; at < pack.size; at += gitLimits.packStepBytes) yield pack.at(at, gitLimits.packStepBytes)
}
