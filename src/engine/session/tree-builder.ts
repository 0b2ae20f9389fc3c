import { Fault, whenLoaded } from '../base/fault.js'
import { limits } from '../base/limits.js'
import { parsePath, type PathNames } from '../base/path.js'
import { TimeSlice } from '../base/cooperative.js'
import { totalLength, type BlobRef } from '../cas/blob.js'
import { bodyOf, ContentWriter, type ContentIn } from '../cas/content-writer.js'
import { Dir, FileNode, LinkedFile, Symlink } from '../tree/node.js'
import { emptyRoot, Tree } from '../tree/tree.js'
import type { Xattrs } from '../tree/xattrs.js'
import type { Core } from './core.js'

export interface EntryAttributes {
  /** Permission bits. */
  readonly mode: number
  readonly mtimeMs: number
  readonly xattrs?: ReadonlyMap<string, Uint8Array>
}

/**
 * Builds the tree of an import or of an object of files. No session sees it yet. Paths are absolute and in
 * normal form. Missing parents are created, and a new node replaces an existing one at its path. If a method
 * returns a promise, await it before the next call.
 */
export class TreeBuilder {
  readonly writer: ContentWriter
  /** The number of files, hard links and symlinks added so far, and the bytes of the files. */
  readonly given = { files: 0, bytes: 0 }
  readonly #core: Core
  readonly #tree: Tree
  readonly #start: Dir
  /**
   * The times that directories were added with. Nodes that are added later change these times, so `finish`
   * sets them again.
   */
  readonly #times = new Map<string, number>()
  /** The last parent path known to exist. */
  #parent = ''

  /** Starts from a frozen tree, or from an empty directory. */
  constructor(core: Core, start?: Dir, writer: ContentWriter = new ContentWriter(core)) {
    this.#core = core
    this.writer = writer
    this.#tree = new Tree(start ?? emptyDirectory(core), core.loader)
    this.#start = this.#tree.freeze()
  }

  /** Whether nothing has changed so far. */
  get untouched(): boolean {
    return this.#tree.root === this.#start
  }

  directory(path: string, attributes: EntryAttributes): void | Promise<void> {
    const names = parsePath(path)
    const { mode, mtimeMs: mtime } = attributes
    const xattrs = this.#xattrs(attributes)
    this.#times.set(path, mtime)
    return attempt(() => {
      const existing = this.#makeRoom(names, mtime, Dir)
      if (existing === undefined) this.#tree.makeDir(names, this.#fresh({ mode, mtime, xattrs }))
      else this.#tree.changeDir(names, { mode, mtime, ctime: mtime, xattrs })
    })
  }

  file(path: string, content: ContentIn, attributes: EntryAttributes): void | Promise<void> {
    if (!(content instanceof Uint8Array)) {
      return this.writer
        .takePieces(content)
        .then(({ blobs, size }) => this.fileOf(path, blobs, attributes, size))
    }
    const size = content.byteLength
    if (size <= limits.hashedBytesPerTurn)
      return this.fileOf(path, this.writer.take(content), attributes, size)
    return this.writer.takeLong(content).then((blobs) => this.fileOf(path, blobs, attributes, size))
  }

  /** Adds a file whose content the writer has taken, or the store already has. */
  fileOf(
    path: string,
    blobs: readonly BlobRef[],
    attributes: EntryAttributes,
    size = totalLength(blobs),
  ): void | Promise<void> {
    const names = parsePath(path)
    const { mode, mtimeMs: mtime } = attributes
    const xattrs = this.#xattrs(attributes)
    this.given.files++
    this.given.bytes += size
    const changed = attempt(() => {
      let existing = this.#makeRoom(names, mtime, FileNode)
      if (existing instanceof LinkedFile) {
        // The other names of the file keep their content.
        this.#remove(names, mtime)
        existing = undefined
      }
      const { ino, birthtime } = existing ?? this.#fresh({ mode, mtime })
      const node = { ino, mode, mtime, ctime: mtime, birthtime, xattrs }
      this.#tree.put(names, new FileNode(node, size, bodyOf(blobs, size)), mtime)
    })
    return changed === undefined ? this.writer.backpressure() : changed.then(() => this.writer.backpressure())
  }

