/**
 * The pages of the index, in one file to which batches are appended. Only this code reads the file, and it
 * accepts any bytes: a damaged file costs the index, which is then rebuilt from the segments.
 *
 * The file is a header, then batches. The header is `fkspidx1`, then 8 random bytes. A batch has three parts:
 * - A head of 16 bytes: a checksum, the bytes of the table, the bytes of the values, and the checksum of the
 *   values, 4 bytes each.
 * - A table, which has for each operation: one byte (1: store the key, 0: remove it), the length of the key
 *   in one byte, the key, and the length of the value in 4 bytes.
 * - The values, one after the other.
 *
 * The checksum at the start of a head covers the rest of the head and the table. It continues from the
 * checksum of the header and of the batch's offset. So bytes of a value or of another file are never read as
 * a batch.
 */
import { Buffer } from 'node:buffer'
import { randomFillSync } from 'node:crypto'
import { dirname, join } from 'node:path'
import { crc32 } from 'node:zlib'
import { present } from '../../../engine/ports.js'
import type { Disk, DiskFile } from '../directory/disk.js'
import { closedError, errorCode } from '../errors.js'
import { levelLimits } from '../limits.js'
import type { IndexDamage, IndexDatabase, IndexOperation, OpenIndex } from './index-database.js'
import { openOrCreate, removeFile } from '../directory/manifest.js'
import { asBuffer } from '../log/segment-format.js'

export const indexFileName = 'pages'
const magic = Buffer.from('fkspidx1')
const headerBytes = 16
const headBytes = 16
/**
 * The most bytes of one operation in a table: its kind, the length of its key, the key and the length of its
 * value.
 */
const mostOperationBytes = 2 + 255 + 4
const zeros = Buffer.alloc(levelLimits.scannedBytes)

/** The place of a value. */
interface Stored {
  readonly offset: number
  readonly length: number
}

interface StoredBatch {
  readonly offset: number
  readonly end: number
  readonly operations: readonly (readonly [key: string, value: Stored | undefined])[]
  readonly valuesAt: number
  readonly valuesChecksum: number
}

export const openIndexFile: OpenIndex = async (disk, directory, { reset }) => {
  const path = join(directory, indexFileName)
  await disk.makeDirectory(directory)
  await removeFile(disk, `${path}.new`)
  if (reset) await removeFile(disk, path)
  const file = await openOrCreate(disk, path)
  try {
    return new IndexFile(disk, path, await readIndexFile(file))
  } catch (error) {
    await file.close()
    throw error
  }
}

interface OpenFile {
  readonly file: DiskFile
  readonly seed: number
  readonly values: Map<string, Stored>
  readonly end: number
  readonly batches: number
}

class IndexFile implements IndexDatabase {
  readonly #disk: Disk
  readonly #path: string
  #file: DiskFile | undefined
  #seed: number
  #values: Map<string, Stored>
  #end: number
  #batches: number
  /** Whether the file may have bytes that were not synced. */
  #unsynced = true
  /** The bytes of all values that are needed. */
  #needed = 0
  #last: Promise<unknown> = Promise.resolve()

  constructor(disk: Disk, path: string, { file, seed, values, end, batches }: OpenFile) {
    this.#disk = disk
    this.#path = path
    this.#file = file
    this.#seed = seed
    this.#values = values
    this.#end = end
    this.#batches = batches
    for (const { length } of values.values()) this.#needed += length
  }

