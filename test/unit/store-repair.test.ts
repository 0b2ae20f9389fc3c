import {
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  backupStore,
  checkStore,
  levelStorage,
  repairStore,
  type StoreCheck,
  type StoreRepair,
} from '../../src/adapters/level/index.js'
import { sha256 } from '../../src/engine/base/hash.js'
import { encodeSeq, keys, limits, prefixEnd } from '../../src/engine/ports.js'
import { openEngine } from '../../src/index.js'
import { randomBytes } from '../support/random-bytes.js'
import { isLong, runs, seed, size } from '../support/seed.js'
import {
  contentsOf,
  entriesOf,
  filesOf,
  fillStore,
  flip,
  smallSegments,
  type FilledStore,
  type StoredEntry,
} from '../support/store-files.js'

let root: string
let healthy: string
let ids: FilledStore
let entries: readonly StoredEntry[]
let twin: Map<string, Map<string, string>>

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'forkspace-repair-'))
  healthy = join(root, 'healthy')
  ids = await fillStore(healthy)
  entries = await entriesOf(healthy)
  const copy = join(root, 'copy')
  await cp(healthy, copy, { recursive: true })
  twin = await contentsOf(copy)
})

afterAll(() => rm(root, { recursive: true, force: true }))

describe('damage to a store', () => {
  let directory: string
  let target: string

  beforeEach(async () => {
    const own = await mkdtemp(join(root, 'case-'))
    directory = join(own, 'store')
    target = join(own, 'repaired')
    await cp(healthy, directory, { recursive: true })
  })

  afterEach(() => rm(join(directory, '..'), { recursive: true, force: true }))

  const inCopy = (entry: StoredEntry): string => entry.path.replace(healthy, directory)

  /** Damages the last byte of an entry. */
  const damage = (entry: StoredEntry): Promise<void> => flip(inCopy(entry), entry.offset + entry.length - 1)

  const newest = (key: string): StoredEntry => {
    const found = entries.findLast((entry) => entry.key === key)
    if (found === undefined) throw new Error(`nothing has the key ${key}`)
    return found
  }
  const blob = (content: string | Uint8Array): StoredEntry =>
    newest(`b${Buffer.from(sha256(content), 'hex').toString('latin1')}`)

  /** Checks and repairs without changing the store, and requires a complete, usable new store. */
  async function repaired(): Promise<{ check: StoreCheck; repair: StoreRepair }> {
    const before = await filesOf(directory)
    const check = await checkStore(directory, { readData: true })
    const repair = await repairStore(directory, target)
    expect(await filesOf(directory)).toEqual(before)
    expect(repair.remaining).toEqual([])
    expect(await checkStore(target, { readData: true })).toMatchObject({ found: 0, findings: [] })
    const contents = await contentsOf(target)
    compare(contents, repair)
    if (isLong) await workOn(target, contents)
    return { check, repair }
  }

  /** Requires that the reported losses are exactly the differences from the healthy store, path by path. */
  function compare(contents: Map<string, Map<string, string>>, { dropped }: StoreRepair): void {
    for (const [id, files] of twin) {
      const droppedPaths = dropped.filter(({ object }) => object === `session ${id}`).map(({ path }) => path)
      const left = contents.get(id)
      if (left === undefined) {
        expect(droppedPaths).toEqual([undefined])
        continue
      }
      const isStateLost = dropped.some(
        ({ sessionId, message }) => sessionId === id && message === 'lost, with their changes',
      )
      if (isStateLost) continue
      const differs = [...files].filter(([path, content]) => left.get(path) !== content).map(([path]) => path)
      const above = (path: string): boolean =>
        droppedPaths.some((one) => one === '/' || path === one || path.startsWith(`${one}/`))
      expect(differs.filter((path) => !above(path))).toEqual([])
      const isReal = (one = ''): boolean =>
        differs.some((path) => path === one || path.startsWith(one === '/' ? one : `${one}/`))
      expect(droppedPaths.filter((one) => !isReal(one))).toEqual([])
      expect([...left.keys()].filter((path) => !files.has(path))).toEqual([])
    }
    expect([...contents.keys()].filter((id) => !twin.has(id))).toEqual([])
  }

  async function workOn(place: string, contents: Map<string, unknown>): Promise<void> {
    const engine = await openEngine({ storage: levelStorage(place, { durability: 'relaxed' }) })
    for (const id of contents.keys()) {
      const session = await engine.sessions.open(id)
      expect((await session.events.verify()).headHash).not.toBe('')
      const { checkpoints } = await session.listCheckpoints()
      await session.files.write({ path: '/work/again', content: id, createParents: true })
      await session.checkpoint({ checkpointLabel: 'after' })
      for (const { checkpointLabel } of [...checkpoints, { checkpointLabel: 'after' }])
        await (await session.fork({ checkpointLabel })).manifest()
      for (const { checkpointLabel } of checkpoints) await session.restore({ checkpointLabel })
      await session.restore({ checkpointLabel: 'after' })
      expect(Buffer.from(await session.files.read({ path: '/work/again' })).toString()).toBe(id)
    }
    expect((await engine.check({ readData: true })).findings).toEqual([])
    await engine.collect()
    expect((await engine.check({ readData: true })).findings).toEqual([])
    await engine.close()
    expect((await checkStore(place, { readData: true })).findings).toEqual([])
  }

  test('that is absent leaves the repaired store identical', async () => {
    const { check, repair } = await repaired()
    expect(check).toMatchObject({ found: 0, notes: [] })
    expect(repair).toMatchObject({ dropped: [], findings: [], rebuiltSessions: 0, sessions: 3 })
  })

  test('in a content of one file', async () => {
    await damage(blob('only here'))
    const { check, repair } = await repaired()
    expect(check.findings).toContainEqual(
      expect.objectContaining({
        object: `blob sha256:${sha256('only here')}`,
        path: '/only.txt',
        sessionId: ids.second,
      }),
    )
    expect(repair.dropped.filter(({ object }) => object.startsWith('session'))).toEqual([
      expect.objectContaining({ sessionId: ids.second, path: '/only.txt' }),
    ])
    expect(repair.rebuiltSessions).toBe(1)
  })

  test('in a content of a session and its fork, and of a checkpoint only', async () => {
    await damage(blob('content 9'))
    await damage(blob('content 7'))
    const { repair } = await repaired()
    const paths = repair.dropped.map(({ object, path }) => `${object.split(' ')[0]} ${path}`).sort()
    expect(paths).toContain('checkpoint /many/f7')
    expect(repair.dropped).toContainEqual(
      expect.objectContaining({ object: `session ${ids.fork}`, path: '/many/f9' }),
    )
  })

  test('in a block of a large file, and in a file with two names', async () => {
    await damage(blob(randomBytes(3 * 2 ** 20, 'big').subarray(2 ** 20, 2 * 2 ** 20)))
    await damage(blob(randomBytes(900, 'new 1')))
    const { repair } = await repaired()
    const paths = repair.dropped
      .filter(({ object }) => object === `session ${ids.first}`)
      .map(({ path = '' }) => path)
    expect(paths.toSorted((a, b) => (a < b ? -1 : 1))).toEqual(['/docs/big', '/new/linked', '/new/n1'])
  })

  test('in an extended attribute and a cached value', async () => {
    await damage(blob('a note'))
    await damage(blob(randomBytes(20_000, 'cached')))
    const { check } = await repairedWithAttributes()
    expect(check.findings.length).toBeGreaterThan(2)
  })

  /** Attributes are not content: their loss is reported, and the file is unchanged. */
  async function repairedWithAttributes(): Promise<{ check: StoreCheck }> {
    const check = await checkStore(directory, { readData: true })
    const repair = await repairStore(directory, target)
    expect(repair.remaining).toEqual([])
    expect(repair.dropped).toContainEqual(expect.objectContaining({ object: 'cache entry cached' }))
    expect(repair.dropped).toContainEqual(
      expect.objectContaining({ path: '/docs/a.txt', message: 'its extended attribute user.note is lost' }),
    )
    const contents = await contentsOf(target)
    for (const [id, files] of twin) expect(contents.get(id)).toEqual(files)
    return { check }
  }

  test('in tree nodes', async () => {
    const nodes = [...new Set(entries.filter(({ key }) => key.startsWith('rn')).map(({ key }) => key))]
    for (const key of nodes.filter((_, i) => i % 3 === 0)) await damage(newest(key))
    const { check } = await repaired()
    expect(check.findings).toContainEqual(
      expect.objectContaining({ problem: 'missing', sessionId: ids.first }),
    )
  })

  test.each(size < 1 ? [1, 8] : [1, 2, 3, 5, 8])('in event %i of a session', async (seq) => {
    const key = `e${ids.second}${seq.toString(36).padStart(8, '0')}`
    await damage(newest(key))
    const { check, repair } = await repaired()
    expect(check.findings).toContainEqual(
      expect.objectContaining({ problem: 'missing', object: `event ${seq}`, sessionId: ids.second }),
    )
    // A later snapshot has the newest state.
    expect(repair.dropped).toContainEqual(
      expect.objectContaining({ message: 'lost; the newest state is kept' }),
    )
    const engine = await openEngine({ storage: levelStorage(target, { durability: 'relaxed' }) })
    const session = await engine.sessions.open(ids.second)
    const { events } = await session.events.list()
    await engine.close()
    expect(events.slice(seq - 1).map(({ eventType }) => eventType)).toContain('v1.PersistenceService.Repair')
  })

  test('in events and snapshots that loses the newest state', async () => {
    for (const { key } of entries.filter((entry) => entry.key.startsWith(`rr${ids.second}`)))
      await damage(newest(key))
    await damage(newest(`e${ids.second}${(6).toString(36).padStart(8, '0')}`))
    const { repair } = await repaired()
    expect(repair.dropped).toContainEqual(
      expect.objectContaining({ sessionId: ids.second, message: 'lost, with their changes' }),
    )
  })

  test('in the record of a session', async () => {
    const all = entries.filter(({ key }) => key.startsWith('rs') && key.endsWith(ids.first))
    for (const entry of all) await damage(entry)
    const { repair } = await repaired()
    expect(repair.dropped).toContainEqual(
      expect.objectContaining({
        object: `session ${ids.first}`,
        message: expect.stringContaining('its record'),
      }),
    )
    // A fork keeps the state that it started from, in its own snapshot.
    expect(repair.sessions).toBe(2)
  })

  test('in the header of a commit loses nothing', async () => {
    const [first] = entries.filter(({ key }) => key.startsWith(`e${ids.fork}`))
    // The first entry of a commit directly follows its header.
    const starts = entries.filter((entry) => entry.path === first!.path && entry.offset <= first!.offset)
    await flip(inCopy(first!), starts.at(-1)!.offset - 20)
    const { check, repair } = await repaired()
    expect(check.findings.length).toBeGreaterThan(0)
    expect(repair.dropped).toEqual([])
  })

  test('in the head of an entry loses only that entry', async () => {
    // The entry is in a commit with many contents.
    await flip(inCopy(blob('content 200')), blob('content 200').offset + 9)
    const { repair } = await repaired()
    expect(new Set(repair.dropped.map(({ path }) => path))).toEqual(new Set(['/many/f200']))
  })

  test('in its manifest, then its marker and its index, loses nothing', async () => {
    await rm(join(directory, 'index'), { recursive: true })
    expect(await checkStore(directory)).toMatchObject({ found: 0, notes: [expect.stringContaining('index')] })
    await rm(join(directory, 'segments', 'manifest'))
    expect((await checkStore(directory)).findings).toEqual([
      expect.objectContaining({ problem: 'missing', object: 'file segments/manifest' }),
    ])
    await flip(join(directory, 'forkspace.json'), 3)
    expect((await checkStore(directory)).findings).toContainEqual(
      expect.objectContaining({ problem: 'damaged', object: 'file forkspace.json' }),
    )
    await rm(join(directory, 'forkspace.json'))
    const { repair } = await repaired()
    expect(repair.dropped).toEqual([])
    expect(repair.findings).toHaveLength(2)
  })

  test('through the loss of a segment, or of the end of one', async () => {
    const segments = (await readdir(join(directory, 'segments')))
      .filter((name) => name.endsWith('.seg'))
      .sort()
    expect(segments.length).toBeGreaterThan(4)
    for (const name of segments.slice(0, isLong ? 4 : 2)) {
      await rm(join(directory, 'segments', name))
      const check = await checkStore(directory, { readData: true })
      expect(check.findings[0]).toMatchObject({ problem: 'missing', object: `file segments/${name}` })
      const repair = await repairStore(directory, target)
      expect(repair.remaining).toEqual([])
      await workOn(target, await contentsOf(target))
      await rm(target, { recursive: true })
      await cp(join(healthy, 'segments', name), join(directory, 'segments', name))
    }
    const name = segments[1]!
    const { length } = await readFile(join(directory, 'segments', name))
    await truncate(join(directory, 'segments', name), Math.floor(length / 2))
    const check = await checkStore(directory)
    expect(check.findings).toContainEqual(expect.objectContaining({ object: `file segments/${name}` }))
    expect((await repairStore(directory, target)).remaining).toEqual([])
    await workOn(target, await contentsOf(target))
  })

  test('at its end, in an unacknowledged commit, is not a loss', async () => {
    const name = (await readdir(join(directory, 'segments')))
      .filter((one) => one.endsWith('.seg'))
      .sort()
      .at(-1)!
    const path = join(directory, 'segments', name)
    await writeFile(path, randomBytes(777, 'torn'), { flag: 'a' })
    const { check, repair } = await repaired()
    expect(check).toMatchObject({ found: 0, notes: [expect.stringContaining('never acknowledged')] })
    expect(repair.dropped).toEqual([])
  })

  test('anywhere is repaired, also without older history', { timeout: 600_000 }, async () => {
    let state = seed
    const random = (below: number): number => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0
      return Math.floor((state / 2 ** 32) * below)
    }
    const collected = join(directory, '..', 'collected')
    await cp(healthy, collected, { recursive: true })
    {
      await using engine = await openEngine({ storage: smallSegments(collected) })
      await engine.sessions.delete(ids.first)
      await engine.collect()
      const second = await engine.sessions.open(ids.second)
      await second.files.write({ path: '/second/later', content: randomBytes(3000, 'later') })
    }
    for (let run = 0; run < runs(9); run++) {
      await rm(directory, { recursive: true })
      await cp(run % 3 === 2 ? collected : healthy, directory, { recursive: true })
      for (let count = 1 + random(6); count > 0; count--) {
        const names = (await readdir(join(directory, 'segments'))).filter((name) => name.endsWith('.seg'))
        const path = join(directory, 'segments', names[random(names.length)]!)
        const { length } = await readFile(path)
        const what = random(12)
        if (what === 0) await rm(path)
        else if (what === 1) await truncate(path, random(length))
        else if (what === 2) await overwrite(path, random(length), Buffer.alloc(1 + random(20_000)))
        else if (length > 0) await flip(path, random(length))
        if (names.length === 1) break
      }
      if (!(await readdir(join(directory, 'segments'))).some((name) => name.endsWith('.seg'))) continue
      const before = await filesOf(directory)
      await checkStore(directory, { readData: true })
      const repair = await repairStore(directory, target)
      expect(await filesOf(directory)).toEqual(before)
      expect(repair.remaining, `run ${run}`).toEqual([])
      await workOn(target, await contentsOf(target))
      await rm(target, { recursive: true })
    }
  })

  test('is detected by a check of an open engine before any read', async () => {
    await using engine = await openEngine({ storage: smallSegments(directory) })
    expect((await engine.check()).findings).toEqual([])
    const entry = entries[5]!
    await damage(entry)
    const { findings } = await engine.check()
    expect(findings[0]).toMatchObject({
      problem: 'damaged',
      object: `file segments/${entry.path.slice(-12)}`,
      message: expect.stringContaining(`byte ${entry.offset}:`),
    })
    await rm(join(directory, 'forkspace.json'))
    expect((await engine.check()).findings[0]).toMatchObject({
      problem: 'missing',
      object: 'file forkspace.json',
    })
  })
})

