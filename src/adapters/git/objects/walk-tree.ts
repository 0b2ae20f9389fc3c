import { isUtf8 } from 'node:buffer'
import {
  EngineError,
  gitlinkAttribute,
  isUnsafeName,
  isUnsafeSymlinkName,
  limits,
  present,
  TimeSlice,
  type GitObjects,
  type GitTreeSink,
} from '../../../engine/ports.js'
import { gitLimits } from '../limits.js'
import type { ObjectFormat } from './object-id.js'
import { entryKind, isExecutable, parseTreeInParts, type RawEntry } from './raw-tree.js'
import type { RevisionObjects } from './revision-objects.js'

export interface WalkOptions {
  readonly objects: RevisionObjects
  readonly sink: Omit<GitTreeSink, 'startFrom'>
  readonly signal: AbortSignal
  readonly treeId: string
  /** The tree that the sink started from, and the objects to read it from. */
  readonly base: { readonly treeId: string; readonly objects: GitObjects } | undefined
  readonly format: ObjectFormat
  readonly mtimeMs: number
  /** Called for an entry that is omitted, because no session can hold it. By default, nothing happens. */
  onOmitted?(path: string, what: 'name' | 'target'): void
  /** The number of files and symlinks so far. */
  onFiles(count: number): void
}

/**
 * Passes a tree to the sink, parents before children, with paths like `/src/index.ts`. With a base, it passes
 * only the differences and does not read subtrees with equal ids. An entry is omitted if its name or symlink
 * target is not UTF-8; it stays in the raw tree. A submodule becomes an empty directory with the commit id in
 * its attribute `user.git.gitlink`. Throws GIT_UNSAFE_PATH, GIT_TOO_LARGE and GIT_CORRUPT.
 */
export async function walkTree(options: WalkOptions): Promise<void> {
  const walk = new TreeWalk(options)
  await walk.directory(options.treeId, options.base?.treeId, '', 0)
  options.onFiles(walk.files)
}

class TreeWalk {
  files = 0
  readonly #options: WalkOptions
  readonly #slice: TimeSlice
  readonly #directory: { readonly mode: number; readonly mtimeMs: number }
  readonly #file: { readonly mode: number; readonly mtimeMs: number }
  readonly #program: { readonly mode: number; readonly mtimeMs: number }
  readonly #symlink: { readonly mtimeMs: number }
  readonly #seenTrees = new Set<string>()
  #entries = 0
  #repeatedEntries = 0

  constructor(options: WalkOptions) {
    const { mtimeMs } = options
    this.#options = options
    this.#slice = new TimeSlice(performance, options.signal)
    this.#directory = this.#program = { mode: 0o755, mtimeMs }
    this.#file = { mode: 0o644, mtimeMs }
    this.#symlink = { mtimeMs }
  }

  async directory(treeId: string, baseId: string | undefined, path: string, depth: number): Promise<void> {
    const { objects, format } = this.#options
    const entries: RawEntry[] = []
    const names = new Set<string>()
    for (const part of parseTreeInParts(await objects.readTree(treeId), format)) {
      for (const entry of part) {
        entries.push(entry)
        names.add(entry.name)
        if (names.size < entries.length) throw repeated(entry.name, path)
      }
      if (entries.length > gitLimits.directoryEntries) {
        throw tooLarge('entries in a directory', gitLimits.directoryEntries, path)
      }
      if (this.#slice.over) await this.#rest()
    }
    this.#count(treeId, entries.length, path)
    const before = baseId === undefined ? undefined : await this.#readBase(baseId)
    if (before !== undefined) await this.#removeGone(before, names, path)
    for (const entry of entries) {
      const old = before?.get(entry.name)
      if (old === undefined || !isSame(old, entry)) {
        const given = this.#entry(entry, old, path, depth + 1)
        if (given !== undefined) await given
      }
      if (this.#slice.over) await this.#rest()
    }
  }

  #entry(entry: RawEntry, old: RawEntry | undefined, parent: string, depth: number): void | Promise<void> {
    const name = decodeName(entry.name)
    if (isUnsafeName(name ?? entry.name)) throw unsafe(entry.name, parent)
    if (name === undefined) {
      this.#options.onOmitted?.(`${parent}/${Buffer.from(entry.name, 'latin1').toString('utf8')}`, 'name')
      return undefined
    }
    const path = `${parent}/${name}`
    checkPath(entry, path, depth)
    const kind = entryKind(entry.mode)
    if (kind === 'symlink' && isUnsafeSymlinkName(name)) throw unsafe(entry.name, parent)
    const oldKind = old === undefined ? undefined : entryKind(old.mode)
    if (kind === 'tree' && old !== undefined && oldKind === 'tree')
      return this.directory(entry.oid, old.oid, path, depth)
    // The commit id of a submodule is an attribute of its directory, so the directory is created again.
    if (oldKind !== undefined && (oldKind !== kind || kind === 'gitlink')) {
      return this.#replace(entry, path, depth)
    }
    return this.#give(entry, path, depth)
  }

  async #replace(entry: RawEntry, path: string, depth: number): Promise<void> {
    await this.#options.sink.remove(path)
    await this.#give(entry, path, depth)
  }

