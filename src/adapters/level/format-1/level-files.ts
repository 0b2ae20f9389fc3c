/**
 * The files that LevelDB needs. It reports missing tables itself, but opens without a word when CURRENT is
 * gone (as a new database) or a log is gone (without the newest writes). Its manifest names the tables and
 * the log that must exist; the format is in LevelDB's `doc/log_format.md` and `db/version_edit.cc`.
 */
import { readFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode, missingFiles } from '../errors.js'

/** Looks again this often while another process, which holds the lock, is replacing files. */
const maxLooks = 10
const maxNamed = 10

/** @throws EngineError `DATA_LOSS` naming the missing files. */
export async function requireFiles(directory: string, indexName: string): Promise<void> {
  let before: readonly string[] = []
  for (let look = 0; look < maxLooks; look++) {
    const missing = await findMissing(directory, indexName)
    if (missing.length === 0) return
    // A live database never misses the same file twice: its manifest moves on with its files.
    if (missing.some((name) => before.includes(name))) throw missingFiles(missing.slice(0, maxNamed))
    before = missing
  }
}

async function findMissing(directory: string, indexName: string): Promise<readonly string[]> {
  const index = join(directory, indexName)
  const current = await read(join(index, 'CURRENT'))
  const manifestName = current?.toString('latin1').trimEnd()
  const manifest = manifestName?.startsWith('MANIFEST-') ? await read(join(index, manifestName)) : undefined
  const present = await list(index)
  if (present === undefined) return [indexName]
  if (manifestName === undefined) return [`${indexName}/CURRENT`]
  // A damaged CURRENT or manifest is LevelDB's to report: it has the checksums.
  if (!manifestName.startsWith('MANIFEST-')) return []
  if (manifest === undefined) return [`${indexName}/${manifestName}`]

  const { tables, logs } = liveFiles(manifest)
  const missing: string[] = []
  for (const log of logs) if (!present.has(`${log}.log`)) missing.push(`${indexName}/${log}.log`)
  for (const table of tables) {
    if (!present.has(`${table}.ldb`) && !present.has(`${table}.sst`))
      missing.push(`${indexName}/${table}.ldb`)
  }
  return missing
}

async function read(path: string): Promise<Buffer | undefined> {
  try {
    return await readFile(path)
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
}

async function list(path: string): Promise<ReadonlySet<string> | undefined> {
  try {
    return new Set(await readdir(path))
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
}

interface LiveFiles {
  readonly tables: ReadonlySet<string>
  readonly logs: readonly string[]
}

/** Numbers of the files that the manifest's edits leave in use, as they stand in file names. */
export function liveFiles(manifest: Buffer): LiveFiles {
  const tables = new Set<string>()
  const state = { tables, log: 0, previousLog: 0 }
  for (const edit of logRecords(manifest)) if (!applyEdit(state, new VarintReader(edit))) break
  // Number 0 means none: the manifest of a database whose creation was cut short.
  const logs = [state.log, state.previousLog].filter((number) => number > 0)
  return { tables, logs: logs.map(fileNumber) }
}

const editTag = {
  comparator: 1,
  logNumber: 2,
  nextFileNumber: 3,
  lastSequence: 4,
  compactPointer: 5,
  deletedFile: 6,
  newFile: 7,
  previousLogNumber: 9,
} as const

interface ManifestState {
  readonly tables: Set<string>
  log: number
  previousLog: number
}

/** False when the edit has a tag that this code does not know. */
function applyEdit(state: ManifestState, edit: VarintReader): boolean {
  while (edit.more) {
    switch (edit.number()) {
      case editTag.comparator:
        edit.skipString()
        break
      case editTag.logNumber:
        state.log = edit.number()
        break
      case editTag.previousLogNumber:
        state.previousLog = edit.number()
        break
      case editTag.nextFileNumber:
      case editTag.lastSequence:
        edit.number()
        break
      case editTag.compactPointer:
        edit.number()
        edit.skipString()
        break
      case editTag.deletedFile:
        edit.number()
        state.tables.delete(fileNumber(edit.number()))
        break
      case editTag.newFile:
        edit.number()
        state.tables.add(fileNumber(edit.number()))
        edit.number()
        edit.skipString()
        edit.skipString()
        break
      default:
        return false
    }
  }
  return true
}

function fileNumber(number: number): string {
  return String(number).padStart(6, '0')
}

const blockSize = 32 * 1024
const headerSize = 7
const recordType = { full: 1, first: 2, middle: 3, last: 4 } as const

/** The records of a LevelDB log file. A torn record at the end is left out, as LevelDB does. */
function* logRecords(file: Buffer): Generator<Buffer> {
  let parts: Buffer[] = []
  let at = 0
  while (at + headerSize <= file.length) {
    const leftInBlock = blockSize - (at % blockSize)
    if (leftInBlock < headerSize) {
      at += leftInBlock
      continue
    }
    const length = file.readUInt16LE(at + 4)
    const type = file[at + 6]
    const end = at + headerSize + length
    if (end > file.length) return
    const part = file.subarray(at + headerSize, end)
    at = end
    if (type === recordType.full) yield part
    else if (type === recordType.first) parts = [part]
    else if (type === recordType.middle) parts.push(part)
    else if (type === recordType.last) yield Buffer.concat([...parts, part])
    else return
  }
}

class VarintReader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get more(): boolean {
    return this.#at < this.#bytes.length
  }

  number(): number {
    let value = 0
    let factor = 1
    for (;;) {
      const byte = this.#bytes[this.#at++] ?? 0
      value += (byte & 0x7f) * factor
      if (byte < 0x80) return value
      factor *= 0x80
    }
  }

  skipString(): void {
    const length = this.number()
    this.#at += length
  }
}
