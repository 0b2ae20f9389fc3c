import type { Disk, DiskFile } from '../../src/adapters/level/directory/disk.js'
import { systemFailure } from './hooked-disk.js'
import { SimFile } from './sim-file.js'

type Node = SimFile | SimDirectory
/** A name is given another node, or removed. */
type Change = readonly (readonly [name: string, node: Node | undefined])[]

class SimDirectory {
  readonly names = new Map<string, Node>()
  readonly #durable = new Map<string, Node>()
  #pending: Change[] = []
  readonly #random: () => number

  constructor(random: () => number) {
    this.#random = random
  }

  change(change: Change): void {
    this.#pending.push(change)
    apply(this.names, change)
  }

  sync(): void {
    for (const change of this.#pending.splice(0)) apply(this.#durable, change)
  }

  /** Keeps unsynced changes up to a random point, or each of them at random. */
  losePower(): void {
    const anyOfThem = this.#random() % 2 === 0
    const upTo = this.#random() % (this.#pending.length + 1)
    for (const [index, change] of this.#pending.splice(0).entries())
      if (anyOfThem ? this.#random() % 2 === 0 : index < upTo) apply(this.#durable, change)
    this.names.clear()
    for (const [name, node] of this.#durable) this.names.set(name, node)
    for (const node of this.names.values()) node.losePower()
  }
}

function apply(names: Map<string, Node>, change: Change): void {
  for (const [name, node] of change) {
    if (node === undefined) names.delete(name)
    else names.set(name, node)
  }
}

/**
 * A disk in memory that keeps only synced data over a power cut. Of the rest it keeps a random part: names that were
 * created, renamed or removed in a directory since its last sync, and writes, whole, partial or missing. Everything,
 * including the order in which calls settle, follows from the random numbers.
 */
export class SimDisk {
  readonly #random: () => number
  readonly #root: SimDirectory
  #life = {}

  constructor(random: () => number) {
    this.#random = random
    this.#root = new SimDirectory(random)
  }

  /** Ends all work in progress: calls on disks mounted earlier never settle. */
  crash(kind: 'process' | 'power'): void {
    this.#life = {}
    if (kind === 'power') this.#root.losePower()
  }

  /** The disk as one process sees it, at its own path. */
  mount(at: string): Disk {
    const life = this.#life
    const alive = (): boolean => life === this.#life
    const turn = async <Result>(run: () => Result): Promise<Result> => {
      for (let turns = this.#random() % 4; turns >= 0; turns--) await Promise.resolve()
      if (!alive()) return never()
      return run()
    }
    const directory = (path: string): SimDirectory => {
      const node = this.#find(parts(at, path))
      if (node instanceof SimDirectory) return node
      throw systemFailure('ENOENT', path)
    }
    const parent = (path: string): readonly [SimDirectory, string] => {
      const names = parts(at, path)
      const node = this.#find(names.slice(0, -1))
      if (node instanceof SimDirectory) return [node, names.at(-1)!]
      throw systemFailure('ENOENT', path)
    }
    return {
      list: (path) =>
        turn(() => {
          const node = this.#find(parts(at, path))
          return node instanceof SimDirectory ? [...node.names.keys()] : []
        }),
      makeDirectory: (path) => turn(() => this.#makeDirectory(parts(at, path))),
      open: (path, mode) =>
        turn(() => {
          const [folder, name] = parent(path)
          let node = folder.names.get(name)
          if (mode === 'create') {
            if (node !== undefined) throw systemFailure('EEXIST', path)
            node = new SimFile(this.#random)
            folder.change([[name, node]])
          }
          if (!(node instanceof SimFile)) throw systemFailure('ENOENT', path)
          return openFile(node, { writable: mode !== 'read', turn, alive })
        }),
      rename: (from, to) =>
        turn(() => {
          const [source, name] = parent(from)
          const [target, newName] = parent(to)
          const node = source.names.get(name)
          if (node === undefined) throw systemFailure('ENOENT', from)
          if (source !== target) throw new Error('renamed from one directory to another')
          source.change([
            [name, undefined],
            [newName, node],
          ])
        }),
      remove: (path) =>
        turn(() => {
          const [folder, name] = parent(path)
          if (!folder.names.has(name)) throw systemFailure('ENOENT', path)
          folder.change([[name, undefined]])
        }),
      syncDirectory: (path) => turn(() => directory(path).sync()),
    }
  }

  #find(names: readonly string[]): Node | undefined {
    let node: Node | undefined = this.#root
    for (const name of names) node = node instanceof SimDirectory ? node.names.get(name) : undefined
    return node
  }

  #makeDirectory(names: readonly string[]): void {
    let node = this.#root
    for (const name of names) {
      const found = node.names.get(name)
      if (found instanceof SimFile) throw systemFailure('EEXIST', name)
      const next = found ?? new SimDirectory(this.#random)
      if (found === undefined) {
        node.change([[name, next]])
        node.sync()
      }
      node = next
    }
  }
}

interface Process {
  readonly writable: boolean
  readonly turn: <Result>(run: () => Result) => Promise<Result>
  readonly alive: () => boolean
}

function openFile(file: SimFile, { writable, turn, alive }: Process): DiskFile & { failSync(): void } {
  let open = true
  const read = (position: number, length: number): Uint8Array => {
    if (!open) throw systemFailure('EBADF', 'read')
    return Uint8Array.prototype.slice.call(file.bytes, position, position + length)
  }
  const change = (run: () => void): Promise<void> =>
    turn(() => {
      if (!open || !writable) throw systemFailure('EBADF', 'write')
      run()
    })
  return {
    size: () => turn(() => file.bytes.length),
    read: (position, length) => turn(() => read(position, length)),
    readSync: (position, length) => {
      if (!alive()) throw new Error('the process has ended')
      return read(position, length)
    },
    write: (position, pieces) => {
      const bytes = Buffer.concat(pieces)
      return change(() => file.write(position, bytes))
    },
    truncate: (size) => change(() => file.truncate(size)),
    sync: () => turn(() => file.sync()),
    failSync: () => file.failSync(),
    close: () =>
      turn(() => {
        open = false
      }),
  }
}

function parts(at: string, path: string): string[] {
  if (path !== at && !path.startsWith(`${at}/`)) throw new Error(`${path} is not below ${at}`)
  return path
    .slice(at.length)
    .split('/')
    .filter((name) => name !== '')
}

function never(): Promise<never> {
  return new Promise(() => {})
}
