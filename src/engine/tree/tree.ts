import { itemAt, present } from '../base/present.js'
import { EngineError } from '../base/errors.js'
import { joinPath, type PathNames } from '../base/path.js'
import { BlockBody } from '../cas/body.js'
import { findLinked, forEachLink, isLinked, resolveEntry } from './links.js'
import {
  attributesOf,
  Dir,
  FileNode,
  Link,
  linkKey,
  LinkedFile,
  noAttributes,
  Owner,
  type Attributes,
  type Entry,
  type Node,
} from './node.js'
import type { NodeLoader } from './node-loader.js'
import { emptyPages, findName, removeName, setName } from './page.js'

/** The rough memory in bytes of a directory, a file and a pointer. */
const dirBytes = 200
const fileBytes = 350
const pointerBytes = 8

/**
 * A mutable view of a tree of immutable nodes. Directories and pages that carry this tree's owner token are
 * changed in place; all others are copied on the way down. Freezing returns the root and takes a new token,
 * so the frozen root never changes again. The tree never follows symlinks. A hard-linked file is the same
 * file under each of its names.
 */
export class Tree {
  readonly loader: NodeLoader
  #owner = new Owner()
  #madeBytes = 0
  #root: Dir

  constructor(root: Dir, loader: NodeLoader) {
    this.#root = root
    this.loader = loader
  }

  /** Returns a root that will never change; O(1). */
  freeze(): Dir {
    this.#disown()
    return this.#root
  }

  /** Continues with a frozen root; O(1). `madeBytes` are those of its new nodes, if another tree made them. */
  reset(root: Dir, madeBytes = 0): void {
    this.#disown()
    this.#madeBytes += madeBytes
    this.#root = root
  }

  #disown(): void {
    // No node has this token unless the root has it.
    if (this.#owner.bytes === 0) return
    this.#madeBytes += this.#owner.bytes
    this.#owner = new Owner()
  }

  /** The rough size in bytes of all nodes made here. Many of these nodes may no longer exist. */
  get madeBytes(): number {
    return this.#madeBytes + this.#owner.bytes
  }

  /** The current root. Read it synchronously, because the next change may modify it in place. */
  get root(): Dir {
    return this.#root
  }

