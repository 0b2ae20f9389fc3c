import { createReadStream, createWriteStream } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { CarIndexer } from '@ipld/car'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  ApprovalStatus,
  limits,
  memoryStorage,
  openEngine,
  SessionStatus,
  type Authorize,
  type Engine,
  type EngineError,
  type Session,
  type Storage,
} from '../../src/index.js'
import type { Store } from '../../src/engine/ports.js'
import { fixedEnvironment } from '../../src/testing.js'
import { expectNoGarbage } from '../model/stored-garbage.js'
import { bytesOf, putTogether, readFile, takeApart, writeFile } from '../support/bundle-file.js'
import { FailingStorage } from '../support/failing-storage.js'
import { lowerBound } from '../support/lower-bound.js'
import { isLong } from '../support/seed.js'
import { SteppedStorage } from '../support/stepped-storage.js'
import { allStorages, storages } from '../support/storages.js'
import { turnsOf } from '../support/turns.js'

const refused = (reason: string): unknown => expect.objectContaining({ name: 'EngineError', reason })
const mebibyte = 2 ** 20

/**
 * A session with data of every kind, and checkpoints in between. Its log has several pieces: of the real size if it is
 * to be large, otherwise of a smaller size.
 */
async function richSession(engine: Engine, { isLarge = false } = {}): Promise<Session> {
  if (!isLarge) lowerBound(limits, 'bundlePieceBytes', limits.bundlePieceBytes / 4)
  const session = await engine.as({ principal: 'ann' }).sessions.create({
    files: { '/base/a': 'a', '/base/b': 'b' },
    initialTags: { task: '42', __proto__x: '' },
  })
  const { files, fs } = session
  await session.checkpoint({ checkpointLabel: 'start' })
  await files.batch([
    { write: { path: '/__proto__', content: 'p' } },
    { write: { path: '/\u{1f600}/\uffff/é', content: 'wide', mode: 0o600 } },
    { write: { path: '/\u{1f600}/\u{10000}', content: '' } },
    { write: { path: '/big', content: Buffer.alloc(3 * mebibyte + 5, 'big') } },
  ])
  await files.batch(
    Array.from({ length: isLarge ? 5000 : 1250 }, (_, i) => ({
      write: { path: `/many/${i}-\u{1f600}`, content: `${i % 7}` },
    })),
  )
  await files.link({ srcPath: '/base/a', dstPath: '/many/link' })
  await files.link({ srcPath: '/base/a', dstPath: '/\u{1f600}/link' })
  await files.setXattr({ path: '/base/a', name: 'user.a', value: 'x' })
  await files.setXattr({ path: '/', name: 'user.root', value: '' })
  await files.createSymlink({ linkPath: '/symlink', target: '../nowhere/\u{1f600}' })
  await files.createDirectory({ path: '/empty', mode: 0o700 })
  await session.checkpoint()
  // Extents, more than fit in their directory, and holes.
  const segments = Array.from({ length: 300 }, (_, i) => ({
    data: { offset: i * 5000 + 1, content: `<${i}>` },
  }))
  await files.patchSegments({
    mutations: [
      { path: '/big', segments },
      {
        path: '/sparse',
        segments: [{ data: { offset: 5 * 2 ** 30, content: 'end' } }],
        logicalSize: 6 * 2 ** 30,
      },
      { path: '/small', segments: [{ data: { offset: 3, content: 'x' } }], logicalSize: 100 },
    ],
  })
  await fs.promises.utimes('/small', 1, 2.5)
  await session.checkpoint({ checkpointLabel: 'patched' })
  await files.delete({ path: '/many/17-\u{1f600}' })
  await files.write({ path: '/base/a', content: 'changed' })
  await session.restore({ checkpointLabel: 'start' })
  await session.checkpoint({ checkpointLabel: 'restored' })
  await files.write({ path: '/last', content: 'last' })
  return session
}

async function hashOf(session: Session): Promise<string> {
  return (await session.manifest({ pageSize: 1 })).manifestHash
}

/** The hash and the name of each state that has a name. */
async function statesOf(session: Session): Promise<unknown> {
  const states: unknown[] = [await hashOf(session), (await session.get()).baseFingerprint]
  for (const { id, checkpointLabel, createdAt } of (await session.listCheckpoints()).checkpoints) {
    states.push({ id, checkpointLabel, createdAt })
    if (checkpointLabel === '') continue
    const fork = await session.fork({ checkpointLabel })
    states.push(await hashOf(fork))
    await fork.delete()
  }
  return [states, await session.diff('base').paths()]
}

