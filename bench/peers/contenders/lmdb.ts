import { join } from 'node:path'
import type { Contender, Files, Store, Workspace } from '../contender.js'
import { loadPackage } from '../packages.js'
import { namesIn, rangeOf, workspaceNames } from './keys.js'

interface Database {
  readonly flushed: PromiseLike<unknown>
  put(key: string, value: Uint8Array): Promise<unknown>
  /** In a transaction, the synchronous calls belong to it. */
  putSync(key: string, value: Uint8Array): void
  remove(key: string): Promise<unknown>
  removeSync(key: string): unknown
  getBinary(key: string): Uint8Array | undefined
  getKeys(range: { start: string; end: string }): Iterable<string>
  transaction<T>(body: () => T): Promise<T>
  transactionSync<T>(body: () => T): T
  close(): Promise<void>
}

interface Lmdb {
  readonly open: (options: {
    path: string
    encoding: 'binary'
    noSync?: boolean
    overlappingSync?: boolean
  }) => Database
}

type Form = 'async' | 'sync'

export const lmdb: readonly Contender[] = [
  contender('async', false),
  contender('sync', false),
  contender('async', true),
  contender('sync', true),
]

function contender(form: Form, durable: boolean): Contender {
  const flush = durable
    ? form === 'async'
      ? 'A write waits for put and then for db.flushed.'
      : 'putSync with overlappingSync off, so that the commit itself waits for the disk.'
    : `noSync. ${form === 'async' ? 'A write waits for put.' : 'putSync.'}`
  return {
    name: `lmdb ${durable ? 'sync to disk' : 'noSync'}${form === 'sync' ? ', sync' : ''}`,
    family: 'lmdb',
    guarantee: durable ? 'survives power loss' : 'survives kill -9',
    settings: `${flush} Values are binary. The key is the workspace and the path. Reads are synchronous in both forms.`,
    async open(directory) {
      const { open } = await loadPackage<Lmdb>('lmdb')
      const mode = durable ? (form === 'sync' ? { overlappingSync: false } : {}) : { noSync: true }
      const database = open({ path: join(directory, 'files.lmdb'), encoding: 'binary', ...mode })
      return openStore(database, form, durable)
    },
  }
}

function openStore(database: Database, form: Form, durable: boolean): Store {
  const nextName = workspaceNames()
  const done = async (written: Promise<unknown>): Promise<void> => {
    await written
    if (durable) await database.flushed
  }
  const change = (body: () => void) =>
    form === 'sync' ? database.transactionSync(body) : done(database.transaction(body))

  const workspace = (id: string): Workspace => {
    const all = rangeOf(id)
    const keysIn = ({ from, to }: { from: string; to: string }): Iterable<string> =>
      database.getKeys({ start: from, end: to })
    const batch = (files: Files) =>
      change(() => {
        for (const [path, content] of files) database.putSync(id + path, content)
      })
    return {
      id,
      write:
        form === 'sync'
          ? (path, content) => database.putSync(id + path, content)
          : (path, content) => done(database.put(id + path, content)),
      read: (path) => database.getBinary(id + path)!,
      stat: (path) => database.getBinary(id + path)!.length,
      list(path) {
        const range = rangeOf(id, path)
        return namesIn(keysIn(range), range.from)
      },
      walk: () => Array.from(keysIn(all), (key) => key.slice(id.length)),
      append: (path, content) =>
        change(() => database.putSync(id + path, Buffer.concat([database.getBinary(id + path)!, content]))),
      remove: (path) =>
        form === 'sync' ? void database.removeSync(id + path) : done(database.remove(id + path)),
      batch,
      fill: batch,
      async copy() {
        const to = nextName()
        await change(() => {
          for (const key of keysIn(all)) database.putSync(to + key.slice(id.length), database.getBinary(key)!)
        })
        return workspace(to)
      },
      dispose: () =>
        change(() => {
          for (const key of Array.from(keysIn(all))) database.removeSync(key)
        }),
    }
  }
  return { create: () => workspace(nextName()), resume: workspace, close: () => database.close() }
}