  getSync(key: string): Uint8Array | undefined {
    if (this.#file === undefined) throw closedError()
    const stored = this.#values.get(key)
    return stored && this.#file.readSync(stored.offset, stored.length)
  }

  batch(operations: readonly IndexOperation[], { sync }: { readonly sync: boolean }): Promise<void> {
    return this.#inTurn(async () => {
      const unneeded = this.#end - this.#needed
      // If there is no space for a new file, the old one stays in use.
      if (unneeded > levelLimits.unneededBytes && unneeded > this.#needed)
        await this.#rewrite().catch(() => undefined)
      const file = this.#open()
      const batch = encodeBatch(operations, this.#end, this.#seed)
      this.#unsynced = true
      await file.write(this.#end, batch.pieces)
      if (sync) await this.#sync(file)
      for (const [key, value] of batch.operations) this.#set(key, value)
      this.#end = batch.end
      this.#batches++
    })
  }

  /**
   * Checks the file that has the name now. It must be the open file, and contain everything that was written.
   */
  async *damages(): AsyncGenerator<IndexDamage, void> {
    const { file, ...written } = await this.#inTurn(async () => {
      this.#open()
      return { file: await openOrNothing(this.#disk, this.#path), seed: this.#seed, end: this.#end }
    })
    if (file === undefined) {
      yield { offset: 0, message: 'the file does not exist' }
      return
    }
    try {
      yield* findIndexDamage(file, written)
    } finally {
      await file.close()
    }
  }

  compact(): Promise<void> {
    return this.#inTurn(() => this.#rewrite())
  }

  /** Syncs the file first, so that no power cut damages the index of a store that was closed. */
  close({ compact = false }: { readonly compact?: boolean } = {}): Promise<void> {
    return this.#inTurn(async () => {
      const isSlow = this.#batches > levelLimits.openedBatches && this.#needed <= levelLimits.closedBytes
      if (compact && isSlow && this.#file !== undefined) await this.#rewrite().catch(() => undefined)
      const file = this.#file
      this.#file = undefined
      try {
        if (file !== undefined) await this.#sync(file)
      } finally {
        await file?.close()
      }
    })
  }

  async #sync(file: DiskFile): Promise<void> {
    if (!this.#unsynced) return
    await file.sync()
    this.#unsynced = false
  }

  #inTurn<Result>(run: () => Promise<Result>): Promise<Result> {
    const done = this.#last.then(run)
    this.#last = done.catch(() => undefined)
    return done
  }

  #open(): DiskFile {
    if (this.#file === undefined) throw closedError()
    return this.#file
  }

  #set(key: string, value: Stored | undefined): void {
    this.#needed += (value?.length ?? 0) - (this.#values.get(key)?.length ?? 0)
    if (value === undefined) this.#values.delete(key)
    else this.#values.set(key, value)
  }

  /** Copies the needed values to a new file, which replaces this one. */
  async #rewrite(): Promise<void> {
    const old = this.#open()
    const newPath = `${this.#path}.new`
    await removeFile(this.#disk, newPath)
    const file = await this.#disk.open(newPath, 'create')
    try {
      const seed = await writeHeader(file)
      const values = new Map<string, Stored>()
      let end = headerBytes
      let batches = 0
      let operations: IndexOperation[] = []
      let bytes = 0
      const write = async (): Promise<void> => {
        const batch = encodeBatch(operations, end, seed)
        await file.write(end, batch.pieces)
        for (const [key, value] of batch.operations) values.set(key, present(value, 'the place of a value'))
        end = batch.end
        batches++
        operations = []
        bytes = 0
      }
      for (const [key, { offset, length }] of this.#values) {
        operations.push({ type: 'put', key, value: old.readSync(offset, length) })
        bytes += length
        if (bytes >= levelLimits.rewrittenBytes) await write()
      }
      if (operations.length > 0) await write()
      await file.sync()
      await this.#disk.rename(newPath, this.#path)
      // If a power cut undoes the rename, the older index is back, and the next opening notices that it is
      // outdated.
      await this.#disk.syncDirectory(dirname(this.#path)).catch(() => undefined)
      this.#file = file
      this.#seed = seed
      this.#values = values
      this.#end = end
      this.#batches = batches
      this.#unsynced = false
    } catch (error) {
      await file.close()
      await removeFile(this.#disk, newPath).catch(() => undefined)
      throw error
    }
    await old.close()
  }
}

/** Reads the intact part of the file and cuts off the rest, which is an interrupted write or damage. */
async function readIndexFile(file: DiskFile): Promise<OpenFile> {
  const size = await file.size()
  const seed = readHeader(file, size)
  if (seed === undefined) {
    await file.truncate(0)
    return { file, seed: await writeHeader(file), values: new Map(), end: headerBytes, batches: 0 }
  }
  const batches = [...readBatches(file, size, seed)]
  // Each value has its own checksum, which is verified when it is read. So only batches at the end are
  // verified here, because a kill can cut them short.
  let last = batches.at(-1)
  while (last !== undefined && !(await isWholeBatch(file, last))) {
    batches.pop()
    last = batches.at(-1)
  }
  const end = last?.end ?? headerBytes
  if (end < size) await file.truncate(end)
  const values = new Map<string, Stored>()
  for (const { operations } of batches) {
    for (const [key, value] of operations) {
      if (value === undefined) values.delete(key)
      else values.set(key, value)
    }
  }
  return { file, seed, values, end, batches: batches.length }
}

/** The written part of an open index: the checksum of its header, and the end of its last batch. */
interface Written {
  readonly seed: number
  readonly end: number
}

