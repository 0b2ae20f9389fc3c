import { createHash } from 'node:crypto'
import { inflateSync } from 'node:zlib'
import { compress, type BuiltPack, type PackedObject } from '../pack/build-pack.js'
import { gitLimits } from '../limits.js'
import type { ObjectFormat } from '../objects/object-id.js'
import type { TimeSlice } from '../../../engine/ports.js'
import { formatPackIndex } from '../pack/pack-index.js'
import type { RepositoryDirectory } from './repository-directory.js'

/**
 * Adds the objects of a pack to a repository. A few small objects become loose objects, as with a push to
 * git, so that small commits do not leave one pack each. Many or large objects are stored as the pack. All
 * objects are on disk when this resolves.
 */
export async function writeObjects(
  directory: RepositoryDirectory,
  pack: BuiltPack,
  format: ObjectFormat,
  slice: TimeSlice,
): Promise<void> {
  const { objects } = pack
  const areFew =
    objects.length <= gitLimits.looseObjects &&
    objects.every(({ size }) => size <= gitLimits.streamedBlobBytes)
  if (!areFew) return writePack(directory, pack, format)
  for (const object of objects) {
    const { oid } = object
    await directory.writeWhole(`${oid.slice(0, 2)}/${oid.slice(2)}`, [await looseForm(object)])
    if (slice.over) await slice.next()
  }
}

async function writePack(
  directory: RepositoryDirectory,
  pack: BuiltPack,
  format: ObjectFormat,
): Promise<void> {
  const name = `pack/pack-${pack.checksum.toString('hex')}`
  const index = formatPackIndex(pack.objects, pack.checksum)
  // The index makes the pack visible, so it comes last.
  await directory.writeWhole(`${name}.pack`, pack.parts)
  await directory.writeWhole(`${name}.idx`, [index, createHash(format).update(index).digest()])
}

async function looseForm({ type, size, deflated }: PackedObject): Promise<Buffer> {
  const body = inflateSync(deflated, { chunkSize: Math.max(64, size + 1) })
  return compress(Buffer.concat([Buffer.from(`${type} ${size}\0`), body]))
}
