import type { StoreCommit } from '../../src/engine/ports.js'
import { blobPool, type StoreModel } from './sim-model.js'

const liveSessions = 4

/** Random commits that are valid once all earlier commits are stored. */
export class Commits {
  readonly #random: () => number
  #count = 0
  #session = 0
  #sessions: string[] = []
  /** Sessions that may have events, or had some. */
  readonly known = new Set<string>()

  constructor(random: () => number) {
    this.#random = random
  }

  next(head: StoreModel): StoreCommit {
    const n = ++this.#count
    switch (this.#random() % 12) {
      case 0:
      case 1:
        return { put: this.#records(n), del: this.#keys() }
      case 2:
        return { blobs: this.#blobs(), put: this.#records(n) }
      case 3:
        return { deleteBlobs: this.#blobs().map(({ hash }) => hash), del: this.#keys() }
      case 4:
        return { deleteBlobs: this.#blobs().map(({ hash }) => hash), blobs: this.#blobs() }
      case 5:
        return this.#replacement(head, n)
      case 6:
        return this.#random() % 4 === 0 ? this.#end(n) : this.#late(head, n)
      default:
        return {
          events: this.#events(head, n),
          ...(this.#random() % 2 === 0 && { put: this.#records(n) }),
          ...(this.#random() % 3 === 0 && { blobs: this.#blobs() }),
        }
    }
  }

  #events(head: StoreModel, n: number): NonNullable<StoreCommit['events']> {
    const sessionId = this.#anySession()
    const first = (head.events.get(sessionId)?.length ?? 0) + 1
    return Array.from({ length: 1 + (this.#random() % 3) }, (_, index) => ({
      sessionId,
      seq: first + index,
      body: ['e', n, index, 'x'.repeat(this.#size())],
    }))
  }

  #late(head: StoreModel, n: number): StoreCommit {
    const sessionId = this.#anySession()
    const known = head.events.get(sessionId)?.length ?? 0
    if (known === 0) return { put: this.#records(n) }
    return { events: [{ sessionId, seq: known, body: ['late', n] }], put: [['late', `${n}`]] }
  }

  #replacement(head: StoreModel, n: number): StoreCommit {
    const sessionId = this.#anySession()
    const known = head.events.get(sessionId)?.length ?? 0
    if (known === 0) return { put: this.#records(n) }
    const seq = 1 + (this.#random() % known)
    return { replaceEvents: [{ sessionId, seq, body: ['other', n] }], put: this.#records(n) }
  }

  #end(n: number): StoreCommit {
    const sessionId = this.#anySession()
    this.#sessions = this.#sessions.filter((id) => id !== sessionId)
    return { deleteEvents: [sessionId], put: this.#records(n) }
  }

  #anySession(): string {
    while (this.#sessions.length < liveSessions) {
      const id = `s${++this.#session}`.padStart(36, '0')
      this.#sessions.push(id)
      this.known.add(id)
    }
    return this.#sessions[this.#random() % liveSessions]!
  }

  #records(n: number): [string, string][] {
    return this.#keys(1).map((key) => [key, `${n} ${'y'.repeat(this.#size())}`])
  }

  #keys(least = 0): string[] {
    const keys = new Set<string>()
    for (let i = least + (this.#random() % 3); i > 0; i--) keys.add(`k${this.#random() % 24}`)
    return [...keys]
  }

  #blobs(): (typeof blobPool)[number][] {
    const blobs = new Set<(typeof blobPool)[number]>()
    for (let i = this.#random() % 4; i > 0; i--) blobs.add(blobPool[this.#random() % blobPool.length]!)
    return [...blobs]
  }

  #size(): number {
    return this.#random() % 16 === 0 ? this.#random() % 3000 : this.#random() % 40
  }
}
