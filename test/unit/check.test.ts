import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { sha256 } from '../../src/engine/base/hash.js'
import { redoHash } from '../../src/engine/session/history/chain.js'
import { snapshotKind } from '../../src/engine/records/snapshot.js'
import type { Redo } from '../../src/engine/records/event.js'
import { systemEnvironment } from '../../src/adapters/system/index.js'
import { checkStore } from '../../src/engine/services/check/check.js'
import { Findings } from '../../src/engine/services/check/findings.js'
import { limits, openEngine, type Engine, type Finding, type Session, type Storage } from '../../src/index.js'
import { keys, type Store, type StoredEvent } from '../../src/engine/ports.js'
import { storages } from '../support/storages.js'

/** Gives access to the store of an engine. */
function watched(storage: Storage): { storage: Storage; store: () => Store } {
  let opened: Store | undefined
  const open = async (): Promise<Store> => (opened = await storage.open())
  return { storage: { open }, store: () => opened! }
}

describe.each(storages.filter(([, , lasting]) => lasting))('a check on %s', (_name, make) => {
  let directory: string
  let opened: ReturnType<typeof watched>
  let engine: Engine
  let store: Store
  let session: Session
  const big = Buffer.from(Array.from({ length: 400_000 }, (_, i) => `big ${i} `).join(''))

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'forkspace-check-'))
    opened = watched(make(directory))
    engine = await openEngine({ storage: opened.storage })
    store = opened.store()
    const files: Record<string, string | Uint8Array> = { '/docs/a.txt': 'one', '/big': big }
    for (let i = 0; i < 300; i++) files[`/many/f${i}`] = `content ${i}`
    session = await engine.sessions.create({ files })
    await session.files.write({ path: '/docs/b.txt', content: 'two' })
    await session.checkpoint({ checkpointLabel: 'then' })
    await session.cache.put({ key: 'k', value: Buffer.alloc(100_000, 'v') })
    const fork = await session.fork()
    await fork.files.write({ path: '/docs/c.txt', content: 'three' })
    const deleted = await session.fork()
    await engine.sessions.delete(deleted.id)
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  async function findings(readData = false): Promise<readonly Finding[]> {
    const report = await engine.check({ readData })
    expect(report.found).toBe(report.findings.length)
    return report.findings
  }

  async function recordsOf(prefix: string): Promise<(readonly [string, string])[]> {
    return [...(await store.scan({ gte: prefix, lt: `${prefix}\u{10ffff}`, limit: 10_000 }))]
  }

  test('ends although the session gets an event for each one that the check reads', async () => {
    const most = 1000
    let added = 0
    async function* events(
      id: string,
      { from, to }: { from: number; to: number },
    ): AsyncGenerator<readonly StoredEvent[]> {
      for (let seq = from; seq <= to; seq++) {
        let isThere = false
        for await (const page of store.events(id, { from: seq, to: seq })) {
          isThere = true
          yield page
        }
        if (!isThere) return
        if (added++ < most) await session.files.append({ path: '/docs/a.txt', content: '.' })
      }
    }
    const busy = new Proxy(store, {
      get: (target, name) => {
        const value: unknown = name === 'events' ? events : Reflect.get(target, name)
        return typeof value === 'function' ? (value.bind(target) as unknown) : value
      },
    })
    expect(await checkStore(busy, systemEnvironment, {})).toMatchObject({ found: 0 })
    expect(added).toBeLessThan(most)
  })

  test('accepts a fork of a state that needs no collected changes, because a restore undid them', async () => {
    const parent = await engine.sessions.create({ files: { '/a': 'a', '/b': 'b' } })
    await parent.files.delete({ path: '/a' })
    await parent.files.write({ path: '/b', content: 'undone'.repeat(50) })
    await parent.undo()
    const eventId = (await parent.events.list()).events.at(-1)?.eventId ?? ''
    await parent.files.write({ path: '/b', content: 'last'.repeat(50) })
    await engine.collect()
    const fork = await parent.fork({ from: { eventId } })
    expect(await fork.fs.promises.readFile('/b', 'utf8')).toBe('b')
    expect(await findings(true)).toEqual([])
  })

  test('finds nothing in an intact store, also after a collection', async () => {
    const report = await engine.check({ readData: true })
    expect(report.findings).toEqual([])
    expect(report).toMatchObject({ found: 0, sessions: 3 })
    expect(report.events).toBeGreaterThanOrEqual(3)
    expect(report.nodes).toBeGreaterThan(2)
    expect(report.readBytes).toBeGreaterThanOrEqual(big.length)
    await engine.collect()
    expect((await engine.check({ readData: true })).findings).toEqual([])
  })

  test('accepts an oldest snapshot whose earlier redo was collected', async () => {
    await engine.collect()
    const [first] = await recordsOf(keys.snapshots(session.id))
    expect(snapshotKind.parse(first![1]).pruned).toBe(true)
    expect(await findings(true)).toEqual([])
  })

  test('names the file and the session of a missing content', async () => {
    await store.commit({ deleteBlobs: [sha256('one')] })
    const [finding, ...others] = await findings()
    expect(finding).toMatchObject({
      problem: 'missing',
      object: `blob sha256:${sha256('one')}`,
      sessionId: session.id,
      path: '/docs/a.txt',
    })
    expect(others).toEqual([])
  })

  test('reports a content once that both an event and a tree reference', async () => {
    const file = { path: '/docs/d.txt', content: 'four' }
    await session.files.write(file)
    await engine.collect()
    await engine.close()
    engine = await openEngine({ storage: opened.storage })
    store = opened.store()
    await store.commit({ deleteBlobs: [sha256(file.content)] })
    expect(await findings()).toMatchObject([{ problem: 'missing', sessionId: session.id, path: file.path }])
  })

  test('finds contents that only events or only the cache reference', async () => {
    await store.commit({ deleteBlobs: [sha256('two'), sha256(Buffer.alloc(100_000, 'v'))] })
    const found = await findings()
    expect(found).toContainEqual(
      expect.objectContaining({ object: `blob sha256:${sha256('two')}`, path: '/docs/b.txt' }),
    )
    expect(found).toContainEqual(
      expect.objectContaining({ object: `blob sha256:${sha256(Buffer.alloc(100_000, 'v'))}` }),
    )
  })

  test('reports missing, changed and unparsable nodes', async () => {
    // In quotes: f17 alone can be a part of a hash.
    const nodes = (await recordsOf('n')).filter(([, json]) => json.includes('"f17"'))
    const [key, json] = nodes[0]!
    const address = key.slice(1)
    await store.commit({ put: [[key, json.replace('"f17"', '"g17"')]] })
    expect(await findings()).toEqual([
      expect.objectContaining({ problem: 'damaged', object: `node ${address}`, sessionId: session.id }),
    ])
    await store.commit({ put: [[key, 'no json']] })
    expect(await findings()).toHaveLength(1)
    await store.commit({ del: [key] })
    expect(await findings()).toEqual([
      expect.objectContaining({ problem: 'missing', object: `node ${address}`, path: '/many' }),
    ])
  })

  test('reports a missing node for each session whose tree contains it', async () => {
    const fork = await session.fork()
    await fork.files.write({ path: '/only', content: 'here' })
    await engine.collect()
    const nodes = await recordsOf('n')
    const isIn = (address: string): number => nodes.filter(([, json]) => json.includes(address)).length
    const [key] = nodes.find(([one]) => isIn(one.slice(1)) > 1)!
    await store.commit({ del: [key] })
    const sessions = (await findings())
      .filter(({ object }) => object === `node ${key.slice(1)}`)
      .map(({ sessionId }) => sessionId)
    expect(sessions).toContain(session.id)
    expect(sessions).toContain(fork.id)
    expect(new Set(sessions).size).toBe(sessions.length)
  })

  test('reports a changed event', async () => {
    const pages = []
    for await (const page of store.events(session.id, { from: 1, to: 1 })) pages.push(...page)
    const [at, type, details, , ...others] = pages[0]!.body
    const body = [at, type, details, 'somebody else', ...others]
    await store.commit({ replaceEvents: [{ sessionId: session.id, seq: 1, body }] })
    expect(await findings()).toEqual([
      expect.objectContaining({ problem: 'damaged', object: 'event 1', sessionId: session.id }),
    ])
  })

  test('reports missing events', async () => {
    await store.commit({ deleteEvents: [session.id] })
    const found = await findings()
    expect(found).toContainEqual(
      expect.objectContaining({ message: 'refers to an event that is not in the store' }),
    )
    expect(found.some(({ message }) => message.includes('which this session was forked from'))).toBe(true)
  })

  test('reports a snapshot, a checkpoint and a fork that refer to a missing newest event', async () => {
    await engine.collect()
    const fork = await session.fork()
    const { seq: last } = (await store.lastEvent(session.id))!
    const [, snapshot] = (await recordsOf(keys.snapshots(session.id)))[0]!
    const beyond = { ...(JSON.parse(snapshot) as object), seq: last + 1 }
    await store.commit({ put: [[keys.snapshot(session.id, last + 1), beyond]] })
    const [checkpointKey, checkpoint] = (await recordsOf(keys.checkpoints(session.id)))[0]!
    const later = { ...(JSON.parse(checkpoint) as object), seq: last + 1 }
    await store.commit({ put: [[checkpointKey, later]] })
    const [forkKey, forkJson] = (await recordsOf(keys.allSessions())).find(([key]) => key.endsWith(fork.id))!
    const moved = { ...(JSON.parse(forkJson) as object), base: [session.id, last + 1] }
    await store.commit({ put: [[forkKey, moved]] })
    const messages = (await findings()).map(({ object, message }) => `${object} ${message}`)
    expect(messages).toContainEqual(expect.stringContaining('is not in the store, but a later snapshot is'))
    expect(messages).toContainEqual(expect.stringContaining('refers to an event that is not in the store'))
    expect(messages).toContainEqual(
      `event ${last + 1} is not in the store; it belongs to session ${session.id}, which this session was forked from`,
    )
  })

  test('reports forks that start from a state that is no longer kept', async () => {
    const child = await session.fork()
    const grandchild = await child.fork()
    for await (const page of store.events(session.id, { from: 2, to: 2 }))
      for (const { seq, body } of page)
        await store.commit({
          replaceEvents: [
            { sessionId: session.id, seq, body: [...body.slice(0, 5), redoHash(body[5] as readonly Redo[])] },
          ],
        })
    const found = await findings()
    expect(found).toContainEqual(
      expect.objectContaining({ problem: 'missing', object: 'event 2', sessionId: child.id }),
    )
    expect(found.filter(({ sessionId }) => sessionId === grandchild.id)).toEqual([])
  })

  test('reports unparsable records', async () => {
    const [key] = (await recordsOf('s'))[0]!
    await store.commit({ put: [[key, '{"id":']] })
    expect(await findings()).toContainEqual(
      expect.objectContaining({ problem: 'damaged', object: `record ${key}` }),
    )
  })

  test('changes nothing, stops on its signal, and rejects unknown options', async () => {
    const before = await Promise.all(['s', 'k', 'n', 'r'].map(recordsOf))
    await engine.check()
    expect(await Promise.all(['s', 'k', 'n', 'r'].map(recordsOf))).toEqual(before)
    const reason = new Error('enough')
    await expect(engine.check({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    await expect(engine.check({ readData: 1 as never })).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
  })

  test('runs while sessions are written', async () => {
    const writing = (async () => {
      for (let i = 0; i < 100; i++) {
        await session.files.write({ path: `/new/${i}`, content: `new ${i}`, createParents: true })
        if (i % 10 === 0) await (await session.fork()).checkpoint({ checkpointLabel: `${i}` })
      }
    })()
    for (let i = 0; i < 5; i++) expect(await findings(true)).toEqual([])
    await writing
    expect(await findings(true)).toEqual([])
  })
})

test('a check counts every finding once and lists the first thousand', () => {
  const findings = new Findings()
  const finding = (i: number): Finding => ({
    problem: 'missing',
    object: `node ${i}`,
    message: 'is not in the store',
  })
  for (let times = 0; times < 2; times++)
    for (let i = 0; i < limits.checkFindings; i++) findings.add(finding(i))
  expect([findings.count, findings.list.length]).toEqual([limits.checkFindings, limits.checkFindings])
  findings.add(finding(limits.checkFindings))
  expect([findings.count, findings.list.length]).toEqual([limits.checkFindings + 1, limits.checkFindings])
})

test('a check of storage that is not durable examines nothing', async () => {
  await using engine = await openEngine()
  await engine.sessions.create({ files: { '/a': 'a' } })
  expect(await engine.check({ readData: true })).toMatchObject({ found: 0, sessions: 0, blobs: 0 })
})
