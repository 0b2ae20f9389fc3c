import { whenLoaded } from '../../base/fault.js'
import { EngineError } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import { splitPath } from '../../base/path.js'
import type { Core } from '../../session/core.js'
import { Dir, Symlink, type FileNode, type Node } from '../../tree/node.js'
import { Tree } from '../../tree/tree.js'
import type { CheckoutIndex } from './checkout-index.js'
import type { HostStat, HostTree } from '../sources/host-ports.js'

/** The permission bits that a checkout writes: all but setuid, setgid and sticky. */
export const shownMode = 0o777

const contentKeyDigits = 32

/** The key of a content in the index. */
export async function contentKey(core: Core, file: FileNode): Promise<string> {
  return (await whenLoaded(() => core.contentIds.contentId(file))).slice(0, contentKeyDigits)
}

/** The content of a file in pieces of one block. */
export async function* contentOf(core: Core, file: FileNode): AsyncGenerator<Uint8Array> {
  const body = await whenLoaded(() => core.contentIds.body(file))
  for (let offset = 0; offset < file.size; offset += limits.blockBytes)
    yield core.content.read(body, offset, Math.min(limits.blockBytes, file.size - offset))
}

/** A frozen tree that looks up paths. */
export class FrozenTree {
  readonly root: Dir
  readonly #tree: Tree

  constructor(core: Core, root: Dir) {
    this.root = root
    this.#tree = new Tree(root, core.loader)
  }

  find(path: string): Promise<Node | undefined> {
    return whenLoaded(() => this.#tree.find(splitPath(path)))
  }
}

/** Whether one of the trees has an entry at a path. */
export async function isIn(trees: readonly FrozenTree[], path: string): Promise<boolean> {
  for (const tree of trees) if ((await tree.find(path)) !== undefined) return true
  return false
}

/** Compares a directory of the host with nodes of trees. */
export class Disk {
  readonly core: Core
  readonly tree: HostTree
  readonly index: CheckoutIndex

  constructor(core: Core, tree: HostTree, index: CheckoutIndex) {
    this.core = core
    this.tree = tree
    this.index = index
  }

  /** Whether the entry at a path matches a node: kind, mode, content or target. */
  async matches(path: string, stat: HostStat | undefined, node: Node | undefined): Promise<boolean> {
    if (stat === undefined || node === undefined) return stat === undefined && node === undefined
    if (node instanceof Symlink)
      return stat.kind === 'symlink' && (await this.tree.readLink(path)) === node.target
    if (stat.kind !== (node instanceof Dir ? 'directory' : 'file') || !sameMode(stat.mode, node.mode))
      return false
    return node instanceof Dir || this.hasContent(path, stat, node)
  }

  /** Whether a file has the content of a node. Reads the file only if the index does not know. */
  async hasContent(path: string, stat: HostStat, node: FileNode): Promise<boolean> {
    const seen = await this.index.get(path)
    if (seen?.stamp === stat.stamp) return seen.content === (await contentKey(this.core, node))
    if (stat.size !== node.size) return false
    const read = await this.tree.read(path, (content) => this.#sameBytes(content, node))
    if (read?.value !== true) return false
    await this.remember(path, read.stat, node)
    return true
  }

  /** Notes in the index that the file at a path has the content of a node. */
  async remember(path: string, stat: HostStat, node: FileNode): Promise<void> {
    const content = stat.fresh ? undefined : await contentKey(this.core, node)
    await this.index.set(path, content === undefined ? undefined : { stamp: stat.stamp, content })
  }

  async #sameBytes(content: AsyncIterable<Uint8Array>, node: FileNode): Promise<boolean> {
    const body = await whenLoaded(() => this.core.contentIds.body(node))
    let offset = 0
    for await (const piece of content) {
      if (offset + piece.length > node.size) return false
      if (!(await this.core.content.read(body, offset, piece.length)).equals(piece)) return false
      offset += piece.length
    }
    return offset === node.size
  }
}

export function sameMode(a: number, b: number): boolean {
  return (a & shownMode) === (b & shownMode)
}

export function modified(
  path: string,
  message = 'was changed in the directory; bring the change back with sync(), or overwrite it with { force: true }',
): EngineError {
  return new EngineError('CHECKOUT_MODIFIED', `${path} ${message}`, { path })
}