async function overwrite(path: string, offset: number, bytes: Buffer): Promise<void> {
  const content = await readFile(path)
  bytes.copy(content, offset)
  await writeFile(path, content)
}

describe('a directory without a store', () => {
  test('is rejected, and so are a store of format 1 and an existing target', async () => {
    const missing = join(root, 'nothing')
    await expect(checkStore(missing)).rejects.toMatchObject({ reason: 'STORE_FORMAT' })
    const file = join(healthy, 'forkspace.json')
    const isFile = { reason: 'STORE_FORMAT', message: expect.stringContaining(`${file} is a file`) }
    await expect(checkStore(file)).rejects.toMatchObject(isFile)
    for (const act of [backupStore, repairStore])
      await expect(act(file, missing)).rejects.toMatchObject(isFile)
    const empty = await mkdtemp(join(root, 'empty-'))
    await expect(checkStore(empty)).rejects.toMatchObject({ reason: 'STORE_FORMAT' })
    await expect(repairStore(empty, missing)).rejects.toMatchObject({ reason: 'STORE_FORMAT' })
    await writeFile(join(empty, 'forkspace.json'), '{"format":1,"storeId":"a"}\n')
    await expect(checkStore(empty)).rejects.toMatchObject({
      reason: 'STORE_FORMAT',
      details: { format: '1' },
      message: expect.stringContaining('format 1'),
    })
    await writeFile(join(empty, 'forkspace.json'), '{"format":99}\n')
    await expect(checkStore(empty)).rejects.toMatchObject({
      reason: 'STORE_FORMAT',
      details: { format: '99' },
    })
    await expect(repairStore(healthy, empty)).rejects.toMatchObject({ reason: 'ALREADY_EXISTS' })
    await expect(repairStore(healthy, healthy)).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
    expect(await readdir(empty)).toEqual(['forkspace.json'])
  })
})

