import { randomBytes } from 'node:crypto'
import { promises as fs } from 'node:fs'
import { join } from 'node:path'

/** The text of a file; undefined when there is none. */
export async function readOptional(path: string): Promise<string | undefined> {
  try {
    return await fs.readFile(path, 'utf8')
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'EISDIR'].includes(errorCode(error) ?? '')) return undefined
    throw error
  }
}

/** Writes a file that is either whole and on disk, or not there under this name. */
export async function writeWhole(directory: string, name: string, content: Uint8Array): Promise<void> {
  await fs.mkdir(directory, { recursive: true })
  const temporary = join(directory, `tmp_obj_${randomBytes(8).toString('hex')}`)
  try {
    const file = await fs.open(temporary, 'wx', 0o444)
    try {
      await file.writeFile(content)
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

export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined
}
