/**
 * Tables of LevelDB. The format is in LevelDB's `doc/table_format.md`. LevelDB reads a table without
 * comparing checksums, and ends the process at an unexpected block.
 */
import type { Buffer } from 'node:buffer'
import { levelLimits } from '../limits.js'
import { maskedCrc32c } from './crc32c.js'
import { uncompress } from './snappy.js'
import { VarintReader } from './varint-reader.js'

const footerBytes = 48
const handlesBytes = 40
const trailerBytes = 5
const magic = 0xdb4775248b80fb57n
const blockType = { plain: 0, snappy: 1 } as const

interface Handle {
  readonly offset: number
  readonly size: number
}

/** The offset of the first damaged block, or of the first bytes that belong to no block. */
export function findTableDamage(file: Buffer): number | undefined {
  const footer = file.length - footerBytes
  if (footer < 0) return 0
  if (file.readBigUInt64LE(footer + handlesBytes) !== magic) return footer
  const reader = new VarintReader(file.subarray(footer, footer + handlesBytes))
  const lists = [readHandle(reader), readHandle(reader)]
  const handles = [...lists]
  for (const list of lists) {
    if (!isWhole(file, list, footer)) return Math.min(list.offset, footer)
    const listed = readList(file, list)
    if (listed === undefined) return list.offset
    handles.push(...listed)
  }
  let end = 0
  for (const handle of handles.sort((a, b) => a.offset - b.offset)) {
    if (handle.offset !== end || !isWhole(file, handle, footer)) return end
    end += handle.size + trailerBytes
  }
  return end === footer ? undefined : end
}

function readHandle(reader: VarintReader): Handle {
  return { offset: reader.number(), size: reader.number() }
}

function isWhole(file: Buffer, { offset, size }: Handle, footer: number): boolean {
  const type = offset + size
  if (!(type + trailerBytes <= footer)) return false
  return file.readUInt32LE(type + 1) === maskedCrc32c(file, offset, type + 1)
}

/** The handles that a block lists: in the index those of the data, in the metaindex that of the filter. */
function readList(file: Buffer, { offset, size }: Handle): Handle[] | undefined {
  const stored = file.subarray(offset, offset + size)
  const type = file[offset + size]
  const bytes = type === blockType.snappy ? uncompress(stored, levelLimits.oldBlockBytes) : stored
  if (bytes === undefined || type === undefined || type > blockType.snappy || bytes.length < 4)
    return undefined
  const end = bytes.length - 4 - 4 * bytes.readUInt32LE(bytes.length - 4)
  if (end < 0) return undefined
  const handles: Handle[] = []
  const reader = new VarintReader(bytes.subarray(0, end))
  while (reader.more) {
    reader.number()
    const keyBytes = reader.number()
    const valueBytes = reader.number()
    reader.skip(keyBytes)
    handles.push(readHandle(new VarintReader(reader.take(valueBytes))))
  }
  return handles
}
