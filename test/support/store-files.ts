import { open, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { salvageFrames } from '../../src/adapters/level/tools/frame-salvage.js'
import { nodeDisk } from '../../src/adapters/level/directory/node-disk.js'
import { frameSeed, segmentHeaderBytes } from '../../src/adapters/level/log/segment-format.js'
import { StoredFiles } from '../../src/adapters/level/tools/stored-files.js'
import { openLevelStore } from '../../src/adapters/level/open-level-store.js'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openEngine, type Engine, type Storage } from '../../src/index.js'
import { sha256 } from '../../src/engine/base/hash.js'
import { randomBytes } from './random-bytes.js'

/** Every file in a directory at any depth, by name, with the hash of its bytes. */
export async function filesOf(directory: string): Promise<Record<string, string>> {
  const files: Record<string, string> = {}
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name)
    if (entry.isFile()) files[path.slice(directory.length + 1)] = sha256(await readFile(path))
    else files[path.slice(directory.length + 1)] = 'directory'
  }
  return Object.fromEntries(Object.entries(files).sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** A storage with small segments, so that it has several. */
export function smallSegments(directory: string, segmentBytes = 64 * 1024): Storage {
  return { open: () => openLevelStore(directory, { durability: 'relaxed', segmentBytes }) }
}

export interface FilledStore {
  readonly first: string
  readonly second: string
  readonly fork: string
}

/** Fills a store with one of each kind of session data. */
export async function fillStore(directory: string): Promise<FilledStore> {
  const engine = await openEngine({ storage: smallSegments(directory) })
  try {
    const files: Record<string, string | Uint8Array> = {
      '/docs/a.txt': 'one',
      '/docs/big': randomBytes(3 * 2 ** 20, 'big'),
    }
    for (let i = 0; i < 250; i++) files[`/many/f${i}`] = `content ${i}`
    for (let i = 0; i < 20; i++) files[`/some/d${i}/file`] = randomBytes(5000, `file ${i}`)
    const first = await engine.sessions.create({ files, initialTags: { name: 'first' } })
    const second = await engine.sessions.create({ files: { '/only.txt': 'only here' } })
    for (let i = 0; i < 40; i++)
      await first.files.write({
        path: `/new/n${i}`,
        content: randomBytes(900, `new ${i}`),
        createParents: true,
      })
    await first.checkpoint({ checkpointLabel: 'then' })
    await first.files.write({ path: '/docs/a.txt', content: 'one again' })
    await first.fs.promises.link('/new/n1', '/new/linked')
    await first.fs.promises.symlink('a.txt', '/docs/link')
    await first.files.setXattr({ path: '/docs/a.txt', name: 'user.note', value: Buffer.from('a note') })
    await first.cache.put({ key: 'cached', value: randomBytes(20_000, 'cached') })
    const fork = await first.fork()
    for (let i = 0; i < 10; i++) {
      await fork.files.write({
        path: `/forked/${i}`,
        content: randomBytes(3000, `forked ${i}`),
        createParents: true,
      })
      await second.files.write({
        path: `/second/${i}`,
        content: randomBytes(3000, `second ${i}`),
        createParents: true,
      })
    }
    await second.checkpoint({ checkpointLabel: 'early' })
    await second.fs.promises.rename('/second/3', '/second/moved')
    await second.restore({ checkpointLabel: 'early' })
    await second.files.write({ path: '/second/late', content: randomBytes(4000, 'late') })
    await first.files.delete({ path: '/many/f7' })
    return { first: first.id, second: second.id, fork: fork.id }
  } finally {
    await engine.close()
  }
}

/** The contents of every session by path, including symlink targets and attributes. */
export async function contentsOf(storage: Storage | string): Promise<Map<string, Map<string, string>>> {
  const opened = typeof storage === 'string' ? levelStorage(storage, { durability: 'relaxed' }) : storage
  const engine = await openEngine({ storage: opened })
  try {
    return await sessionContents(engine)
  } finally {
    await engine.close()
  }
}

async function sessionContents(engine: Engine): Promise<Map<string, Map<string, string>>> {
  const sessions = new Map<string, Map<string, string>>()
  const { sessions: found } = await engine.sessions.list()
  for (const { id } of found) {
    const session = await engine.sessions.open(id)
    const contents = new Map<string, string>()
    const walk = async (directory: string): Promise<void> => {
      for (const entry of await session.fs.promises.readdir(directory, { withFileTypes: true })) {
        const path = directory === '/' ? `/${entry.name}` : `${directory}/${entry.name}`
        if (entry.isDirectory()) {
          const { mode } = await session.fs.promises.stat(path)
          contents.set(path, `directory ${mode}`)
          await walk(path)
        } else if (entry.isSymbolicLink()) contents.set(path, await session.fs.promises.readlink(path))
        else {
          const { mode, nlink } = await session.fs.promises.stat(path)
          contents.set(path, `${mode} ${nlink} ${sha256(await session.files.read({ path }))}`)
        }
      }
    }
    await walk('/')
    sessions.set(id, contents)
  }
  return sessions
}

export interface StoredEntry {
  readonly path: string
  readonly offset: number
  readonly length: number
  readonly kind: number
  /** The key in the index. */
  readonly key: string
}

/** The location of every entry in the segments of a store. */
export async function entriesOf(directory: string): Promise<StoredEntry[]> {
  const files = await StoredFiles.open(nodeDisk, directory)
  const found: StoredEntry[] = []
  try {
    for (const { file } of files.segments) {
      const range = { from: segmentHeaderBytes, to: file.end, dataEnd: file.end, before: undefined }
      const path = join(directory, 'segments', file.name)
      for await (const { offset, entries } of salvageFrames(file, range, frameSeed(files.storeId)))
        for (const { kind, key, at, length } of entries)
          found.push({ path, offset: offset + at, length, kind, key })
    }
  } finally {
    await files.close()
  }
  return found
}

/** Flips a byte of a file. */
export async function flip(path: string, offset: number): Promise<void> {
  const file = await open(path, 'r+')
  try {
    const bytes = Buffer.alloc(1)
    await file.read(bytes, 0, 1, offset)
    bytes[0]! ^= 0x40
    await file.write(bytes, 0, 1, offset)
  } finally {
    await file.close()
  }
}