async function logOf(session: Session): Promise<unknown[]> {
  const events: unknown[] = []
  for await (const { eventId, ...event } of session.events)
    events.push({ ...event, number: eventId.slice(session.id.length) })
  return events
}

const byName = new Map(allStorages.map((storage) => [storage[0], storage]))
const morePairs = [
  ['level', 'level'],
  ['memory', 'memory'],
  ['memory', 'durable memory'],
  ['durable memory', 'memory'],
  ['durable memory without synchronous reads', 'memory'],
]
const pairs = [
  ['durable memory', 'durable memory without synchronous reads'],
  ...(isLong ? morePairs : []),
].map(([from, to]) => [from!, to!, byName.get(from!)!, byName.get(to!)!] as const)

test.each([
  [false, false, [1, 1, 1]],
  [false, true, [1, 1, 1]],
  [true, false, [1, 2, 'STATE_NOT_KEPT']],
  [true, true, [1, 2, 'STATE_NOT_KEPT']],
])('undoes the same changes of an imported session: durable %s to durable %s', async (from, to, undoable) => {
  await using source = await openEngine({ storage: memoryStorage({ durable: from }) })
  await using target = await openEngine({ storage: memoryStorage({ durable: to }) })
  const original = await source.sessions.create()
  await original.files.write({ path: '/a', content: 'a' })
  await original.checkpoint({ checkpointLabel: 'a' })
  await original.files.write({ path: '/b', content: 'b' })
  await original.checkpoint({ checkpointLabel: 'b' })
  const copy = await target.sessions.importBundle(original.exportBundle())
  await copy.files.write({ path: '/c', content: 'c' })
  const results: unknown[] = []
  for (const count of [1, 2, 3]) {
    const undone = copy.undo({ count, dryRun: true })
    results.push(
      await undone.then(
        (result) => result.count,
        (error: EngineError) => error.reason,
      ),
    )
  }
  // A bundle of a session in memory lacks the changes of each event.
  expect(results).toEqual(undoable)
  expect(await copy.undo()).toMatchObject({ count: 1 })
  expect((await copy.fs.promises.readdir('/')).join(' ')).toBe('a b')
})

test('the history of a session from an engine in memory ends at the import into a store', async () => {
  await using source = await openEngine()
  const session = await source.sessions.create({ files: { '/a': 'a' } })
  await session.files.write({ path: '/b', content: 'one\n' })
  await using target = await openEngine({ storage: memoryStorage({ durable: true }) })
  const copy = await target.sessions.importBundle(session.exportBundle())
  expect(await copy.history({ path: '/b' })).toMatchObject({ changes: [], isComplete: false })
  await copy.files.write({ path: '/b', content: 'one\ntwo\n' })
  const { changes, isComplete } = await copy.history({ path: '/b' })
  expect(changes.map(({ change }) => change)).toEqual(['modified'])
  expect(isComplete).toBe(false)
  const { ranges } = await copy.blame({ path: '/b' })
  expect(ranges.map(({ eventId }) => eventId !== '')).toEqual([false, true])
})

