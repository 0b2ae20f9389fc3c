import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { levelStorage } from '../../src/adapters/level/index.js'
import { memoryStorage, openEngine } from '../../src/index.js'
import type { Engine, SegmentChunk, SegmentWriteRequest, Session, Storage } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'

export const fsxStorages = ['memory', 'durable', 'no-sync', 'level'] as const
export type FsxStorage = (typeof fsxStorages)[number]

export interface FsxOptions {
  readonly seed: number
  readonly operations: number
  /** By default all, in turn. */
  readonly storages?: readonly FsxStorage[]
  readonly onProgress?: (line: string) => void
}

export interface FsxResult {
  readonly operations: number
  readonly seconds: number
  /** The number of operations of each kind. */
  readonly kinds: ReadonlyMap<string, number>
}

/** Operations on one engine before the next one starts empty. */
const epochOperations = 2000
const maxSessions = 4
const blockBytes = 2 ** 20
const maxBytes = 3 * blockBytes
const paths = ['/a', '/b', '/c', '/d/e', '/d/f', '/d/g/h']

/**
 * Compares random reads and writes of files with plain bytes, like the file system exerciser "fsx". The first
 * difference throws an error that names the seed of its epoch; 2,000 operations with that seed on the same storage
 * reproduce it.
 */
export async function runFsx({
  seed,
  operations,
  storages = fsxStorages,
  onProgress = () => undefined,
}: FsxOptions): Promise<FsxResult> {
  const kinds = new Map<string, number>()
  const start = performance.now()
  let done = 0
  for (let epoch = 0; done < operations; epoch++) {
    const storage = storages[epoch % storages.length]!
    const count = Math.min(epochOperations, operations - done)
    const epochSeed = (seed + Math.floor(epoch / storages.length)) % 2 ** 31
    await runEpoch(storage, epochSeed, count, kinds)
    done += count
    const seconds = (performance.now() - start) / 1000
    if (epoch % 20 === 19) onProgress(`${done} of ${operations}, ${Math.round(done / seconds)} a second`)
  }
  return { operations: done, seconds: (performance.now() - start) / 1000, kinds }
}

async function runEpoch(
  kind: FsxStorage,
  seed: number,
  count: number,
  kinds: Map<string, number>,
): Promise<void> {
  const directory = kind === 'level' ? await mkdtemp(join(tmpdir(), 'fsx-')) : undefined
  const storage =
    directory === undefined
      ? memoryStorage({ durable: kind !== 'memory', syncReads: kind !== 'no-sync' })
      : levelStorage(directory, { durability: 'relaxed' })
  const run = new FsxRun(storage, kind, seed, kinds)
  let number = 0
  try {
    await run.open()
    for (; number < count; number++) await run.step()
    await run.finish()
  } catch (error) {
    const what = `${kind}, seed ${seed}, operation ${number} (${run.doing})`
    throw new Error(`${what}: ${(error as Error).message}`, { cause: error })
  } finally {
    await run.close()
    if (directory !== undefined) await rm(directory, { recursive: true, force: true })
  }
}

/** Names, and the contents of their files; contents are never changed in place. */
class Files {
  readonly names: Map<string, number>
  readonly contents: Map<number, Buffer>

  constructor(
    names: ReadonlyMap<string, number> = new Map(),
    contents: ReadonlyMap<number, Buffer> = new Map(),
  ) {
    this.names = new Map(names)
    this.contents = new Map(contents)
  }

  clone(): Files {
    return new Files(this.names, this.contents)
  }

  get(path: string): Buffer | undefined {
    const file = this.names.get(path)
    return file === undefined ? undefined : this.contents.get(file)
  }

  set(path: string, content: Buffer, newFile: number): void {
    const file = this.names.get(path) ?? newFile
    this.names.set(path, file)
    this.contents.set(file, content)
  }
}

interface ModelSession {
  session: Session
  files: Files
  readonly checkpoints: { readonly label: string; readonly files: Files }[]
}

