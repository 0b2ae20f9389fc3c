import { Fault, whenLoaded } from '../base/fault.js'
import { parsePath, type PathNames } from '../base/path.js'
import { TimeSlice } from '../base/slices.js'
import type { BlobRef } from '../cas/blob.js'
import { bodyOf, bytesPerTurn, ContentWriter, type ContentIn } from '../cas/content-writer.js'
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
 * A tree in the making that no session sees yet, of an import or an object of files. Paths are absolute and
 * normal. Missing parents are created, and a new node replaces an existing one at its path.
 * A promise is to be awaited before the next call.
 */
export class TreeBuilder {
  readonly writer: ContentWriter
  /** Files and symlinks that were given, and the bytes of these files. */
  readonly given = { files: 0, bytes: 0 }
  readonly #core: Core
  readonly #tree: Tree
  readonly #start: Dir
  /** Times of given directories, since nodes added to them later change their times. */
  readonly #times = new Map<string, number>()
  /** The last parent path known to exist. */
  #parent = ''

  /** On top of a frozen tree, or from nothing. */
  constructor(core: Core, start?: Dir, writer: ContentWriter = new ContentWriter(core)) {
    this.#core = core
    this.writer = writer
    this.#tree = new Tree(start ?? emptyDirectory(core), core.loader)
    this.#start = this.#tree.freeze()
  }

  /** Whether nothing was changed so far. */
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
    if (size <= bytesPerTurn) return this.fileOf(path, this.writer.take(content), attributes, size)
    return this.writer.takeLong(content).then((blobs) => this.fileOf(path, blobs, attributes, size))
  }

  /** A file whose content the writer has taken, or that is stored already. */
  fileOf(
    path: string,
    blobs: readonly BlobRef[],
    attributes: EntryAttributes,
    size = sizeOf(blobs),
  ): void | Promise<void> {
    const names = parsePath(path)
    const { mode, mtimeMs: mtime } = attributes
    const xattrs = this.#xattrs(attributes)
    this.given.files++
    this.given.bytes += size
    const changed = attempt(() => {
      let existing = this.#makeRoom(names, mtime, FileNode)
      if (existing instanceof LinkedFile) {
        // Its other names keep their content.
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

  /** Resolves when every content is stored. */
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
   * Removes a node of another kind; returns one of the same kind. Parents are made.
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
    return { ...attributes, ino: this.#core.ids.newIno(), ctime: mtime, birthtime: mtime }
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

  /** Removals and links change several places, and a node that is not loaded may be noticed in between. */
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

/** Runs a step now, and again where something had to be loaded first. */
function attempt(step: () => void): void | Promise<void> {
  try {
    return step()
  } catch (thrown) {
    if (!(thrown instanceof Fault)) throw thrown
    return thrown.resolve().then(() => whenLoaded(step))
  }
}

function sizeOf(blobs: readonly BlobRef[]): number {
  let size = 0
  for (const blob of blobs) size += blob.length
  return size
}

export function emptyDirectory(core: Core): Dir {
  const at = core.environment.wallClockMs()
  return emptyRoot({ ino: core.ids.newIno(), mode: 0o755, mtime: at, ctime: at, birthtime: at })
}