describe.each(pairs)('a bundle from %s to %s', (from, to, [, makeSource], [, makeTarget, lasting]) => {
  let directory: string
  let source: Engine
  let storage: Storage
  let target: Engine

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'bundles-'))
    source = await openEngine({ storage: makeSource(join(directory, 'from')) })
    storage = makeTarget(join(directory, 'to'))
    target = await openEngine({ storage })
  })

  afterEach(async () => {
    await source.close()
    await target.close()
    await rm(directory, { recursive: true, force: true })
  })

  async function reload(session: Session): Promise<Session> {
    if (!lasting) return session
    await target.close()
    target = await openEngine({ storage })
    return target.sessions.open(session.id)
  }

  test('restores the session with its history', { timeout: 120_000 }, async () => {
    const original = await richSession(source, { isLarge: from === 'memory' && to === 'memory' })
    const states = await statesOf(original)
    const log = await logOf(original)
    const path = join(directory, 'session.car')
    await pipeline(original.exportBundle(), createWriteStream(path))
    let copy = await target.sessions.importBundle(createReadStream(path))
    const bundle = await bytesOf(createReadStream(path))
    expect(copy.id).not.toBe(original.id)
    for (let round = 0; round < 2; round++) {
      expect(await statesOf(copy)).toEqual(states)
      expect(await logOf(copy)).toEqual(log)
      const { headHash, eventCount } = await original.events.verify()
      expect(await copy.events.verify()).toMatchObject({ headHash, eventCount })
      expect((await copy.get()).tags).toEqual((await original.get()).tags)
      expect(bundle.equals(await bytesOf(copy.exportBundle()))).toBe(true)
      copy = await reload(copy)
    }
    // It can be changed like any other session.
    const before = (await copy.events.verify()).eventCount
    await copy.restore({ checkpointLabel: 'patched' })
    const big = await copy.files.read({ path: '/big', offset: 5000, length: 10 })
    expect(Buffer.from(big).toString()).toContain('<1>')
    expect((await copy.fs.promises.stat('/small')).mtimeMs).toBe(2500)
    expect((await copy.fs.promises.stat('/many/link')).nlink).toBe(3)
    await copy.files.write({ path: '/many/link', content: 'through the link' })
    expect(Buffer.from(await copy.files.read({ path: '/base/a' })).toString()).toBe('through the link')
    await copy.files.delete({ path: '/\u{1f600}/link' })
    await copy.checkpoint({ checkpointLabel: 'new' })
    const hash = await hashOf(copy)
    await copy.restore({ checkpointLabel: 'start' })
    copy = await reload(copy)
    expect((await copy.events.verify()).eventCount).toBe(before + 5)
    const fork = await copy.fork({ checkpointLabel: 'new' })
    expect(await hashOf(fork)).toBe(hash)
    // The imported session can be exported again.
    const again = await source.sessions.importBundle(copy.exportBundle())
    expect((await again.events.verify()).headHash).toBe((await copy.events.verify()).headHash)
    await again.restore({ checkpointLabel: 'new' })
    expect(await hashOf(again)).toBe(hash)
    const forked = await source.sessions.importBundle(fork.exportBundle())
    expect(await hashOf(forked)).toBe(hash)
    expect((await forked.get()).baseFingerprint).toBe((await original.get()).baseFingerprint)
  })

  test('does not take the base for the state that an imported session started from', async () => {
    const parent = await source.sessions.create({ files: { '/a': 'base\n' } })
    await parent.files.write({ path: '/b', content: 'parent\n' })
    const fork = await parent.fork()
    let copy = await target.sessions.importBundle(fork.exportBundle())
    await copy.files.write({ path: '/b', content: 'parent\ncopy\n' })
    for (let round = 0; round < 2; round++) {
      const { changes, isComplete } = await copy.history({ path: '/b' })
      expect(changes.map(({ change }) => change)).toEqual(['modified'])
      expect(isComplete).toBe(false)
      const blame = await copy.blame({ path: '/b' })
      expect(blame.ranges.map(({ eventId }) => eventId !== '')).toEqual([false, true])
      expect(blame.isComplete).toBe(false)
      await expect(copy.at({ eventId: `${copy.id}-00000000` })).rejects.toEqual(refused('STATE_NOT_KEPT'))
      copy = await reload(copy)
    }
    const { sourceId } = await source.sources.create({ displayName: 'files', uploadedSnapshot: {} })
    const revisionOf = async ({ id: sessionId }: Session): Promise<string> => {
      const job = await source.sources.promoteSession(sourceId, { sessionId })
      return (await source.sources.waitForJob(job)).revisionId
    }
    const revisionId = await revisionOf(parent)
    await parent.files.write({ path: '/a', content: 'newer\n' })
    const newer = await revisionOf(parent)
    const rebased = await source.sessions.create({ sourceRef: { sourceId, revisionId } })
    await rebased.rebase({ revisionId: newer })
    const moved = await target.sessions.importBundle(rebased.exportBundle())
    await expect(moved.at({ eventId: `${moved.id}-00000000` })).rejects.toEqual(refused('STATE_NOT_KEPT'))
    if (!lasting) return
    // The bundle of any other session has that state: its base.
    const created = await target.sessions.importBundle(parent.exportBundle())
    using view = await created.at({ eventId: `${created.id}-00000000` })
    expect(await view.fs.promises.readdir('/')).toEqual(['a'])
  })

  test.each(['approvalBytes', 'annotationBytes'] as const)('keeps to the limit %s', async (name) => {
    const session = await source.sessions.create({ files: { '/a': 'a' } })
    const details = { summary: 'a'.repeat(60) }
    for (let count = 0; count < 2; count++) {
      const { approvalId } = await session.approvals.request({ details })
      await session.approvals.deny({ approvalId })
    }
    const expectedContentHash = await session.files.contentHash('/a')
    for (let count = 0; count < 2; count++)
      await session.annotations.add({ filePath: '/a', expectedContentHash, comment: details.summary })
    const bundle = await bytesOf(session.exportBundle())
    lowerBound(limits, name, 100)
    await using small = await openEngine()
    await expect(small.sessions.importBundle(bundle)).rejects.toEqual(refused('INVALID_BUNDLE'))
  })

  test('contains annotations and decided approvals', async () => {
    const original = await source.sessions.create({ files: { '/a': 'a' } })
    const { contentHash } = (await original.manifest()).nodes[0]!
    const bob = source.as({ principal: 'bob' })
    const asBob = await bob.sessions.open(original.id)
    const note = { filePath: '/a', expectedContentHash: contentHash }
    const { annotation } = await asBob.annotations.add({ ...note, lineNumber: 3, comment: 'why?' })
    await original.annotations.add(note)
    await original.annotations.setStatus({
      annotationId: annotation.id,
      newStatus: 'ANNOTATION_STATUS_RESOLVED',
    })
    const ids: string[] = []
    for (let i = 0; i < 3; i++)
      ids.push(
        (await original.approvals.request({ details: { summary: `${i}`, changedFiles: ['/a'] } })).approvalId,
      )
    await asBob.approvals.grant({ approvalId: ids[0]! })
    await asBob.approvals.deny({ approvalId: ids[1]!, feedback: 'no' })
    let copy = await target.sessions.importBundle(original.exportBundle())
    const moved = <T extends { sessionId: string }>(items: readonly T[]): T[] =>
      items.map((item) => ({ ...item, sessionId: copy.id }))
    for (let round = 0; round < 2; round++) {
      expect((await copy.annotations.list()).annotations).toEqual(
        moved((await original.annotations.list()).annotations),
      )
      const { approvals } = await original.approvals.list()
      const decided = approvals.filter(({ status }) => status !== ApprovalStatus.PENDING)
      expect((await copy.approvals.list()).approvals).toEqual(moved(decided))
      expect((await copy.get()).status).toBe(SessionStatus.ACTIVE)
      copy = await reload(copy)
    }
    await copy.annotations.setStatus({ annotationId: annotation.id, newStatus: 'ANNOTATION_STATUS_OPEN' })
    await expect(copy.approvals.grant({ approvalId: ids[2]! })).rejects.toEqual(refused('APPROVAL_NOT_FOUND'))
    const { approvalId } = await copy.approvals.request()
    await copy.approvals.grant({ approvalId })
    expect((await copy.approvals.list()).approvals).toHaveLength(3)
  })

  test('from a clock that was ahead gets greater ids for later additions', async () => {
    const startMs = Date.now() + 365 * 24 * 3_600_000
    const ahead = await openEngine({ environment: fixedEnvironment({ startMs }) })
    const original = await ahead.sessions.create({ files: { '/a': 'a' } })
    const { contentHash: expectedContentHash } = (await original.manifest()).nodes[0]!
    const note = { filePath: '/a', expectedContentHash }
    await original.annotations.add(note)
    for (let i = 0; i < 2; i++)
      await original.approvals.grant(await original.approvals.request({ details: { summary: `${i}` } }))
    let copy = await target.sessions.importBundle(original.exportBundle())
    await ahead.close()
    for (let round = 0; round < 2; round++) {
      await copy.annotations.add(note)
      await copy.approvals.grant(await copy.approvals.request({ details: { summary: `${round + 2}` } }))
      copy = await reload(copy)
    }
    const notes = (await copy.annotations.list()).annotations.map(({ id }) => id)
    const { approvals } = await copy.approvals.list()
    const ids = approvals.map(({ approvalId }) => approvalId)
    expect(approvals.map(({ summary }) => summary)).toEqual(['0', '1', '2', '3'])
    expect([notes, ids]).toEqual([notes.toSorted(), ids.toSorted()])
    expect([new Set(notes).size, new Set(ids).size]).toEqual([3, 4])
  })

  test('contains nothing else', async () => {
    const original = await source.sessions.create({ files: { '/a': 'a' } })
    await original.files.write({ path: '/gone', content: 'this was deleted' })
    await original.files.delete({ path: '/gone' })
    await original.cache.put({ key: 'k', value: 'a value of the cache' })
    await original.bus.publish({ topic: 't', payload: Buffer.from('a message') })
    const bundle = await bytesOf(original.exportBundle())
    for (const text of ['this was deleted', 'a value of the cache', 'a message', original.id])
      expect(bundle.includes(text)).toBe(false)
    const copy = await target.sessions.importBundle(bundle)
    expect(await copy.cache.stats()).toMatchObject({ entryCount: 0 })
    const { sessions } = await target.sessions.list()
    expect(sessions.map(({ id }) => id)).toEqual([copy.id])
  })
})

