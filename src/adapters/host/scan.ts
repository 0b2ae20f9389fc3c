import { Buffer, isUtf8 } from 'node:buffer'
import { promises as fs, type BigIntStats } from 'node:fs'
import {
  EngineError,
  isOpenStore,
  type ContentIn,
  type ScanContext,
  type ScanResult,
  type TreeSink,
} from '../../engine/ports.js'
import type { DirectoryHandle } from './directory-handle.js'
import { explained, unless } from './host-errors.js'
import { isFresh, kindOf, modeOf, mtimeOf, stampOf } from './host-stat.js'
import { hostLimits } from './limits.js'
import { groups, listNames, statAll } from './list-names.js'
import { ReadAhead } from './read-ahead.js'
import { readFile, type ReadFile } from './read-file.js'
import { DirectoryIndex, type Seen } from './scan-index.js'

/** The name under which the index stores the attributes of the directory itself. */
const itself = '.'

/** A stamp that differs from all others, so that the next scan reads the name again. */
const unknown = ''

/** One pass over a tree of the host. It passes the differences from the last scan to a sink. */
export class Scan {
  readonly #sink: TreeSink
  readonly #context: ScanContext
  readonly #startedMs = Date.now()
  #entries = 0
  #bytes = 0
  #files = 0
  #skipped = 0
  #unstable = 0

  constructor(sink: TreeSink, context: ScanContext) {
    this.#sink = sink
    this.#context = context
  }

  async run(root: DirectoryHandle): Promise<ScanResult> {
    await explained('/', () => this.#directory(root, '', 0))
    return { skipped: this.#skipped, unstable: this.#unstable }
  }

  /** Scans a directory. The `path` of the root is ''. */
  async #directory(directory: DirectoryHandle, path: string, depth: number): Promise<void> {
    const { signal, index } = this.#context
    const before = await DirectoryIndex.load(index, path || '/')
    const { names, skipped, more } = await listNames(directory, hostLimits.entries - this.#entries)
    if (more) throw overLimit('entries', hostLimits.entries)
    this.#entries += names.length + skipped
    this.#skipped += skipped
    if (names.length > 0 && depth === hostLimits.depth) throw overLimit('depth', hostLimits.depth, path)
    const seen: Seen[] = [[itself, 'd', await this.#attributes(directory, path, before)]]
    const directories: string[] = []
    for (const group of groups(names)) {
      signal.throwIfAborted()
      const stats = await statAll(directory, group)
      const read = new ReadAhead(
        directory,
        stats.filter(([name, stat]) => stat.isFile() && !isSeen(before.seen.get(name), 'f', stat)),
      )
      try {
        for (const [name, stat] of stats) {
          const childPath = `${path}/${name}`
          checkPath(name, childPath)
          if (stat.isDirectory() && isOpenStore(stat)) {
            this.#skipped++
            continue
          }
          const one = await explained(childPath, () =>
            this.#entry(directory, { name, childPath, stat, before, read }),
          )
          if (one === undefined) continue
          seen.push(one)
          before.seen.delete(name)
          if (one[1] === 'd') directories.push(name)
        }
      } finally {
        await read.end()
      }
    }
    before.seen.delete(itself)
    // The remaining names no longer exist.
    for (const one of before.seen.values()) await this.#remove(`${path}/${one[0]}`, one)
    for (const name of directories) {
      signal.throwIfAborted()
      const child = await explained(`${path}/${name}`, () => directory.enter(name))
      // The directory was swapped or removed during the scan. The next scan sees the new state.
      if (child === undefined) {
        await this.#remove(`${path}/${name}`, [name, 'd', unknown])
        seen.splice(
          seen.findIndex((one) => one[0] === name),
          1,
        )
        continue
      }
      try {
        await explained(`${path}/${name}`, () => this.#directory(child, `${path}/${name}`, depth + 1))
      } finally {
        await child.close()
      }
    }
    await before.save(seen)
  }

  /** Passes the attributes of the directory itself to the sink if they changed. Returns their stamp. */
  async #attributes(directory: DirectoryHandle, path: string, before: DirectoryIndex): Promise<string> {
    const stat = await directory.handle.stat({ bigint: true })
    const stamp = `${modeOf(stat).toString(8)}.${stat.mtimeNs}`
    if (before.seen.get(itself)?.[2] !== stamp)
      await this.#sink.directory(path || '/', { mode: modeOf(stat), mtimeMs: mtimeOf(stat) })
    return stamp
  }

  async #entry(
    directory: DirectoryHandle,
    { name, childPath, stat, before, read }: Entry,
  ): Promise<Seen | undefined> {
    const kind = letterOf(stat)
    if (kind === undefined) {
      this.#skipped++
      return undefined
    }
    const last = before.seen.get(name)
    if (last !== undefined && last[1] !== kind) {
      await this.#remove(childPath, last)
      before.seen.delete(name)
    }
    if (kind === 'd') return [name, kind, unknown]
    if (isSeen(last, kind, stat)) return last
    if (kind === 'l') return this.#symlink(directory, name, childPath, stat)
    const file = await this.#file(directory, name, childPath, read)
    if (file === undefined) return undefined
    this.#files++
    if (!file.stable) this.#unstable++
    this.#report(0)
    const known = file.stable && !this.#isFresh(file.stat)
    return [name, kind, known ? stampOf(file.stat) : unknown]
  }

  async #file(
    directory: DirectoryHandle,
    name: string,
    path: string,
    read: ReadAhead,
  ): Promise<ReadFile<unknown> | undefined> {
    const whole = await read.take(name)
    if (whole?.value === undefined)
      return readFile(directory, name, (content, stat) => this.#give(path, this.#counted(content), stat))
    this.#report(whole.value.length)
    await this.#give(path, whole.value, whole.stat)
    return whole
  }

  async #symlink(
    directory: DirectoryHandle,
    name: string,
    path: string,
    stat: BigIntStats,
  ): Promise<Seen | undefined> {
    const target = await directory.at(name, (at) =>
      unless(['ENOENT', 'EINVAL', 'ENOTDIR'], () => fs.readlink(at, { encoding: 'buffer' })),
    )
    if (target === undefined) return undefined
    if (!isUtf8(target)) {
      this.#skipped++
      return undefined
    }
    await this.#sink.symlink(path, target.toString(), { mtimeMs: mtimeOf(stat) })
    this.#files++
    this.#report(0)
    return [name, 'l', this.#isFresh(stat) ? unknown : stampOf(stat)]
  }

  async #give(path: string, content: ContentIn, stat: BigIntStats): Promise<void> {
    await this.#sink.file(path, content, { mode: modeOf(stat), mtimeMs: mtimeOf(stat) })
  }

  async *#counted(content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const piece of content) {
      this.#context.signal.throwIfAborted()
      this.#report(piece.length)
      yield piece
    }
  }

