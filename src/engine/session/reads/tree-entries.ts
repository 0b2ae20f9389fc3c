import { whenLoaded } from '../../base/fault.js'
import { limits } from '../../base/limits.js'
import { TimeSlice } from '../../base/cooperative.js'
import { visitPaths } from '../../tree/cursor.js'
import { Dir, FileNode, LinkedFile, type Node } from '../../tree/node.js'
import { Tree } from '../../tree/tree.js'
import type { Xattrs } from '../../tree/xattrs.js'
import type { Core } from '../core.js'
import { readContent } from './content-stream.js'
import { notADirectory, notFound, resolve } from './resolve.js'
import type { EntryAttributes } from '../tree-builder.js'

/** An entry of an exported tree. The root comes first, and parents come before their children. */
export type TreeEntry =
  | { readonly kind: 'directory'; readonly path: string; readonly attributes: EntryAttributes }
  | {
      readonly kind: 'file'
      readonly path: string
      readonly attributes: EntryAttributes
      readonly size: number
      /** The content in pieces of at most 1 MiB. */
      read(): AsyncIterable<Uint8Array>
      /** An earlier path of the same file. */
      readonly linkTo?: string
    }
  | {
      readonly kind: 'symlink'
      readonly path: string
      readonly target: string
      readonly attributes: { readonly mtimeMs: number }
    }

/**
 * The entries of a frozen tree in manifest order, including the root and symlinks. If `path` is given, the
 * entries of that directory, as if it were the root. The event loop gets its turns, and nodes are loaded as
 * needed. Content is read only on request.
 *
 * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
 * @throws {EngineError} NOT_A_DIRECTORY when the path is not a directory.
 */
export async function* treeEntries(core: Core, root: Dir, path = '/'): AsyncGenerator<TreeEntry> {
  const at = await whenLoaded(() => resolve(new Tree(root, core.loader), path, true))
  if (at.node === undefined) throw notFound(path)
  if (!(at.node instanceof Dir)) throw notADirectory(path)
  const base = at.path === '/' ? '' : at.path
  const describe = new EntryDescriber(core)
  yield describe.entry('/', at.node)
  const slice = new TimeSlice(core.environment)
  let after: string | undefined
  for (;;) {
    const found: [path: string, node: Node][] = []
    // Nodes visited before a fault are not visited again.
    await whenLoaded(() =>
      visitPaths(root, { prefix: `${base}/`, after }, core.loader, (child, node) => {
        found.push([child, node])
        after = child
        return found.length < limits.pathsPerStep
      }),
    )
    for (const [child, node] of found) {
      yield describe.entry(child.slice(base.length), node)
      if (slice.over) await slice.next()
    }
    if (found.length < limits.pathsPerStep) return
  }
}

/** Makes entries from nodes, in the order in which it receives the nodes. */
class EntryDescriber {
  readonly #core: Core
  /** Hard-linked files: the first name that was returned, and the number of remaining names. */
  readonly #linked = new Map<number, { readonly path: string; left: number }>()

  constructor(core: Core) {
    this.#core = core
  }

  async entry(path: string, node: Node): Promise<TreeEntry> {
    const mtimeMs = node.mtime
    if (node instanceof FileNode) {
      const linkTo = node instanceof LinkedFile ? this.#firstPath(path, node) : undefined
      return {
        kind: 'file',
        path,
        attributes: await this.#attributes(node),
        size: node.size,
        read: () => readContent(this.#core, node, { start: 0, end: node.size }),
        ...(linkTo !== undefined && { linkTo }),
      }
    }
    if (node instanceof Dir) return { kind: 'directory', path, attributes: await this.#attributes(node) }
    return { kind: 'symlink', path, target: node.target, attributes: { mtimeMs } }
  }

  /** The path of a hard-linked file that was returned first. Undefined for that path itself. */
  #firstPath(path: string, { ino, nlink }: LinkedFile): string | undefined {
    const first = this.#linked.get(ino)
    if (first === undefined) {
      this.#linked.set(ino, { path, left: nlink - 1 })
      return undefined
    }
    if (--first.left === 0) this.#linked.delete(ino)
    return first.path
  }

  async #attributes({ mode, mtime, xattrs }: FileNode | Dir): Promise<EntryAttributes> {
    if (xattrs === undefined) return { mode, mtimeMs: mtime }
    return { mode, mtimeMs: mtime, xattrs: await this.#values(xattrs) }
  }

  async #values(xattrs: Xattrs): Promise<Map<string, Uint8Array>> {
    const values = new Map<string, Uint8Array>()
    for (const [name, blob] of xattrs) values.set(name, await this.#core.content.read(blob, 0, blob.length))
    return values
  }
}