describe('a bundle', () => {
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    engine = await openEngine()
    session = await richSession(engine)
  })

  afterEach(() => engine.close())

  test('is a CARv1 file in which every block matches its CID', async () => {
    const bundle = await bytesOf(session.exportBundle())
    const { root, blocks } = await readFile(bundle)
    expect(blocks[0]!.cid.equals(root)).toBe(true)
    expect(root.code).toBe(0x0200)
    expect(new Set(blocks.map(({ cid }) => cid.code))).toEqual(new Set([0x55, 0x0200]))
    expect(new Set(blocks.map(({ cid }) => cid.toString())).size).toBe(blocks.length)
    for (const { cid, bytes } of blocks)
      expect(bytes.byteLength).toBeLessThanOrEqual(cid.code === 0x55 ? mebibyte : 2 * limits.bundlePieceBytes)
    const indexer = await CarIndexer.fromBytes(bundle)
    let end = 0
    for await (const { offset, length } of indexer) end = offset + length
    expect(end).toBe(bundle.length)
    const { manifest, texts } = await takeApart(bundle)
    expect(manifest).toMatchObject({ format: 'forkspace-session', version: 1 })
    expect(texts.checkpoints).toHaveLength(4)
    expect(texts.events).toHaveLength((await session.events.verify()).eventCount)
  })

  test('shows the state at the call, without later writes', async () => {
    const expected = await bytesOf(session.exportBundle())
    const started = session.exportBundle()
    await session.files.write({ path: '/later', content: 'x' })
    await session.checkpoint({ checkpointLabel: 'later' })
    expect(expected.equals(await bytesOf(started))).toBe(true)
    const changed = session.files.write({ path: '/last', content: 'y' })
    const { manifest } = await takeApart(await bytesOf(session.exportBundle()))
    await changed
    expect(manifest.state.manifestHash).toBe((await hashOf(session)).slice('sha256:'.length))
  })

  test('waits until earlier calls are stored', async () => {
    const storage = new SteppedStorage(memoryStorage({ durable: true }))
    await using held = await openEngine({ storage })
    const written = await held.sessions.create()
    // Loads the module that writes the file.
    await bytesOf(written.exportBundle())
    const commit = storage.hold('commit', ({ events }) => events !== undefined)
    const writing = written.files.write({ path: '/a', content: 'a' })
    const exporting = bytesOf(written.exportBundle())
    await storage.quiet()
    commit.release()
    const [bundle] = await Promise.all([exporting, writing])
    const imported = await engine.sessions.importBundle(bundle)
    expect(await imported.fs.promises.readFile('/a', 'utf8')).toBe('a')
  })

  test('can be imported in pieces of any size, or as bytes', async () => {
    const small = await engine.sessions.create({ files: { '/a': 'a' } })
    const bundle = await bytesOf(small.exportBundle())
    for (const size of [1, 7, 1000, bundle.length]) {
      async function* pieces(): AsyncGenerator<Uint8Array> {
        for (let at = 0; at < bundle.length; at += size) yield bundle.subarray(at, at + size)
        yield new Uint8Array(0)
      }
      expect(await hashOf(await engine.sessions.importBundle(pieces()))).toBe(await hashOf(small))
    }
    const given = Buffer.from(bundle)
    const copy = await engine.sessions.importBundle(given)
    given.fill(0)
    expect(Buffer.from(await copy.files.read({ path: '/a' })).toString()).toBe('a')
  })

  test('can be read partially or not at all', async () => {
    for (let count = 0; count < 5; count++) {
      let left = count
      for await (const _ of session.exportBundle()) if (left-- === 0) break
    }
    session.exportBundle()
    await session.delete()
    const missing = session.exportBundle()
    await expect(bytesOf(missing)).rejects.toEqual(refused('SESSION_NOT_FOUND'))
  })

  test('fails if its session is deleted while it is written', async () => {
    await expect(
      (async () => {
        for await (const _ of session.exportBundle()) await session.delete().catch(() => undefined)
      })(),
    ).rejects.toEqual(refused('SESSION_NOT_FOUND'))
  })

  test('rejects with the reason of its signal', async () => {
    const reason = new Error('enough')
    const controller = new AbortController()
    const exported = (async () => {
      for await (const _ of session.exportBundle({ signal: controller.signal })) controller.abort(reason)
    })()
    await expect(exported).rejects.toBe(reason)
    const signal = AbortSignal.abort(reason)
    await expect(bytesOf(session.exportBundle({ signal }))).rejects.toBe(reason)
    await expect(engine.sessions.importBundle(new Uint8Array(), { signal })).rejects.toBe(reason)
  })

  test('import aborts on a stalled content and ends its iterator', async () => {
    const bundle = await bytesOf(session.exportBundle())
    for (const length of [0, 10, 1000, bundle.length - 1]) {
      let returned = false
      const content: AsyncIterable<Uint8Array> = {
        [Symbol.asyncIterator]: () => {
          let given = false
          return {
            next: () => {
              if (given) return new Promise(() => undefined)
              given = true
              return Promise.resolve({ done: false, value: bundle.subarray(0, length) })
            },
            return: () => {
              returned = true
              return new Promise(() => undefined)
            },
          }
        },
      }
      const controller = new AbortController()
      const imported = engine.sessions.importBundle(content, { signal: controller.signal })
      await new Promise((resolve) => setImmediate(resolve))
      const reason = new Error('enough')
      controller.abort(reason)
      await expect(imported).rejects.toBe(reason)
      expect(returned).toBe(true)
    }
  })

  test('import rejects with the error of its content', async () => {
    const bundle = await bytesOf(session.exportBundle())
    const { sessions } = await engine.sessions.list()
    for (const length of [0, 10, 1000, bundle.length]) {
      const failure = new Error('the disk is gone')
      async function* content(): AsyncGenerator<Uint8Array> {
        yield bundle.subarray(0, length)
        throw failure
      }
      await expect(engine.sessions.importBundle(content())).rejects.toBe(failure)
    }
    expect((await engine.sessions.list()).sessions).toEqual(sessions)
  })

  test.each([undefined, null, 'text', {}, 5, [new Uint8Array(1)]])('import rejects %s', async (content) => {
    await expect(engine.sessions.importBundle(content as never)).rejects.toEqual(refused('INVALID_ARGUMENT'))
    async function* pieces(): AsyncGenerator<Uint8Array> {
      yield content as never
    }
    await expect(engine.sessions.importBundle(pieces())).rejects.toEqual(refused('INVALID_ARGUMENT'))
    await expect(bytesOf(session.exportBundle(content as never)))[
      content === undefined || (typeof content === 'object' && content !== null && !Array.isArray(content))
        ? 'resolves'
        : 'rejects'
    ].toEqual(expect.anything())
  })

  test('yields to the event loop while it is written and read', async () => {
    const slow = await openEngine({ environment: fixedEnvironment({ stepMs: limits.sliceMs }) })
    const files = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`/${i % 7}/${i}`, `${i}`]))
    const large = await slow.sessions.create({ files })
    let bundle: Uint8Array = new Uint8Array()
    const exporting = await turnsOf(async () => {
      bundle = await bytesOf(large.exportBundle())
    })
    expect(exporting).toBeGreaterThan(1000)
    expect(await turnsOf(() => slow.sessions.importBundle(bundle))).toBeGreaterThan(500)
    await slow.close()
  })
})

