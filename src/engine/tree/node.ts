import type { Body } from '../cas/body.js'

/** Whoever holds the token may change a directory or page in place; everybody else copies it first. */
export type Owner = symbol

export type Node = FileNode | Dir | Symlink

/**
 * A directory: pages of names in UTF-8 order, copied on write. `pages` is null until it is loaded from
 * `address`. `address` and `hash` are memos of a frozen directory; one that is owned has neither.
 */
export class Dir {
  readonly owner: Owner | undefined
  readonly ino: number
  mode: number
  mtime: number
  ctime: number
  readonly birthtime: number
  pages: Page[] | null
  /** Whether a name in here needs the slower comparison by UTF-8 bytes; once set, it stays. */
  wide = false
  /** How many names deep it goes below, at most: removals do not lower it. Bounds what a move may build. */
  height = 0
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
  }
}

/** Up to 1,024 names and their nodes. `names` is null until it is loaded from `address`. */
export class Page {
  readonly owner: Owner | undefined
  names: string[] | null
  nodes: Node[]
  /** The last name; '' in the only page of an empty directory. */
  last: string
  address: string | undefined
  hash: string | undefined

  constructor(owner: Owner | undefined, names: string[] | null, nodes: Node[], last: string) {
    this.owner = owner
    this.names = names
    this.nodes = nodes
    this.last = last
    this.address = undefined
    this.hash = undefined
  }
}

/** A file. Immutable: every change makes a new one. */
export class FileNode {
  readonly ino: number
  readonly mode: number
  readonly mtime: number
  readonly ctime: number
  readonly birthtime: number
  readonly size: number
  body: Body
  /** Memo of the SHA-256 of a content of several blobs, hex. */
  hash: string | undefined
  /** Memo of what manifestHash says of a content above one block. */
  contentId: string | undefined

  constructor(attributes: Attributes, size: number, body: Body) {
    this.ino = attributes.ino
    this.mode = attributes.mode
    this.mtime = attributes.mtime
    this.ctime = attributes.ctime
    this.birthtime = attributes.birthtime
    this.size = size
    this.body = body
    this.hash = undefined
    this.contentId = undefined
  }
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

export type NodeKind = 'file' | 'directory' | 'symlink'

export function kindOf(node: Node): NodeKind {
  if (node instanceof FileNode) return 'file'
  return node instanceof Dir ? 'directory' : 'symlink'
}

/** Permission bits and times in milliseconds since the epoch. */
export interface Attributes {
  readonly ino: number
  readonly mode: number
  readonly mtime: number
  readonly ctime: number
  readonly birthtime: number
}

/** Loads what is null: at once, or by throwing a Fault. */
export interface NodeLoader {
  loadDir(dir: Dir): Page[]
  loadPage(page: Page): string[]
  loadBody(file: FileNode): void
}
