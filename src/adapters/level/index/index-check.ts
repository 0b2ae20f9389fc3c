import { join } from 'node:path'
import type { StoreFinding } from '../../../engine/ports.js'
import type { Disk } from '../directory/disk.js'
import { errorCode } from '../errors.js'
import { findIndexDamage, indexFileName } from './index-file.js'
import { indexName } from '../directory/manifest.js'
import { fileFinding } from '../tools/stored-files.js'

const name = `${indexName}/${indexFileName}`

/**
 * Reads the file of the index, and compares every checksum. A damaged index is no loss, but a disk that damages files
 * may damage others: it is a finding. A missing one is none.
 */
export async function* checkIndex(disk: Disk, directory: string): AsyncGenerator<StoreFinding, void> {
  let file
  try {
    file = await disk.open(join(directory, name), 'read')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return
    throw error
  }
  try {
    for await (const offset of findIndexDamage(file))
      yield fileFinding('damaged', name, `byte ${offset}: is damaged; it is made again from the segments`)
  } finally {
    await file.close()
  }
}