describe('permissions', () => {
  const allowed = new Set<string>()
  const authorize: Authorize = (_caller, action) => allowed.has(action)
  let engine: Engine

  beforeEach(async () => {
    engine = await openEngine({ authorize })
    allowed.clear()
  })

  afterEach(() => engine.close())

  test('exporting requires reading manifest and events, importing requires creating sessions', async () => {
    const all = [
      'createSession',
      'exportBundle',
      'getManifest',
      'listEvents',
      'addAnnotation',
      'listAnnotations',
      'getSession',
    ]
    for (const action of all) allowed.add(action)
    const session = await engine.sessions.create({ files: { '/a': 'a' } })
    const { contentHash } = (await session.manifest()).nodes[0]!
    await session.annotations.add({ filePath: '/a', expectedContentHash: contentHash })
    const whole = await takeApart(await bytesOf(session.exportBundle()))
    expect(whole.texts.annotations).toHaveLength(1)
    allowed.delete('listAnnotations')
    const bundle = await bytesOf(session.exportBundle())
    expect((await takeApart(bundle)).texts.annotations).toHaveLength(0)
    for (const action of ['exportBundle', 'getManifest', 'listEvents']) {
      allowed.delete(action)
      await expect(bytesOf(session.exportBundle())).rejects.toEqual(refused('PERMISSION_DENIED'))
      allowed.add(action)
    }
    const narrow = session.narrow({ without: ['files.read'] })
    await expect(bytesOf(narrow.exportBundle())).rejects.toEqual(refused('PERMISSION_DENIED'))
    allowed.delete('createSession')
    await expect(engine.sessions.importBundle(bundle)).rejects.toEqual(refused('PERMISSION_DENIED'))
  })
})

