import { promises as fs, type Stats } from 'node:fs'
import { EngineError } from '../../engine/ports.js'
import { errorCode } from './local-files.js'

export interface OpenFile {
  readonly handle: fs.FileHandle
  readonly stat: Stats
}

/** A file is not there any more, or another one has its name. */
export class FileGone extends EngineError {
  constructor() {
    super('GIT_REMOTE_ERROR', 'the repository was repacked while it was read')
  }
}

interface Slot {
  readonly file: Promise<OpenFile>
  users: number
}

/** Files that stay open for the next read, up to a number of them. */
export class OpenFiles {
  readonly #limit: number
  readonly #slots = new Map<string, Slot>()

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Throws FileGone when there is no such file. */
  async use<T>(path: string, work: (file: OpenFile) => Promise<T>): Promise<T> {
    const slot = this.#slots.get(path) ?? { file: open(path), users: 0 }
    // Set anew: the last used is the last in order.
    this.#slots.delete(path)
    this.#slots.set(path, slot)
    slot.users++
    try {
      return await work(await slot.file)
    } catch (error) {
      if (error instanceof FileGone && this.#slots.get(path) === slot) this.#slots.delete(path)
      throw error
    } finally {
      slot.users--
      // One that was given up is closed by its last user.
      if (slot.users === 0 && this.#slots.get(path) !== slot) await closeSlot(slot)
      await this.#closeSpare()
    }
  }

  async close(): Promise<void> {
    const slots = [...this.#slots.values()]
    this.#slots.clear()
    await Promise.all(slots.map(closeSlot))
  }

  async #closeSpare(): Promise<void> {
    if (this.#slots.size <= this.#limit) return
    for (const [path, slot] of this.#slots) {
      if (slot.users > 0) continue
      this.#slots.delete(path)
      await closeSlot(slot)
      return
    }
  }
}

async function open(path: string): Promise<OpenFile> {
  let handle: fs.FileHandle | undefined
  try {
    handle = await fs.open(path, 'r')
    return { handle, stat: await handle.stat() }
  } catch (error) {
    await handle?.close()
    throw errorCode(error) === 'ENOENT' ? new FileGone() : error
  }
}

async function closeSlot(slot: Slot): Promise<void> {
  const file = await slot.file.catch(() => undefined)
  await file?.handle.close()
}
