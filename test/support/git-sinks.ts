import type { EntryAttributes, GitObject, GitObjects, GitTreeSink } from '../../src/engine/ports.js'

/** Keeps git objects in memory. */
export class MemoryObjects implements GitObjects {
  readonly stored = new Map<string, GitObject>()
  /** The ids of added objects in order, including known ones. */
  readonly added: string[] = []
  /** The ids of blobs that arrived in pieces. */
  readonly inPieces: string[] = []
  flushed = 0

  get(oid: string): Promise<GitObject | undefined> {
    return Promise.resolve(this.stored.get(oid))
  }

  has(oid: string): Promise<boolean> {
    return Promise.resolve(this.stored.has(oid))
  }

  /** Every third call returns a promise, so that the caller has to wait. */
  add(object: GitObject): void | Promise<void> {
    this.added.push(object.oid)
    this.stored.set(object.oid, object)
    return this.added.length % 3 === 0 ? Promise.resolve() : undefined
  }

  async addBlob(chunks: AsyncIterable<Uint8Array>, oid: () => string): Promise<void> {
    const parts: Uint8Array[] = []
    for await (const chunk of chunks) parts.push(chunk)
    this.inPieces.push(oid())
    await this.add({ oid: oid(), type: 'blob', body: Buffer.concat(parts) })
  }

  flush(): Promise<void> {
    this.flushed = this.added.length
    return Promise.resolve()
  }
}

/** Completely listed trees by id: each path with a line that describes it. */
export type KnownTrees = Map<string, ReadonlyMap<string, string>>

/** Records a tree as lines: type or mode, path, content. Asserts that callers keep the rules of the port. */
export class TreeRecorder implements GitTreeSink {
  readonly calls: string[] = []
  mtimeMs = 0
  readonly #objects: MemoryObjects
  readonly #known: KnownTrees
  #entries = new Map<string, string>()

  constructor(objects: MemoryObjects, known: KnownTrees = new Map()) {
    this.#objects = objects
    this.#known = known
  }

  get lines(): string[] {
    return [...this.#entries.values()]
  }

  /** Call this after the import has succeeded. */
  remember(treeId: string): void {
    this.#known.set(treeId, this.#entries)
  }

  startFrom(treeId: string): Promise<boolean> {
    if (this.calls.length > 0) throw new Error('startFrom comes first')
    const known = this.#known.get(treeId)
    if (known !== undefined) this.#entries = new Map(known)
    return Promise.resolve(known !== undefined)
  }

  directory(path: string, attributes: EntryAttributes): void {
    const xattrs = [...(attributes.xattrs ?? [])].map(
      ([name, value]) => ` ${name}=${Buffer.from(value).toString()}`,
    )
    this.#give(path, `dir ${attributes.mode.toString(8)} ${path}${xattrs.join('')}`)
  }

  async file(path: string, blobId: string, attributes: EntryAttributes): Promise<void> {
    const blob = this.#objects.stored.get(blobId)
    if (blob?.type !== 'blob') throw new Error(`the blob of ${path} was not given`)
    this.#give(path, `file ${attributes.mode.toString(8)} ${path} ${Buffer.from(blob.body).toString()}`)
    this.mtimeMs = attributes.mtimeMs
    await Promise.resolve()
  }

  symlink(path: string, target: string): void {
    this.#give(path, `link ${path} ${target}`)
  }

  async remove(path: string): Promise<void> {
    this.calls.push(`remove ${path}`)
    this.#entries.delete(path)
    for (const other of this.#entries.keys()) {
      if (other.startsWith(`${path}/`)) this.#entries.delete(other)
    }
    await Promise.resolve()
  }

  #give(path: string, line: string): void {
    this.calls.push(path)
    const parent = path.slice(0, path.lastIndexOf('/'))
    if (parent !== '' && this.#entries.get(parent)?.startsWith('dir ') !== true) {
      throw new Error(`the parent of ${path} was not given`)
    }
    const before = this.#entries.get(path)
    if (before !== undefined && before.split(' ', 1)[0] !== line.split(' ', 1)[0]) {
      throw new Error(`${path} was of another kind and not removed`)
    }
    this.#entries.set(path, line)
  }
}
