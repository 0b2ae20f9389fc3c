import { crc32 } from 'node:zlib'
import type { Disk, DiskFile } from '../../src/adapters/level/directory/disk.js'
import { EngineError, type Store, type StoreCommit, type StoredEvent } from '../../src/engine/ports.js'
import { blobPool, StoreModel } from './sim-model.js'
import type { SimStoreOptions } from './sim-run.js'

/** Zeros after the lines, which later lines replace. */
const spaceBytes = 2048

/** A step that a log can omit, to prove that the simulation detects it. */
export type Defect = 'sync' | 'directory' | 'tail' | 'fence' | 'rewrite' | 'space'

/** The simplest log that meets the contract of a store: one file with a line per commit, read when it is opened. */
export async function openPlainLog({ disk, directory }: SimStoreOptions, defect?: Defect): Promise<Store> {
  const log = new PlainLog(disk, directory, defect)
  await log.open()
  return log
}

type Line = Omit<StoreCommit, 'blobs'> & { readonly blobs?: readonly string[] }

class PlainLog implements Store {
  readonly capabilities = { durable: true, syncReads: false }
  readonly #disk: Disk
  readonly #directory: string
  readonly #defect: Defect | undefined
  #model = new StoreModel()
  #file: DiskFile | undefined
  #size = 0
  /** The end of the zeros after the lines. */
  #spaceEnd = 0
  #failed = false
  #queue: Promise<unknown> = Promise.resolve()

  constructor(disk: Disk, directory: string, defect: Defect | undefined) {
    this.#disk = disk
    this.#directory = directory
    this.#defect = defect
  }

  async open(): Promise<void> {
    try {
      await this.#disk.makeDirectory(this.#directory)
      const model = await this.#read()
      // Rewrites the existing data; otherwise data that an earlier sync failed to keep would count as kept.
      if (this.#defect !== 'rewrite') await this.#rewrite()
      this.#model = model
    } catch (error) {
      throw failure(error, 'unknown')
    }
  }

  commit(commit: StoreCommit): Promise<boolean> {
    const stored = this.#queue.then(() => this.#commit(commit))
    this.#queue = stored.catch(() => undefined)
    return stored
  }

  async recover(): Promise<void> {
    if (!this.#failed) return
    await this.open()
    this.#failed = false
  }

  async *events(
    sessionId: string,
    { from, to }: { from: number; to: number },
  ): AsyncGenerator<readonly StoredEvent[]> {
    const bodies = this.#model.events.get(sessionId) ?? []
    const page = bodies.map((body, index) => ({
      sessionId,
      seq: index + 1,
      body: JSON.parse(body) as unknown[],
    }))
    yield page.filter(({ seq }) => seq >= from && seq <= to)
  }

  async lastEvent(sessionId: string): Promise<StoredEvent | undefined> {
    const bodies = this.#model.events.get(sessionId)
    const body = bodies?.at(-1)
    return body === undefined
      ? undefined
      : { sessionId, seq: bodies!.length, body: JSON.parse(body) as unknown[] }
  }

  async get(key: string): Promise<string | undefined> {
    return this.#model.records.get(key)
  }

  async scan(): Promise<readonly (readonly [string, string])[]> {
    return [...this.#model.records]
  }

  async blob(hash: string): Promise<Uint8Array | undefined> {
    if (this.#model.blobs.has(hash)) return blobPool.find((blob) => blob.hash === hash)!.bytes
    return undefined
  }

  async close(): Promise<void> {
    await this.#queue
    await this.#file?.close()
  }

  async #commit(commit: StoreCommit): Promise<boolean> {
    if (this.#failed) throw failure(undefined, 'not-applied')
    const next = new StoreModel(this.#model)
    if (!next.apply(commit)) return false
    const line: Line = { ...commit, blobs: commit.blobs?.map(({ hash }) => hash) ?? [] }
    try {
      await this.#append(JSON.stringify(line))
    } catch (error) {
      this.#failed = this.#defect !== 'fence'
      throw failure(error, 'unknown')
    }
    this.#model = next
    return true
  }

  async #append(text: string): Promise<void> {
    const bytes = Buffer.from(`${crc32(text)} ${text}\n`)
    await this.#file!.write(this.#size, [bytes])
    const end = this.#size + bytes.length
    const hadSpace = end <= this.#spaceEnd
    if (!hadSpace) {
      await this.#file!.write(end, [Buffer.alloc(spaceBytes)])
      this.#spaceEnd = end + spaceBytes
    }
    // A line in space that was synced before changes no size, but its bytes must be synced too.
    const omitted = this.#defect === 'sync' || (this.#defect === 'space' && hadSpace)
    if (!omitted) await this.#file!.sync('here')
    this.#size = end
  }

  async #read(): Promise<StoreModel> {
    const model = new StoreModel()
    const path = `${this.#directory}/log`
    if (!(await this.#disk.list(this.#directory)).includes('log')) {
      this.#file = await this.#disk.open(path, 'create')
      await this.#disk.syncDirectory(this.#directory)
    } else this.#file = await this.#disk.open(path, 'write')
    const text = Buffer.from(await this.#file.read(0, await this.#file.size())).toString()
    this.#size = 0
    for (const line of text.split('\n').slice(0, -1)) {
      const body = line.slice(line.indexOf(' ') + 1)
      if (line !== `${crc32(body)} ${body}`) break
      apply(model, body)
      this.#size += Buffer.byteLength(line) + 1
    }
    if (this.#defect === 'tail') this.#size = await this.#file.size()
    await this.#file.truncate(this.#size)
    this.#spaceEnd = 0
    return model
  }

  async #rewrite(): Promise<void> {
    const [path, draft] = [`${this.#directory}/log`, `${this.#directory}/log.new`]
    const bytes = await this.#file!.read(0, this.#size)
    await this.#file!.close()
    if ((await this.#disk.list(this.#directory)).includes('log.new')) await this.#disk.remove(draft)
    this.#file = await this.#disk.open(draft, 'create')
    await this.#file.write(0, [bytes])
    await this.#file.sync()
    await this.#disk.rename(draft, path)
    if (this.#defect !== 'directory') await this.#disk.syncDirectory(this.#directory)
  }
}

function apply(model: StoreModel, body: string): void {
  const { blobs, ...commit } = JSON.parse(body) as Line
  model.apply({ ...commit, blobs: blobs!.map((hash) => ({ hash, bytes: Buffer.alloc(0) })) })
}

function failure(cause: unknown, outcome: string): EngineError {
  return new EngineError('STORE_FAILED', 'the log failed', { outcome }, { cause })
}
