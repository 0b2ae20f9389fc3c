import type { Session } from 'forkspace'
import type { Contender, Files, LargeFile, Store, Workspace } from '../contender.js'
import { promiseWorkspace, syncWorkspace } from './fs-calls.js'

const calls = 'Files use session.fs.promises. Patches use patchSegments, batches use files.batch.'

export const forkspace: readonly Contender[] = [
  {
    name: 'forkspace memory',
    family: 'forkspace',
    guarantee: 'memory',
    settings: calls,
    open: () => inMemory(whole),
  },
  {
    name: 'forkspace memory, sync',
    family: 'forkspace',
    guarantee: 'memory',
    settings: 'The synchronous calls of session.fs.',
    open: () => inMemory((session) => syncWorkspace(session.fs)),
  },
  {
    name: 'forkspace relaxed',
    family: 'forkspace',
    guarantee: 'survives kill -9',
    settings: `levelStorage with durability 'relaxed'. ${calls}`,
    open: (directory) => onDisk(directory, 'relaxed'),
  },
  {
    name: 'forkspace full',
    family: 'forkspace',
    guarantee: 'survives power loss',
    settings: `levelStorage with durability 'full', the default. ${calls}`,
    open: (directory) => onDisk(directory, 'full'),
  },
]

type Calls = (session: Session) => Workspace

/** Imports are in functions, so that the processes of other contenders do not load the library. */
async function inMemory(of: Calls): Promise<Store> {
  const { openEngine } = await import('forkspace')
  const engine = await openEngine()
  return {
    create: async () => workspace(await engine.sessions.create(), of),
    close: () => engine.close(),
  }
}

async function onDisk(directory: string, durability: 'full' | 'relaxed'): Promise<Store> {
  const { openEngine } = await import('forkspace')
  const { levelStorage } = await import('forkspace/level')
  const engine = await openEngine({ storage: levelStorage(directory, { durability }) })
  return {
    create: async () => workspace(await engine.sessions.create(), whole),
    resume: async (id) => workspace(await engine.sessions.open(id), whole),
    close: () => engine.close(),
  }
}

function workspace(session: Session, of: Calls): Workspace {
  return { ...of(session), id: session.id, dispose: () => session.delete() }
}

function whole(session: Session): Workspace {
  const { files } = session
  const batch = (all: Files): Promise<unknown> =>
    files.batch(all.map(([path, content]) => ({ write: { path, content } })))
  const fork = async (): Promise<Workspace> => workspace(await session.fork(), whole)
  return {
    ...promiseWorkspace(session.fs.promises),
    batch,
    fork,
    copy: fork,
    checkpoint: async () => (await session.checkpoint()).id,
    restore: (checkpointId) => session.restore({ checkpointId: checkpointId as string }),
    async fill(all) {
      const atOnce = 500
      for (let from = 0; from < all.length; from += atOnce) await batch(all.slice(from, from + atOnce))
    },
    async openLarge(path, bytes): Promise<LargeFile> {
      await session.fs.promises.writeFile(path, '')
      await session.fs.promises.truncate(path, bytes)
      return {
        patch: (offset, content) =>
          files.patchSegments({ mutations: [{ path, segments: [{ data: { offset, content } }] }] }),
        read: (offset, length) => files.read({ path, offset, length }),
      }
    },
  }
}