describe('a store of format 1', () => {
  test('is rejected unchanged, and accepted after it was opened once', async () => {
    const directory = join(root, 'format-1')
    await cp(join(import.meta.dirname, '../fixtures/format/v1/store'), directory, { recursive: true })
    const before = await filesOf(directory)
    await expect(checkStore(directory)).rejects.toMatchObject({
      reason: 'STORE_FORMAT',
      details: { format: '1' },
    })
    await expect(repairStore(directory, join(root, 'from-1'))).rejects.toMatchObject({
      reason: 'STORE_FORMAT',
    })
    expect(await filesOf(directory)).toEqual(before)
    await (await openEngine({ storage: levelStorage(directory) })).close()
    expect((await checkStore(directory, { readData: true })).findings).toEqual([])
    expect(await repairStore(directory, join(root, 'from-1'))).toMatchObject({ dropped: [], remaining: [] })
    expect(await contentsOf(join(root, 'from-1'))).toEqual(await contentsOf(directory))
  })
})

describe('a rebuilt session', () => {
  test('keeps the report of its last event', async () => {
    const [directory, target] = [join(root, 'reported'), join(root, 'reported-repaired')]
    const made = await openEngine({ storage: smallSegments(directory) })
    const session = await made.sessions.create()
    const lost = randomBytes(9000, 'lost')
    await session.files.write({ path: '/lost', content: lost })
    const reportContent = '<testsuite><testcase name="a"/></testsuite>'
    await session.health.report({ reportFormat: 'junit-xml/v1', reportContent })
    await made.close()
    await damageBlob(directory, lost)
    const repair = await repairStore(directory, target)
    expect(repair).toMatchObject({ rebuiltSessions: 1, remaining: [] })
    await using engine = await openEngine({ storage: levelStorage(target) })
    const repaired = await engine.sessions.open(session.id)
    expect(await repaired.health.get()).toMatchObject({ health: { testsPassed: 1 } })
    expect(await repaired.fs.promises.readdir('/')).toEqual([])
  })

  test('loses its events from the first one that does not follow its predecessor', async () => {
    const [directory, target] = [join(root, 'unlinked'), join(root, 'unlinked-repaired')]
    const made = await openEngine({ storage: smallSegments(directory) })
    const session = await made.sessions.create()
    for (const path of ['/a', '/b', '/c']) await session.files.write({ path, content: path })
    await made.close()
    const store = await smallSegments(directory).open()
    for await (const [event] of store.events(session.id, { from: 3, to: 3 })) {
      const { sessionId, seq, body } = event!
      await store.commit({ replaceEvents: [{ sessionId, seq, body: body.with(3, 'somebody else') }] })
    }
    await store.close()
    const repair = await repairStore(directory, target)
    expect(repair.dropped).toEqual([
      { object: 'events 3 to 4', sessionId: session.id, message: 'lost; the newest state is kept' },
    ])
    await using engine = await openEngine({ storage: levelStorage(target) })
    const repaired = await engine.sessions.open(session.id)
    expect(await repaired.events.verify()).toMatchObject({ eventCount: 3 })
    expect(await repaired.fs.promises.readdir('/')).toEqual(['a', 'b', 'c'])
  })

  test('counts the remaining names of a file', async () => {
    const [directory, target] = [join(root, 'names'), join(root, 'names-repaired')]
    const made = await openEngine({ storage: smallSegments(directory) })
    const files = { '/kept/one': 'content', '/lost/other': 'other' }
    const session = await made.sessions.create()
    for (const [path, content] of Object.entries(files))
      await session.files.write({ path, content, createParents: true })
    await session.fs.promises.link('/kept/one', '/kept/two')
    await session.fs.promises.link('/kept/one', '/lost/three')
    await made.collect()
    await made.close()
    const store = await smallSegments(directory).open()
    const nodes = await store.scan({ gte: keys.node(''), lt: prefixEnd(keys.node('')), limit: 100 })
    await store.close()
    const [lost] = nodes.find(([, json]) => json.includes('"three"'))!
    for (const { key, path, offset, length } of await entriesOf(directory))
      if (key === `r${lost}`) await flip(path, offset + length - 1)
    expect((await repairStore(directory, target)).remaining).toEqual([])
    await using engine = await openEngine({ storage: levelStorage(target) })
    const { fs } = await engine.sessions.open(session.id)
    expect(fs.readdirSync('/', { recursive: true })).toEqual(['kept', 'kept/one', 'kept/two'])
    expect(fs.statSync('/kept/one').nlink).toBe(2)
  })

  test.runIf(isLong)('recounts its changes', async () => {
    const [directory, target] = [join(root, 'counted'), join(root, 'counted-repaired')]
    const made = await openEngine({ storage: smallSegments(directory, 2 ** 20) })
    const session = await made.sessions.create()
    const writes = Array.from({ length: limits.eventsPerSnapshot }, async (_, i) =>
      session.files.write({ path: '/a', content: `${i}` }),
    )
    await Promise.all(writes)
    expect((await session.analytics()).totalFileMutations).toBe(limits.eventsPerSnapshot)
    await made.close()
    const all = await entriesOf(directory)
    expect(all.map(({ key }) => key)).toContain(`r${keys.analytics(session.id)}`)
    // The first event is the creation; ten changes are left.
    const { path, offset, length } = all.find(({ key }) => key === `e${session.id}${encodeSeq(12)}`)!
    await flip(path, offset + length - 1)
    expect(await repairStore(directory, target)).toMatchObject({ rebuiltSessions: 1, remaining: [] })
    await using engine = await openEngine({ storage: levelStorage(target) })
    const repaired = await engine.sessions.open(session.id)
    expect((await repaired.analytics()).totalFileMutations).toBe(10)
  })

  test('loses its state with its only snapshot if the redo of its events is not kept', async () => {
    const [directory, target] = [join(root, 'pruned'), join(root, 'pruned-repaired')]
    const made = await openEngine({ storage: smallSegments(directory) })
    const session = await made.sessions.create()
    for (const path of ['/a', '/b']) await session.files.write({ path, content: randomBytes(9000, path) })
    await made.collect()
    await made.close()
    const { [0]: snapshot, length } = (await entriesOf(directory)).filter(({ key }) =>
      key.startsWith(`r${keys.snapshots(session.id)}`),
    )
    expect(length).toBeGreaterThan(0)
    for (const { path, offset, length: bytes } of await entriesOf(directory).then((all) =>
      all.filter(({ key }) => key === snapshot!.key),
    ))
      await flip(path, offset + bytes - 1)
    const repair = await repairStore(directory, target)
    expect(repair).toMatchObject({ rebuiltSessions: 1, remaining: [] })
    expect(repair.dropped.map(({ object }) => object)).toContain(`session ${session.id}`)
  })
})

