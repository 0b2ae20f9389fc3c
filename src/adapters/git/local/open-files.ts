import type { promises as fs, Stats } from 'node:fs'
import { EngineError } from '../../../engine/ports.js'

/** A regular file that is opened when it is needed. */
export interface FilePlace {
  /** Tells files apart. */
  readonly key: string
  /** Undefined when there is none. */
  open(): Promise<fs.FileHandle | undefined>
}

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
  async use<T>(place: FilePlace, work: (file: OpenFile) => Promise<T>): Promise<T> {
    const { key } = place
    const slot = this.#slots.get(key) ?? { file: open(place), users: 0 }
    // Set anew: the last used is the last in order.
    this.#slots.delete(key)
    this.#slots.set(key, slot)
    slot.users++
    try {
      return await work(await slot.file)
    } catch (error) {
      if (error instanceof FileGone && this.#slots.get(key) === slot) this.#slots.delete(key)
      throw error
    } finally {
      slot.users--
      // One that was given up is closed by its last user.
      if (slot.users === 0 && this.#slots.get(key) !== slot) await closeSlot(slot)
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
    for (const [key, slot] of this.#slots) {
      if (slot.users > 0) continue
      this.#slots.delete(key)
      await closeSlot(slot)
      return
    }
  }
}

async function open(place: FilePlace): Promise<OpenFile> {
  const handle = await place.open()
  if (handle === undefined) throw new FileGone()
  try {
    return { handle, stat: await handle.stat() }
  } catch (error) {
    await handle.close()
    throw error
  }
}

async function closeSlot(slot: Slot): Promise<void> {
  const file = await slot.file.catch(() => undefined)
  await file?.handle.close()
}
