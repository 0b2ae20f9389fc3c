import { createHash } from 'node:crypto'
import { pipeline } from 'node:stream'
import { createDeflate } from 'node:zlib'
import { EngineError, type OpenGitObject, type TimeSlice } from '../../../engine/ports.js'
import { gitLimits } from '../limits.js'
import { emptyTreeId, type ObjectFormat } from '../objects/object-id.js'
import { ByteCache } from './byte-cache.js'
import { compress, entryHeader, packHeader } from './build-pack.js'
import { gather } from './inflate.js'

export interface StreamedPack {
  readonly objects: { open(oid: string): Promise<OpenGitObject | undefined> }
  /** The ids of the objects, each once. */
  readonly oids: ReadonlySet<string>
  readonly format: ObjectFormat
  readonly slice: TimeSlice
  readonly cache: EntryCache
}

/** Entries of earlier packs of one tenant, with their headers, by the ids of their objects. */
export interface EntryCache {
  get(oid: string): Buffer | undefined
  /** `bytes`: the memory that the entry takes. */
  set(oid: string, entry: Buffer, bytes: number): void
}

/** The entries of all tenants, which share a limit. Ids of SHA-1 can be forged, so no tenant gets those of another. */
export class EntryCaches {
  readonly #entries = new ByteCache<string, Buffer>(gitLimits.entryCacheBytes)

  of(tenant: string): EntryCache {
    return {
      get: (oid) => this.#entries.get(`${oid} ${tenant}`),
      set: (oid, entry, bytes) => this.#entries.set(`${oid} ${tenant}`, entry, bytes),
    }
  }
}

/**
 * Yields the bytes of a pack without deltas. It holds one object in memory, and large ones in pieces.
 *
 * @throws {EngineError} GIT_CORRUPT when an object is missing
 */
export async function* streamPack({
  objects,
  oids,
  format,
  slice,
  cache,
}: StreamedPack): AsyncGenerator<Buffer, void> {
  const hash = createHash(format)
  const hashed = (bytes: Buffer): Buffer => {
    hash.update(bytes)
    return bytes
  }
  // A pack that is larger than the cache would replace all of it, and find nothing the next time.
  let cacheable = gitLimits.entryCacheBytes / 2
  yield hashed(packHeader(oids.size))
  for (const oid of oids) {
    const known = cache.get(oid)
    if (known !== undefined) {
      cacheable -= known.length + gitLimits.cachedEntryCost
      yield hashed(known)
    } else {
      const object = (await objects.open(oid)) ?? emptyTree(oid, format)
      const header = entryHeader(object.type, object.size)
      if (object.size > gitLimits.streamedBlobBytes) {
        yield hashed(header)
        const deflated = pipeline(object.pieces(), createDeflate(), () => undefined)
        for await (const piece of deflated) yield hashed(piece as Buffer)
      } else {
        const entry = Buffer.concat([header, await compress(await gather(object.pieces(), object.size))])
        const bytes = entry.length + gitLimits.cachedEntryCost
        if (entry.length <= gitLimits.cachedEntryBytes && bytes <= cacheable) {
          cache.set(oid, entry, bytes)
          cacheable -= bytes
        }
        yield hashed(entry)
      }
    }
    if (slice.over) await slice.next()
  }
  yield hash.digest()
}

/** The empty tree, which is not stored. */
function emptyTree(oid: string, format: ObjectFormat): OpenGitObject {
  if (oid === emptyTreeId(format)) return { type: 'tree', size: 0, pieces: async function* () {} }
  throw new EngineError('GIT_CORRUPT', `the object ${oid}, which a commit of the session needs, is missing`)
}