  symlink(path: string, target: string, { mtimeMs }: { readonly mtimeMs: number }): void | Promise<void> {
    const names = parsePath(path)
    this.given.files++
    return attempt(() => {
      this.#makeRoom(names, mtimeMs, undefined)
      this.#tree.put(names, new Symlink(this.#core.ids.newIno(), target, mtimeMs), mtimeMs)
    })
  }

  hardLink(existingPath: string, path: string): void | Promise<void> {
    const from = parsePath(existingPath)
    const names = parsePath(path)
    return attempt(() => {
      const { mtime, size } = this.#tree.find(from) as FileNode
      this.#makeRoom(names, mtime, undefined)
      this.#whole(() => this.#tree.link(from, names, mtime))
      this.given.files++
      this.given.bytes += size
    })
  }

  remove(path: string): void | Promise<void> {
    const names = parsePath(path)
    return attempt(() => {
      const node = this.#tree.find(names)
      if (node !== undefined && names.length > 0) this.#remove(names, this.#tree.root.mtime)
    })
  }

  /** Resolves to the finished tree when all contents are stored. */
  async finish(): Promise<Dir> {
    const slice = new TimeSlice(this.#core.environment)
    for (const [path, mtime] of this.#times) {
      if (slice.over) await slice.next()
      const names = parsePath(path)
      await attempt(() => {
        const node = this.#tree.find(names)
        if (node instanceof Dir && node.mtime !== mtime) this.#tree.changeDir(names, { mtime, ctime: mtime })
      })
    }
    await this.writer.flush()
    return this.#tree.freeze()
  }

  /**
   * Creates missing parents and removes a node of another kind. Returns an existing node of the same kind.
   */
  #makeRoom<Kind extends typeof Dir | typeof FileNode>(
    names: PathNames,
    at: number,
    kind: Kind | undefined,
  ): InstanceType<Kind> | undefined {
    this.#makeParents(names, at)
    const existing = this.#tree.find(names)
    if (existing === undefined) return undefined
    if (kind !== undefined && existing instanceof kind) return existing as InstanceType<Kind>
    this.#remove(names, at)
    return undefined
  }

  #makeParents(names: PathNames, mtime: number): void {
    if (names.length < 2) return
    const parent = names.slice(0, -1)
    const path = parent.join('/')
    if (path === this.#parent) return
    for (let depth = 1; depth < names.length; depth++) {
      const prefix = names.slice(0, depth)
      const node = this.#tree.find(prefix)
      if (node instanceof Dir) continue
      if (node !== undefined) this.#remove(prefix, mtime)
      this.#tree.makeDir(prefix, this.#fresh({ mode: 0o755, mtime }))
    }
    this.#parent = path
  }

  #fresh<More extends object>(
    attributes: { readonly mode: number; readonly mtime: number } & More,
  ): typeof attributes & { readonly ino: number; readonly ctime: number; readonly birthtime: number } {
    const { mtime } = attributes
    return { ino: this.#core.ids.newIno(), ctime: mtime, birthtime: mtime, ...attributes }
  }

  #xattrs({ xattrs }: EntryAttributes): Xattrs | undefined {
    if (xattrs === undefined || xattrs.size === 0) return undefined
    const list: [string, BlobRef][] = []
    for (const [name, value] of xattrs) list.push([name, this.writer.takeValue(value)])
    return list.toSorted(([a], [b]) => (a < b ? -1 : 1))
  }

  #remove(names: PathNames, at: number): void {
    this.#whole(() => this.#tree.remove(names, at))
  }

  /**
   * Runs a step that changes several places, such as a removal or a link. If it throws a fault halfway,
   * because a node is not loaded, the tree is reset.
   */
  #whole(step: () => void): void {
    this.#parent = ''
    if (this.#core.store.capabilities.syncReads) return step()
    const before = this.#tree.freeze()
    try {
      step()
    } catch (thrown) {
      this.#tree.reset(before)
      throw thrown
    }
  }
}

/** Runs a step. If something must be loaded first, loads it and runs the step again. */
function attempt(step: () => void): void | Promise<void> {
  try {
    return step()
  } catch (thrown) {
    if (!(thrown instanceof Fault)) throw thrown
    return whenLoaded(step, thrown)
  }
}

export function emptyDirectory(core: Core): Dir {
  const at = core.environment.wallClockMs()
  return emptyRoot({ ino: core.ids.newIno(), mode: 0o755, mtime: at, ctime: at, birthtime: at })
}
