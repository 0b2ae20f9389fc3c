import type { StoreCommit } from '../../engine/ports.js'
import { keys } from '../../engine/ports.js'
import { asBytes } from './database.js'
import type { Database } from './database.js'
import { fencedError, writeError } from './errors.js'
import { EventSequence } from './event-sequence.js'

/** A LevelDB batch takes no further commit above this; one commit is never split. */
const maxBatchBytes = 8 * 2 ** 20
/** What an entry costs besides its value: the key and LevelDB's own bytes, roughly. */
const entryBytes = 100

const nothingPassed = Promise.resolve(false)
const nextMicrotask = Promise.resolve()

/**
 * The queue of commits. Those that arrive while a batch is being written go out together in the next one
 * and share its promise, so that one fdatasync serves all of them. Their bytes are copied into LevelDB's
 * batch when they arrive, and freed with it by the garbage collector.
 *
 * After a rejected batch LevelDB may lose later writes that it acknowledges, so nothing is written any more:
 * the commits of that batch have an unknown outcome, those behind it are not applied.
 */
export class GroupCommit {
  readonly #db: Database
  readonly #writeOptions: { readonly sync: boolean }
  readonly #sequence: EventSequence
  /** In the order of the calls. Commits go into the last one; the one being written is not in here. */
  readonly #waiting: Group[] = []
  /** The promise of the newest group that is not known to be written. */
  #newest: Promise<boolean> | undefined
  #running: Promise<void> | undefined
  #failure: { readonly cause: unknown } | undefined

  constructor(db: Database, options: { readonly sync: boolean }) {
    this.#db = db
    this.#writeOptions = { sync: options.sync }
    this.#sequence = new EventSequence(db)
  }

  add(commit: StoreCommit): Promise<boolean> {
    if (this.#failure !== undefined) return Promise.reject(fencedError(this.#failure.cause))
    const { events, put } = commit
    let bodies: readonly string[]
    let values: readonly string[]
    try {
      // Everything that can fail comes before the first entry, since a batch cannot be undone.
      bodies = events === undefined ? none : events.map(encodeBody)
      values = put === undefined ? none : put.map(encodeValue)
      if (events !== undefined && !this.#sequence.claim(events)) return this.#passed()
    } catch (error) {
      return Promise.reject(error)
    }
    const group = this.#openGroup()
    try {
      fill(group, commit, bodies, values)
      this.#running ??= this.#run()
    } catch (error) {
      // Half a commit stands in the batch: it must not be written.
      this.#fence(error)
    }
    return group.promise
  }

  /** Waits until everything that was added is written or rejected. */
  async drain(): Promise<void> {
    await this.#running
  }

  /** The number may have been taken by a queued commit: answer when that one can be read. */
  #passed(): Promise<boolean> {
    return this.#newest === undefined ? nothingPassed : this.#newest.then(no)
  }

  #openGroup(): Group {
    const last = this.#waiting.at(-1)
    if (last !== undefined && last.bytes < maxBatchBytes) return last
    const group = new Group(this.#db)
    this.#waiting.push(group)
    this.#newest = group.promise
    return group
  }

  async #run(): Promise<void> {
    // Commits of the same turn go out together.
    await nextMicrotask
    for (let group = this.#waiting.shift(); group !== undefined; group = this.#waiting.shift()) {
      try {
        await group.batch.write(this.#writeOptions)
      } catch (error) {
        group.reject(writeError(error, 'unknown'))
        this.#fence(error)
        break
      }
      group.resolve(true)
    }
    // No await from the last look at the queue to here: a commit added later finds nothing running.
    this.#running = undefined
    this.#newest = undefined
    this.#sequence.trim()
  }

  #fence(cause: unknown): void {
    this.#failure = { cause }
    for (const group of this.#waiting.splice(0)) {
      group.batch.close().catch(ignore)
      group.reject(writeError(cause, 'not-applied'))
    }
  }
}

type Batch = ReturnType<Database['batch']>

class Group {
  readonly batch: Batch
  readonly promise: Promise<boolean>
  bytes = 0
  resolve!: (stored: boolean) => void
  reject!: (error: unknown) => void

  constructor(db: Database) {
    this.batch = db.batch()
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
  }
}

const none: readonly string[] = []

function fill(group: Group, commit: StoreCommit, bodies: readonly string[], values: readonly string[]): void {
  const { batch } = group
  const { events, put, del, blobs } = commit
  let bytes = 0
  if (events !== undefined) {
    for (let i = 0; i < events.length; i++) {
      const { sessionId, seq } = events[i]!
      batch.put(keys.event(sessionId, seq), bodies[i]!)
      bytes += bodies[i]!.length + entryBytes
    }
  }
  if (put !== undefined) {
    for (let i = 0; i < put.length; i++) {
      batch.put(put[i]![0], values[i]!)
      bytes += values[i]!.length + entryBytes
    }
  }
  if (del !== undefined) {
    for (const key of del) batch.del(key)
    bytes += del.length * entryBytes
  }
  if (blobs !== undefined) {
    for (const blob of blobs) {
      batch.put(keys.blob(blob.hash), blob.bytes, asBytes)
      bytes += blob.bytes.length + entryBytes
    }
  }
  group.bytes += bytes
}

function encodeBody({ body }: { readonly body: readonly unknown[] | string }): string {
  return typeof body === 'string' ? body : JSON.stringify(body)
}

function encodeValue([, value]: readonly [string, string | object]): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function no(): false {
  return false
}

function ignore(): void {}