  async #remove(path: string, [, kind]: Seen): Promise<void> {
    await this.#sink.remove(path)
    if (kind === 'd') await DirectoryIndex.forget(this.#context.index, path)
  }

  #report(bytes: number): void {
    this.#bytes += bytes
    if (this.#bytes > hostLimits.totalBytes) throw overLimit('bytes', hostLimits.totalBytes)
    this.#context.onProgress({ bytesTransferred: this.#bytes, filesProcessed: this.#files })
  }

  #isFresh({ mtimeNs, ctimeNs }: BigIntStats): boolean {
    return isFresh(mtimeNs, this.#startedMs) || isFresh(ctimeNs, this.#startedMs)
  }
}

interface Entry {
  readonly name: string
  readonly childPath: string
  readonly stat: BigIntStats
  readonly before: DirectoryIndex
  readonly read: ReadAhead
}

function isSeen(last: Seen | undefined, kind: Seen[1], stat: BigIntStats): last is Seen {
  return last !== undefined && last[1] === kind && last[2] === stampOf(stat)
}

function letterOf(stat: BigIntStats): Seen[1] | undefined {
  const kind = kindOf(stat)
  return kind === 'other' ? undefined : kind === 'symlink' ? 'l' : kind === 'file' ? 'f' : 'd'
}

function checkPath(name: string, path: string): void {
  if (path.length * 3 > hostLimits.pathBytes && Buffer.byteLength(path) > hostLimits.pathBytes)
    throw overLimit('pathBytes', hostLimits.pathBytes)
  if (name.length * 3 > hostLimits.nameBytes && Buffer.byteLength(name) > hostLimits.nameBytes)
    throw overLimit('nameBytes', hostLimits.nameBytes)
}

function overLimit(limit: string, value: number, path?: string): EngineError {
  return new EngineError('LIMIT_EXCEEDED', `the directory exceeds the limit ${limit}, which is ${value}`, {
    limit: String(value),
    ...(path !== undefined && { path }),
  })
}