/** Damages the last byte of a content wherever it is stored. */
async function damageBlob(directory: string, content: Uint8Array): Promise<void> {
  const key = `b${Buffer.from(sha256(content), 'hex').toString('latin1')}`
  for (const entry of await entriesOf(directory))
    if (entry.key === key) await flip(entry.path, entry.offset + entry.length - 1)
}

test('a session without record and events is reported through its cache entry', async () => {
  const [directory, target] = [join(root, 'orphan'), join(root, 'orphan-repaired')]
  const made = await openEngine({ storage: smallSegments(directory) })
  const session = await made.sessions.create()
  await session.cache.put({ key: 'k', value: 'v' })
  await made.close()
  for (const { key, path, offset, length } of await entriesOf(directory))
    if (key.includes(session.id) && /^(rs|e)/.test(key)) await flip(path, offset + length - 1)
  const repair = await repairStore(directory, target)
  expect(repair).toMatchObject({ sessions: 0, remaining: [] })
  expect(repair.dropped).toContainEqual(
    expect.objectContaining({ object: `session ${session.id}`, sessionId: session.id }),
  )
})

test('a store without a manifest keeps the id of its marker, not that of a foreign segment', async () => {
  const [directory, other] = [join(root, 'own'), join(root, 'foreign')]
  for (const path of [directory, other]) await (await openEngine({ storage: smallSegments(path) })).close()
  await cp(join(other, 'segments/00000001.seg'), join(directory, 'segments/00000001.seg'))
  await rm(join(directory, 'segments/manifest'))
  const { findings } = await checkStore(directory)
  expect(findings).toMatchObject([
    { object: 'file segments/manifest' },
    { object: 'file segments/00000001.seg', message: expect.stringContaining('another store') as string },
  ])
})

