/** Where `serve` has the master key of secrets from. */
import { randomBytes } from 'node:crypto'
import { link, open, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { keys, prefixEnd, type Store } from '../../engine/ports.js'
import { parseMasterKey } from './arguments.js'
import { Failure } from './failure.js'

const keyName = 'master.key'
const keyBytes = 32
/** Everything that somebody else than its owner may do with a file. */
const others = 0o077

export interface KeySource {
  readonly key: Uint8Array
  /** To be told once. */
  readonly notes: readonly string[]
}

/** The key that was given, by the environment or as a file; undefined when none was. */
export async function givenMasterKey(
  file: string | undefined,
  variable: string | undefined,
): Promise<KeySource | undefined> {
  if (file !== undefined) return readKeyFile(file)
  if (variable === undefined || variable === '') return undefined
  return { key: parseMasterKey(variable, 'FORKSPACE_MASTER_KEY'), notes: [] }
}

/**
 * The key that is kept beside a store; made when the store has none, and no secrets. To be called while the store is
 * open, so that there is one at a time.
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
      `the store has secrets, and their key ${path} is missing: put it back, or give it by --master-key-file or FORKSPACE_MASTER_KEY`,
    )
  }
  const key = randomBytes(keyBytes)
  await writeKeyFile(directory, path, `${key.toString('hex')}\n`)
  return {
    key,
    notes: [`made ${path}, the key of secrets: keep a copy elsewhere, without it they cannot be read`],
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
  return { key, notes: open ? [`${path} can be read by others than its owner: chmod 600`] : [] }
}

function parseKeyText(text: string, path: string): Uint8Array {
  try {
    return parseMasterKey(text, path)
  } catch (error) {
    throw new Failure((error as Error).message)
  }
}

/** Whole, or not at all: under its name only once it is on the disk, and never in place of another. */
async function writeKeyFile(directory: string, path: string, text: string): Promise<void> {
  const part = `${path}.new`
  // What a kill left behind; its key was never used.
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