/**
 * Finds the places at which the file is not as it was written.
 *
 * With `written`, the index is open, so the file must be complete up to its end. Without it, an incomplete
 * header, head or batch at the end of the file is no damage, because a kill can have cut it short. Damage to
 * a batch that only deletes can look the same. Without such a batch, the index is merely outdated.
 */
export async function* findIndexDamage(file: DiskFile, written?: Written): AsyncGenerator<IndexDamage, void> {
  const size = Math.min(await file.size(), written?.end ?? Infinity)
  const endsEarly: IndexDamage = {
    offset: size,
    message: `the file ends here instead of at byte ${written?.end}`,
  }
  if (size < headerBytes) {
    if (written !== undefined) yield endsEarly
    return
  }
  const seed = readHeader(file, size)
  if (seed === undefined || (written !== undefined && seed !== written.seed)) {
    yield { offset: 0, message: 'the header is damaged' }
    return
  }
  let end = headerBytes
  for (const batch of readBatches(file, size, seed)) {
    if (!(await hasWholeValues(file, batch))) yield { offset: batch.offset, message: 'a batch is damaged' }
    if (batch.operations.length > 0) end = batch.end
  }
  if (written !== undefined && size < written.end) yield endsEarly
  else if (end < size && (written !== undefined || !(await isCutShort(file, end, size, seed))))
    yield { offset: end, message: 'a batch is damaged' }
}

