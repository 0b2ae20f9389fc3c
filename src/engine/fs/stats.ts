import { Dir, FileNode, kindOf, LinkedFile, type Node, type NodeKind } from '../tree/node.js'

const typeBits = { file: 0o100000, directory: 0o040000, symlink: 0o120000 } as const
const blockSize = 4096

/** What Stats and Dirent answer alike. */
abstract class Kind {
  readonly #kind: NodeKind

  constructor(kind: NodeKind) {
    this.#kind = kind
  }

  isFile(): boolean {
    return this.#kind === 'file'
  }

  isDirectory(): boolean {
    return this.#kind === 'directory'
  }

  isSymbolicLink(): boolean {
    return this.#kind === 'symlink'
  }

  isBlockDevice(): boolean {
    return false
  }

  isCharacterDevice(): boolean {
    return false
  }

  isFIFO(): boolean {
    return false
  }

  isSocket(): boolean {
    return false
  }
}

/** The shape of node:fs Stats. `ino` is stable through rename, fork, checkpoint and restore; uid, gid and dev are 0. */
export class Stats extends Kind {
  readonly dev = 0
  readonly ino: number
  readonly mode: number
  readonly nlink: number
  readonly uid = 0
  readonly gid = 0
  readonly rdev = 0
  readonly size: number
  readonly blksize = blockSize
  readonly blocks: number
  readonly atimeMs: number
  readonly mtimeMs: number
  readonly ctimeMs: number
  readonly birthtimeMs: number

  constructor(node: Node) {
    super(kindOf(node))
    this.ino = node.ino
    this.nlink = node instanceof LinkedFile ? node.nlink : 1
    this.mtimeMs = node.mtime
    this.atimeMs = node.mtime
    if (node instanceof FileNode || node instanceof Dir) {
      this.mode = node.mode | (node instanceof Dir ? typeBits.directory : typeBits.file)
      this.ctimeMs = node.ctime
      this.birthtimeMs = node.birthtime
      this.size = node instanceof Dir ? 0 : node.size
    } else {
      this.mode = 0o777 | typeBits.symlink
      this.ctimeMs = node.mtime
      this.birthtimeMs = node.mtime
      this.size = byteLength(node.target)
    }
    this.blocks = Math.ceil(this.size / 512)
  }

  get atime(): Date {
    return new Date(this.atimeMs)
  }

  get mtime(): Date {
    return new Date(this.mtimeMs)
  }

  get ctime(): Date {
    return new Date(this.ctimeMs)
  }

  get birthtime(): Date {
    return new Date(this.birthtimeMs)
  }
}

/** The shape of node:fs Dirent. */
export class Dirent extends Kind {
  readonly name: string
  readonly parentPath: string

  constructor(name: string, parentPath: string, kind: NodeKind) {
    super(kind)
    this.name = name
    this.parentPath = parentPath
  }

  /** The older name of `parentPath`. */
  get path(): string {
    return this.parentPath
  }
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length
}
