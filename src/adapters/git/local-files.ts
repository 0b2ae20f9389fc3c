import { randomBytes } from 'node:crypto'
import { promises as fs } from 'node:fs'
import { join } from 'node:path'

/** The text of a file; undefined when there is none. */
export async function readOptional(path: string): Promise<string | undefined> {
  try {
    return await fs.readFile(path, 'utf8')
  } catch (error) {
    if (isMissing(error) || errorCode(error) === 'EISDIR') return undefined
    throw error
  }
}

/** The names in a directory; none when there is no such directory. */
export async function listOptional(path: string): Promise<string[]> {
  try {
    return await fs.readdir(path)
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}

export async function isFile(path: string): Promise<boolean> {
  try {
    return (await fs.stat(path)).isFile()
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}

export async function openOptional(path: string): Promise<fs.FileHandle | undefined> {
  try {
    return await fs.open(path, 'r')
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

/** Fewer bytes only at the end of the file. */
export async function readFully(handle: fs.FileHandle, offset: number, length: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(length)
  let end = 0
  while (end < length) {
    const { bytesRead } = await handle.read(bytes, end, length - end, offset + end)
    if (bytesRead === 0) break
    end += bytesRead
  }
  return bytes.subarray(0, end)
}

/** Writes a file that is either whole and on disk, or not there under this name. */
export async function writeWhole(
  directory: string,
  name: string,
  parts: Iterable<Uint8Array>,
): Promise<void> {
  await fs.mkdir(directory, { recursive: true })
  const temporary = join(directory, `tmp_obj_${randomBytes(8).toString('hex')}`)
  try {
    const file = await fs.open(temporary, 'wx', 0o444)
    try {
      for (const group of grouped(parts)) await file.appendFile(group)
      await file.sync()
    } finally {
      await file.close()
    }
    await fs.rename(temporary, join(directory, name))
  } catch (error) {
    await fs.rm(temporary, { force: true })
    throw error
  }
}

/** Few large writes instead of many small ones. */
function* grouped(parts: Iterable<Uint8Array>): Generator<Uint8Array, void, undefined> {
  let group: Uint8Array[] = []
  let bytes = 0
  for (const part of parts) {
    group.push(part)
    bytes += part.length
    if (bytes < groupBytes) continue
    yield Buffer.concat(group)
    group = []
    bytes = 0
  }
  yield Buffer.concat(group)
}

const groupBytes = 2 ** 20

export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined
}

function isMissing(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '')
}
