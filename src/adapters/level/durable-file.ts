import { open } from 'node:fs/promises'
import { errorCode } from './errors.js'

/** Makes creations, renames and deletions in a directory last. Windows has no such call and needs none. */
export async function syncDirectory(path: string): Promise<void> {
  if (process.platform === 'win32') return
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } catch (error) {
    // Some file systems cannot sync a directory; there is no more to be had from them.
    const code = errorCode(error)
    if (code !== 'EINVAL' && code !== 'ENOTSUP') throw error
  } finally {
    await handle.close()
  }
}

/** Gives a file new contents, or creates it, and syncs them. */
export async function writeSynced(path: string, contents: string): Promise<void> {
  const handle = await open(path, 'w')
  try {
    await handle.writeFile(contents)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Creates a file when it does not exist; an existing one keeps its contents. */
export async function touchSynced(path: string): Promise<void> {
  const handle = await open(path, 'a')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
