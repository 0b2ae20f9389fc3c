/** The sources of the master key of secrets for `serve`. */
import { randomBytes } from 'node:crypto'
import { link, open, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { keys, prefixEnd, type Store } from '../../engine/ports.js'
import { parseMasterKey } from './arguments.js'
import { Failure } from './failure.js'

const keyName = 'master.key'
const keyBytes = 32
/** The permission bits of the group and of other users. */
const others = 0o077

export interface KeySource {
  readonly key: Uint8Array
  /** Warnings to log once. */
  readonly notes: readonly string[]
}

/** Reads the key from a file or an environment variable. Returns undefined if neither is given. */
export async function givenMasterKey(
  file: string | undefined,
  variable: string | undefined,
): Promise<KeySource | undefined> {
  if (file !== undefined) return readKeyFile(file)
  if (variable === undefined || variable === '') return undefined
  return { key: parseMasterKey(variable, 'FORKSPACE_MASTER_KEY'), notes: [] }
}

/**
 * Reads the key from the directory of a store. Creates the key if the store has neither a key nor secrets.
 * The store must be open, so that only one process creates a key.
 */
export async function keptMasterKey(directory: string, store: Store): Promise<KeySource> {
  const path = join(directory, keyName)
  try {
    return await readKeyFile(path)
  } catch (error) {
    if (!isMissing(error)) throw error
  }
  const first = keys.secrets('')
  const secrets = await store.scan({ gte: first, lt: prefixEnd(first), limit: 1 })
  if (secrets.length > 0) {
    throw new Failure(
      `the store has secrets, but their key ${path} is missing: put it back, or pass it with --master-key-file or FORKSPACE_MASTER_KEY`,
    )
  }
  const key = randomBytes(keyBytes)
  await writeKeyFile(directory, path, `${key.toString('hex')}\n`)
  return {
    key,
    notes: [
      `created ${path}, the master key of secrets: keep a copy elsewhere; secrets cannot be read without it`,
    ],
  }
}

async function readKeyFile(path: string): Promise<KeySource> {
  const text = await readFile(path).catch((error: NodeJS.ErrnoException) => {
    throw new Failure(
      error.code === 'ENOENT' ? `there is no file ${path}` : `${path} cannot be read: ${error.code ?? ''}`,
      { cause: error },
    )
  })
  const key = text.length === keyBytes ? new Uint8Array(text) : parseKeyText(text.toString('latin1'), path)
  const { mode } = await stat(path)
  const open = process.platform !== 'win32' && (mode & others) !== 0
  return { key, notes: open ? [`${path} can be read by other users: restrict it with chmod 600`] : [] }
}

function parseKeyText(text: string, path: string): Uint8Array {
  try {
    return parseMasterKey(text, path)
  } catch (error) {
    throw new Failure((error as Error).message)
  }
}

/**
 * Writes the key file atomically. It gets its name only after it is synced, and never replaces another key.
 */
async function writeKeyFile(directory: string, path: string, text: string): Promise<void> {
  const part = `${path}.new`
  // A killed process may have left this file. Its key was never used.
  await rm(part, { force: true })
  const handle = await open(part, 'wx', 0o600)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await link(part, path)
  await rm(part)
  if (process.platform === 'win32') return
  const parent = await open(directory)
  try {
    await parent.sync()
  } finally {
    await parent.close()
  }
}

function isMissing(error: unknown): boolean {
  return ((error as Failure).cause as NodeJS.ErrnoException | undefined)?.code === 'ENOENT'
}
