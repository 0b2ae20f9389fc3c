import * as fs from 'node:fs'
import { join } from 'node:path'
import type { Contender, Guarantee, LargeFile, Store, Workspace } from '../contender.js'

const logBytes = 2 ** 26
const recordBytes = 100

/** The scenarios that a guarantee makes more expensive. Memory is the limit of the others, on disk too. */
const changes = [
  'write',
  'overwrite',
  'append',
  'patch',
  'batch',
  'delete',
  'fork',
  'copy',
  'checkpoint',
  'restore',
  'writers',
]

/** What each guarantee needs from the machine. A store can only do more. */
export const limits: readonly Contender[] = [
  {
    name: 'limit: Map',
    family: 'limit',
    guarantee: 'memory',
    limit: true,
    settings: 'A Map from path to a copy of the bytes. A fork or checkpoint is a Map over the one before it.',
    open: async () => ({ create: () => inMap(new Layer()), close: () => {} }),
  },
  onDisk('limit: pwrite', 'survives kill -9', () => {}),
  onDisk('limit: pwrite and fdatasync', 'survives power loss', (fd) => fs.fdatasyncSync(fd)),
]

/** The files that a workspace wrote since its fork or its last checkpoint. */
class Layer<Value> {
  readonly files = new Map<string, Value>()
  readonly parent: Layer<Value> | undefined

  constructor(parent?: Layer<Value>) {
    this.parent = parent
  }

  get(path: string): Value | undefined {
    return this.files.get(path) ?? this.parent?.get(path)
  }

  /** A state that no later write changes, and the layer for later writes. */
  freeze(): { state: Layer<Value>; next: Layer<Value> } {
    if (this.files.size === 0 && this.parent !== undefined) return { state: this.parent, next: this }
    return { state: this, next: new Layer(this) }
  }
}

function inMap(start: Layer<Buffer>): Workspace {
  let layer = start
  const lists = new Map<string, string[]>()
  /** The files of the last appends. Any other change of a file removes it. */
  const grown = new Map<string, { bytes: Buffer; length: number }>()
  const set = (path: string, content: Uint8Array): void => {
    grown.delete(path)
    layer.files.set(path, Buffer.from(content))
  }
  return {
    write: set,
    read: (path) => Buffer.from(layer.get(path)!),
    stat: (path) => layer.get(path)!.length,
    /** The first call makes the list. Later ones copy it. */
    list(path) {
      let names = lists.get(path)
      if (names === undefined) {
        const below = `${path}/`
        names = [...layer.files.keys()].filter((key) => key.startsWith(below))
        names = names.map((key) => key.slice(below.length))
        lists.set(path, names)
      }
      return [...names]
    },
    walk: () => [...layer.files.keys()],
    append(path, content) {
      let file = grown.get(path)
      if (file === undefined) {
        const bytes = Buffer.from(layer.get(path)!)
        grown.set(path, (file = { bytes, length: bytes.length }))
      }
      const length = file.length + content.length
      // Doubles the space, so that most appends copy only their own bytes.
      if (length > file.bytes.length) file.bytes = Buffer.concat([file.bytes, Buffer.alloc(length)])
      file.bytes.set(content, file.length)
      file.length = length
      layer.files.set(path, file.bytes.subarray(0, length))
    },
    remove(path) {
      grown.delete(path)
      layer.files.delete(path)
    },
    batch(files) {
      for (const [path, content] of files) set(path, content)
    },
    fork() {
      const { state, next } = layer.freeze()
      layer = next
      return inMap(new Layer(state))
    },
    copy() {
      const copy = new Layer<Buffer>()
      for (const [path, content] of layer.files) copy.files.set(path, Buffer.from(content))
      return inMap(copy)
    },
    checkpoint() {
      const { state, next } = layer.freeze()
      layer = next
      return state
    },
    restore(checkpoint) {
      grown.clear()
      layer = new Layer(checkpoint as Layer<Buffer>)
    },
    openLarge(_path, bytes) {
      const content = Buffer.alloc(bytes)
      return {
        patch: (offset, part) => content.set(part, offset),
        read: (offset, length) => Buffer.from(content.subarray(offset, offset + length)),
      }
    },
  }
}

function onDisk(name: string, guarantee: Guarantee, flush: (fd: number) => void): Contender {
  const calls = name.slice('limit: '.length)
  return {
    name,
    family: 'limit',
    guarantee,
    limit: true,
    only: changes,
    settings: `One ${calls} of the bytes of an operation, into a file of ${logBytes / 2 ** 20} MiB that exists already. A fork, checkpoint, restore or removal writes ${recordBytes} B. An index in memory finds the bytes.`,
    open: async (directory) => openLog(directory, flush),
  }
}

interface Place {
  readonly offset: number
  readonly length: number
}

function openLog(directory: string, flush: (fd: number) => void): Store {
  const fd = openFilled(join(directory, 'log'), logBytes)
  const record = Buffer.alloc(recordBytes, 1)
  let end = 0
  const put = (content: Uint8Array): Place => {
    const offset = end + content.length > logBytes ? 0 : end
    fs.writeSync(fd, content, 0, content.length, offset)
    flush(fd)
    end = offset + content.length
    return { offset, length: content.length }
  }
  const read = ({ offset, length }: Place): Buffer => {
    const content = Buffer.allocUnsafe(length)
    fs.readSync(fd, content, 0, length, offset)
    return content
  }

  const workspace = (start: Layer<Place>): Workspace => {
    let layer = start
    return {
      write(path, content) {
        layer.files.set(path, put(content))
      },
      read: (path) => read(layer.get(path)!),
      append(path, content) {
        const { offset, length } = layer.get(path)!
        put(content)
        layer.files.set(path, { offset, length: length + content.length })
      },
      remove(path) {
        layer.files.delete(path)
        put(record)
      },
      batch(files) {
        let { offset } = put(Buffer.concat(files.map(([, content]) => content)))
        for (const [path, { length }] of files) {
          layer.files.set(path, { offset, length })
          offset += length
        }
      },
      fork() {
        put(record)
        const { state, next } = layer.freeze()
        layer = next
        return workspace(new Layer(state))
      },
      copy() {
        const copy = new Layer<Place>()
        for (const [path, place] of layer.files) copy.files.set(path, put(read(place)))
        return workspace(copy)
      },
      checkpoint() {
        put(record)
        const { state, next } = layer.freeze()
        layer = next
        return state
      },
      restore(checkpoint) {
        put(record)
        layer = new Layer(checkpoint as Layer<Place>)
      },
      openLarge(_path, bytes): LargeFile {
        const large = openFilled(join(directory, 'large'), bytes)
        return {
          patch(offset, content) {
            fs.writeSync(large, content, 0, content.length, offset)
            flush(large)
          },
          read(offset, length) {
            const content = Buffer.allocUnsafe(length)
            fs.readSync(large, content, 0, length, offset)
            return content
          },
        }
      },
    }
  }
  return { create: () => workspace(new Layer()), close: () => fs.closeSync(fd) }
}

/** Opens a file of zeros that are on the disk, so that a later write allocates nothing. */
function openFilled(path: string, bytes: number): number {
  const fd = fs.openSync(path, 'w+')
  const block = Buffer.alloc(Math.min(bytes, 2 ** 20))
  for (let at = 0; at < bytes; at += block.length) fs.writeSync(fd, block, 0, block.length, at)
  fs.fdatasyncSync(fd)
  return fd
}
