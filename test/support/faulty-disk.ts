import { nodeDisk } from '../../src/adapters/level/directory/node-disk.js'
import type { Disk, DiskFile } from '../../src/adapters/level/directory/disk.js'

/** The disk of the host, with changes that fail on demand. Reads are not counted and do not fail. */
export class FaultyDisk implements Disk {
  /** The number of changes so far. */
  operations = 0
  /** The size in bytes of each write to a segment. */
  readonly segmentWrites: number[] = []
  /** Where each sync of a segment waited. */
  readonly segmentSyncs: string[] = []
  /** A description of each change, by its number. */
  readonly log: string[] = []
  /** The number of the change that fails; `forEver` also fails all later changes, as if the process had died. */
  failAt = Infinity
  forEver = false
  code = 'EIO'
  /** A failing write writes this share of its bytes. */
  written = 0.5

  list(directory: string): Promise<readonly string[]> {
    return nodeDisk.list(directory)
  }

  async makeDirectory(directory: string): Promise<void> {
    this.#count(`makeDirectory ${directory}`)
    await nodeDisk.makeDirectory(directory)
  }

  async open(path: string, mode: 'read' | 'create' | 'write'): Promise<DiskFile> {
    if (mode === 'create') this.#count(`create ${path}`)
    return new FaultyFile(await nodeDisk.open(path, mode), path, this)
  }

  async rename(from: string, to: string): Promise<void> {
    this.#count(`rename ${to}`)
    await nodeDisk.rename(from, to)
  }

  async remove(path: string): Promise<void> {
    this.#count(`remove ${path}`)
    await nodeDisk.remove(path)
  }

  async syncDirectory(directory: string): Promise<void> {
    this.#count(`syncDirectory ${directory}`)
    await nodeDisk.syncDirectory(directory)
  }

  /** @throws an error of the chosen code when it is this operation's turn to fail. */
  #count(what: string): void {
    if (this.fails(what)) throw this.error()
  }

  fails(what: string): boolean {
    const number = ++this.operations
    this.log.push(what)
    return number === this.failAt || (this.forEver && number > this.failAt)
  }

  error(): Error {
    return Object.assign(new Error(`${this.code}: made to fail`), { code: this.code })
  }
}

class FaultyFile implements DiskFile {
  readonly #file: DiskFile
  readonly #path: string
  readonly #disk: FaultyDisk

  constructor(file: DiskFile, path: string, disk: FaultyDisk) {
    this.#file = file
    this.#path = path
    this.#disk = disk
  }

  size(): Promise<number> {
    return this.#file.size()
  }

  read(position: number, length: number): Promise<Uint8Array> {
    return this.#file.read(position, length)
  }

  readSync(position: number, length: number): Uint8Array {
    return this.#file.readSync(position, length)
  }

  async write(position: number, pieces: readonly Uint8Array[]): Promise<void> {
    const bytes = Buffer.concat(pieces)
    if (this.#path.endsWith('.seg')) this.#disk.segmentWrites.push(bytes.length)
    if (!this.#disk.fails(`write ${this.#path}`)) return this.#file.write(position, pieces)
    await this.#file.write(position, [bytes.subarray(0, Math.floor(bytes.length * this.#disk.written))])
    throw this.#disk.error()
  }

  async truncate(size: number): Promise<void> {
    if (this.#disk.fails(`truncate ${this.#path}`)) throw this.#disk.error()
    await this.#file.truncate(size)
  }

  async sync(where?: 'here' | 'elsewhere'): Promise<void> {
    if (this.#path.endsWith('.seg')) this.#disk.segmentSyncs.push(where ?? 'elsewhere')
    if (this.#disk.fails(`sync ${this.#path}`)) throw this.#disk.error()
    await this.#file.sync(where)
  }

  close(): Promise<void> {
    return this.#file.close()
  }
}
