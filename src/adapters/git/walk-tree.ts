import { isUtf8 } from 'node:buffer'
import { EngineError, limits, type GitObject, type TreeSink } from '../../engine/ports.js'
import { gitLimits } from './limits.js'
import type { ObjectSource } from './object-source.js'
import { createPacer, type Pacer } from './pacer.js'
import { entryKind, isExecutable, parseTree, type RawEntry } from './raw-tree.js'
import { isUnsafeName } from './tree-names.js'

export interface WalkOptions {
  readonly source: ObjectSource
  readonly sink: TreeSink
  readonly signal: AbortSignal
  readonly treeId: string
  readonly mtimeMs: number
  /** Each raw tree, once. */
  onTree(tree: GitObject): Promise<void>
  /** The number of files and symlinks so far. */
  onFiles(count: number): void
}

/**
 * Gives a tree to the sink, parents before children, with paths like `/src/index.ts`. A name or a symlink
 * target that is not UTF-8 has no form here: the entry is left out, and stays in the raw tree. A submodule is
 * an empty directory. Throws GIT_UNSAFE_PATH, GIT_TOO_LARGE and GIT_CORRUPT.
 */
export async function walkTree(options: WalkOptions): Promise<void> {
  await new TreeWalk(options).directory(options.treeId, '', 0)
}

class TreeWalk {
  readonly #options: WalkOptions
  readonly #pacer: Pacer
  readonly #seenTrees = new Set<string>()
  #entries = 0
  #files = 0
  #contentBytes = 0

  constructor(options: WalkOptions) {
    this.#options = options
    this.#pacer = createPacer(options.signal)
  }

  async directory(treeId: string, path: string, depth: number): Promise<void> {
    const tree = await this.#read(treeId, 'tree')
    const entries = parseTree(tree.body)
    checkNames(entries, path)
    if (!this.#seenTrees.has(treeId)) {
      this.#seenTrees.add(treeId)
      await this.#options.onTree(tree)
    }
    this.#entries += entries.length
    if (this.#entries > gitLimits.entries) throw tooLarge('entries', gitLimits.entries, path)
    for (const entry of entries) {
      const name = decodeUtf8(Buffer.from(entry.name, 'latin1'))
      if (name !== undefined) await this.#entry(entry, `${path}/${name}`, depth + 1)
      if (this.#pacer.due()) {
        this.#options.onFiles(this.#files)
        await this.#pacer.rest()
      }
    }
    if (depth === 0) this.#options.onFiles(this.#files)
  }

  async #entry(entry: RawEntry, path: string, depth: number): Promise<void> {
    checkPath(entry, path, depth)
    const { sink, mtimeMs } = this.#options
    switch (entryKind(entry.mode)) {
      case 'tree':
        await sink.directory(path, { mode: 0o755, mtimeMs })
        return this.directory(entry.oid, path, depth)
      case 'gitlink':
        return sink.directory(path, { mode: 0o755, mtimeMs })
      case 'file': {
        const { body } = await this.#read(entry.oid, 'blob')
        this.#count(body.length, path)
        return sink.file(path, body, { mode: isExecutable(entry.mode) ? 0o755 : 0o644, mtimeMs })
      }
      case 'symlink': {
        const { body } = await this.#read(entry.oid, 'blob')
        const target = decodeUtf8(body)
        if (target === undefined || !isTarget(target)) return
        this.#count(body.length, path)
        return sink.symlink(path, target, { mtimeMs })
      }
    }
  }

  #count(bytes: number, path: string): void {
    this.#files++
    this.#contentBytes += bytes
    if (this.#contentBytes > gitLimits.contentBytes) {
      throw tooLarge('bytes in files', gitLimits.contentBytes, path)
    }
  }

  async #read(oid: string, type: GitObject['type']): Promise<GitObject> {
    const object = await this.#options.source.read(oid)
    if (object.type !== type) throw new EngineError('GIT_CORRUPT', `the object ${oid} is no ${type}`)
    return object
  }
}

function checkNames(entries: readonly RawEntry[], path: string): void {
  const names = new Set<string>()
  for (const { name } of entries) {
    const text = Buffer.from(name, 'latin1').toString('utf8')
    if (names.has(name) || isUnsafeName(text)) {
      throw new EngineError('GIT_UNSAFE_PATH', `the tree holds an unsafe name: ${JSON.stringify(text)}`, {
        path: `${path}/${text}`,
      })
    }
    names.add(name)
  }
}

function checkPath(entry: RawEntry, path: string, depth: number): void {
  if (depth > limits.pathDepth) throw tooLarge('levels of directories', limits.pathDepth, path)
  if (entry.name.length > limits.nameBytes) throw tooLarge('bytes in a name', limits.nameBytes, path)
  // A UTF-16 unit takes three bytes at most.
  if (path.length * 3 > limits.pathBytes && Buffer.byteLength(path) > limits.pathBytes) {
    throw tooLarge('bytes in a path', limits.pathBytes, path)
  }
}

function isTarget(target: string): boolean {
  return target !== '' && !target.includes('\0') && Buffer.byteLength(target) <= limits.pathBytes
}

function decodeUtf8(bytes: Uint8Array): string | undefined {
  if (!isUtf8(bytes)) return undefined
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8')
}

function tooLarge(what: string, limit: number, path: string): EngineError {
  return new EngineError('GIT_TOO_LARGE', `the tree has over ${limit} ${what}`, {
    limit: String(limit),
    path,
  })
}
