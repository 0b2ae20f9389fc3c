import { EngineError } from '../base/errors.js'
import { joinPath, type PathNames } from '../base/path.js'
import { Dir, type Attributes, type Node, type NodeLoader, type Owner } from './node.js'
import { emptyPages, findName, removeName, setName } from './page.js'

/**
 * A mutable view of a tree of immutable nodes. Directories and pages that carry this tree's owner token are
 * changed in place, all others are copied on the way down. Freezing hands out the root and takes a new
 * token: the frozen root never changes again. Symlinks are never followed here.
 */
export class Tree {
  readonly loader: NodeLoader
  #owner: Owner = Symbol()
  #root: Dir

  constructor(root: Dir, loader: NodeLoader) {
    this.#root = root
    this.loader = loader
  }

  /** A root that will not change; O(1). */
  freeze(): Dir {
    this.#owner = Symbol()
    return this.#root
  }

  /** Goes on from a frozen root; O(1). */
  reset(root: Dir): void {
    this.#owner = Symbol()
    this.#root = root
  }

  /** The current root, for reading at once. */
  get root(): Dir {
    return this.#root
  }

  find(names: PathNames): Node | undefined {
    let node: Node | undefined = this.#root
    for (const name of names) {
      if (!(node instanceof Dir)) return undefined
      node = findName(node, name, this.loader)
    }
    return node
  }

  /** Puts a node at a path whose parent exists; `at` becomes the parent's time when the name is new. */
  put(names: PathNames, node: Node, at: number): void {
    const { parent, name } = this.#writableParent(names, heightOf(node))
    if (setName(parent, name, node, this.#owner, this.loader)) touch(parent, at)
  }

  makeDir(names: PathNames, attributes: Attributes): void {
    this.put(names, new Dir(this.#owner, attributes, emptyPages(this.#owner)), attributes.mtime)
  }

  remove(names: PathNames, at: number): Node {
    const { parent, name } = this.#writableParent(names)
    const node = findName(parent, name, this.loader)
    if (node === undefined) throw new EngineError('INTERNAL', `nothing to remove at ${joinPath(names)}`)
    removeName(parent, name, this.#owner, this.loader)
    touch(parent, at)
    return node
  }

  /** Moves a node, replacing what is at the destination. */
  move(from: PathNames, to: PathNames, at: number): void {
    const node = this.remove(from, at)
    const { parent, name } = this.#writableParent(to, heightOf(node))
    setName(parent, name, node, this.#owner, this.loader)
    touch(parent, at)
  }

  /** Changes the attributes of a directory, the root included. */
  changeDir(names: PathNames, change: { mode: number; ctime: number }): void {
    const dir = this.#writableDir(names, names.length)
    dir.mode = change.mode
    dir.ctime = change.ctime
  }

  /** `below` is how deep what comes to the path goes. */
  #writableParent(names: PathNames, below = 0): { parent: Dir; name: string } {
    const parent = this.#writableDir(names, names.length - 1, names.length + below)
    return { parent, name: names[names.length - 1]! }
  }

  #writableDir(names: PathNames, depth: number, reach = 0): Dir {
    let dir = this.#root
    if (dir.owner !== this.#owner) dir = this.#root = this.#copy(dir)
    if (dir.height < reach) dir.height = reach
    for (let i = 0; i < depth; i++) {
      const child = findName(dir, names[i]!, this.loader)
      if (!(child instanceof Dir))
        throw new EngineError('INTERNAL', `no directory at ${joinPath(names.slice(0, i + 1))}`)
      if (child.owner === this.#owner) dir = child
      else {
        const copy = this.#copy(child)
        setName(dir, names[i]!, copy, this.#owner, this.loader)
        dir = copy
      }
      if (dir.height < reach - i - 1) dir.height = reach - i - 1
    }
    return dir
  }

  #copy(dir: Dir): Dir {
    const pages = dir.pages ?? this.loader.loadDir(dir)
    const copy = new Dir(this.#owner, dir, pages.slice())
    copy.wide = dir.wide
    copy.height = dir.height
    return copy
  }
}

function heightOf(node: Node): number {
  return node instanceof Dir ? node.height : 0
}

function touch(dir: Dir, at: number): void {
  dir.mtime = at
  dir.ctime = at
}

export function emptyRoot(attributes: Attributes): Dir {
  const owner = Symbol()
  return new Dir(owner, attributes, emptyPages(owner))
}