test('leaves out an incomplete session', async () => {
  const [directory, target] = [join(root, 'unfinished'), join(root, 'unfinished-repaired')]
  const made = await openEngine({ storage: smallSegments(directory) })
  const session = await made.sessions.create()
  await made.close()
  const store = await smallSegments(directory).open()
  const [[key, json]] = (await store.scan({ gte: 's', lt: 't', limit: 1 })) as [[string, string]]
  // The state that an import leaves when it ends before its last commit.
  const record = JSON.parse(json) as { createdAt: number }
  const id = session.id.replace(/.$/, (last) => (last === '0' ? '1' : '0'))
  const unfinished = { ...record, id, deletedAt: record.createdAt }
  await store.commit({
    put: [[key.replace(session.id, id), unfinished]],
    events: [{ sessionId: id, seq: 1, body: [record.createdAt, 'v1.SessionService.CreateSession', {}, ''] }],
  })
  await store.close()
  expect(await repairStore(directory, target)).toMatchObject({ sessions: 1, dropped: [], remaining: [] })
})

test('a segment with the bytes of another segment is damaged', async () => {
  const directory = join(root, 'copied-segment')
  await cp(healthy, directory, { recursive: true })
  const [first, second] = ['00000001.seg', '00000002.seg'] as const
  await cp(join(directory, 'segments', first), join(directory, 'segments', second))
  expect((await checkStore(directory)).findings).toContainEqual({
    problem: 'damaged',
    object: `file segments/${second}`,
    message: 'byte 8: the header names another store or segment number',
  })
})

