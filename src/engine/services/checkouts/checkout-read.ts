import { TimeSlice } from '../../base/cooperative.js'
import { EngineError } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import type { BlobRef } from '../../cas/blob.js'
import { bodyOf } from '../../cas/content-writer.js'
import type { TreeBuilder } from '../../session/tree-builder.js'
import { Dir, FileNode, noAttributes, Symlink, type Node } from '../../tree/node.js'
import type { Xattrs } from '../../tree/xattrs.js'
import { contentKey, sameMode, shownMode, type Disk } from './checkout-disk.js'
import { nodesIn } from './checkout-entries.js'
import type { Exclusions } from './checkout-exclusions.js'
import type { NameRule } from './checkout-name-rules.js'
import type { HostEntry, HostStat } from '../sources/host-ports.js'

export interface ReadContent {
  readonly size: number
  readonly blobs: readonly BlobRef[]
}

/** An entry found on the host. */
export type Found =
  | { readonly kind: 'directory'; readonly mode: number; readonly mtimeMs: number }
  | { readonly kind: 'symlink'; readonly target: string; readonly mtimeMs: number }
  | {
      readonly kind: 'file'
      readonly mode: number
      readonly mtimeMs: number
      readonly content: ReadContent
      /** Whether the tree has the same content, so that only the mode differs. */
      readonly sameContent: boolean
      /** The path of another name of the same file that was found earlier. */
      readonly linkTo: string | undefined
    }

/** A path at which the directory differs from the written tree. Without `found`, the path was removed recursively. */
export interface DiskChange {
  readonly path: string
  readonly before: Node | undefined
  readonly found: Found | undefined
}

export interface ReadOptions {
  readonly signal: AbortSignal
  readonly names: NameRule
  readonly exclusions: Exclusions
}

/** Finds the changes in a directory of the host, and applies them to the tree that was written there. */
export class DiskReader {
  /** The changes; a directory comes before its entries. */
  readonly changes: DiskChange[] = []
  readonly added: string[] = []
  readonly modified: string[] = []
  readonly removed: string[] = []
  skipped = 0
  readonly #disk: Disk
  readonly #root: Dir
  readonly #builder: TreeBuilder
  readonly #signal: AbortSignal
  readonly #names: NameRule
  readonly #exclusions: Exclusions
  readonly #slice: TimeSlice
  /** New directories, each below the one before it, that have only had entries that are left out so far. */
  readonly #undecided: { readonly path: string; readonly add: () => Promise<void> }[] = []
  /** The first path in the tree of each hard-linked file, by its inode number on the host. */
  readonly #linked = new Map<string, string>()

  /** `builder` must start with `root`. */
  constructor(disk: Disk, root: Dir, builder: TreeBuilder, { signal, names, exclusions }: ReadOptions) {
    this.#disk = disk
    this.#root = root
    this.#builder = builder
    this.#signal = signal
    this.#names = names
    this.#exclusions = exclusions
    this.#slice = new TimeSlice(disk.core.environment)
  }

  async read(): Promise<void> {
    await this.#directory('', this.#root)
  }

  /** The `path` of the root is ''. Returns whether an entry was left out. */
  async #directory(path: string, dir: Dir | undefined): Promise<boolean> {
    let leftOut = false
    const before =
      dir === undefined ? new Map<string, Node>() : await nodesIn(this.#disk.core, this.#root, dir)
    const listed = await this.#disk.tree.list(path || '/')
    this.skipped += listed?.skipped ?? 0
    for (const entry of listed?.entries ?? []) {
      this.#signal.throwIfAborted()
      if (this.#slice.over) await this.#slice.next()
      const { name } = entry
      const known = before.get(name)
      if (await this.#isLeftOut(`${path}/${name}`, entry, known)) {
        leftOut = true
        continue
      }
      const isThere = await this.#entry(`${path}/${name}`, entry, known)
      if (isThere === 'left out') leftOut = true
      else if (isThere) before.delete(name)
    }
    for (const [name, node] of before) await this.#gone(`${path}/${name}`, node)
    await this.#disk.index.rest()
    return leftOut
  }

  /** As in git, an entry of the session is never left out. A directory in the place of a file is another entry. */
  async #isLeftOut(path: string, { kind }: HostEntry, before: Node | undefined): Promise<boolean> {
    const isDirectory = kind === 'directory'
    if (before !== undefined && before instanceof Dir === isDirectory) return false
    return this.#exclusions.leavesOut(path, isDirectory)
  }

