import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openEngine, type Engine, type EngineScope, type Session, type Storage } from '../../src/index.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { storages } from '../support/storages.js'

const unknownId = '0'.repeat(36)

/** The text of an error without the requested id. */
async function refusal(call: Promise<unknown>, id: string): Promise<string> {
  const error: unknown = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  const { name, message, reason, details } = error as Error & { reason?: string; details?: object }
  return JSON.stringify({ name, message, reason, details }).replaceAll(id, '')
}

describe.each(storages)('tenants on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let engine: Engine
  let acme: EngineScope
  let other: EngineScope

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'tenants-'))
    storage = makeStorage(directory)
    await open()
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  async function open(): Promise<void> {
    engine = await openEngine({ storage, hostPaths: { roots: [directory] } })
    acme = engine.as({ tenant: 'acme', principal: 'ann' })
    other = engine.as({ tenant: 'other', principal: 'ann' })
  }

  async function reload(): Promise<void> {
    if (!lasting) return
    await engine.close()
    await open()
  }

  test('see only their own sessions', async () => {
    const mine = await acme.sessions.create({ files: { '/a': 'acme' } })
    const theirs = await other.sessions.create({ files: { '/a': 'other' } })
    const local = await engine.sessions.create()
    const ids = async (scope: EngineScope): Promise<string[]> =>
      (await scope.sessions.list()).sessions.map(({ id }) => id)
    for (let round = 0; round < 2; round++) {
      expect(await ids(acme)).toEqual([mine.id])
      expect(await ids(other)).toEqual([theirs.id])
      expect(await ids(engine)).toEqual([local.id])
      expect(await ids(engine.as({ tenant: 'acme', principal: 'bob' }))).toEqual([mine.id])
      const opened = await acme.sessions.open(mine.id)
      expect(Buffer.from(await opened.files.read({ path: '/a' })).toString()).toBe('acme')
      await reload()
    }
  })

  test("get the same error for another tenant's id as for an unknown one", async () => {
    const mine = await acme.sessions.create()
    await mine.checkpoint({ checkpointLabel: 'one' })
    const ways: ((scope: EngineScope, id: string) => Promise<unknown>)[] = [
      (scope, id) => scope.sessions.open(id),
      (scope, id) => scope.sessions.get(id),
      (scope, id) => scope.sessions.delete(id),
      (scope, id) => scope.diff({ from: { sessionId: id }, to: { sessionId: id } }).paths(),
      (scope, id) =>
        scope.diff({ from: { sessionId: id, checkpointLabel: 'one' }, to: { sessionId: id } }).paths(),
    ]
    for (let round = 0; round < 2; round++) {
      for (const way of ways) {
        const foreign = await refusal(way(other, mine.id), mine.id)
        expect(foreign).toContain('SESSION_NOT_FOUND')
        expect(foreign).toBe(await refusal(way(other, unknownId), unknownId))
      }
      await reload()
    }
    expect((await acme.sessions.get(mine.id)).id).toBe(mine.id)
  })

  test('get separate results for concurrent requests', async () => {
    const { id } = await acme.sessions.create()
    await reload()
    const results = await Promise.allSettled([
      acme.sessions.open(id),
      other.sessions.open(id),
      acme.sessions.open(id),
      engine.sessions.open(id),
    ])
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'rejected'])
  })

  test('share a session among all of their principals', async () => {
    const byAnn = await acme.sessions.create()
    const byBob = await engine.as({ tenant: 'acme', principal: 'bob' }).sessions.open(byAnn.id)
    await Promise.all([
      byAnn.files.write({ path: '/a', content: '1' }),
      byBob.files.write({ path: '/b', content: '2' }),
    ])
    expect((await byAnn.diff().paths()).added).toEqual(['/a', '/b'])
    const owners = async (session: Session): Promise<string[]> =>
      (await session.fileLocks.list()).locks.map(({ ownerId }) => ownerId)
    await byAnn.fileLocks.lock({ path: '/a', timeoutSeconds: 100 })
    await byBob.fileLocks.lock({ path: '/b', timeoutSeconds: 100 })
    expect(await owners(byAnn)).toEqual(['ann', 'bob'])
    const fork = await byBob.fork()
    await fork.fileLocks.lock({ path: '/c', timeoutSeconds: 100 })
    expect(await owners(fork)).toEqual(['bob'])
  })

  test.skipIf(!hasGit)('own sources and jobs', async () => {
    const repository = GitRepository.create(join(directory, 'r.git'))
    repository.stage([['100644', 'a', 'one']])
    repository.commit()
    const { sourceId, createdByPrincipal } = await acme.sources.create({
      displayName: 'r',
      gitRepository: { path: repository.path },
    })
    expect(createdByPrincipal).toBe('ann')
    const job = await acme.sources.startImport(sourceId)
    expect(await refusal(other.sources.getJob(job), job.jobId)).toContain('JOB_NOT_FOUND')
    expect(await refusal(other.sources.waitForJob(job), job.jobId)).toContain('JOB_NOT_FOUND')
    await acme.sources.waitForJob(job)
    expect((await other.sources.list()).sources).toEqual([])
    expect((await acme.sources.list()).sources.map((source) => source.sourceId)).toEqual([sourceId])
    for (const way of [
      (id: string) => other.sources.get(id),
      (id: string) => other.sources.startImport(id),
      (id: string) => other.sources.listJobs({ sourceId: id }),
      (id: string) => other.sessions.create({ sourceRef: { sourceId: id } }),
    ]) {
      expect(await refusal(way(sourceId), sourceId)).toBe(await refusal(way(unknownId), unknownId))
    }
    expect((await acme.sessions.create({ sourceRef: { sourceId } })).id).toHaveLength(36)
  })
})

test.each([
  [undefined, 'INVALID_ARGUMENT'],
  [{ tenant: '' }, 'INVALID_ARGUMENT'],
  [{ principal: '' }, 'INVALID_ARGUMENT'],
  [{ principal: 7 }, 'INVALID_ARGUMENT'],
  [{ tenant: 'x'.repeat(1025) }, 'TOO_LARGE'],
])('rejects the caller %j', async (caller, reason) => {
  const engine = await openEngine()
  expect(() => engine.as(caller as never)).toThrow(expect.objectContaining({ reason }) as Error)
  await engine.close()
})
