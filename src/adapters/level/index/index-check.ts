import { join } from 'node:path'
import type { StoreFinding } from '../../../engine/ports.js'
import type { Disk } from '../directory/disk.js'
import { indexName } from '../directory/manifest.js'
import { ownerName } from '../directory/owner.js'
import { fileFinding, unreadable } from '../tools/stored-files.js'
import type { IndexDamage } from './index-database.js'
import { findIndexDamage, indexFileName, openOrNothing } from './index-file.js'

const name = `${indexName}/${indexFileName}`

/** The result of checking an index without opening its store. */
interface IndexState {
  readonly findings: readonly StoreFinding[]
  readonly notes: readonly string[]
}

/**
 * Reads the file of the index and verifies every checksum.
 *
 * A damaged index is no loss, but a disk that damages files may damage others. So if the store was closed,
 * the damage is a finding. If the store is in use or was not closed, it is a note, because a power cut
 * damages data that was not synced, and the next opening rebuilds the index. An index that is missing or ends
 * early is outdated, and the next opening completes it. A file that cannot be read is a finding, because the next
 * opening fails.
 */
export async function checkClosedIndex(disk: Disk, directory: string): Promise<IndexState> {
  try {
    return await checkIndex(disk, directory)
  } catch (error) {
    const finding = unreadableIndex(error)
    if (finding === undefined) throw error
    return { findings: [finding], notes: [] }
  }
}

async function checkIndex(disk: Disk, directory: string): Promise<IndexState> {
  const file = await openOrNothing(disk, join(directory, name))
  if (file === undefined)
    return {
      findings: [],
      notes: ['there is no index; the next opening of the store rebuilds it from the segments'],
    }
  try {
    const findings: StoreFinding[] = []
    for await (const damage of findIndexDamage(file)) findings.push(indexFinding(damage))
    const wasClosed = !(await disk.list(directory)).includes(ownerName)
    if (wasClosed) return { findings, notes: [] }
    return { findings: [], notes: findings.map(({ message }) => `${name}: ${message}`) }
  } finally {
    await file.close()
  }
}

/** The finding about an index that cannot be read. Undefined if only the caller lacks access. */
export function unreadableIndex(error: unknown): StoreFinding | undefined {
  return unreadable(name, error)
}

export function indexFinding({ offset, message }: IndexDamage): StoreFinding {
  return fileFinding('damaged', name, `byte ${offset}: ${message}; the index is rebuilt from the segments`)
}
