import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  limits,
  openEngine,
  type Engine,
  type JsonObject,
  type Session,
  type Storage,
} from '../../src/index.js'
import { storages } from '../support/storages.js'

const nested = (depth: number): JsonObject => (depth === 1 ? {} : { a: nested(depth - 1) })
const cyclic: Record<string, unknown> = {}
cyclic['self'] = cyclic

describe.each(storages)('metadata and lineage on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'metadata-'))
    storage = makeStorage(directory)
    engine = await openEngine({ storage })
    session = await engine.sessions.create({ files: { '/a.txt': 'base' } })
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  async function reopen(): Promise<void> {
    if (!lasting) return
    await engine.close()
    engine = await openEngine({ storage })
    session = await engine.sessions.open(session.id)
  }

  test('keeps the metadata of checkpoints, and finds them by a part of it', async () => {
    const metadata = { turn: 3, agent: { name: 'ann', tools: ['a', { b: null }] } }
    const checkpoint = await session.checkpoint({ metadata })
    metadata.agent.name = 'changed'
    expect(checkpoint.metadata).toEqual({ turn: 3, agent: { name: 'ann', tools: ['a', { b: null }] } })
    expect(Object.isFrozen(checkpoint.metadata['agent'])).toBe(true)
    const plain = await session.checkpoint()
    expect(plain.metadata).toEqual({})
    await reopen()
    const found = async (wanted: JsonObject): Promise<string[]> =>
      (await session.listCheckpoints({ metadata: wanted })).checkpoints.map(({ id }) => id)
    expect((await session.listCheckpoints()).checkpoints).toEqual([checkpoint, plain])
    expect(await found({ turn: 3 })).toEqual([checkpoint.id])
    expect(await found({ agent: { tools: ['a', {}] } })).toEqual([checkpoint.id])
    expect(await found({})).toEqual([checkpoint.id, plain.id])
    for (const other of [{ turn: '3' }, { agent: { tools: ['a'] } }, { agent: ['ann'] }, { toString: null }])
      expect(await found(other)).toEqual([])
  })

  test('keeps the metadata of a fork, which its own forks do not inherit', async () => {
    const metadata = JSON.parse('{"turn":4,"__proto__":{"x":1}}') as JsonObject
    const fork = await session.fork({ metadata })
    await fork.fork()
    await reopen()
    const { sessions } = await engine.sessions.list({ metadata: { turn: 4 } })
    expect(sessions.map(({ id }) => id)).toEqual([fork.id])
    expect(JSON.stringify(sessions[0]?.metadata)).toBe('{"turn":4,"__proto__":{"x":1}}')
    expect((await engine.sessions.get(fork.id)).metadata).toEqual(metadata)
    expect(await session.get()).toMatchObject({ metadata: {} })
    const wanted = JSON.parse('{"__proto__":{"x":1}}') as JsonObject
    expect((await engine.sessions.list({ metadata: wanted })).sessions).toHaveLength(1)
  })

  test('keeps metadata in bundles', async () => {
    const fork = await session.fork({ metadata: { turn: 5 } })
    await fork.checkpoint({ metadata: { turn: 6 } })
    const imported = await engine.sessions.importBundle(fork.exportBundle())
    expect(await imported.get()).toMatchObject({ metadata: { turn: 5 } })
    expect((await imported.listCheckpoints({ metadata: { turn: 6 } })).checkpoints).toHaveLength(1)
  })

  test.each([
    ['null', null, 'INVALID_ARGUMENT'],
    ['an array', [], 'INVALID_ARGUMENT'],
    ['a text', 'text', 'INVALID_ARGUMENT'],
    ['a bigint', { a: 1n }, 'INVALID_ARGUMENT'],
    ['NaN', { a: Number.NaN }, 'INVALID_ARGUMENT'],
    ['a date', { a: new Date(0) }, 'INVALID_ARGUMENT'],
    ['a function', { a: () => 1 }, 'INVALID_ARGUMENT'],
    ['undefined in an array', { a: [undefined] }, 'INVALID_ARGUMENT'],
    ['a lone surrogate', { a: '\ud800' }, 'INVALID_ARGUMENT'],
    ['a map', new Map([['a', 1]]), 'INVALID_ARGUMENT'],
    ['a cycle', cyclic, 'TOO_LARGE'],
    ['too many levels', nested(limits.metadataDepth + 1), 'TOO_LARGE'],
    ['a text that is too long', { a: 'x'.repeat(limits.metadataBytes) }, 'TOO_LARGE'],
    ['a large array', { a: Array.from({ length: 1e6 }, () => 1) }, 'TOO_LARGE'],
  ])('rejects metadata with %s', async (_kind, metadata, reason) => {
    const request = { metadata: metadata as never }
    for (const call of [
      () => session.checkpoint(request),
      () => session.fork(request),
      () => session.listCheckpoints(request),
      () => engine.sessions.list(request),
    ])
      await expect(call()).rejects.toMatchObject({ reason })
    expect((await session.listCheckpoints()).checkpoints).toEqual([])
  })

  test('accepts metadata of exactly the limits', async () => {
    await session.checkpoint({ metadata: nested(limits.metadataDepth) })
    const metadata = { a: 'x'.repeat(limits.metadataBytes - '{"a":""}'.length) }
    expect((await session.checkpoint({ metadata })).metadata).toEqual(metadata)
  })

  test('gives the parent, the forks and the common ancestors', async () => {
    const one = await session.fork({ metadata: { turn: 1 } })
    await session.files.write({ path: '/a.txt', content: 'two' })
    const { eventId } = await session.at()
    const two = await session.fork()
    await reopen()
    const whole = await session.lineage({ with: two.id })
    expect(whole.parent).toBeUndefined()
    expect(whole.children.map(({ sessionId }) => sessionId)).toEqual([one.id, two.id])
    expect(whole.children[0]).toMatchObject({ metadata: { turn: 1 }, createdAt: expect.any(String) })
    expect(whole.commonAncestors).toEqual([{ sessionId: session.id, eventId, baseFingerprint: '' }])
    const first = await session.lineage({ pageSize: 1 })
    expect(first.children.map(({ sessionId }) => sessionId)).toEqual([one.id])
    const { children } = await session.lineage({ pageToken: first.nextPageToken })
    expect(children.map(({ sessionId }) => sessionId)).toEqual([two.id])

    const fork = await engine.sessions.open(one.id)
    const { parent, commonAncestors } = await fork.lineage({ with: two.id })
    expect(parent).toMatchObject({ sessionId: session.id, exists: true })
    expect(commonAncestors).toEqual([
      { sessionId: session.id, eventId: parent?.eventId, baseFingerprint: '' },
    ])
    const stranger = await engine.sessions.create({ files: { '/b': 'b' } })
    expect((await fork.lineage({ with: stranger.id })).commonAncestors).toEqual([])
    await session.delete()
    expect((await fork.lineage()).parent).toMatchObject({ sessionId: session.id, exists: false })
    await engine.collect()
    expect((await fork.lineage()).parent).toMatchObject({ sessionId: session.id, exists: false })
  })

  test('gives the base as the common ancestor of sessions that started from the same files', async () => {
    const other = await engine.sessions.create({ files: { '/a.txt': 'base' } })
    const { baseFingerprint } = await session.get()
    expect((await session.lineage({ with: other.id })).commonAncestors).toEqual([
      { sessionId: '', eventId: '', baseFingerprint },
    ])
  })

  test('refuses an unknown session, and a handle without the capability sessions', async () => {
    await expect(session.lineage({ with: 'none' })).rejects.toMatchObject({ reason: 'SESSION_NOT_FOUND' })
    await expect(session.lineage({ with: 1 as never })).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
    const narrow = session.narrow({ without: ['sessions'] })
    await expect(narrow.lineage()).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' })
  })
})
