/** The memory of loaded tree nodes, on a store with asynchronous reads. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { dirname } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { UnloadedBody } from '../../src/engine/cas/body.js'
import { NodeCache } from '../../src/engine/tree/node-cache.js'
import { Dir, noAttributes } from '../../src/engine/tree/node.js'
import type { Storage } from '../../src/engine/ports.js'
import { endsPage } from '../../src/engine/tree/page.js'
import { memoryStorage, openEngine, type Session } from '../../src/index.js'

afterEach(() => {
  vi.restoreAllMocks()
})

/** A storage with asynchronous reads, like a database. It calls `onRead` before each read. */
const slowStorage = (onRead?: () => void): Storage => {
  const storage = memoryStorage({ durable: true, syncReads: false })
  return {
    async open() {
      const store = await storage.open()
      return new Proxy(store, {
        get(target, name) {
          const value: unknown = Reflect.get(target, name)
          if (typeof value !== 'function') return value
          const call = value.bind(target) as (...args: readonly unknown[]) => unknown
          if (name !== 'get') return call
          return async (...args: readonly unknown[]) => {
            onRead?.()
            await nextTurn()
            return call(...args)
          }
        },
      })
    },
  }
}

/** The smallest budget of an engine. Half of it is for nodes. */
const memoryBudgetBytes = 2 ** 20
const directories = 600
const workers = 8

type Files = Session['fs']['promises']

// Each call keeps the nodes that were loaded while it ran. A write may also save a session of 200 nodes.
test.each([
  {
    name: 'reads',
    call: (files: Files, directory: string) => files.readFile(`${directory}/1`, 'utf8'),
    mostBytes: memoryBudgetBytes,
  },
  {
    name: 'recursive lists',
    call: (files: Files, directory: string) => files.readdir(dirname(directory), { recursive: true }),
    mostBytes: memoryBudgetBytes,
  },
  {
    name: 'writes',
    call: (files: Files, directory: string) => files.writeFile(`${directory}/1`, directory),
    mostBytes: 5 * memoryBudgetBytes,
  },
])('$name that always overlap unload the nodes of earlier ones', async ({ call, mostBytes }) => {
  const storage = slowStorage()
  const engine = await openEngine({ storage })
  const ids: string[] = []
  for (let worker = 0; worker < workers; worker++) {
    const files: Record<string, string> = {}
    for (const directory of directoriesOf(worker))
      for (let i = 0; i < 6; i++) files[`${directory}/${i}`] = directory
    ids.push((await engine.sessions.create({ files })).id)
  }
  await engine.close()

  const add = vi.spyOn(NodeCache.prototype, 'add')
  const reopened = await openEngine({ storage, memoryBudgetBytes })
  const work = ids.map(async (id, worker) => {
    const files = (await reopened.sessions.open(id)).fs.promises
    for (const directory of directoriesOf(worker)) await call(files, directory)
  })
  const most = await mostBytesUntil(Promise.all(work), () => {
    const cache = add.mock.contexts.at(-1) as NodeCache | undefined
    return cache?.bytes ?? 0
  })
  const lastDirectory = directoriesOf(workers - 1).at(-1)
  const last = await reopened.sessions.open(ids[workers - 1] ?? '')
  expect(await last.fs.promises.readFile(`${lastDirectory}/1`, 'utf8')).toBe(lastDirectory)
  await reopened.close()
  expect(most).toBeGreaterThan(memoryBudgetBytes / 4)
  expect(most).toBeLessThan(mostBytes)
})

test('keeps the nodes of an operation until it ends, also if a later operation ends first', async () => {
  const cache = new NodeCache(1000)
  const nodes = [1, 2].map(() => new Dir(undefined, noAttributes, []))
  const releases = nodes.map((node) => {
    const release = cache.hold()
    cache.add(node, 1000)
    return release
  })
  const isLoaded = async (): Promise<boolean[]> => {
    await nextTurn()
    return nodes.map(({ pages }) => pages !== null)
  }
  expect(await isLoaded()).toEqual([true, true])
  releases[1]?.()
  expect(await isLoaded()).toEqual([true, true])
  releases[0]?.()
  expect(await isLoaded()).toEqual([false, false])
})