describe('the revision that an imported session is based on', () => {
  let engine: Engine
  let bundle: Buffer
  let sourceId: string
  let revisionId: string

  beforeEach(async () => {
    engine = await openEngine()
    const origin = await engine.sessions.create({ files: { '/a': 'a' } })
    sourceId = (await engine.sources.create({ displayName: 's', uploadedSnapshot: {} })).sourceId
    const started = await engine.sources.promoteSession(sourceId, { sessionId: origin.id })
    revisionId = (await engine.sources.waitForJob(started)).revisionId
    const session = await engine.sessions.create({ sourceRef: { sourceId } })
    await session.files.write({ path: '/b', content: 'b' })
    bundle = await bytesOf(session.exportBundle())
  })

  afterEach(() => engine.close())

  const revisionOf = async (session: Session): Promise<unknown> =>
    (await takeApart(await bytesOf(session.exportBundle()))).manifest.baseline

  test('is kept if the store knows it', async () => {
    expect(await revisionOf(await engine.sessions.importBundle(bundle))).toMatchObject({
      revision: { sourceId, revisionId },
    })
    await engine.sources.delete(sourceId)
    expect(await revisionOf(await engine.sessions.importBundle(bundle))).toMatchObject({
      revision: { sourceId, revisionId },
    })
  })

  test('is omitted if its tree differs', async () => {
    const other = await engine.sessions.create({ files: { '/other': 'other' } })
    const started = await engine.sources.promoteSession(sourceId, { sessionId: other.id })
    const another = (await engine.sources.waitForJob(started)).revisionId
    const parts = await takeApart(bundle)
    const { baseline } = parts.manifest
    Object.assign(baseline, { revision: { sourceId, revisionId: another } })
    const copy = await engine.sessions.importBundle(await putTogether(parts))
    expect(await revisionOf(copy)).not.toHaveProperty('revision')
    expect(await copy.diff().paths()).toEqual({ added: ['/b'], removed: [], modified: [] })
  })

  test('is omitted in another store, for another tenant, or without access to sources', async () => {
    const other = await openEngine()
    const confined = engine.narrow({ without: ['sources'] })
    for (const scope of [other, engine.as({ tenant: 'other' }), confined]) {
      const copy = await scope.sessions.importBundle(bundle)
      // Without access to sources its log cannot be exported.
      const whole = scope !== confined ? copy : await engine.sessions.open(copy.id)
      expect(await revisionOf(whole)).not.toHaveProperty('revision')
      expect(await copy.diff().paths()).toEqual({ added: ['/b'], removed: [], modified: [] })
    }
    await other.close()
  })
})

