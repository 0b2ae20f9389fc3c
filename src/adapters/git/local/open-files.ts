import type { promises as fs, Stats } from 'node:fs'
import { EngineError } from '../../../engine/ports.js'

/** A regular file that is opened on demand. */
export interface FilePlace {
  /** Identifies the file. */
  readonly key: string
  /** Undefined if the file does not exist. */
  open(): Promise<fs.FileHandle | undefined>
}

export interface OpenFile {
  readonly handle: fs.FileHandle
  readonly stat: Stats
}

/** Thrown if the file no longer exists, or another file has its name. */
export class FileGone extends EngineError {
  constructor() {
    super('GIT_REMOTE_ERROR', 'the repository was repacked while it was read')
  }
}

interface Slot {
  readonly file: Promise<OpenFile>
  users: number
}

/** Keeps a limited number of files open for the next reads. */
export class OpenFiles {
  readonly #limit: number
  readonly #slots = new Map<string, Slot>()

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Runs `work` with the open file. Throws FileGone if the file does not exist. */
  async use<T>(place: FilePlace, work: (file: OpenFile) => Promise<T>): Promise<T> {
    const { key } = place
    const slot = this.#slots.get(key) ?? { file: open(place), users: 0 }
    // Set the slot again, so that the map stays in order of last use.
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
      // The last user closes a file that is no longer in the map.
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
