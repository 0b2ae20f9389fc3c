import { ClassicLevel } from 'classic-level'
import { contents } from './project-files.js'
import type { Contestant } from './measure.js'

export type Durability = 'full' | 'relaxed'

/** A baseline for storage on disk: puts of 200 bytes into a separate LevelDB database with the same durability. */
export class RawLevel {
  readonly #db: ClassicLevel<string, Uint8Array>
  readonly #sync: boolean
  readonly #values = contents(64, 200)
  #next = 0

  private constructor(db: ClassicLevel<string, Uint8Array>, durability: Durability) {
    this.#db = db
    this.#sync = durability === 'full'
  }

  static async open(directory: string, durability: Durability): Promise<RawLevel> {
    const db = new ClassicLevel<string, Uint8Array>(directory, { valueEncoding: 'view' })
    await db.open()
    return new RawLevel(db, durability)
  }

  put(): Promise<void> {
    const number = this.#next++
    const key = `e0000000000000000${String(number).padStart(9, '0')}`
    return this.#db.put(key, this.#values[number % this.#values.length]!, { sync: this.#sync })
  }

  /** Sequential puts. */
  contestant(count: number): Contestant {
    return {
      count,
      run: async () => {
        for (let i = 0; i < count; i++) await this.put()
      },
    }
  }

  close(): Promise<void> {
    return this.#db.close()
  }
}
