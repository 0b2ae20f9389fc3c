import type { Body } from '../cas/body.js'
import type { Xattrs } from './xattrs.js'

/**
 * A token. Its holder may change a directory or page that carries it in place; others must copy the node
 * first.
 */
export class Owner {
  /** The rough size in bytes of everything made with this token. */
  bytes = 0
}

/** The target of a path. */
export type Node = FileNode | Dir | Symlink

/**
 * An entry of a directory: the node, or a link with the inode number of a hard-linked file in the root's
 * table.
 */
export type Entry = Node | Link

/**
 * A directory: pages of names in UTF-8 order, copied on write. `pages` is null until it is loaded from
 * `address`. Only a frozen directory has `address` and `hash`; a directory with an owner has neither.
 */
export class Dir {
  readonly owner: Owner | undefined
  readonly ino: number
  mode: number
  mtime: number
  ctime: number
  readonly birthtime: number
  pages: Page[] | null
  /** Whether one of the names needs the slower comparison by UTF-8 bytes. Once set, it stays set. */
  wide = false
  /**
   * An upper bound for the number of levels below. Removals do not lower it. It limits the depth that a move
   * may build.
   */
  height = 0
  /**
   * Whether a {@link Link} is in this directory or below. Once set, it stays set. The content of such a
   * directory depends on the root's table of links, and so does its hash. Its `hash` is therefore never set.
   */
  linked = false
  xattrs: Xattrs | undefined
  /** Set only in a root: the hard-linked files, by {@link linkKey}. */
  links: Dir | undefined
  address: string | undefined
  hash: string | undefined

  constructor(owner: Owner | undefined, attributes: Attributes, pages: Page[] | null) {
    this.owner = owner
    this.ino = attributes.ino
    this.mode = attributes.mode
    this.mtime = attributes.mtime
    this.ctime = attributes.ctime
    this.birthtime = attributes.birthtime
    this.pages = pages
    this.xattrs = attributes.xattrs
  }
}

/** Up to 1,024 names and their nodes. `names` is null until it is loaded from `address`. */
export class Page {
  readonly owner: Owner | undefined
  names: string[] | null
  nodes: Entry[]
  /** The last name; '' in the only page of an empty directory. */
  last: string
  address: string | undefined
  hash: string | undefined

  constructor(owner: Owner | undefined, names: string[] | null, nodes: Entry[], last: string) {
    this.owner = owner
    this.names = names
    this.nodes = nodes
    this.last = last
    this.address = undefined
    this.hash = undefined
  }
}

interface Times {
  readonly mtime: number
  readonly ctime: number
  readonly birthtime: number
}

/** A file. It is immutable: every change makes a new node. */
export class FileNode {
  readonly ino: number
  readonly mode: number
  /** One number if all times are the same, as in a new file. This takes 64 bytes less than three fields. */
  readonly #times: number | Times
  readonly size: number
  readonly xattrs: Xattrs | undefined
  body: Body
  /** The memoised SHA-256 of a content with several blobs, hex. */
  hash: string | undefined
  /** The memoised part in manifestHash of a content above one block. */
  contentId: string | undefined

  constructor(attributes: Attributes, size: number, body: Body) {
    this.ino = attributes.ino
    this.mode = attributes.mode
    const { mtime, ctime, birthtime } = attributes
    this.#times = mtime === ctime && mtime === birthtime ? mtime : { mtime, ctime, birthtime }
    this.size = size
    this.xattrs = attributes.xattrs
    this.body = body
    this.hash = undefined
    this.contentId = undefined
  }

  get mtime(): number {
    return typeof this.#times === 'number' ? this.#times : this.#times.mtime
  }

  get ctime(): number {
    return typeof this.#times === 'number' ? this.#times : this.#times.ctime
  }

  get birthtime(): number {
    return typeof this.#times === 'number' ? this.#times : this.#times.birthtime
  }

  /** The same content with other attributes. */
  with(attributes: Attributes): FileNode {
    const copy = new FileNode(attributes, this.size, this.body)
    copy.hash = this.hash
    copy.contentId = this.contentId
    return copy
  }
}

/** A hard-linked file. It is in the root's table of links; each of its names is a {@link Link}. */
export class LinkedFile extends FileNode {
  /** The number of its names. */
  readonly nlink: number

  constructor(file: FileNode, nlink: number, ctime = file.ctime) {
    super({ ...attributesOf(file), ctime }, file.size, file.body)
    this.nlink = nlink
    this.hash = file.hash
    this.contentId = file.contentId
  }
}

/** One of the names of a hard-linked file. */
export class Link {
  readonly ino: number

  constructor(ino: number) {
    this.ino = ino
  }
}

/** The name of a hard-linked file in the root's table of links. */
export function linkKey(ino: number): string {
  return ino.toString(36)
}

export class Symlink {
  readonly ino: number
  readonly target: string
  readonly mtime: number

  constructor(ino: number, target: string, mtime: number) {
    this.ino = ino
    this.target = target
    this.mtime = mtime
  }
}

/**
 * The kind of a node.
 *
 * @inline
 */
export type NodeKind = 'file' | 'directory' | 'symlink'

export function kindOf(node: Node): NodeKind {
  if (node instanceof FileNode) return 'file'
  return node instanceof Dir ? 'directory' : 'symlink'
}

export function attributesOf(node: Attributes): Attributes {
  const { ino, mode, mtime, ctime, birthtime, xattrs } = node
  return { ino, mode, mtime, ctime, birthtime, xattrs }
}

/** Permission bits and times in milliseconds since the epoch. */
export interface Attributes {
  readonly ino: number
  readonly mode: number
  readonly mtime: number
  readonly ctime: number
  readonly birthtime: number
  readonly xattrs?: Xattrs | undefined
}

/** For nodes whose attributes do not matter. */
export const noAttributes: Attributes = { ino: 0, mode: 0, mtime: 0, ctime: 0, birthtime: 0 }