describe('a failed import', () => {
  let bundle: Buffer

  beforeEach(async () => {
    const engine = await openEngine()
    bundle = await bytesOf((await richSession(engine)).exportBundle())
    await engine.close()
  })

  test('in memory leaves no events if it fails at its end', async () => {
    const storage = memoryStorage()
    const written = new Set<string>()
    let store: Store | undefined
    await using engine = await openEngine({
      storage: {
        open: async () => {
          const opened = await storage.open()
          const commit = opened.commit.bind(opened)
          store = Object.assign(opened, {
            commit(one: Parameters<Store['commit']>[0]) {
              for (const { sessionId } of one.events ?? []) written.add(sessionId)
              return commit(one)
            },
          })
          return store
        },
      },
    })
    const { root, blocks } = await readFile(bundle)
    const content = writeFile({ root, blocks: [...blocks, blocks.at(-1)!] })
    await expect(engine.sessions.importBundle(content)).rejects.toThrow('data follows its end')
    expect(written.size).toBe(1)
    for (const sessionId of written) expect(await store!.lastEvent(sessionId)).toBeUndefined()
  })

  test('leaves no session if a write fails', { timeout: 120_000 }, async () => {
    let outcome: string | undefined
    let failing = 0
    while (outcome !== 'ok') {
      failing += isLong ? 1 : 6
      const last = failing
      const inner = memoryStorage({ durable: true })
      const storage = new FailingStorage(inner)
      let commits = 0
      const counting: Storage = {
        open: async () => {
          const store = await storage.open()
          const commit = store.commit.bind(store)
          return new Proxy(store, {
            get: (target, name): unknown => {
              if (name !== 'commit') {
                const value: unknown = Reflect.get(target, name)
                return typeof value === 'function' ? (value.bind(target) as unknown) : value
              }
              return (request: Parameters<Store['commit']>[0]) => {
                if (++commits === last) storage.next = 'fail'
                return commit(request)
              }
            },
          })
        },
      }
      const engine = await openEngine({ storage: counting })
      outcome = await engine.sessions.importBundle(bundle).then(
        () => 'ok',
        (error: unknown) => (error as { reason?: string }).reason,
      )
      await engine.close()
      const again = await openEngine({ storage: inner })
      const { sessions } = await again.sessions.list()
      expect([outcome, sessions.length]).toEqual(sessions.length === 1 ? ['ok', 1] : ['STORE_FAILED', 0])
      await again.sessions.importBundle(bundle)
      await again.close()
    }
    expect(failing).toBeGreaterThan(4)
  })

  test('with a lost snapshot fails with DATA_LOSS instead of showing a wrong tree', async () => {
    const storage = memoryStorage({ durable: true })
    let engine = await openEngine({ storage })
    const { id } = await engine.sessions.importBundle(bundle)
    await engine.close()
    const store = await storage.open()
    const found = await store.scan({ gte: `r${id}`, lt: `r${id}~`, limit: 100 })
    expect(found).toHaveLength(5)
    const [first] = found
    await store.commit({ del: [found[1]![0]] })
    engine = await openEngine({ storage })
    const session = await engine.sessions.open(id)
    const { checkpoints } = await session.listCheckpoints()
    await expect(session.restore({ checkpointId: checkpoints[1]!.id })).rejects.toEqual(refused('DATA_LOSS'))
    await expect(bytesOf(session.exportBundle())).rejects.toEqual(refused('DATA_LOSS'))
    await session.restore({ checkpointId: checkpoints[0]!.id })
    await engine.close()
    await store.commit({ del: found.slice(1).map(([key]) => key) })
    await store.commit({
      del: (await store.scan({ gte: `r${id}`, lt: `r${id}~`, limit: 100 })).slice(1).map(([key]) => key),
    })
    expect(await store.scan({ gte: `r${id}`, lt: `r${id}~`, limit: 100 })).toEqual([first])
    engine = await openEngine({ storage })
    // The restore before it is replayed from the remaining snapshot.
    const reopened = await engine.sessions.open(id)
    await reopened.restore({ checkpointLabel: 'start' })
    await expect(reopened.restore({ checkpointLabel: 'patched' })).rejects.toEqual(refused('DATA_LOSS'))
    await engine.close()
  })
})

