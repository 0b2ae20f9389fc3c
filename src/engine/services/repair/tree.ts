import { itemAt, present } from '../../base/present.js'
import { EngineError } from '../../base/errors.js'
import { whenLoaded } from '../../base/fault.js'
import type { TimeSlice } from '../../base/cooperative.js'
import { DigestTable } from '../../base/digest-table.js'
import { UnloadedBody } from '../../cas/body.js'
import {
  attributesOf,
  Dir,
  FileNode,
  Link,
  linkKey,
  LinkedFile,
  type Attributes,
  type Entry,
  Owner,
} from '../../tree/node.js'
import type { NodeLoader } from '../../tree/node-loader.js'
import { emptyPages, findName, setName } from '../../tree/page.js'
import { bodyReferences } from '../../tree/references.js'

/** A lost part of a tree: its path, and a message for people. */
export interface LostPath {
  readonly path: string
  readonly message: string
}

export interface MendedTree {
  /** The same object if nothing is lost. */
  readonly root: Dir
  readonly lost: readonly LostPath[]
}

export interface MendOptions {
  /**
   * true: files stay even if their contents are lost. Only unreadable parts of the tree itself are removed.
   */
  readonly keepFiles: boolean
}

type Entries = (readonly [name: string, entry: Entry])[]

/** Removes lost parts from trees: files with lost contents, and directories with lost nodes. */
export class TreeMender {
  readonly loader: NodeLoader
  readonly #hasBlob: (hash: string, length: number) => boolean
  readonly #slice: TimeSlice
  /** The addresses of directories and pages in which nothing is lost, apart from hard-linked files. */
  readonly #whole = new DigestTable()

  constructor(loader: NodeLoader, hasBlob: (hash: string, length: number) => boolean, slice: TimeSlice) {
    this.loader = loader
    this.#hasBlob = hasBlob
    this.#slice = slice
  }

  async mend(root: Dir, options: MendOptions = { keepFiles: false }): Promise<MendedTree> {
    const lost: LostPath[] = []
    const links = root.links && (await this.#links(root.links, options))
    const mending = { lost, options, links: links?.table === root.links ? undefined : links }
    const mended = (await this.#dir(root, '/', mending)) ?? copyOf(root, [], this.loader)
    if (links === undefined || (mended === root && links.table === root.links)) return { root: mended, lost }
    const counted = copyOf(mended, await this.#entries(mended), this.loader)
    counted.links = await this.#counted(counted, links.table)
    return { root: counted, lost }
  }

  /** The table of hard-linked files, without lost files. */
  async #links(table: Dir, options: MendOptions): Promise<LinkTable> {
    const lost: LostPath[] = []
    const mended = await this.#dir(table, '', { lost, options, links: undefined })
    return { table: mended ?? copyOf(table, [], this.loader) }
  }

  async #dir(dir: Dir, path: string, mending: Mending): Promise<Dir | undefined> {
    const { lost, links, options } = mending
    const attributes = this.#attributes(dir, path, mending)
    const memo = options.keepFiles || (dir.linked && links !== undefined) ? undefined : dir.address
    if (memo !== undefined && attributes === dir && this.#whole.has(memo)) return dir
    if (this.#slice.over) await this.#slice.next()
    const pages = await this.#try(() => dir.pages ?? this.loader.loadDir(dir))
    if (pages === undefined) {
      lost.push({ path, message: 'the entries of the directory are lost' })
      return undefined
    }
    const kept: Entries = []
    let isWhole = true
    let before = ''
    for (const page of pages) {
      const names = await this.#try(() => page.names ?? this.loader.loadPage(page))
      if (names === undefined) {
        const range = `${before === '' ? '' : `after ${before} `}up to ${page.last}`
        lost.push({ path, message: `the entries ${range} are lost` })
        isWhole = false
      } else {
        // The page may be unloaded during the loop.
        const { nodes } = page
        for (const [i, name] of names.entries()) {
          const entry = itemAt(nodes, i)
          const mended = await this.#entry(entry, path === '/' ? `/${name}` : `${path}/${name}`, mending)
          if (mended !== entry) isWhole = false
          if (mended !== undefined) kept.push([name, mended])
        }
      }
      before = page.last
    }
    if (!isWhole) return copyOf(dir, kept, this.loader, attributes)
    if (memo !== undefined) this.#whole.add(memo)
    if (attributes === dir) return dir
    const copy = new Dir(undefined, attributes, pages)
    return Object.assign(copy, { wide: dir.wide, height: dir.height, linked: dir.linked, links: dir.links })
  }

  async #entry(entry: Entry, path: string, mending: Mending): Promise<Entry | undefined> {
    if (entry instanceof Dir) return this.#dir(entry, path, mending)
    if (entry instanceof Link) {
      const { links } = mending
      if (links === undefined || findName(links.table, linkKey(entry.ino), this.loader) !== undefined)
        return entry
      mending.lost.push({ path, message: 'the content of the file is lost' })
      return undefined
    }
    if (!(entry instanceof FileNode)) return entry
    if (!mending.options.keepFiles && !(await this.#hasContent(entry))) {
      mending.lost.push({ path, message: 'the content of the file is lost' })
      return undefined
    }
    const attributes = this.#attributes(entry, path, mending)
    if (attributes === entry) return entry
    const file = entry.with(attributes)
    return entry instanceof LinkedFile ? new LinkedFile(file, entry.nlink) : file
  }

  /** The node itself if all its extended attributes exist; otherwise attributes without the lost ones. */
  #attributes(node: Dir | FileNode, path: string, { lost, options }: Mending): Attributes {
    if (node.xattrs === undefined || options.keepFiles) return node
    const kept = node.xattrs.filter(([, value]) => this.#hasBlob(value.hash, value.length))
    if (kept.length === node.xattrs.length) return node
    for (const xattr of node.xattrs)
      if (!kept.includes(xattr)) lost.push({ path, message: `its extended attribute ${xattr[0]} is lost` })
    return { ...attributesOf(node), xattrs: kept.length === 0 ? undefined : kept }
  }

  async #hasContent(file: FileNode): Promise<boolean> {
    let { body } = file
    if (body instanceof UnloadedBody) {
      const unloaded = body
      body = await this.#try(() => {
        this.loader.loadBody(file)
        return present(unloaded.body, 'a loaded body')
      })
      if (body === undefined) return false
    }
    let isWhole = true
    bodyReferences(body, {
      node: () => undefined,
      blob: (hash, length = 0) => (isWhole &&= this.#hasBlob(hash, length)),
    })
    return isWhole
  }

  async #entries(dir: Dir): Promise<Entries> {
    const entries: Entries = []
    for (const page of await whenLoaded(() => dir.pages ?? this.loader.loadDir(dir))) {
      const names = await whenLoaded(() => page.names ?? this.loader.loadPage(page))
      for (const [i, name] of names.entries()) entries.push([name, itemAt(page.nodes, i)])
    }
    return entries
  }

