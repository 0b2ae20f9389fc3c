/** One program, in process and on a server, with the same results. */
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RemoteEngine } from '../../src/adapters/client/index.js'
import type { EngineScope } from '../../src/index.js'
import { openRemote, type Remote } from '../support/remote.js'
import { plainly } from './plainly.js'

type AnyEngine = EngineScope | RemoteEngine

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const junit = '<testsuite><testcase name="a"/><testcase name="b"><failure/></testcase></testsuite>'
const owner = { ownerId: 'agent', pid: 7, clientId: 'c' }

/** The result of each step, in order. */
async function files(engine: AnyEngine): Promise<unknown[]> {
  const session = await engine.sessions.create({
    files: { '/src/a.ts': 'one\n', '/bin': new Uint8Array([0, 255, 128]) },
    initialTags: { task: '42', __proto__x: 'y' },
  })
  const { files } = session
  const seen: unknown[] = [await session.get()]
  const hash = await files.contentHash('/src/a.ts')
  await files.write({ path: '/src/b.ts', content: 'two', expectedHash: '', mode: 0o755 })
  await files.append({ path: '/src/b.ts', content: bytes(' and more') })
  await files.batch([
    { write: { path: '/deep/er/c', content: 'c' } },
    { delete: { path: '/src/a.ts', expectedHash: hash } },
    { segmentWrite: { path: '/seg', segments: [{ data: { offset: 3, content: 'xyz' } }], logicalSize: 10 } },
  ])
  const [extent] = (await files.getCasExtents({ path: '/src/b.ts' })).extents
  seen.push(extent)
  seen.push(
    await files.patchSegments({
      mutations: [
        {
          path: '/seg',
          segments: [{ hole: { offset: 4, length: 1 } }],
          expectedHash: 'sha256:'.padEnd(71, '0'),
        },
        {
          path: '/seg2',
          segments: [{ borrowed: { offset: 0, length: extent!.length, hash: extent!.hash } }],
        },
      ],
      conflictPolicy: 'SEGMENT_CONFLICT_POLICY_SKIP_ON_CONFLICT',
    }),
  )
  await files.createDirectory({ path: '/d', mode: 0o700 })
  await files.createDirectory({ path: '/e/f/g', recursive: true })
  await files.removeDirectory({ path: '/d' })
  await files.removeDirectory({ path: '/e', recursive: true })
  await files.rename({ sourcePath: '/deep', destinationPath: '/moved' })
  await files.createSymlink({ linkPath: '/link', target: 'src/b.ts' })
  await files.link({ srcPath: '/bin', dstPath: '/bin2' })
  await files.copy({ sourcePath: '/src/b.ts', destinationPath: '/copy' })
  await files.setMode({ path: '/copy', mode: 0o600 })
  await files.setAttributes({ path: '/copy', mtimeMs: 1_700_000_000_000.5 })
  await files.unlink({ path: '/bin' })
  await files.setXattr({ path: '/copy', name: 'user.é', value: 'v' })
  seen.push(
    await files.listXattrs({ path: '/copy' }),
    await files.getXattr({ path: '/copy', name: 'user.é' }),
  )
  await files.removeXattr({ path: '/copy', name: 'user.é' })
  seen.push(
    await files.readSymlink('/link'),
    await files.listSymlinks({ pathPrefix: '/' }),
    await files.read({ path: '/link', offset: 1, length: 4 }),
    await files.readWithHash({ path: '/bin2' }),
    await files.list({ path: '/', recursive: true, pageSize: 3 }),
    await files.stat({ path: '/link', followSymlinks: false }),
    await files.stat({ path: '/link', includeContentHash: true }),
    await session.manifest({ includeCasExtents: true, pageSize: 4 }),
    await session.diff().paths(),
    await session.generateCommitSummary(),
  )
  await session.flush()
  return seen
}