describe.each(storages)('a bundle in progress on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let store: Store
  let engine: Engine

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'bundles-'))
    const made = makeStorage(directory)
    storage = { open: async () => (store = await made.open()) }
    engine = await openEngine({ storage })
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  async function reopen(): Promise<void> {
    await engine.close()
    engine = await openEngine({ storage })
  }

  async function write(session: Session, count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      await session.files.write({ path: `/${i % 5}`, content: `${i} `.repeat(200) })
      await session.checkpoint({ checkpointLabel: `${i}` })
    }
    await session.files.write({ path: '/0', content: 'the end' })
  }

  // More than are kept in memory between two passes.
  test.each([4, limits.bundleHeldStates + 10])(
    'contains all of %i checkpoints, even if some are deleted and collected meanwhile',
    async (count) => {
      const session = await engine.sessions.create({ files: { '/base': 'base' } })
      await write(session, count)
      const expected = await bytesOf(session.exportBundle())
      if (lasting) await reopen()
      const again = await engine.sessions.open(session.id)
      const [first, second] = [again.exportBundle(), again.exportBundle()]
      const deletion = again.deleteCheckpoint({ checkpointLabel: '1' })
      const pieces: Uint8Array[] = []
      for await (const piece of first) {
        pieces.push(piece)
        if (pieces.length > 1) continue
        await deletion
        await again.pruneCheckpoints({ keepLast: 1 })
        await again.files.write({ path: '/0', content: 'later' })
        await engine.collect()
      }
      expect(expected.equals(Buffer.concat(pieces))).toBe(true)
      await engine.collect()
      expect(expected.equals(await bytesOf(second))).toBe(true)
      if (!lasting) return
      // States that were read stay in memory until the next cleanup.
      await reopen()
      await engine.collect()
      await expectNoGarbage(store, [await engine.sessions.open(session.id)])
    },
    60_000,
  )

  test.runIf(lasting)('is complete even if the session and its parents are deleted', async () => {
    const kept = await engine.sessions.create()
    const parent = await engine.sessions.create({ files: { '/base': 'base' } })
    await write(parent, 3)
    const session = await parent.fork({ checkpointLabel: '1' })
    await write(session, 3)
    const expected = await bytesOf(session.exportBundle())
    await reopen()
    const again = await engine.sessions.open(session.id)
    const bundles = [again.exportBundle(), again.exportBundle()]
    const deleted = Promise.all([again.delete(), engine.sessions.delete(parent.id)])
    for (const bundle of bundles) {
      const pieces: Uint8Array[] = []
      for await (const piece of bundle) {
        pieces.push(piece)
        await deleted
        if (pieces.length === 1) for (let times = 0; times < 2; times++) await engine.collect()
      }
      expect(expected.equals(Buffer.concat(pieces))).toBe(true)
    }
    await reopen()
    await engine.collect()
    expect(await store.lastEvent(session.id)).toBeUndefined()
    await expectNoGarbage(store, [await engine.sessions.open(kept.id)])
  })
})