test.each(['read', 'batch', 'applyPatch'] as const)(
  'a call of %s holds the nodes that it loads, until its end',
  async (call) => {
    const storage = slowStorage()
    const engine = await openEngine({ storage })
    const files = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`/${i}/a`, `${i}\n`]))
    const { id } = await engine.sessions.create({ files })
    await engine.close()
    const reopened = await openEngine({ storage, memoryBudgetBytes })
    const session = await reopened.sessions.open(id)

    let held = 0
    const original = Reflect.get(NodeCache.prototype, 'hold')
    vi.spyOn(NodeCache.prototype, 'hold').mockImplementation(function (this: NodeCache) {
      const release = original.call(this)
      held++
      return () => {
        held--
        release()
      }
    })
    const heldAtAdd: number[] = []
    const add = Reflect.get(NodeCache.prototype, 'add')
    vi.spyOn(NodeCache.prototype, 'add').mockImplementation(function (this: NodeCache, ...given) {
      heldAtAdd.push(held)
      add.apply(this, given)
    })
    if (call === 'read') await session.files.read({ path: '/7/a' })
    else if (call === 'batch')
      await session.files.batch([{ delete: { path: '/7/a' } }, { delete: { path: '/9/a' } }])
    else await session.text.applyPatch({ patch: '--- a/7/a\n+++ b/7/a\n@@ -1 +1 @@\n-7\n+8\n' })
    expect(Math.min(...heldAtAdd)).toBeGreaterThan(0)
    expect(held).toBe(0)
    await reopened.close()
  },
)

test('reads that find everything at once leave turns in which nodes are unloaded', async () => {
  const storage = memoryStorage({ durable: true })
  const engine = await openEngine({ storage })
  const made = Array.from({ length: workers }, (_, worker) =>
    engine.sessions.create({
      files: Object.fromEntries(directoriesOf(worker).map((path) => [`${path}/1`, path])),
    }),
  )
  const ids = (await Promise.all(made)).map(({ id }) => id)
  await engine.close()

  const add = vi.spyOn(NodeCache.prototype, 'add')
  const reopened = await openEngine({ storage, memoryBudgetBytes })
  let most = 0
  for (const [worker, id] of ids.entries()) {
    const session = await reopened.sessions.open(id)
    const view = await session.at({})
    for (const directory of directoriesOf(worker)) {
      await session.fs.promises.readFile(`${directory}/1`)
      await view.files.stat({ path: `${directory}/1` })
      const cache = add.mock.contexts.at(-1) as NodeCache | undefined
      most = Math.max(most, cache?.bytes ?? 0)
    }
  }
  await reopened.close()
  expect(most).toBeGreaterThan(memoryBudgetBytes / 4)
  expect(most).toBeLessThan(memoryBudgetBytes)
})

// Each block of 64 KiB has one byte, so the list of the blocks takes far more memory than the content.
test('the lists of blocks of sparse files leave memory, after changes and after reads', async () => {
  const storage = slowStorage()
  const add = vi.spyOn(NodeCache.prototype, 'add')
  const engine = await openEngine({ storage, memoryBudgetBytes })
  const session = await engine.sessions.create()
  const content = new Uint8Array([1])
  const segments = Array.from({ length: 4000 }, (_, i) => ({ data: { offset: i * 100_000, content } }))
  const paths = Array.from({ length: 12 }, (_, i) => `/${i}`)
  for (const path of paths) await session.files.patchSegments({ mutations: [{ path, segments }] })
  await nextTurn()
  expect(loadedBodies(add.mock.calls)).toBeLessThan(paths.length / 2)
  await engine.close()

  add.mockClear()
  const reopened = await openEngine({ storage, memoryBudgetBytes })
  const { files } = await reopened.sessions.open(session.id)
  for (const path of paths) {
    const read = await files.read({ path, offset: 399_900_000, length: 1 })
    expect([...read]).toEqual([1])
  }
  await nextTurn()
  expect(loadedBodies(add.mock.calls)).toBeLessThan(paths.length / 2)
  await reopened.close()
})