  /** Returns false if the entry counts as missing. */
  async #entry(path: string, entry: HostEntry, before: Node | undefined): Promise<boolean | 'left out'> {
    if (entry.kind === 'directory') return this.#foundDirectory(path, entry, before)
    if (entry.kind === 'file') return this.#foundFile(path, entry, before)
    if (entry.kind === 'symlink') return this.#foundSymlink(path, entry, before)
    this.skipped++
    return false
  }

  /** A new directory in which every entry is left out is left out too, because git has no directories. */
  async #foundDirectory(
    path: string,
    { mode, mtimeMs }: HostEntry,
    before: Node | undefined,
  ): Promise<true | 'left out'> {
    const known = before instanceof Dir ? before : undefined
    const add = async (): Promise<void> => {
      const attributes = { mode: mode & shownMode, mtimeMs }
      await this.#changed(path, before, { kind: 'directory', ...attributes })
      await this.#builder.directory(path, { ...attributes, ...(await this.#xattrsOf(known)) })
    }
    if (known !== undefined) {
      if (!sameMode(known.mode, mode)) await add()
      await this.#directory(path, known)
      return true
    }
    this.#undecided.push({ path, add })
    const leftOut = await this.#directory(path, undefined)
    if (this.#undecided.at(-1)?.path !== path) return true
    if (leftOut) {
      this.#undecided.pop()
      return 'left out'
    }
    await this.#decide()
    return true
  }

  /** Adds the directories that lead to an entry. */
  async #decide(): Promise<void> {
    for (const { add } of this.#undecided.splice(0)) await add()
  }

  async #foundSymlink(path: string, { mtimeMs }: HostEntry, before: Node | undefined): Promise<boolean> {
    const target = await this.#disk.tree.readLink(path)
    if (target === undefined) {
      this.skipped++
      return false
    }
    if (before instanceof Symlink && before.target === target) return true
    await this.#decide()
    await this.#changed(path, before, { kind: 'symlink', target, mtimeMs })
    await this.#builder.symlink(path, target, { mtimeMs })
    return true
  }

  async #foundFile(path: string, entry: HostEntry, before: Node | undefined): Promise<boolean> {
    const known = before instanceof FileNode ? before : undefined
    const isSame = known !== undefined && (await this.#disk.hasContent(path, entry, known))
    if (isSame && sameMode(known.mode, entry.mode)) {
      this.#isName(path, entry)
      return true
    }
    await this.#decide()
    const { writer } = this.#builder
    const read = await this.#disk.tree.read(path, (pieces) => writer.takePieces(pieces))
    // The file was removed after it was listed.
    if (read === undefined) return false
    const { stat, value: content } = read
    // Another file may have taken the name since it was listed.
    const linkTo = this.#linked.get(stat.ino)
    const attributes = { mode: stat.mode & shownMode, mtimeMs: stat.mtimeMs }
    const found = { kind: 'file', ...attributes, content, sameContent: isSame, linkTo } as const
    await this.#changed(path, before, found)
    if (linkTo !== undefined) await this.#builder.hardLink(linkTo, path)
    else {
      const xattrs = await this.#xattrsOf(known)
      await this.#builder.fileOf(path, content.blobs, { ...attributes, ...xattrs }, content.size)
    }
    this.#isName(path, stat)
    const key = stat.fresh ? undefined : await contentKey(this.#disk.core, fileOf(content))
    await this.#disk.index.set(path, key === undefined ? undefined : { stamp: stat.stamp, content: key })
    return true
  }

  /** The tree has the file at this path. Further names of the file become links to it. */
  #isName(path: string, { ino, nlink }: HostStat): void {
    if (nlink > 1 && !this.#linked.has(ino)) this.#linked.set(ino, path)
  }

  async #gone(path: string, node: Node): Promise<void> {
    this.#count({ path, before: node, found: undefined })
    await this.#goneNames(path, node)
    await this.#builder.remove(path)
  }

  async #goneNames(path: string, node: Node): Promise<void> {
    this.removed.push(path)
    if (!(node instanceof Dir)) return
    await this.#disk.index.forget(path)
    for (const [name, child] of await nodesIn(this.#disk.core, this.#root, node))
      await this.#goneNames(`${path}/${name}`, child)
  }

  async #changed(path: string, before: Node | undefined, found: Found): Promise<void> {
    this.#count({ path, before, found })
    if (before === undefined) this.added.push(path)
    else if (kindOf(before) === found.kind) this.modified.push(path)
    else {
      await this.#goneNames(path, before)
      this.added.push(path)
    }
  }

  #count(change: DiskChange): void {
    if (change.found !== undefined) this.#names(change.path, change.found.kind === 'symlink')
    this.changes.push(change)
    if (this.changes.length <= limits.checkoutChanges) return
    const message = `over ${limits.checkoutChanges} paths changed in the directory; a sync copies at most that many`
    throw new EngineError('LIMIT_EXCEEDED', message, { limit: String(limits.checkoutChanges) })
  }

  async #xattrsOf(node: { readonly xattrs: Xattrs | undefined } | undefined): Promise<{
    xattrs?: ReadonlyMap<string, Uint8Array>
  }> {
    if (node?.xattrs === undefined) return {}
    const xattrs = new Map<string, Uint8Array>()
    for (const [name, blob] of node.xattrs)
      xattrs.set(name, await this.#disk.core.content.read(blob, 0, blob.length))
    return { xattrs }
  }
}

/** A content as a file node, for functions that need one. */
export function fileOf({ blobs, size }: ReadContent): FileNode {
  return new FileNode(noAttributes, size, bodyOf(blobs, size))
}

function kindOf(node: Node): Found['kind'] {
  return node instanceof Dir ? 'directory' : node instanceof Symlink ? 'symlink' : 'file'
}
