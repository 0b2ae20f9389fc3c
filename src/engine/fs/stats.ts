import type { NodeDescription } from '../tree/describe.js'
import type { NodeKind } from '../tree/node.js'
import { constants } from './constants.js'

const { S_IFMT, S_IFREG, S_IFDIR, S_IFLNK, S_IFBLK, S_IFCHR, S_IFIFO, S_IFSOCK } = constants
const typeBits: Record<NodeKind, number> = { file: S_IFREG, directory: S_IFDIR, symlink: S_IFLNK }
const blockSize = 4096

/**
 * The common part of Stats, BigIntStats and Dirent. It derives the kind of a node from the type bits of its
 * mode.
 */
abstract class Kind {
  /** @internal */
  abstract _type(): number

  /** Whether it is a file. */
  isFile(): boolean {
    return this._type() === S_IFREG
  }

  /** Whether it is a directory. */
  isDirectory(): boolean {
    return this._type() === S_IFDIR
  }

  /** Whether it is a symlink. */
  isSymbolicLink(): boolean {
    return this._type() === S_IFLNK
  }

  /** Always false: sessions have no devices. */
  isBlockDevice(): boolean {
    return this._type() === S_IFBLK
  }

  /** Always false: sessions have no devices. */
  isCharacterDevice(): boolean {
    return this._type() === S_IFCHR
  }

  /** Always false: sessions have no pipes. */
  isFIFO(): boolean {
    return this._type() === S_IFIFO
  }

  /** Always false: sessions have no sockets. */
  isSocket(): boolean {
    return this._type() === S_IFSOCK
  }
}

/** Dates are created on first use. As in Node, they can be replaced. */
abstract class Times extends Kind {
  #dates: Record<string, Date> | undefined

  abstract _ms(name: string): number

  get atime(): Date {
    return this.#date('atime')
  }

  set atime(date: Date) {
    this.#set('atime', date)
  }

  get mtime(): Date {
    return this.#date('mtime')
  }

  set mtime(date: Date) {
    this.#set('mtime', date)
  }

  get ctime(): Date {
    return this.#date('ctime')
  }

  set ctime(date: Date) {
    this.#set('ctime', date)
  }

  get birthtime(): Date {
    return this.#date('birthtime')
  }

  set birthtime(date: Date) {
    this.#set('birthtime', date)
  }

  #date(name: string): Date {
    this.#dates ??= {}
    return (this.#dates[name] ??= new Date(Math.round(this._ms(`${name}Ms`))))
  }

  #set(name: string, date: Date): void {
    this.#dates ??= {}
    this.#dates[name] = date
  }
}

/**
 * The shape of node:fs Stats. `ino` does not change on rename, fork, checkpoint or restore. `uid`, `gid` and
 * `dev` are 0. A directory has size 0 and nlink 1. `atime` equals `mtime`.
 */
export class Stats extends Times {
  dev: number
  mode: number
  nlink: number
  uid: number
  gid: number
  rdev: number
  blksize: number
  ino: number
  size: number
  blocks: number
  atimeMs: number
  mtimeMs: number
  ctimeMs: number
  birthtimeMs: number

  constructor(
    dev: number,
    mode: number,
    nlink: number,
    uid: number,
    gid: number,
    rdev: number,
    blksize: number,
    ino: number,
    size: number,
    blocks: number,
    atimeMs: number,
    mtimeMs: number,
    ctimeMs: number,
    birthtimeMs: number,
  ) {
    super()
    this.dev = dev
    this.mode = mode
    this.nlink = nlink
    this.uid = uid
    this.gid = gid
    this.rdev = rdev
    this.blksize = blksize
    this.ino = ino
    this.size = size
    this.blocks = blocks
    this.atimeMs = atimeMs
    this.mtimeMs = mtimeMs
    this.ctimeMs = ctimeMs
    this.birthtimeMs = birthtimeMs
  }

  _type(): number {
    return this.mode & S_IFMT
  }

