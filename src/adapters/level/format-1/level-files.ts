/**
 * The files of the LevelDB database in which format 1 kept its data. LevelDB reports missing tables itself.
 * It gives no error when CURRENT is missing (it opens a new database), or when a log is missing or damaged
 * (it loses writes). It ends the process when it reads a damaged table. The manifest of the database lists
 * the tables and the log that must exist. The format is in LevelDB's `doc/log_format.md` and
 * `db/version_edit.cc`.
 */
import type { Buffer } from 'node:buffer'
import { constants } from 'node:fs'
import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { damagedOldFile, errorCode, missingOldFiles } from '../errors.js'
import { levelLimits } from '../limits.js'
import { findLogDamage, logRecords } from './level-log.js'
import { findTableDamage } from './level-table.js'
import { VarintReader } from './varint-reader.js'

const reading = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0)

/** A file that is missing, or damaged at an offset. */
interface Fault {
  readonly name: string
  readonly offset?: number
}

/**
 * Reads every file of the database and verifies all checksums.
 *
 * @throws EngineError `DATA_LOSS` with the missing files, or the first damaged one.
 */
export async function requireWholeFiles(directory: string, indexName: string): Promise<void> {
  let before: readonly string[] = []
  for (let look = 0; look < levelLimits.oldFileLooks; look++) {
    const faults = await findFaults(directory, indexName)
    if (faults.length === 0) return
    // A database in use never lacks the same file twice, because its manifest changes together with its
    // files.
    if (faults.some(({ name }) => before.includes(name))) throw faultError(faults)
    before = faults.map(({ name }) => name)
  }
}

function faultError(faults: readonly Fault[]): Error {
  const [first] = faults
  if (first?.offset !== undefined) return damagedOldFile(first.name, first.offset)
  return missingOldFiles(faults.map(({ name }) => name).slice(0, levelLimits.namedFiles))
}

async function findFaults(directory: string, indexName: string): Promise<readonly Fault[]> {
  const index = join(directory, indexName)
  const present = await list(index)
  if (present === undefined) return [{ name: indexName }]
  const current = await read(join(index, 'CURRENT'))
  if (current === undefined) return [{ name: `${indexName}/CURRENT` }]
  const manifestName = /^(MANIFEST-[0-9]+)\n$/.exec(current.toString('latin1'))?.[1]
  if (manifestName === undefined) return [{ name: `${indexName}/CURRENT`, offset: 0 }]
  const manifest = await read(join(index, manifestName))
  if (manifest === undefined) return [{ name: `${indexName}/${manifestName}` }]
  // The first record was on the disk before CURRENT referred to this manifest. So a manifest without records
  // is damaged.
  const damage = logRecords(manifest).next().done === true ? 0 : findLogDamage(manifest)
  if (damage !== undefined) return [{ name: `${indexName}/${manifestName}`, offset: damage }]

  const { tables, logs } = liveFiles(manifest)
  const wanted = [
    ...logs.map((log) => `${log}.log`),
    ...[...tables].map((table) => `${table}.${present.has(`${table}.sst`) ? 'sst' : 'ldb'}`),
  ]
  const missing = wanted.filter((name) => !present.has(name))
  if (missing.length > 0) return missing.map((name) => ({ name: `${indexName}/${name}` }))
  // LevelDB also reads newer logs, because the manifest's edit about them may not have been written.
  const newerLogs = [...present].filter((name) => name.endsWith('.log') && !wanted.includes(name))
  for (const name of [...wanted, ...newerLogs.filter((name) => isNewer(name, logs))]) {
    const file = await read(join(index, name))
    if (file === undefined) return [{ name: `${indexName}/${name}` }]
    const offset = name.endsWith('.log') ? findLogDamage(file) : findTableDamage(file)
    if (offset !== undefined) return [{ name: `${indexName}/${name}`, offset }]
  }
  return []
}

function isNewer(name: string, logs: readonly string[]): boolean {
  return logs.every((log) => Number.parseInt(name, 10) > Number.parseInt(log, 10))
}

/** The bytes of a file. Another entry of its name counts as missing, and is not waited for. */
async function read(path: string): Promise<Buffer | undefined> {
  try {
    await using file = await open(path, reading)
    return (await file.stat()).isFile() ? await file.readFile() : undefined
  } catch (error) {
    if (['ENOENT', 'ELOOP', 'ENXIO'].includes(errorCode(error) ?? '')) return undefined
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

/**
 * The files that are in use after all edits of the manifest: their numbers, in the form that file names have.
 */
function liveFiles(manifest: Buffer): LiveFiles {
  const tables = new Set<string>()
  const state = { tables, log: 0, previousLog: 0 }
  for (const edit of logRecords(manifest)) if (!applyEdit(state, new VarintReader(edit))) break
  // The number 0 means that there is no log. A database whose creation was cut short has such a manifest.
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

/** Applies an edit. Returns false if the edit has a tag that this code does not know. */
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
