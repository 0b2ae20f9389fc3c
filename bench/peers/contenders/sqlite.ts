import { join } from 'node:path'
import type { Contender, Guarantee, Store, Workspace } from '../contender.js'
import { loadPackage } from '../packages.js'
import { namesIn, rangeOf, workspaceNames } from './keys.js'

interface Statement {
  run(...values: readonly unknown[]): unknown
  get(...values: readonly unknown[]): unknown
  all(...values: readonly unknown[]): unknown[]
  pluck(): Statement
}

interface Database {
  pragma(text: string): unknown
  exec(sql: string): unknown
  prepare(sql: string): Statement
  transaction<Argument>(body: (argument: Argument) => void): (argument: Argument) => void
  close(): unknown
}

export const sqlite: readonly Contender[] = [
  contender('better-sqlite3 :memory:', 'memory', undefined),
  contender('better-sqlite3 WAL, NORMAL', 'survives kill -9', 'NORMAL'),
  contender('better-sqlite3 WAL, FULL', 'survives power loss', 'FULL'),
]

function contender(name: string, guarantee: Guarantee, synchronous: string | undefined): Contender {
  const file = synchronous && `journal_mode = WAL and synchronous = ${synchronous}, `
  return {
    name,
    family: 'better-sqlite3',
    guarantee,
    settings: `Synchronous calls. ${file ? `A file with ${file}o` : 'O'}ne table from path to content with prepared statements. The name of the workspace is the start of the path.`,
    outsideHeap: true,
    async open(directory) {
      const { default: Sqlite } = await loadPackage<{ default: new (path: string) => Database }>(
        'better-sqlite3',
      )
      const database = new Sqlite(synchronous === undefined ? ':memory:' : join(directory, 'files.db'))
      if (synchronous !== undefined) {
        database.pragma('journal_mode = WAL')
        database.pragma(`synchronous = ${synchronous}`)
      }
      return openStore(database, synchronous !== undefined)
    },
  }
}

function openStore(database: Database, durable: boolean): Store {
  database.exec(
    'CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID',
  )
  const put = database.prepare(
    'INSERT INTO files VALUES (?, ?) ON CONFLICT (path) DO UPDATE SET content = excluded.content',
  )
  const get = database.prepare('SELECT content FROM files WHERE path = ?').pluck()
  const size = database.prepare('SELECT length(content) FROM files WHERE path = ?').pluck()
  const keys = database.prepare('SELECT path FROM files WHERE path >= ? AND path < ?').pluck()
  const append = database.prepare('UPDATE files SET content = CAST(content || ? AS BLOB) WHERE path = ?')
  const remove = database.prepare('DELETE FROM files WHERE path = ?')
  const removeAll = database.prepare('DELETE FROM files WHERE path >= ? AND path < ?')
  const copyAll = database.prepare(
    'INSERT INTO files SELECT ? || substr(path, ?), content FROM files WHERE path >= ? AND path < ?',
  )
  const nextName = workspaceNames()

  const workspace = (id: string): Workspace => {
    const all = rangeOf(id)
    const putAll = database.transaction((files: readonly (readonly [string, Uint8Array])[]) => {
      for (const [path, content] of files) put.run(id + path, content)
    })
    return {
      id,
      write: (path, content) => void put.run(id + path, content),
      read: (path) => get.get(id + path) as Uint8Array,
      stat: (path) => size.get(id + path) as number,
      list(path) {
        const { from, to } = rangeOf(id, path)
        return namesIn(keys.all(from, to) as string[], from)
      },
      walk: () => (keys.all(all.from, all.to) as string[]).map((key) => key.slice(id.length)),
      append: (path, content) => void append.run(content, id + path),
      remove: (path) => void remove.run(id + path),
      batch: (files) => putAll(files),
      fill: (files) => putAll(files),
      copy() {
        const to = nextName()
        copyAll.run(to, id.length + 1, all.from, all.to)
        return workspace(to)
      },
      dispose: () => void removeAll.run(all.from, all.to),
    }
  }
  return {
    create: () => workspace(nextName()),
    ...(durable && { resume: workspace }),
    close: () => void database.close(),
  }
}
