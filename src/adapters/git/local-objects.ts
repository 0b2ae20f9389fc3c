import { join } from 'node:path'
import { deflateSync } from 'node:zlib'
import { gitLimits } from './limits.js'
import { writeWhole } from './local-files.js'
import type { PackObjects } from './pack-objects.js'

/**
 * Adds the objects of a pack to a repository: few as loose objects, as git itself does on a push, so that
 * small commits do not leave a pack each; many as the pack. All are on disk when it resolves.
 */
export async function writeObjects(directory: string, pack: Uint8Array, objects: PackObjects): Promise<void> {
  if (objects.oids.length > gitLimits.looseObjects) {
    const name = `pack-${Buffer.from(pack.subarray(-20)).toString('hex')}`
    // The index makes the pack visible, so it comes last.
    await writeWhole(join(directory, 'pack'), `${name}.pack`, pack)
    await writeWhole(join(directory, 'pack'), `${name}.idx`, objects.index)
    return
  }
  for (const oid of objects.oids) {
    const { type, body } = await objects.read(oid)
    const loose = deflateSync(Buffer.concat([Buffer.from(`${type} ${body.length}\0`), body]))
    await writeWhole(join(directory, oid.slice(0, 2)), oid.slice(2), loose)
  }
}
