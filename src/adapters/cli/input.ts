/** The input of a command: a file or standard input. */
import { createReadStream } from 'node:fs'
import { mkdtemp, open, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Failure } from './failure.js'
import type { World } from './world.js'

export interface Input {
  readonly size: number
  read(): AsyncIterable<Uint8Array>
  /** Returns the first `length` bytes, or fewer if the input is shorter. */
  head(length: number): Promise<Uint8Array>
  close(): Promise<void>
}

/**
 * Opens a file, or standard input for `-`. Standard input is first copied to a temporary file that only this
 * user can read, because an earlier command of the pipeline may keep the store open until its output ends.
 */
export async function openInput(name: string, world: Pick<World, 'stdin'>): Promise<Input> {
  return name === '-' ? spool(world.stdin) : openFile(name)
}

async function openFile(path: string, after?: () => Promise<void>): Promise<Input> {
  const handle = await open(path).catch((error: NodeJS.ErrnoException) => {
    throw new Failure(error.code === 'ENOENT' ? `there is no file ${path}` : error.message)
  })
  try {
    const entry = await handle.stat()
    if (entry.isDirectory()) throw new Failure(`${path} is a directory`)
    // A pipe, a device or a virtual file such as those in /proc has no size.
    if (!entry.isFile() || (entry.size === 0 && after === undefined)) {
      await handle.close()
      return await spool(createReadStream(path))
    }
    return {
      size: entry.size,
      read: () => handle.createReadStream({ start: 0, autoClose: false }),
      async head(length) {
        const { buffer, bytesRead } = await handle.read(new Uint8Array(length), 0, length, 0)
        return buffer.subarray(0, bytesRead)
      },
      async close() {
        await handle.close()
        await after?.()
      },
    }
  } catch (error) {
    await handle.close()
    throw error
  }
}

async function spool(stream: AsyncIterable<Uint8Array>): Promise<Input> {
  const directory = await mkdtemp(join(tmpdir(), 'forkspace-'))
  const remove = (): Promise<void> => rm(directory, { recursive: true, force: true })
  try {
    const path = join(directory, 'input')
    const handle = await open(path, 'wx', 0o600)
    try {
      for await (const chunk of stream) await handle.writeFile(chunk)
    } finally {
      await handle.close()
    }
    return await openFile(path, remove)
  } catch (error) {
    await remove()
    throw error
  }
}

/** Whether a path of the host is an existing directory. */
export async function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (entry) => entry.isDirectory(),
    () => false,
  )
}