test('the manifest of a hard-linked file with blocks that exceed the memory budget ends', async () => {
  const content = new Uint8Array([1])
  const segments = Array.from({ length: 6000 }, (_, i) => ({ data: { offset: i * 20_000, content } }))
  const mutations = ['/a', '/b'].map((path) => ({ path, segments }))
  const storage = memoryStorage({ durable: true })
  const engine = await openEngine({ storage })
  const copies = await engine.sessions.create()
  await copies.files.patchSegments({ mutations })
  const { manifestHash } = await copies.manifest()
  const session = await engine.sessions.create()
  await session.files.patchSegments({ mutations: mutations.slice(0, 1) })
  await session.files.link({ srcPath: '/a', dstPath: '/b' })
  await session.checkpoint()
  await engine.collect()
  await engine.close()

  const reopened = await openEngine({ storage, memoryBudgetBytes })
  const again = await reopened.sessions.open(session.id)
  expect((await again.manifest()).manifestHash).toBe(manifestHash)
  await reopened.close()
})

test('a diff of two pages that exceed the memory budget together ends', async () => {
  let reads = 0
  const storage = slowStorage(() => {
    // Each pause of the diff may unload both pages.
    if (++reads > 10_000) throw new Error('the diff reads the same pages again and again')
  })
  const engine = await openEngine({ storage })
  const names = longNames(2000)
  const made = ['before', 'after'].map(async (content) => {
    const files = Object.fromEntries(names.map((name) => [`/${name}`, content]))
    return (await engine.sessions.create({ files })).id
  })
  const [before, after] = await Promise.all(made)
  await engine.close()

  const reopened = await openEngine({ storage, memoryBudgetBytes })
  const open = (id: string | undefined): Promise<Session> => reopened.sessions.open(id ?? '')
  const [left, right] = [await open(before), await open(after)]
  const { modified } = await right.diff(left).paths()
  expect(modified).toHaveLength(names.length)
  await reopened.close()
})

test('a bundle with a page that exceeds the memory budget is imported', async () => {
  const engine = await openEngine({ storage: slowStorage(), memoryBudgetBytes })
  const files = Object.fromEntries(longNames(1500).map((name) => [`/${name}`, name]))
  const session = await engine.sessions.create({ files })
  // The bundle has this page in several parts.
  const copy = await engine.sessions.importBundle(session.exportBundle())
  expect((await copy.manifest()).manifestHash).toBe((await session.manifest()).manifestHash)
  await engine.close()
})

/** The number of files whose blocks are loaded, among those that were counted. At least one was. */
function loadedBodies(calls: readonly Parameters<NodeCache['add']>[]): number {
  const bodies = new Set(calls.map(([node]) => node).filter((node) => node instanceof UnloadedBody))
  expect(bodies.size).toBeGreaterThan(0)
  return [...bodies].filter(({ body }) => body !== null).length
}

/** Names of which none ends a page, so that each page has 1,024 of them. */
function longNames(count: number): string[] {
  const names = Array.from({ length: count }, (_, i) => `${i}`.padStart(250, '0'))
  return names.filter((name) => !endsPage(name))
}

function directoriesOf(worker: number): string[] {
  return Array.from({ length: directories / workers }, (_, i) => `/${worker}/${i % 10}/${i}`)
}

/** The most bytes that `bytes` returns in a turn of the event loop before `end`. */
async function mostBytesUntil(end: Promise<unknown>, bytes: () => number): Promise<number> {
  let ended = false
  const ending = end.finally(() => {
    ended = true
  })
  let most = 0
  for (; !ended; await nextTurn()) most = Math.max(most, bytes())
  await ending
  return most
}