  #give(entry: RawEntry, path: string, depth: number): void | Promise<void> {
    const { sink } = this.#options
    switch (entryKind(entry.mode)) {
      case 'file':
        return this.#giveFile(entry, path)
      case 'symlink':
        return this.#giveSymlink(entry, path)
      case 'tree':
        return this.#giveDirectory(entry, path, depth)
      case 'gitlink':
        return sink.directory(path, {
          ...this.#directory,
          xattrs: new Map([[gitlinkAttribute, Buffer.from(entry.oid)]]),
        })
    }
  }

  #giveFile({ oid, mode }: RawEntry, path: string): void | Promise<void> {
    const { objects, sink } = this.#options
    const attributes = isExecutable(mode) ? this.#program : this.#file
    this.files++
    const missing = objects.ensureBlob(oid)
    if (missing === undefined) return sink.file(path, oid, attributes)
    return missing.then(() => sink.file(path, oid, attributes))
  }

  async #giveSymlink({ oid }: RawEntry, path: string): Promise<void> {
    const { objects, sink } = this.#options
    const target = decodeTarget(await objects.readTarget(oid))
    if (target === undefined) {
      this.#options.onOmitted?.(path, 'target')
      // The base may have another entry at this path.
      if (this.#options.base !== undefined) await sink.remove(path)
      return
    }
    this.files++
    await sink.symlink(path, target, this.#symlink)
  }

  async #giveDirectory({ oid }: RawEntry, path: string, depth: number): Promise<void> {
    const given = this.#options.sink.directory(path, this.#directory)
    if (given !== undefined) await given
    await this.directory(oid, undefined, path, depth)
  }

  async #readBase(treeId: string): Promise<Map<string, RawEntry>> {
    const { base, format } = this.#options
    const tree = await present(base, 'the base of an import').objects.get(treeId)
    if (tree?.type !== 'tree') throw new EngineError('GIT_CORRUPT', `the known tree ${treeId} is missing`)
    const entries = new Map<string, RawEntry>()
    for (const part of parseTreeInParts(tree.body, format)) {
      for (const entry of part) entries.set(entry.name, entry)
      if (this.#slice.over) await this.#rest()
    }
    return entries
  }

  async #removeGone(
    before: ReadonlyMap<string, RawEntry>,
    names: ReadonlySet<string>,
    path: string,
  ): Promise<void> {
    for (const raw of before.keys()) {
      if (names.has(raw)) continue
      const name = decodeName(raw)
      if (name !== undefined) await this.#options.sink.remove(`${path}/${name}`)
      if (this.#slice.over) await this.#rest()
    }
  }

  /**
   * Counts entries. A remote can put one tree at many paths at no cost, but here each of its entries takes
   * time.
   */
  #count(treeId: string, entries: number, path: string): void {
    if (this.#seenTrees.has(treeId)) this.#repeatedEntries += entries
    else this.#seenTrees.add(treeId)
    this.#entries += entries
    if (this.#entries > gitLimits.entries) throw tooLarge('entries', gitLimits.entries, path)
    const once = this.#entries - this.#repeatedEntries
    if (this.#repeatedEntries > gitLimits.repeatedEntries + once * gitLimits.repeatsPerEntry) {
      throw tooLarge('entries in repeated directories', gitLimits.repeatedEntries, path)
    }
  }

  async #rest(): Promise<void> {
    this.#options.onFiles(this.files)
    await this.#slice.next()
  }
}

function isSame(a: RawEntry, b: RawEntry): boolean {
  if (a.oid !== b.oid) return false
  if (a.mode === b.mode) return true
  return entryKind(a.mode) === entryKind(b.mode) && isExecutable(a.mode) === isExecutable(b.mode)
}

function unsafe(rawName: string, path: string): EngineError {
  const name = Buffer.from(rawName, 'latin1').toString('utf8')
  return new EngineError('GIT_UNSAFE_PATH', `the tree has an unsafe name: ${JSON.stringify(name)}`, {
    path: `${path}/${name}`,
  })
}

function repeated(rawName: string, path: string): EngineError {
  const name = Buffer.from(rawName, 'latin1').toString('utf8')
  return new EngineError('GIT_UNSAFE_PATH', `the tree has the name ${JSON.stringify(name)} twice`, {
    path: `${path}/${name}`,
  })
}

function checkPath(entry: RawEntry, path: string, depth: number): void {
  if (depth > limits.pathDepth) throw tooLarge('levels of directories', limits.pathDepth, path)
  if (entry.name.length > limits.nameBytes) throw tooLarge('bytes in a name', limits.nameBytes, path)
  // A UTF-16 unit takes at most three bytes in UTF-8.
  if (path.length * 3 > limits.pathBytes && Buffer.byteLength(path) > limits.pathBytes) {
    throw tooLarge('bytes in a path', limits.pathBytes, path)
  }
}

/** Decodes a name from the latin-1 form of its bytes. Returns undefined if the bytes are not UTF-8. */
function decodeName(name: string): string | undefined {
  if (!/[\x80-\xff]/.test(name)) return name
  const bytes = Buffer.from(name, 'latin1')
  return isUtf8(bytes) ? bytes.toString('utf8') : undefined
}

function decodeTarget(bytes: Uint8Array | undefined): string | undefined {
  if (bytes === undefined || bytes.length === 0 || bytes.length > limits.pathBytes) return undefined
  if (bytes.includes(0) || !isUtf8(bytes)) return undefined
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8')
}

function tooLarge(what: string, limit: number, path: string): EngineError {
  return new EngineError('GIT_TOO_LARGE', `the tree has over ${limit} ${what}`, {
    limit: String(limit),
    path,
  })
}
