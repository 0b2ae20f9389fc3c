import { itemAt, present } from '../../base/present.js'
import { EngineError } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import type { TimeSlice } from '../../base/cooperative.js'
import { Dir, Link, linkKey, LinkedFile, type Entry } from '../../tree/node.js'
import type { NodeLoader } from '../../tree/node-loader.js'
import { peekPage, peekPages } from '../../tree/peek.js'
import { damaged } from './bundle-checks.js'

/** Checks the hard-linked files of trees. It skips parts that it has already seen in an earlier tree. */
export class LinkCheck {
  readonly #loader: NodeLoader
  readonly #slice: TimeSlice
  /**
   * Directories without links, and without a file that has one of the numbers in `inos`. They are kept by
   * their addresses in storage, or as objects if they have none.
   */
  #unlinked = { inos: '', dirs: new Set<Dir | string>() }

  constructor(loader: NodeLoader, slice: TimeSlice) {
    this.#loader = loader
    this.#slice = slice
  }

  /**
   * Checks that each link refers to a file in the table, that link counts are right, and that inode numbers
   * are unique.
   */
  async check(root: Dir): Promise<void> {
    const expected = await this.#table(root.links)
    const inos = [...expected.keys()].toSorted((a, b) => a - b).join(' ')
    if (this.#unlinked.inos !== inos) this.#unlinked = { inos, dirs: new Set() }
    const found = new Map<number, number>()
    const stack: Dir[] = [root]
    for (let dir = stack.pop(); dir !== undefined; dir = stack.pop()) {
      const key = dir.address ?? dir
      if (!dir.linked && this.#unlinked.dirs.has(key)) continue
      for await (const node of this.#nodes(dir)) {
        if (node instanceof Dir) stack.push(node)
        else if (node instanceof Link) found.set(node.ino, (found.get(node.ino) ?? 0) + 1)
        else if (expected.has(node.ino)) throw damaged('two files have the same number')
      }
      if (!dir.linked) this.#unlinked.dirs.add(key)
    }
    if (found.size !== expected.size) throw damaged('the hard links do not match their table')
    for (const [ino, count] of found)
      if (expected.get(ino) !== count)
        throw damaged('a hard-linked file has another number of names than its table says')
  }

  async #table(links: Dir | undefined): Promise<Map<number, number>> {
    const expected = new Map<number, number>()
    if (links === undefined) return expected
    for await (const node of this.#nodes(links, (name, { ino }) => name === linkKey(ino))) {
      if (!(node instanceof LinkedFile))
        throw damaged('a table of hard links has an entry that is not a file')
      expected.set(node.ino, node.nlink)
      if (expected.size > limits.bundleLinkedFiles) {
        const limit = limits.bundleLinkedFiles
        const message = `the bundle has a tree with over ${limit} hard-linked files; an import reads at most that many`
        throw new EngineError('LIMIT_EXCEEDED', message, { limit: String(limit) })
      }
    }
    return expected
  }

  async *#nodes(
    dir: Dir,
    isNamed: (name: string, node: Entry) => boolean = () => true,
  ): AsyncGenerator<Entry, void> {
    for (const page of await peekPages(dir, this.#loader)) {
      const { names, nodes } = await peekPage(page, this.#loader)
      for (const [index, node] of nodes.entries()) {
        if (!isNamed(itemAt(present(names, 'a loaded page'), index), node))
          throw damaged('a table of hard links is not in order')
        yield node
      }
      if (this.#slice.over) await this.#slice.next()
    }
  }
}