test('a target that is a link to an empty directory stays a link', async () => {
  const real = await mkdtemp(join(root, 'real-'))
  const link = join(root, 'link')
  await symlink(real, link)
  const { directory } = await repairStore(healthy, link)
  expect(directory).toBe(link)
  expect(await readlink(link)).toBe(real)
  expect(await contentsOf(link)).toEqual(twin)
})

test('a target that cannot be created is named in the error', async () => {
  const link = join(root, 'dangling')
  await symlink(join(root, 'nowhere'), link)
  const error = { reason: 'STORE_FAILED', message: `the directory ${link} could not be created (ENOENT)` }
  await expect(repairStore(healthy, link)).rejects.toMatchObject(error)
  await expect(backupStore(healthy, link)).rejects.toMatchObject(error)
  expect(await readlink(link)).toBe(join(root, 'nowhere'))
})

test.each([
  ['its file is a directory', 'pages', 'EISDIR'],
  ['its directory is a file', '', 'ENOTDIR'],
])('an index that cannot be read because %s is a finding, and loses nothing', async (_name, path, code) => {
  const own = await mkdtemp(join(root, 'case-'))
  const directory = join(own, 'store')
  await cp(healthy, directory, { recursive: true })
  await rm(join(directory, 'index', path), { recursive: true })
  await (path === '' ? writeFile(join(directory, 'index'), '') : mkdir(join(directory, 'index', path)))
  const finding = { problem: 'damaged', object: 'file index/pages', message: `cannot be read: ${code}` }
  expect((await checkStore(directory)).findings).toEqual([finding])
  const { dropped, findings } = await repairStore(directory, join(own, 'repaired'))
  expect(findings).toEqual([finding])
  expect(dropped).toEqual([])
  expect(await contentsOf(join(own, 'repaired'))).toEqual(twin)
})