  _ms(name: 'mtimeMs'): number {
    return this[name]
  }
}

/** The same as {@link Stats} with bigint fields, and with times in nanoseconds. */
export class BigIntStats extends Times {
  dev = 0n
  mode: bigint
  nlink: bigint
  uid = 0n
  gid = 0n
  rdev = 0n
  blksize: bigint
  ino: bigint
  size: bigint
  blocks: bigint
  atimeMs: bigint
  mtimeMs: bigint
  ctimeMs: bigint
  birthtimeMs: bigint
  atimeNs: bigint
  mtimeNs: bigint
  ctimeNs: bigint
  birthtimeNs: bigint

  constructor(stats: Stats) {
    super()
    this.blksize = BigInt(stats.blksize)
    this.mode = BigInt(stats.mode)
    this.nlink = BigInt(stats.nlink)
    this.ino = BigInt(stats.ino)
    this.size = BigInt(stats.size)
    this.blocks = BigInt(stats.blocks)
    this.atimeNs = nanoseconds(stats.atimeMs)
    this.mtimeNs = nanoseconds(stats.mtimeMs)
    this.ctimeNs = nanoseconds(stats.ctimeMs)
    this.birthtimeNs = nanoseconds(stats.birthtimeMs)
    this.atimeMs = this.atimeNs / 1_000_000n
    this.mtimeMs = this.mtimeNs / 1_000_000n
    this.ctimeMs = this.ctimeNs / 1_000_000n
    this.birthtimeMs = this.birthtimeNs / 1_000_000n
  }

  _type(): number {
    return Number(this.mode) & S_IFMT
  }

  _ms(name: 'mtimeMs'): number {
    return Number(this[name])
  }
}

/**
 * An entry of a directory, in the shape of `Dirent` of `node:fs`. Its name is text, or bytes with the
 * encoding `buffer`.
 */
export class Dirent extends Kind {
  /** The name of the entry in its directory. */
  name: string | Buffer
  /** The path of the directory. */
  parentPath: string
  /** The older name of `parentPath`. */
  path: string
  readonly #type: number

  /** @internal */
  constructor(name: string | Buffer, parentPath: string, kind: NodeKind) {
    super()
    this.name = name
    this.parentPath = parentPath
    this.path = parentPath
    this.#type = typeBits[kind]
  }

  /** @internal */
  _type(): number {
    return this.#type
  }
}

/** `gone` means that the file has no name any more. */
export function newStats(stat: NodeDescription, bigint: unknown, gone = false): Stats | BigIntStats {
  const { mode, kind, nlink, inode, sizeBytes, mtimeMs, ctimeMs, birthtimeMs } = stat
  const blocks = Math.ceil(sizeBytes / 512)
  const bits = mode | typeBits[kind]
  const links = gone ? 0 : nlink
  const times = [mtimeMs, mtimeMs, ctimeMs, birthtimeMs] as const
  const stats = new Stats(0, bits, links, 0, 0, 0, blockSize, inode, sizeBytes, blocks, ...times)
  return bigint === true ? new BigIntStats(stats) : stats
}

/**
 * The shape of node:fs StatFs. A session has no disk, so all numbers of blocks and files are the largest
 * possible.
 */
export class StatFs<T extends number | bigint> {
  type: T
  bsize: T
  blocks: T
  bfree: T
  bavail: T
  files: T
  ffree: T

  constructor(number: (value: number) => T) {
    const blocks = number(Math.floor(Number.MAX_SAFE_INTEGER / blockSize))
    this.type = number(0)
    this.bsize = number(blockSize)
    this.blocks = blocks
    this.bfree = blocks
    this.bavail = blocks
    this.files = blocks
    this.ffree = blocks
  }
}

function nanoseconds(ms: number): bigint {
  const whole = Math.floor(ms)
  return BigInt(whole) * 1_000_000n + BigInt(Math.round((ms - whole) * 1e6))
}