  /**
   * The table of hard-linked files with the link counts that match the tree. Files without names are left
   * out.
   */
  async #counted(root: Dir, table: Dir): Promise<Dir | undefined> {
    const names = new Map<number, number>()
    const count = async (dir: Dir): Promise<void> => {
      if (!dir.linked) return
      for (const [, entry] of await this.#entries(dir)) {
        if (entry instanceof Link) names.set(entry.ino, (names.get(entry.ino) ?? 0) + 1)
        else if (entry instanceof Dir) await count(entry)
      }
    }
    await count(root)
    const files: Entries = []
    for (const [key, entry] of await this.#entries(table)) {
      if (!(entry instanceof LinkedFile)) continue
      const nlink = names.get(entry.ino) ?? 0
      if (nlink > 0) files.push([key, nlink === entry.nlink ? entry : new LinkedFile(entry, nlink)])
    }
    return files.length === 0 ? undefined : copyOf(table, files, this.loader)
  }

  /** Returns undefined if the store lacks the node, or has a damaged one. */
  async #try<T>(load: () => T): Promise<T | undefined> {
    try {
      return await whenLoaded(load)
    } catch (error) {
      if (error instanceof EngineError && error.reason === 'DATA_LOSS') return undefined
      throw error
    }
  }
}

interface LinkTable {
  readonly table: Dir
}

interface Mending {
  readonly lost: LostPath[]
  readonly options: MendOptions
  /** The remaining table of hard-linked files; undefined if it is unchanged. */
  readonly links: LinkTable | undefined
}

/** A directory with these entries, which must be in order. */
function copyOf(dir: Dir, entries: Entries, loader: NodeLoader, attributes: Attributes = dir): Dir {
  const owner = new Owner()
  const copy = new Dir(owner, attributes, emptyPages(owner))
  copy.wide = dir.wide
  copy.height = dir.height
  copy.linked = dir.linked
  copy.links = dir.links
  for (const [name, entry] of entries) setName(copy, name, entry, owner, loader)
  return copy
}