test('a check and a repair leave no file open', async () => {
  const open = async (): Promise<string[]> => {
    const paths: string[] = []
    for (const fd of await readdir('/proc/self/fd'))
      paths.push(await readlink(`/proc/self/fd/${fd}`).catch(() => ''))
    return paths.filter((path) => path.startsWith(root))
  }
  const before = await open()
  await checkStore(healthy)
  expect(await open()).toEqual(before)
  await repairStore(healthy, join(root, 'closed'))
  expect(await open()).toEqual(before)
})

describe('sources', () => {
  test('lose incomplete revisions, and can import again', async () => {
    const [directory, target] = [join(root, 'sources'), join(root, 'sources-repaired')]
    const large = randomBytes(100_000, 'large')
    const made = await openEngine({ storage: smallSegments(directory) })
    const session = await made.sessions.create({ files: { '/kept': 'kept', '/lost': large } })
    const other = await made.sessions.create({ files: { '/whole': 'whole' } })
    const ids: string[] = []
    for (const from of [session, other]) {
      const { sourceId } = await made.sources.create({ displayName: 'copy', uploadedSnapshot: {} })
      const job = await made.sources.startImport(sourceId, {
        uploadedSnapshot: { content: from.exportTar() },
      })
      const { revisionId } = await made.sources.waitForJob(job)
      ids.push(sourceId, (await made.sessions.create({ sourceRef: { sourceId, revisionId } })).id)
    }
    const labelled = await made.sources.promoteSession(ids[0]!, {
      sessionId: ids[1]!,
      revisionLabel: 'of lost',
    })
    await made.sources.waitForJob(labelled)
    await made.close()
    await damageBlob(directory, large)
    const repair = await repairStore(directory, target)
    expect(repair.remaining).toEqual([])
    const objects = repair.dropped.map(({ object }) => object.split(' ')[0])
    // One of them is a label.
    expect(objects.filter((object) => object === 'revision')).toHaveLength(2)
    expect(repair.dropped.filter(({ object }) => object.startsWith('revision label'))).toHaveLength(1)
    expect(objects.filter((object) => object === 'source')).toHaveLength(1)
    await using engine = await openEngine({ storage: levelStorage(target) })
    const [lost, onLost, whole, onWhole] = ids as [string, string, string, string]
    expect((await engine.sources.get(lost)).latestRevisionId).toBe('')
    expect((await engine.sources.get(whole)).latestRevisionId).not.toBe('')
    expect(await (await engine.sessions.open(onLost)).fs.promises.readdir('/')).toEqual(['kept'])
    expect(await (await engine.sessions.open(onWhole)).fs.promises.readdir('/')).toEqual(['whole'])
    const content = (await engine.sessions.open(other.id)).exportTar()
    await engine.sources.waitForJob(await engine.sources.startImport(lost, { uploadedSnapshot: { content } }))
    await engine.sessions.create({ sourceRef: { sourceId: lost } })
    expect((await engine.check({ readData: true })).findings).toEqual([])
  })
})