  find(names: PathNames): Node | undefined {
    let entry: Entry | undefined = this.#root
    for (const name of names) {
      if (!(entry instanceof Dir)) return undefined
      entry = findName(entry, name, this.loader)
    }
    return resolveEntry(entry, this.#root, this.loader)
  }

  /** The hard-linked file with this inode number. */
  findLinked(ino: number): LinkedFile | undefined {
    return findLinked(this.#root, ino, this.loader)
  }

  /** Puts a node at a path whose parent exists. If the name is new, `at` becomes the parent's time. */
  put(names: PathNames, node: Node, at: number): void {
    const { parent, name } = this.#writableParent(names, heightOf(node))
    if (setName(parent, name, node, this.#owner, this.loader)) touch(parent, at)
    this.#owner.bytes += fileBytes + (node instanceof FileNode ? madeBytesOf(node) : 0)
  }

  /**
   * Replaces the file at a path with another version of it. A hard-linked file changes under all of its
   * names.
   */
  replace(names: PathNames, file: FileNode, at: number): void {
    const linked = this.findLinked(file.ino)
    if (linked === undefined) this.put(names, file, at)
    else this.#putLinked(new LinkedFile(file, linked.nlink))
  }

  #putLinked(file: LinkedFile): void {
    setName(this.#writableLinks(), linkKey(file.ino), file, this.#owner, this.loader)
    this.#owner.bytes += fileBytes + madeBytesOf(file)
  }

  /** Gives the file at `from` another name. The parent of the new name must exist. */
  link(from: PathNames, to: PathNames, at: number): void {
    const file = this.find(from)
    if (!(file instanceof FileNode)) throw new EngineError('INTERNAL', `no file at ${joinPath(from)}`)
    const link = new Link(file.ino)
    if (!(file instanceof LinkedFile)) {
      const { parent, name } = this.#writableParent(from, 0, true)
      setName(parent, name, link, this.#owner, this.loader)
    }
    this.#putLinked(new LinkedFile(file, file instanceof LinkedFile ? file.nlink + 1 : 2, at))
    const { parent, name } = this.#writableParent(to, 0, true)
    setName(parent, name, link, this.#owner, this.loader)
    touch(parent, at)
  }

  makeDir(names: PathNames, attributes: Attributes): void {
    this.put(names, new Dir(this.#owner, attributes, emptyPages(this.#owner)), attributes.mtime)
  }

  /** Removes the node at a path, with everything below it. */
  remove(names: PathNames, at: number): void {
    this.#forget(this.#detach(names, at), at)
  }

  /** Moves a node, replacing any node at the destination. */
  move(from: PathNames, to: PathNames, at: number): void {
    const entry = this.#changedAt(this.#detach(from, at), at)
    const { parent, name } = this.#writableParent(to, heightOf(entry), isLinked(entry))
    const replaced = findName(parent, name, this.loader)
    setName(parent, name, entry, this.#owner, this.loader)
    touch(parent, at)
    if (replaced !== undefined) this.#forget(replaced, at)
  }

  /** Changes the attributes of a directory, which may be the root. */
  changeDir(names: PathNames, change: Partial<Omit<Attributes, 'ino' | 'birthtime'>>): void {
    Object.assign(this.#writableDir(names, names.length), change)
  }

  /** Sets the ctime of an entry. A symlink has only one time, and stays as it is. */
  #changedAt(entry: Entry, ctime: number): Entry {
    if (entry instanceof FileNode) return entry.with({ ...attributesOf(entry), ctime })
    if (entry instanceof Dir) {
      const dir = entry.owner === this.#owner ? entry : this.#copy(entry)
      dir.ctime = ctime
      return dir
    }
    if (entry instanceof Link) {
      const file = this.findLinked(entry.ino)
      if (file !== undefined) this.#putLinked(new LinkedFile(file, file.nlink, ctime))
    }
    return entry
  }

  #detach(names: PathNames, at: number): Entry {
    const { parent, name } = this.#writableParent(names)
    const entry = findName(parent, name, this.loader)
    if (entry === undefined) throw new EngineError('INTERNAL', `nothing to remove at ${joinPath(names)}`)
    removeName(parent, name, this.#owner, this.loader)
    touch(parent, at)
    return entry
  }

  /** Reduces the link counts of removed names. A file is removed with its last name. */
  #forget(entry: Entry, at: number): void {
    const gone = new Map<number, number>()
    forEachLink(entry, this.loader, (ino) => {
      gone.set(ino, (gone.get(ino) ?? 0) + 1)
    })
    // Each file is changed once, because loading a missing node runs all of this again.
    for (const [ino, names] of gone) {
      const file = this.findLinked(ino)
      if (file === undefined) continue
      if (file.nlink > names) this.#putLinked(new LinkedFile(file, file.nlink - names, at))
      else removeName(this.#writableLinks(), linkKey(ino), this.#owner, this.loader)
    }
  }

  /** `below` is the depth of the node that is put at the path. `linked`: whether it is or contains a link. */
  #writableParent(names: PathNames, below = 0, linked = false): { parent: Dir; name: string } {
    const parent = this.#writableDir(names, names.length - 1, { height: names.length + below, linked })
    return { parent, name: itemAt(names, -1) }
  }

  #writableDir(names: PathNames, depth: number, below = nothingBelow): Dir {
    let dir = this.#writableRoot()
    mark(dir, below.height, below.linked)
    for (let i = 0; i < depth; i++) {
      const name = present(names[i], 'a name')
      const child = findName(dir, name, this.loader)
      if (!(child instanceof Dir))
        throw new EngineError('INTERNAL', `no directory at ${joinPath(names.slice(0, i + 1))}`)
      if (child.owner === this.#owner) dir = child
      else {
        const copy = this.#copy(child)
        setName(dir, name, copy, this.#owner, this.loader)
        dir = copy
      }
      mark(dir, below.height - i - 1, below.linked)
    }
    return dir
  }

  #writableRoot(): Dir {
    if (this.#root.owner !== this.#owner) this.#root = this.#copy(this.#root)
    return this.#root
  }

  #writableLinks(): Dir {
    const root = this.#writableRoot()
    if (root.links === undefined) root.links = new Dir(this.#owner, noAttributes, emptyPages(this.#owner))
    else if (root.links.owner !== this.#owner) root.links = this.#copy(root.links)
    return root.links
  }

  #copy(dir: Dir): Dir {
    const pages = dir.pages ?? this.loader.loadDir(dir)
    const copy = new Dir(this.#owner, dir, pages.slice())
    copy.wide = dir.wide
    copy.height = dir.height
    copy.linked = dir.linked
    copy.links = dir.links
    this.#owner.bytes += dirBytes + pages.length * pointerBytes
    return copy
  }
}

const nothingBelow = { height: 0, linked: false }

function mark(dir: Dir, height: number, linked: boolean): void {
  if (dir.height < height) dir.height = height
  if (linked) dir.linked = true
}

/** The memory of the blocks that were made for a file. */
function madeBytesOf({ body }: FileNode): number {
  return body instanceof BlockBody ? body.takeMadeBytes() : 0
}

function heightOf(entry: Entry): number {
  return entry instanceof Dir ? entry.height : 0
}

function touch(dir: Dir, at: number): void {
  dir.mtime = at
  dir.ctime = at
}

export function emptyRoot(attributes: Attributes): Dir {
  const owner = new Owner()
  return new Dir(owner, attributes, emptyPages(owner))
}