async function history(engine: AnyEngine): Promise<unknown[]> {
  const session = await engine.sessions.create({ files: { '/a': '1' } })
  const first = await session.checkpoint({ checkpointLabel: 'first' })
  await session.files.write({ path: '/a', content: '2' })
  const fork = await session.fork({ checkpointLabel: 'first', newTags: { fork: 'yes' } })
  await fork.files.write({ path: '/b', content: '' })
  const seen: unknown[] = [first, await fork.get()]
  seen.push(await session.diff({ sessionId: fork.id }).paths())
  seen.push(await session.diff({ checkpointLabel: 'first' }).paths())
  const from = { sessionId: session.id, checkpointId: first.id }
  seen.push(await engine.diff({ from, to: { sessionId: fork.id } }).paths())
  for await (const change of session.diff({ sessionId: fork.id })) seen.push(change)
  seen.push(await session.restore({ checkpointId: first.id }), await session.listCheckpoints())
  seen.push((await session.files.read({ path: '/a' })).length)
  const again = await engine.sessions.open(fork.id)
  await again.delete()
  seen.push((await engine.sessions.list({ filter: 'fork=yes' })).sessions)
  for await (const { eventType, details } of session.events) seen.push([eventType, details])
  seen.push((await session.events.list({ pageSize: 2 })).nextPageToken === '')
  seen.push(await session.analytics())
  return seen
}

async function services(engine: AnyEngine): Promise<unknown[]> {
  const session = await engine.sessions.create({ files: { '/a': '1' } })
  const { cache, annotations, approvals, fileLocks, posixLocks, health, secrets } = session
  const seen: unknown[] = []
  for (const key of ['k', 'keys', 'stats', 'a/b?c#d', '%2F', 'ü', 'batch-get', ':x']) {
    await cache.put({ key, value: `value of ${key}`, ttlSeconds: 60 })
    seen.push(await cache.get({ key }), await cache.exists({ key }), await cache.metadata({ key }))
  }
  seen.push(await cache.get({ key: 'none' }))
  seen.push(await cache.compareAndSet({ key: 'k', expectedValue: 'value of k', newValue: bytes('new') }))
  seen.push(await cache.compareAndSet({ key: 'k', newValue: 'never' }))
  await cache.batchSet({
    entries: [
      { key: 'x1', value: '1' },
      { key: 'x2', value: bytes('2') },
    ],
  })
  seen.push(
    await cache.batchGet({ keys: ['x1', 'none', 'x2'] }),
    await cache.keys({ prefix: 'x', pageSize: 1 }),
  )
  for await (const key of cache) seen.push(key)
  seen.push(await cache.batchDelete({ keys: ['x1'] }), await cache.deleteByPrefix({ prefix: 'x' }))
  await cache.delete({ key: 'keys' })
  seen.push(await cache.stats())

  const expectedContentHash = await session.files.contentHash('/a')
  const { annotation } = await annotations.add({ filePath: '/a', expectedContentHash, comment: 'why?' })
  seen.push(annotation, await annotations.list({ filePath: '/a' }))
  const newStatus = 'ANNOTATION_STATUS_RESOLVED'
  seen.push(await annotations.setStatus({ annotationId: annotation.id, newStatus }))
  const one = await approvals.request({ details: { summary: 's', changedFiles: ['/a'] } })
  const other = await approvals.request()
  await approvals.grant(one)
  await approvals.deny({ ...other, feedback: 'no' })
  seen.push(await approvals.list())

  const { lockId } = await fileLocks.lock({ path: '/new', timeoutSeconds: 60 })
  seen.push(await fileLocks.renew({ path: '/new', lockId, timeoutSeconds: 60 }), await fileLocks.list())
  await fileLocks.unlock({ path: '/new', lockId })
  await fileLocks.lock({ path: '/new', timeoutSeconds: 60 })
  seen.push(await fileLocks.forceUnlock({ path: '/new', reason: 'gone' }))
  const kind = 'POSIX_LOCK_KIND_EXCLUSIVE'
  await posixLocks.set({ path: '/a', kind, range: { start: 2n ** 60n, length: 5 }, owner })
  seen.push(await posixLocks.get({ path: '/a', kind, owner: { ownerId: 'b' } }))
  await posixLocks.setBlocking({ path: '/a', kind, range: { start: 0, length: 1 }, owner })
  await posixLocks.flock({ path: '/a', owner, blocking: true })
  await posixLocks.funlock({ path: '/a', owner, isFlock: true })

  seen.push(await health.get(), await health.report({ reportFormat: 'junit-xml/v1', reportContent: junit }))
  seen.push(await health.testResults({ reportFormat: 'junit-xml/v1', reportContent: bytes(junit) }))
  seen.push(await health.history({ pageSize: 1 }))
  seen.push(await secrets.put({ secretName: 'API/TOKEN', secretValue: 'hidden' }), await secrets.list())
  const { secretValue } = await secrets.get({ secretName: 'API/TOKEN' })
  seen.push(secretValue.reveal(), String(secretValue), JSON.stringify({ secretValue }))
  seen.push(await secrets.delete({ secretName: 'API/TOKEN' }))
  seen.push(await session.commit({ message: 'all', author: { name: 'Ada', email: 'ada@example.org' } }))
  return seen
}