export async function openOrNothing(disk: Disk, path: string): Promise<DiskFile | undefined> {
  try {
    return await disk.open(path, 'read')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
}

function readHeader(file: DiskFile, size: number): number | undefined {
  if (size < headerBytes) return undefined
  const header = asBuffer(file.readSync(0, headerBytes))
  return header.subarray(0, magic.length).equals(magic) ? crc32(header) : undefined
}

async function writeHeader(file: DiskFile): Promise<number> {
  const header = Buffer.alloc(headerBytes)
  magic.copy(header)
  randomFillSync(header, magic.length)
  await file.write(0, [header])
  return crc32(header)
}

/** Batches with intact tables, up to the first damaged one. Empty batches are skipped. */
function* readBatches(file: DiskFile, size: number, seed: number): Generator<StoredBatch, void> {
  for (let offset = headerBytes; offset + headBytes <= size;) {
    const head = asBuffer(file.readSync(offset, headBytes))
    if (head.length < headBytes) return
    if (isZero(head)) {
      offset = emptyBatchesEnd(file, offset, size)
      continue
    }
    const tableAt = offset + headBytes
    const valuesAt = tableAt + head.readUInt32LE(4)
    const end = valuesAt + head.readUInt32LE(8)
    if (end > size) return
    const table = asBuffer(file.readSync(tableAt, valuesAt - tableAt))
    if (head.readUInt32LE(0) !== headChecksum(head, table, offset, seed)) return
    const operations = decodeTable(table, valuesAt, end)
    if (operations === undefined) return
    yield { offset, end, operations, valuesAt, valuesChecksum: head.readUInt32LE(12) }
    offset = end
  }
}

/**
 * The end of the zeros at `offset`, in whole heads. Zeros pass as batches without operations, because the checksum of no
 * bytes is 0. A power cut can leave many of them, so they are read in windows.
 */
function emptyBatchesEnd(file: DiskFile, offset: number, size: number): number {
  let at = offset
  while (at + headBytes <= size) {
    const window = asBuffer(file.readSync(at, Math.min(levelLimits.scannedBytes, size - at)))
    const isWholeWindow = isZero(window)
    const zeroBytes = isWholeWindow ? window.length : window.findIndex((byte) => byte !== 0)
    at += zeroBytes - (zeroBytes % headBytes)
    if (!isWholeWindow || zeroBytes < headBytes) break
  }
  return at
}

function isZero(bytes: Buffer): boolean {
  return bytes.equals(zeros.subarray(0, bytes.length))
}

/** Whether a batch is intact and has operations. */
async function isWholeBatch(file: DiskFile, batch: StoredBatch): Promise<boolean> {
  return batch.operations.length > 0 && (await hasWholeValues(file, batch))
}

async function hasWholeValues(
  file: DiskFile,
  { valuesAt, end, valuesChecksum }: StoredBatch,
): Promise<boolean> {
  let checksum = 0
  for (let at = valuesAt; at < end; at += levelLimits.rewrittenBytes)
    checksum = crc32(await file.read(at, Math.min(levelLimits.rewrittenBytes, end - at)), checksum)
  return checksum === valuesChecksum
}

/**
 * Whether the bytes from `offset` to the end of the file can be the beginning of a batch. Damage can change
 * the lengths in the head, so these alone prove nothing. If the table is complete, its checksum must match.
 * If the file ends within the table, all bytes after the head must be part of a table.
 */
async function isCutShort(file: DiskFile, offset: number, size: number, seed: number): Promise<boolean> {
  const tableAt = offset + headBytes
  if (tableAt > size) return true
  const head = asBuffer(await file.read(offset, headBytes))
  // Earlier versions wrote such an empty batch at the end of a rewritten file.
  if (tableAt === size && head.every((byte) => byte === 0)) return true
  const valuesAt = tableAt + head.readUInt32LE(4)
  const valuesBytes = head.readUInt32LE(8)
  if (valuesAt + valuesBytes <= size) return false
  if (valuesAt > size) return isTable(file, { from: tableAt, to: size, valuesBytes })
  const table = asBuffer(await file.read(tableAt, valuesAt - tableAt))
  return head.readUInt32LE(0) === headChecksum(head, table, offset, seed)
}

/**
 * Whether the bytes are operations with at most `valuesBytes` of values. The last operation may be cut short.
 */
async function isTable(
  file: DiskFile,
  { from, to, valuesBytes }: { readonly from: number; readonly to: number; readonly valuesBytes: number },
): Promise<boolean> {
  let left = valuesBytes
  for (let at = from; at < to;) {
    const bytes = asBuffer(await file.read(at, Math.min(mostOperationBytes, to - at)))
    const keyEnd = 2 + (bytes[1] ?? 1)
    if (bytes.readUInt8(0) > 1 || keyEnd === 2) return false
    if (!bytes.subarray(2, keyEnd).every((byte) => byte > 0x20 && byte < 0x7f)) return false
    if (bytes.length < keyEnd + 4) return true
    const length = bytes.readUInt32LE(keyEnd)
    if (length > (bytes[0] === 1 ? left : 0)) return false
    left -= length
    at += keyEnd + 4
  }
  return true
}

function encodeBatch(
  operations: readonly IndexOperation[],
  offset: number,
  seed: number,
): { pieces: Uint8Array[]; operations: StoredBatch['operations']; end: number } {
  let tableBytes = 0
  for (const { key } of operations) tableBytes += 6 + key.length
  const table = Buffer.allocUnsafe(tableBytes)
  const stored: [string, Stored | undefined][] = []
  const values: Uint8Array[] = []
  const valuesAt = offset + headBytes + tableBytes
  let at = 0
  let end = valuesAt
  let checksum = 0
  for (const operation of operations) {
    const { key } = operation
    const length = operation.type === 'put' ? operation.value.length : 0
    at = table.writeUInt8(operation.type === 'put' ? 1 : 0, at)
    at = table.writeUInt8(key.length, at)
    at += table.write(key, at, 'latin1')
    at = table.writeUInt32LE(length, at)
    stored.push([key, operation.type === 'put' ? { offset: end, length } : undefined])
    if (operation.type === 'del') continue
    values.push(operation.value)
    checksum = crc32(operation.value, checksum)
    end += length
  }
  const head = Buffer.alloc(headBytes)
  head.writeUInt32LE(tableBytes, 4)
  head.writeUInt32LE(end - valuesAt, 8)
  head.writeUInt32LE(checksum, 12)
  head.writeUInt32LE(headChecksum(head, table, offset, seed), 0)
  return { pieces: [head, table, ...values], operations: stored, end }
}

/** The operations of a table. Undefined if they do not fill the table, or their values end after `valuesEnd`. */
function decodeTable(
  table: Buffer,
  valuesAt: number,
  valuesEnd: number,
): [string, Stored | undefined][] | undefined {
  const operations: [string, Stored | undefined][] = []
  let offset = valuesAt
  for (let at = 0; at < table.length;) {
    const isPut = table[at] === 1
    const keyEnd = at + 2 + (table[at + 1] ?? 0)
    if (keyEnd + 4 > table.length) return undefined
    const length = table.readUInt32LE(keyEnd)
    const key = table.toString('latin1', at + 2, keyEnd)
    operations.push([key, isPut ? { offset, length } : undefined])
    offset += length
    if (offset > valuesEnd) return undefined
    at = keyEnd + 4
  }
  return operations
}

function headChecksum(head: Buffer, table: Buffer, offset: number, seed: number): number {
  const place = Buffer.allocUnsafe(8)
  place.writeDoubleLE(offset)
  return crc32(table, crc32(head.subarray(4), crc32(place, seed)))
}