type Step = () => Promise<void>

class FsxRun {
  doing = 'open'
  readonly #storage: Storage
  readonly #kind: FsxStorage
  readonly #next: () => number
  readonly #kinds: Map<string, number>
  #engine: Engine | undefined
  #sessions: ModelSession[] = []
  #current!: ModelSession
  #number = 0
  readonly #steps: readonly (readonly [name: string, step: Step])[]

  constructor(storage: Storage, kind: FsxStorage, seed: number, kinds: Map<string, number>) {
    this.#storage = storage
    this.#kind = kind
    this.#next = randomWords(seed)
    this.#kinds = kinds
    const weighted: Record<string, readonly [weight: number, step: Step]> = {
      read: [20, () => this.#read()],
      patch: [20, () => this.#patch(1)],
      'patch several': [5, () => this.#patch(2 + this.#below(3))],
      'write at': [10, () => this.#writeAt()],
      'write at, sync': [10, () => this.#writeAtSync()],
      truncate: [6, () => this.#truncate()],
      'punch hole': [8, () => this.#punch()],
      append: [8, () => this.#append()],
      borrow: [6, () => this.#borrow()],
      write: [4, () => this.#write()],
      copy: [2, () => this.#copy()],
      link: [3, () => this.#link()],
      unlink: [3, () => this.#unlink()],
      rename: [3, () => this.#rename()],
      hash: [3, () => this.#hash()],
      fork: [1, () => this.#fork()],
      checkpoint: [1, () => this.#checkpoint()],
      restore: [1, () => this.#restore()],
      ...(kind !== 'memory' && { reopen: [0.5, () => this.#reopen()] as const }),
    }
    this.#steps = Object.entries(weighted).flatMap(([name, [weight, step]]) =>
      Array.from({ length: weight * 2 }, () => [name, step] as const),
    )
  }

  async open(): Promise<void> {
    this.#engine = await openEngine({ storage: this.#storage })
    const session = await this.#engine.sessions.create({ files: { '/d/g/h': 'base' } })
    const files = new Files()
    files.set('/d/g/h', Buffer.from('base'), ++this.#number)
    this.#sessions = [{ session, files, checkpoints: [] }]
    this.#current = this.#sessions[0]!
  }

  async step(): Promise<void> {
    this.#current = this.#pick(this.#sessions)
    const [name, step] = this.#pick(this.#steps)
    this.doing = name
    await step()
    this.#kinds.set(name, (this.#kinds.get(name) ?? 0) + 1)
  }

  async finish(): Promise<void> {
    this.doing = 'the end'
    if (this.#kind !== 'memory') await this.#reopen()
    for (const { session, files } of this.#sessions) {
      const { nodes } = await session.manifest()
      const found = nodes.filter(({ contentHash }) => contentHash !== '')
      const expected = [...files.names.keys()].map((path) => [path, hashOf(files.get(path)!)])
      differ(
        'the manifest',
        JSON.stringify(found.map(({ path, contentHash }) => [path, contentHash])),
        JSON.stringify(expected.toSorted(([a = ''], [b = '']) => (a < b ? -1 : 1))),
      )
      for (const path of files.names.keys()) await this.#compare(session, path, files.get(path)!)
    }
  }

  async close(): Promise<void> {
    await this.#engine?.close()
  }

  async #read(): Promise<void> {
    const { session, files } = this.#current
    const path = this.#existing()
    const content = files.get(path)!
    const offset = this.#offset(content.length)
    const length = this.#length()
    const bytes =
      this.#below(2) === 0 || !this.#sync
        ? await session.files.read({ path, offset, length })
        : readSync(session, path, offset, length)
    same(`${path} from ${offset}`, bytes, content.subarray(offset, offset + length))
  }

  async #patch(count: number): Promise<void> {
    const { session, files } = this.#current
    const after = files.clone()
    const mutations: SegmentWriteRequest[] = []
    for (let i = 0; i < count; i++) {
      const path = this.#pick(paths)
      const before = after.get(path)
      const size = before?.length ?? 0
      const parts = Array.from({ length: 1 + this.#below(this.#below(50) === 0 ? 700 : 4) }, () => {
        const offset = this.#offset(size)
        const content =
          this.#below(3) === 0 ? undefined : this.#bytes(Math.min(this.#length(), maxBytes - offset))
        const length = content?.length ?? Math.min(this.#length(), maxBytes - offset)
        return { offset, length, content }
      })
      const end = Math.max(...parts.map(({ offset, length }) => offset + length))
      const logicalSize = Math.max(end, this.#below(3) === 0 ? this.#offset(size) : size)
      const content = resized(before ?? Buffer.alloc(0), logicalSize)
      for (const part of parts) {
        if (part.content === undefined) content.fill(0, part.offset, part.offset + part.length)
        else content.set(part.content, part.offset)
      }
      const segments = parts.map(({ offset, length, content: data }): SegmentChunk =>
        data === undefined ? { hole: { offset, length } } : { data: { offset, content: data } },
      )
      const guarded = this.#below(5) === 0
      const expectedHash = before === undefined ? '' : hashOf(before)
      mutations.push({ path, segments, logicalSize, ...(guarded && { expectedHash }) })
      after.set(path, content, ++this.#number)
    }
    if (this.#below(2) === 0) await session.files.patchSegments({ mutations })
    else await session.files.batch(mutations.map((segmentWrite) => ({ segmentWrite })))
    this.#current.files = after
    await this.#look(mutations.at(-1)!.path)
  }

  async #writeAt(): Promise<void> {
    const path = this.#existing()
    const { position, content } = this.#range(path)
    const handle = await this.#current.session.fs.promises.open(path, 'r+')
    await handle.write(content, 0, content.length, position)
    await handle.close()
    await this.#written(path, position, content)
  }

  async #writeAtSync(): Promise<void> {
    if (!this.#sync) return
    const path = this.#existing()
    const { position, content } = this.#range(path)
    const { fs } = this.#current.session
    const fd = fs.openSync(path, 'r+')
    fs.writeSync(fd, content, 0, content.length, position)
    fs.closeSync(fd)
    await this.#written(path, position, content)
  }

  #range(path: string): { position: number; content: Buffer } {
    const position = this.#offset(this.#current.files.get(path)!.length)
    return { position, content: this.#bytes(Math.min(this.#length(), maxBytes - position)) }
  }

  async #written(path: string, position: number, content: Buffer): Promise<void> {
    const before = this.#current.files.get(path)!
    const after = resized(before, content.length === 0 ? 0 : position + content.length, before.length)
    after.set(content, content.length === 0 ? 0 : position)
    this.#current.files.set(path, after, 0)
    await this.#look(path)
  }

  async #truncate(): Promise<void> {
    const { session, files } = this.#current
    const path = this.#existing()
    const size = this.#offset(files.get(path)!.length)
    if (this.#sync && this.#below(2) === 0) session.fs.truncateSync(path, size)
    else await session.fs.promises.truncate(path, size)
    files.set(path, resized(files.get(path)!, size), 0)
    await this.#look(path)
  }

  async #punch(): Promise<void> {
    const { session, files } = this.#current
    const path = this.#existing()
    const after = Buffer.from(files.get(path)!)
    const offset = Math.min(after.length, this.#offset(after.length))
    const length = Math.min(after.length - offset, this.#length() * (1 + this.#below(4)))
    await session.files.patchSegments({ mutations: [{ path, segments: [{ hole: { offset, length } }] }] })
    after.fill(0, offset, offset + length)
    files.set(path, after, 0)
    await this.#look(path)
  }

  async #append(): Promise<void> {
    const { session, files } = this.#current
    const path = this.#pick(paths)
    const before = files.get(path) ?? Buffer.alloc(0)
    const content = this.#bytes(Math.min(this.#length(), maxBytes - before.length))
    await session.files.append({ path, content })
    files.set(path, Buffer.concat([before, content]), ++this.#number)
    await this.#look(path)
  }

  /** Copies a range of a file into another file, or into the same one. */
  async #borrow(): Promise<void> {
    const { session, files } = this.#current
    const from = this.#existing()
    const to = this.#pick(paths)
    const source = files.get(from)!
    const start = Math.min(source.length, this.#offset(source.length))
    const before = files.get(to) ?? Buffer.alloc(0)
    const target = Math.min(maxBytes, this.#offset(before.length))
    const length = Math.min(source.length - start, this.#length() * (1 + this.#below(8)), maxBytes - target)
    const segments: SegmentChunk[] = [{ hole: { offset: target, length } }]
    const { extents } = await session.files.getCasExtents({ path: from })
    for (const extent of extents) {
      const skip = Math.max(0, start - extent.offset)
      const count = Math.min(extent.offset + extent.length, start + length) - extent.offset - skip
      if (count <= 0) continue
      const offset = target + extent.offset + skip - start
      const { hash, casOffset } = extent
      segments.push({ borrowed: { offset, length: count, hash, casOffset: casOffset + skip } })
    }
    const logicalSize = Math.max(before.length, target + length)
    await session.files.patchSegments({ mutations: [{ path: to, segments, logicalSize }] })
    const after = resized(before, logicalSize)
    after.set(source.subarray(start, start + length), target)
    files.set(to, after, ++this.#number)
    await this.#look(to)
  }

  async #write(): Promise<void> {
    const { session, files } = this.#current
    const path = this.#pick(paths)
    const content = this.#bytes(this.#below(8) === 0 ? this.#offset(0) : this.#length())
    const before = files.get(path)
    const expectedHash = before === undefined ? '' : hashOf(before)
    await session.files.write({ path, content, ...(this.#below(3) === 0 && { expectedHash }) })
    files.set(path, content, ++this.#number)
    await this.#look(path)
  }

  async #copy(): Promise<void> {
    const { session, files } = this.#current
    const from = this.#existing()
    const to = this.#existing()
    if (files.names.get(from) === files.names.get(to)) return
    await session.fs.promises.copyFile(from, to)
    files.set(to, files.get(from)!, 0)
    await this.#look(to)
  }

  async #link(): Promise<void> {
    const { session, files } = this.#current
    const srcPath = this.#existing()
    const dstPath = this.#pick(paths)
    if (files.names.has(dstPath)) return
    await session.fs.promises.mkdir('/d/g', { recursive: true })
    await session.files.link({ srcPath, dstPath })
    files.names.set(dstPath, files.names.get(srcPath)!)
  }

  async #unlink(): Promise<void> {
    const { session, files } = this.#current
    const path = this.#existing()
    if (files.names.size < 3) return
    await session.files.unlink({ path })
    files.names.delete(path)
  }

  async #rename(): Promise<void> {
    const { session, files } = this.#current
    const sourcePath = this.#existing()
    const destinationPath = this.#pick(paths)
    if (files.names.get(sourcePath) === files.names.get(destinationPath)) return
    await session.fs.promises.mkdir('/d/g', { recursive: true })
    await session.files.rename({ sourcePath, destinationPath })
    files.names.set(destinationPath, files.names.get(sourcePath)!)
    files.names.delete(sourcePath)
    await this.#look(destinationPath)
  }

  async #hash(): Promise<void> {
    const { session, files } = this.#current
    const path = this.#existing()
    differ(`the hash of ${path}`, await session.files.contentHash(path), hashOf(files.get(path)!))
  }

  async #fork(): Promise<void> {
    const from = this.#current
    const session = await from.session.fork()
    if (this.#sessions.length === maxSessions) {
      const [gone] = this.#sessions.splice(this.#below(maxSessions), 1)
      await gone!.session.delete()
    }
    this.#sessions.push({ session, files: from.files.clone(), checkpoints: [] })
  }

  async #checkpoint(): Promise<void> {
    const { session, files, checkpoints } = this.#current
    const label = `label ${++this.#number}`
    await session.checkpoint({ checkpointLabel: label })
    checkpoints.push({ label, files: files.clone() })
    if (checkpoints.length > 5) checkpoints.shift()
  }

  async #restore(): Promise<void> {
    const { session, checkpoints } = this.#current
    if (checkpoints.length === 0) return
    const { label, files } = this.#pick(checkpoints)
    await session.restore({ checkpointLabel: label })
    this.#current.files = files.clone()
    for (const path of files.names.keys()) await this.#look(path)
  }

  async #reopen(): Promise<void> {
    await this.#engine!.close()
    this.#engine = await openEngine({ storage: this.#storage })
    for (const model of this.#sessions) model.session = await this.#engine.sessions.open(model.session.id)
  }

  /** Usually reads only a range, sometimes the whole file. */
  async #look(path: string): Promise<void> {
    const { session, files } = this.#current
    const content = files.get(path)!
    if (content.length < 20_000 || this.#below(20) === 0) return this.#compare(session, path, content)
    const offset = this.#offset(content.length)
    const length = 5000
    const bytes = await session.files.read({ path, offset, length })
    same(`${path} from ${offset}`, bytes, content.subarray(offset, offset + length))
  }

  async #compare(session: Session, path: string, content: Buffer): Promise<void> {
    same(path, await session.files.read({ path }), content)
  }

  get #sync(): boolean {
    return this.#kind !== 'no-sync'
  }

  #below(limit: number): number {
    return this.#next() % limit
  }

  #pick<T>(items: readonly T[]): T {
    return items[this.#below(items.length)]!
  }

  #existing(): string {
    return this.#pick([...this.#current.files.names.keys()])
  }

  /** Prefers offsets near boundaries: block borders and the end of the file. */
  #offset(size: number): number {
    const near = [0, 0, size, size, this.#below(size + 1), this.#below(size + 1)]
    if (this.#below(4) === 0) near.push(blockBytes, 2 * blockBytes)
    const offset = this.#pick(near) + this.#below(2000) - 1000
    return Math.max(0, Math.min(maxBytes, offset))
  }

  #length(): number {
    const kind = this.#below(40)
    if (kind === 0) return blockBytes + this.#below(3) - 1
    if (kind === 1) return 60_000 + this.#below(10_000)
    return kind < 25 ? this.#below(40) : this.#below(4097)
  }

  #bytes(length: number): Buffer {
    const content = Buffer.allocUnsafe(length)
    // Long runs of one byte, including zero, so that contents repeat.
    content.fill(this.#below(32))
    for (let i = this.#below(64); i < length; i += 64) content[i] = this.#next()
    return content
  }
}

function readSync({ fs }: Session, path: string, offset: number, length: number): Buffer {
  const fd = fs.openSync(path, 'r')
  const buffer = Buffer.alloc(length)
  const count = fs.readSync(fd, buffer, 0, length, offset)
  fs.closeSync(fd)
  return buffer.subarray(0, count)
}

/** A resized copy with at least `least` bytes. */
function resized(content: Buffer, size: number, least = 0): Buffer {
  const copy = Buffer.alloc(Math.max(size, least))
  content.copy(copy)
  return copy
}

function same(what: string, found: Uint8Array, expected: Buffer): void {
  if (expected.equals(found)) return
  const bytes = Buffer.from(found)
  const at = bytes.findIndex((byte, i) => byte !== expected[i])
  throw new Error(
    `${what}: ${bytes.length} bytes instead of ${expected.length}, another one at ${at < 0 ? bytes.length : at}`,
  )
}

function differ(what: string, found: string, expected: string): void {
  if (found !== expected) throw new Error(`${what}: ${found} instead of ${expected}`)
}

function hashOf(content: Uint8Array): string {
  return `sha256:${createHash('sha256').update(content).digest('hex')}`
}