async function bus(engine: AnyEngine): Promise<unknown[]> {
  const session = await engine.sessions.create()
  const seen: unknown[] = []
  await session.bus.publish({ topic: 'tests:done', payload: '0' })
  const live = session.bus.subscribe({ topics: ['t'], topicPatterns: ['tests:*'], replayLimit: 1 })
  await live.opened
  await session.bus.publish({ topic: 'other', payload: 'x' })
  await session.bus.publish({ topic: 't', payload: bytes('1') })
  for await (const message of live) {
    seen.push(message)
    if (message.topic === 't') break
  }
  seen.push(await live.next())
  const abort = new AbortController()
  const ended = session.bus.subscribe({ signal: abort.signal })
  await ended.opened
  const waiting = ended.next()
  abort.abort(new Error('enough'))
  seen.push(await waiting.catch((error: unknown) => String(error)), await ended.next())
  await using unused = session.bus.subscribe({ replayAfterMessageId: '00000000' })
  const [a, b] = await Promise.all([unused.next(), unused.next()])
  seen.push(a, b)
  return seen
}

async function sources(engine: AnyEngine): Promise<unknown[]> {
  const source = await engine.sources.create({ displayName: 'app', uploadedSnapshot: {}, labels: { a: 'b' } })
  const { sourceId } = source
  const content = gzipSync(tar('hello.txt', 'hello'))
  const started = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content } })
  const job = await engine.sources.waitForJob(started, { onProgress: () => undefined })
  const session = await engine.sessions.create({ sourceRef: { sourceId } })
  await session.files.write({ path: '/more', content: '' })
  const promotion = await engine.sources.promoteSession(sourceId, {
    sessionId: session.id,
    revisionLabel: 'v2',
  })
  const states: string[] = []
  for await (const { state } of engine.sources.watchJob(promotion)) states.push(state)
  const next = await engine.sessions.create({ sourceRef: { sourceId, revisionId: 'v2' } })
  const seen: unknown[] = [
    source,
    { ...started, state: '', startedAt: '' },
    job,
    states.at(-1),
    (await next.files.list({ path: '/' })).entries,
    await engine.sources.get(sourceId),
    (await engine.sources.list({ filter: 'a=b' })).sources.length,
    (await engine.sources.abortJob(promotion)).state,
  ]
  const broken = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content: bytes('no') } })
  seen.push(
    await engine.sources
      .waitForJob(broken)
      .catch(({ reason, details, message }: Record<string, unknown>) => ({
        reason,
        details,
        message,
      })),
  )
  const listed = await engine.sources.listJobs({ sourceId, pageSize: 2 })
  const { jobs } = await engine.sources.listJobs({ sourceId, pageToken: listed.nextPageToken })
  seen.push([...listed.jobs, ...jobs].map(({ jobId, state }) => [jobId, state]))
  await engine.sources.delete(sourceId)
  seen.push((await engine.sources.list()).sources.length)
  const window = { windowStart: '2020-01-01T00:00:00Z', windowEnd: '2020-01-02T00:00:00Z' }
  seen.push(await engine.usage.get(window))
  return seen
}

/** An archive of one file, without fields that only real archives need. */
function tar(name: string, text: string): Uint8Array {
  const header = Buffer.alloc(512)
  const fields: readonly (readonly [at: number, text: string])[] = [
    [0, name],
    [100, '0000644\0'],
    [108, '0000000\0'],
    [116, '0000000\0'],
    [124, `${text.length.toString(8).padStart(11, '0')}\0`],
    [136, '00000000000\0'],
    [148, '        '],
    [156, '0'],
    [257, 'ustar\x0000'],
  ]
  for (const [at, part] of fields) header.write(part, at, 'latin1')
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  const data = Buffer.alloc(512)
  data.write(text)
  return Buffer.concat([header, data, Buffer.alloc(1024)])
}

describe('a program gets the same results', () => {
  let remote: Remote
  beforeAll(async () => {
    remote = await openRemote()
  })
  afterAll(() => remote.close())

  test.each([
    ['files', files],
    ['history', history],
    ['services', services],
    ['the bus', bus],
    ['sources', sources],
  ])('from %s', async (_name, program) => {
    const here = await program(remote.engine.as({ tenant: 'here', principal: 'ann' }))
    const there = await program(remote.client)
    expect(plainly(there)).toEqual(plainly(here))
    expect(here.length).toBeGreaterThan(3)
  })
})
