/** Every valid and invalid state transition, in process and through a client. */
import { mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { RemoteEngine, RemoteSession } from '../../src/adapters/client/index.js'
import { levelStorage } from '../../src/adapters/level/index.js'
import {
  AnnotationStatus,
  ApprovalStatus,
  ImportJobState,
  openEngine,
  SessionStatus,
  SourceStatus,
  type Engine,
  type ImportJob,
  type Session,
} from '../../src/index.js'
import { fixedEnvironment, type FixedEnvironment } from '../../src/testing.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { serveGit, type GitServer } from '../support/git-server.js'
import { openRemote } from '../support/remote.js'
import { isLong } from '../support/seed.js'

const refused = (reason: string): unknown => expect.objectContaining({ name: 'EngineError', reason })
const { ACTIVE, PENDING_APPROVAL, CONFLICT } = SessionStatus
const gitBranch = { branchName: 'main' }

const places = ['memory', 'level']
  .flatMap((kind) => ['in process', 'by a client'].map((where) => [kind, where] as const))
  .filter(([kind, where]) => isLong || (kind === 'level') === (where === 'in process'))

describe.each(places)('states over %s, %s:', (kind, where) => {
  let directory: string
  let environment: FixedEnvironment
  let engine: Engine | RemoteEngine
  let session: Session | RemoteSession
  let close: () => Promise<void>
  let git: GitServer

  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'states-'))
    environment = fixedEnvironment()
    git = await serveGit(directory)
    await open()
    session = await engine.sessions.create({ files: { '/a': 'one' }, initialTags: { a: '1', b: '2' } })
  })

  afterEach(async () => {
    await close()
    await git.close()
    rmSync(directory, { recursive: true, force: true })
  })

  async function open(): Promise<void> {
    const options = {
      environment,
      git: { allowPrivateAddresses: true },
      ...(kind === 'level' && { storage: levelStorage(join(directory, 'data')) }),
    }
    if (where === 'by a client') {
      const remote = await openRemote(options)
      engine = remote.client
      close = () => remote.close()
    } else {
      const opened = await openEngine(options)
      engine = opened
      close = () => opened.close()
    }
  }

  const imported = async (): Promise<string> => {
    const source = await engine.sources.create({
      displayName: 'r',
      gitRemote: { remoteUrl: `${git.url}/r.git`, defaultRef: 'main' },
    })
    await engine.sources.waitForJob(await engine.sources.startImport(source.sourceId))
    return source.sourceId
  }

  const status = async (of = session): Promise<SessionStatus> => (await of.get()).status

  describe('a session', () => {
    test('is active after create and fork', async () => {
      expect(await session.get()).toMatchObject({
        status: ACTIVE,
        tags: { a: '1', b: '2' },
        capabilities: { commit: true, approvals: true, annotations: true },
      })
      await session.approvals.request()
      const fork = await session.fork({ newTags: { b: '3', c: '4' } })
      expect(await fork.get()).toMatchObject({ status: ACTIVE, tags: { a: '1', b: '3', c: '4' } })
    })

    test.each(['grant', 'deny'] as const)('waits for approvals until the last %s', async (decide) => {
      const first = await session.approvals.request()
      expect(await status()).toBe(PENDING_APPROVAL)
      const second = await session.approvals.request()
      await session.approvals[decide](second)
      expect(await status()).toBe(PENDING_APPROVAL)
      await session.approvals[decide](first)
      expect(await status()).toBe(ACTIVE)
    })

    test('keeps its status after restore and commit: active or waiting', async () => {
      await session.checkpoint({ checkpointLabel: 'c' })
      for (const expected of [ACTIVE, PENDING_APPROVAL]) {
        if (expected === PENDING_APPROVAL) await session.approvals.request()
        await session.restore({ checkpointLabel: 'c' })
        expect(await status()).toBe(expected)
        await session.commit({ message: 'x' })
        expect(await status()).toBe(expected)
      }
    })

    test.skipIf(!hasGit)(
      'is in conflict after the branch moved, until it is restored or committed',
      async () => {
        const repository = GitRepository.create(join(directory, 'r.git'))
        repository.stage([['100644', 'a', 'one']])
        repository.commit()
        session = await engine.sessions.create({ sourceRef: { sourceId: await imported() } })
        await session.checkpoint({ checkpointLabel: 'c' })
        await session.files.write({ path: '/a', content: 'two' })
        repository.stage([['100644', 'b', 'elsewhere']])
        const moved = repository.commit()
        const conflict = async (): Promise<void> => {
          await expect(session.commit({ message: 'x', gitBranch })).rejects.toEqual(refused('BRANCH_MOVED'))
          expect(await status()).toBe(CONFLICT)
          expect(repository.tip('refs/heads/main')).toBe(moved)
        }
        await conflict()
        await session.restore({ checkpointLabel: 'c' })
        expect(await status()).toBe(ACTIVE)
        await conflict()
        await session.commit({ message: 'x', gitBranch: { branchName: 'other' } })
        expect(await status()).toBe(ACTIVE)
        await conflict()
        const { approvalId } = await session.approvals.request()
        expect(await status()).toBe(PENDING_APPROVAL)
        await conflict()
        await session.approvals.grant({ approvalId })
        expect(await status()).toBe(ACTIVE)
      },
    )

    test('can be committed only to branch names that git accepts', async () => {
      for (const branchName of ['', 'a..b', '-a', 'a b', 'HEAD', '/a', 'a.lock', 'a@{0}']) {
        await expect(session.commit({ message: 'x', gitBranch: { branchName } })).rejects.toMatchObject({
          reason: 'INVALID_ARGUMENT',
          details: { field: 'gitBranch.branchName' },
        })
      }
      await session.commit({ message: 'x', gitBranch: { branchName: 'a/b' } })
    })

    test('is not found after it was deleted', async () => {
      await session.delete()
      for (const attempt of [session.get(), session.delete(), session.fork(), session.checkpoint()])
        await expect(attempt).rejects.toEqual(refused('SESSION_NOT_FOUND'))
    })
  })

  describe('an approval', () => {
    const states = async (): Promise<ApprovalStatus[]> =>
      (await session.approvals.list()).approvals.map((approval) => approval.status)

    test.each([
      ['grant', ApprovalStatus.GRANTED],
      ['deny', ApprovalStatus.DENIED],
    ] as const)('is pending, then permanently decided by %s: %s', async (decide, after) => {
      const approval = await session.approvals.request()
      expect(await states()).toEqual([ApprovalStatus.PENDING])
      await session.approvals[decide](approval)
      expect(await states()).toEqual([after])
      for (const again of ['grant', 'deny'] as const) {
        await expect(session.approvals[again](approval)).rejects.toMatchObject({
          reason: 'APPROVAL_NOT_PENDING',
          status: 9,
        })
        expect(await states()).toEqual([after])
      }
    })
  })

  describe('an annotation', () => {
    test('can be resolved and reopened, each also twice', async () => {
      const expectedContentHash = await session.files.contentHash('/a')
      const { annotation } = await session.annotations.add({ filePath: '/a', expectedContentHash })
      expect(annotation.status).toBe(AnnotationStatus.OPEN)
      const { RESOLVED, OPEN } = AnnotationStatus
      for (const newStatus of [OPEN, RESOLVED, RESOLVED, OPEN]) {
        const moved = await session.annotations.setStatus({ annotationId: annotation.id, newStatus })
        expect(moved.annotation).toEqual({ ...annotation, status: newStatus })
      }
    })
  })

  describe('a file lock', () => {
    const path = '/a'
    const lock = (): Promise<{ lockId: string }> => session.fileLocks.lock({ path, timeoutSeconds: 10 })
    const held = async (): Promise<string[]> =>
      (await session.fileLocks.list()).locks.map(({ lockId }) => lockId)
    const renew = (lockId: string): Promise<unknown> =>
      session.fileLocks.renew({ path, lockId, timeoutSeconds: 20 })

    test.each([
      ['unlock', (lockId: string) => session.fileLocks.unlock({ path, lockId })],
      ['force-unlock', () => session.fileLocks.forceUnlock({ path })],
      ['the end of its timeout', () => Promise.resolve(environment.advance(30_000))],
    ])('is held, renewed, and released by %s', async (_how, release) => {
      const { lockId } = await lock()
      expect(await held()).toEqual([lockId])
      await expect(lock()).rejects.toEqual(refused('LOCK_HELD'))
      expect(await renew(lockId)).toEqual({ lockId, remainingTtlSeconds: 20 })
      environment.advance(15_000)
      expect(await held()).toEqual([lockId])
      await release(lockId)
      expect(await held()).toEqual([])
      for (const attempt of [
        () => renew(lockId),
        () => session.fileLocks.unlock({ path, lockId }),
        () => session.fileLocks.forceUnlock({ path }),
      ])
        await expect(attempt()).rejects.toEqual(refused('LOCK_NOT_FOUND'))
      const next = await lock()
      expect(await held()).toEqual([next.lockId])
    })
  })

  describe.skipIf(!hasGit)('a job and its source', () => {
    let repository: GitRepository

    beforeEach(() => {
      repository = GitRepository.create(join(directory, 'r.git'))
      repository.stage([['100644', 'a', 'one']])
      repository.commit()
    })

    const begin = async (): Promise<string> => {
      const gitRemote = { remoteUrl: `${git.url}/r.git`, defaultRef: 'main' }
      return (await engine.sources.create({ displayName: 'r', gitRemote })).sourceId
    }

    async function follow(sourceId: string, signal?: AbortSignal): Promise<ImportJob[]> {
      const job = await engine.sources.startImport(sourceId, signal === undefined ? {} : { signal })
      const seen = [job]
      await engine.sources.waitForJob(job, { onProgress: (next) => seen.push(next) }).catch(() => undefined)
      seen.push(await engine.sources.getJob(job))
      return seen
    }

    const states = (jobs: readonly ImportJob[]): ImportJobState[] => [
      ...new Set(jobs.map(({ state }) => state)),
    ]
    const { QUEUED, RUNNING, SUCCEEDED, FAILED } = ImportJobState

    test('queued, running, succeeded; the source stays ready', async () => {
      const sourceId = await begin()
      expect(await engine.sources.get(sourceId)).toMatchObject({
        status: SourceStatus.READY,
        latestRevisionId: '',
      })
      const jobs = await follow(sourceId)
      expect(jobs[0]).toMatchObject({
        state: QUEUED,
        revisionId: '',
        startedAt: '',
        completedAt: '',
        errorCode: '',
        errorMessage: '',
        bytesProcessed: 0,
        filesProcessed: 0,
      })
      // A client polls, so it may miss states.
      const passed = where === 'in process' ? [RUNNING] : states(jobs).filter((state) => state === RUNNING)
      expect(states(jobs)).toEqual([QUEUED, ...passed, SUCCEEDED])
      const { revisionId, startedAt, completedAt, filesProcessed } = jobs.at(-1)!
      expect([startedAt, completedAt]).not.toContain('')
      expect(filesProcessed).toBe(1)
      expect(await engine.sources.get(sourceId)).toMatchObject({
        status: SourceStatus.READY,
        latestRevisionId: revisionId,
      })
    })

    test('queued, running, failed; the source fails until an import succeeds, and stays usable after one', async () => {
      const sourceId = await begin()
      const away = `${repository.path}.away`
      renameSync(repository.path, away)
      const failed = await follow(sourceId)
      expect([states(failed)[0], states(failed).at(-1)]).toEqual([QUEUED, FAILED])
      expect(failed.at(-1)).toMatchObject({ errorCode: 'REMOTE_UNREACHABLE', revisionId: '' })
      expect(failed.at(-1)!.startedAt).not.toBe('')
      expect((await engine.sources.get(sourceId)).status).toBe(SourceStatus.FAILED)
      await expect(engine.sessions.create({ sourceRef: { sourceId } })).rejects.toEqual(
        refused('SOURCE_WITHOUT_REVISION'),
      )
      renameSync(away, repository.path)
      expect(states(await follow(sourceId)).at(-1)).toBe(SUCCEEDED)
      expect((await engine.sources.get(sourceId)).status).toBe(SourceStatus.READY)
      renameSync(repository.path, away)
      expect(states(await follow(sourceId)).at(-1)).toBe(FAILED)
      expect((await engine.sources.get(sourceId)).status).toBe(SourceStatus.READY)
      await engine.sessions.create({ sourceRef: { sourceId } })
    })

    test('aborted before it runs', async () => {
      const sourceId = await begin()
      const abort = new AbortController()
      const following = follow(sourceId, abort.signal)
      abort.abort()
      const end = (await following.catch(() => [])).at(-1)
      expect([undefined, 'INTERRUPTED']).toContain(end?.errorCode)
      expect((await engine.sources.get(sourceId)).latestRevisionId).toBe('')
    })
  })
})
