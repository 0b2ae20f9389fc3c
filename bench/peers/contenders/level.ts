import type { Contender, Files, Store, Workspace } from '../contender.js'
import { namesIn, rangeOf, workspaceNames } from './keys.js'

const settings =
  'Views as values. The key is the workspace and the path. An append reads the value and puts it again.'

export const level: readonly Contender[] = [
  {
    name: 'classic-level',
    family: 'classic-level',
    guarantee: 'survives kill -9',
    settings: `Writes with sync: false. ${settings}`,
    open: (directory) => openStore(directory, false),
  },
  {
    name: 'classic-level sync',
    family: 'classic-level',
    guarantee: 'survives power loss',
    settings: `Writes with sync: true. ${settings}`,
    open: (directory) => openStore(directory, true),
  },
]

async function openStore(directory: string, sync: boolean): Promise<Store> {
  const { ClassicLevel } = await import('classic-level')
  const database = new ClassicLevel<string, Uint8Array>(directory, { valueEncoding: 'view' })
  await database.open()
  const nextName = workspaceNames()

  const workspace = (id: string): Workspace => {
    const { from, to } = rangeOf(id)
    const all = { gte: from, lt: to }
    const batch = (files: Files): Promise<void> =>
      database.batch(
        files.map(([path, value]) => ({ type: 'put', key: id + path, value })),
        { sync },
      )
    return {
      id,
      write: (path, content) => database.put(id + path, content, { sync }),
      read: async (path) => (await database.get(id + path))!,
      stat: async (path) => (await database.get(id + path))!.length,
      async list(path) {
        const range = rangeOf(id, path)
        return namesIn(await database.keys({ gte: range.from, lt: range.to }).all(), range.from)
      },
      walk: async () => (await database.keys(all).all()).map((key) => key.slice(id.length)),
      async append(path, content) {
        await database.put(id + path, Buffer.concat([(await database.get(id + path))!, content]), { sync })
      },
      remove: (path) => database.del(id + path, { sync }),
      batch,
      fill: batch,
      async copy() {
        const name = nextName()
        const entries = await database.iterator(all).all()
        await database.batch(
          entries.map(([key, value]) => ({ type: 'put', key: name + key.slice(id.length), value })),
          { sync },
        )
        return workspace(name)
      },
      dispose: () => database.clear(all),
    }
  }
  return { create: () => workspace(nextName()), resume: workspace, close: () => database.close() }
}
