/** States and the main job by operation name, in process and over HTTP, as clients see them. */
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { OperationResponse } from '../../src/engine/contract.js'
import { openEngine, type Engine } from '../../src/index.js'
import { fixedEnvironment, type FixedEnvironment } from '../../src/testing.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { serveGit, type GitServer } from '../support/git-server.js'
import { fewStorages } from '../support/storages.js'
import { transports, type Call } from '../support/transports.js'

const places = fewStorages.flatMap(([storage, make]) =>
  transports.map(([transport, connect]) => [storage, transport, make, connect] as const),
)

const refused = (reason: string, status: number): object =>
  expect.objectContaining({ reason, status }) as object
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const hashOf = (text: string): string => `sha256:${createHash('sha256').update(text).digest('hex')}`

describe.each(places)('on %s, %s:', (_storage, _transport, makeStorage, connect) => {
  let directory: string
  let environment: FixedEnvironment
  let engine: Engine
  let call: Call

  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'flows-'))
    environment = fixedEnvironment()
    engine = await openEngine({
      environment,
      storage: makeStorage(directory),
      secrets: { masterKey: { id: 'one', key: new Uint8Array(32) } },
      git: { allowPrivateAddresses: true },
    })
    call = connect(engine)
  })

  afterEach(async () => {
    await engine.close()
    rmSync(directory, { recursive: true, force: true })
  })

  async function newSession(files: Readonly<Record<string, string>> = {}): Promise<string> {
    const { id } = await call('createSession', { initialTags: { a: '1', b: '2' } })
    const operations = Object.entries(files).map(([path, content]) => ({
      write: { path, content: bytes(content) },
    }))
    await call('applyBatch', { sessionId: id, operations })
    return id
  }

  const statusOf = async (sessionId: string): Promise<string> =>
    (await call('getSession', { sessionId })).status
  const contentOf = async (sessionId: string, path: string): Promise<string> =>
    new TextDecoder().decode((await call('readFile', { sessionId, path })).content)

  describe('a session', () => {
    test('is active after create and fork, whatever its parent waits for', async () => {
      const sessionId = await newSession()
      expect(await call('getSession', { sessionId })).toMatchObject({
        status: 'SESSION_STATUS_ACTIVE',
        tags: { a: '1', b: '2' },
        capabilities: { commit: true, approvals: true, annotations: true },
      })
      await call('requestApproval', { sessionId })
      const fork = await call('forkSession', { sourceSessionId: sessionId, newTags: { b: '3', c: '4' } })
      expect(fork).toMatchObject({ status: 'SESSION_STATUS_ACTIVE', tags: { a: '1', b: '3', c: '4' } })
      expect(await statusOf(sessionId)).toBe('SESSION_STATUS_PENDING_APPROVAL')
    })

    test.each(['grantApproval', 'denyApproval'] as const)(
      'waits for approvals until the last %s',
      async (decide) => {
        const sessionId = await newSession()
        const first = await call('requestApproval', { sessionId, reason: 'COMMIT_TO_MAIN' })
        const second = await call('requestApproval', { sessionId })
        await call(decide, { sessionId, ...second })
        expect(await statusOf(sessionId)).toBe('SESSION_STATUS_PENDING_APPROVAL')
        await call(decide, { sessionId, ...first })
        expect(await statusOf(sessionId)).toBe('SESSION_STATUS_ACTIVE')
        for (const again of ['grantApproval', 'denyApproval'] as const)
          await expect(call(again, { sessionId, ...first })).rejects.toEqual(
            refused('APPROVAL_NOT_PENDING', 9),
          )
      },
    )

    test('keeps its status after restore and commit', async () => {
      const sessionId = await newSession({ '/a': 'one' })
      const { id: checkpointId } = await call('createCheckpoint', { sessionId, label: 'c' })
      for (const expected of ['SESSION_STATUS_ACTIVE', 'SESSION_STATUS_PENDING_APPROVAL']) {
        if (expected !== 'SESSION_STATUS_ACTIVE') await call('requestApproval', { sessionId })
        await call('createDirectory', { sessionId, path: '/d' })
        expect((await call('restoreCheckpoint', { sessionId, checkpointId })).status).toBe(expected)
        expect((await call('commit', { sessionId, message: 'x' })).commitId).toMatch(/^[\da-f]{40}$/)
        expect(await statusOf(sessionId)).toBe(expected)
      }
      await expect(call('createCheckpoint', { sessionId, label: 'c' })).rejects.toEqual(
        refused('ALREADY_EXISTS', 6),
      )
    })

    test('is not found after it was deleted', async () => {
      const sessionId = await newSession()
      await call('deleteSession', { sessionId })
      const gone = refused('SESSION_NOT_FOUND', 5)
      await expect(call('getSession', { sessionId })).rejects.toEqual(gone)
      await expect(call('deleteSession', { sessionId })).rejects.toEqual(gone)
      await expect(call('forkSession', { sourceSessionId: sessionId })).rejects.toEqual(gone)
      await expect(call('createCheckpoint', { sessionId })).rejects.toEqual(gone)
    })
  })

  test('an annotation can be resolved and reopened, each also twice', async () => {
    const sessionId = await newSession({ '/a': 'one' })
    const stale = { sessionId, filePath: '/a', expectedContentHash: hashOf('two') }
    await expect(call('addAnnotation', stale)).rejects.toEqual(refused('HASH_MISMATCH', 10))
    const { annotation } = await call('addAnnotation', {
      ...stale,
      expectedContentHash: hashOf('one'),
      comment: '?',
    })
    expect(annotation).toMatchObject({ status: 'ANNOTATION_STATUS_OPEN', reviewerId: 'local' })
    for (const newStatus of [
      'ANNOTATION_STATUS_OPEN',
      'ANNOTATION_STATUS_RESOLVED',
      'ANNOTATION_STATUS_RESOLVED',
      'ANNOTATION_STATUS_OPEN',
    ] as const) {
      const moved = await call('updateAnnotationStatus', {
        sessionId,
        annotationId: annotation.id,
        newStatus,
      })
      expect(moved).toEqual({ annotation: { ...annotation, status: newStatus } })
      expect(await call('listAnnotations', { sessionId })).toEqual({ annotations: [moved.annotation] })
    }
  })

  type Release = (sessionId: string, path: string, lockId: string) => Promise<unknown>

  const releases: readonly (readonly [string, Release])[] = [
    ['unlock', (sessionId, path, lockId) => call('unlockFile', { sessionId, path, lockId })],
    [
      'force-unlock',
      async (sessionId, path, lockId) =>
        expect(await call('forceUnlockFile', { sessionId, path })).toEqual({ lockId, ownerId: 'local' }),
    ],
    ['the end of its timeout', () => Promise.resolve(environment.advance(6000))],
  ]

  test.each(releases)('a file lock is held, renewed, and released by %s', async (_how, release) => {
    const sessionId = await newSession()
    const path = '/a'
    const held = async (): Promise<string[]> =>
      (await call('listFileLocks', { sessionId })).locks.map(({ lockId }) => lockId)
    const { lockId } = await call('lockFile', { sessionId, path, timeoutSeconds: 10 })
    await expect(call('lockFile', { sessionId, path, timeoutSeconds: 10 })).rejects.toEqual(
      refused('LOCK_HELD', 10),
    )
    expect(await call('renewFileLock', { sessionId, path, lockId, timeoutSeconds: 20 })).toEqual({
      lockId,
      remainingTtlSeconds: 20,
    })
    environment.advance(15_000)
    expect(await held()).toEqual([lockId])
    await release(sessionId, path, lockId)
    expect(await held()).toEqual([])
    const gone = refused('LOCK_NOT_FOUND', 5)
    await expect(call('renewFileLock', { sessionId, path, lockId, timeoutSeconds: 20 })).rejects.toEqual(gone)
    await expect(call('unlockFile', { sessionId, path, lockId })).rejects.toEqual(gone)
  })

  test('files are written, patched, moved and read with guards', async () => {
    const sessionId = await newSession({ '/src/a': 'one', '/src/b': 'two' })
    await call('patchSegments', {
      sessionId,
      mutations: [
        {
          path: '/src/a',
          segments: [{ data: { offset: 3, content: bytes(' more') } }],
          expectedHash: hashOf('one'),
        },
      ],
    })
    expect(await contentOf(sessionId, '/src/a')).toBe('one more')
    const mutations = [
      { path: '/src/a', segments: [], expectedHash: hashOf('one') },
      { path: '/src/c', segments: [{ data: { offset: 2, content: bytes('x') } }], expectedHash: '' },
    ]
    await expect(call('patchSegments', { sessionId, mutations })).rejects.toMatchObject({
      reason: 'HASH_MISMATCH',
      status: 10,
      details: { path: '/src/a', expectedHash: hashOf('one'), actualHash: hashOf('one more') },
    })
    const conflictPolicy = 'SEGMENT_CONFLICT_POLICY_SKIP_ON_CONFLICT'
    expect(await call('patchSegments', { sessionId, mutations, conflictPolicy })).toEqual({
      skippedPaths: ['/src/a'],
    })
    expect(await contentOf(sessionId, '/src/c')).toBe('\0\0x')
    await call('rename', { sessionId, sourcePath: '/src', destinationPath: '/lib' })
    await call('createSymlink', { sessionId, linkPath: '/link', target: 'lib/b' })
    await call('setXattr', { sessionId, path: '/link', name: 'user.k', value: bytes('v') })
    const { value } = await call('getXattr', { sessionId, path: '/lib/b', name: 'user.k' })
    expect(Buffer.from(value).toString()).toBe('v')
    const { nodes } = await call('getManifest', { sessionId, includeCasExtents: true })
    expect(nodes.map(({ path, sizeBytes }) => [path, sizeBytes])).toEqual([
      ['/lib', 0],
      ['/lib/a', 8],
      ['/lib/b', 3],
      ['/lib/c', 3],
    ])
    const { events } = await call('listEvents', { sessionId })
    expect(events.find(({ eventType }) => eventType.endsWith('.Rename'))!.details).toEqual({
      sourcePath: '/src',
      destinationPath: '/lib',
    })
  })

  describe.skipIf(!hasGit)('the main job', () => {
    let native: GitRepository
    let server: GitServer
    let hold: Promise<void> | undefined

    beforeEach(async () => {
      hold = undefined
      native = GitRepository.create(join(directory, 'remote.git'))
      native.commitFiles([
        ['100644', 'readme', 'read me'],
        ['100755', 'bin/run', '#!/bin/sh\n'],
        ['120000', 'latest', 'bin/run'],
      ])
      server = await serveGit(directory, { hold: () => hold })
    })
    afterEach(() => server.close())

    async function newSource(): Promise<string> {
      const gitRemote = { remoteUrl: `${server.url}/remote.git`, defaultRef: 'main' }
      const source = await call('createSource', { displayName: 'r', gitRemote, labels: { team: 'x' } })
      expect(source).toMatchObject({ status: 'UNDERLAY_SOURCE_STATUS_READY', latestRevisionId: '' })
      return source.sourceId
    }

    type Job = OperationResponse<'getJob'>

    async function ended({ sourceId, jobId }: Job): Promise<Job> {
      for (;;) {
        const job = await call('getJob', { sourceId, jobId })
        if (job.completedAt !== '') return job
        expect(job).toMatchObject({ revisionId: '', errorCode: '' })
        await pause(5)
      }
    }

    test('imports, forks, changes, reviews, commits and pushes', async () => {
      const tip = native.tip('refs/heads/main')!
      const sourceId = await newSource()
      const queued = await call('startImport', { sourceId, git: { gitRef: 'main' } })
      expect(queued).toMatchObject({
        state: 'UNDERLAY_IMPORT_JOB_STATE_QUEUED',
        revisionId: '',
        startedAt: '',
        completedAt: '',
        errorCode: '',
        errorMessage: '',
        bytesProcessed: 0,
        filesProcessed: 0,
      })
      const job = await ended(queued)
      expect(job).toMatchObject({
        state: 'UNDERLAY_IMPORT_JOB_STATE_SUCCEEDED',
        revisionId: tip,
        filesProcessed: 3,
      })
      const { sources } = await call('listSources', { filter: 'team=x' })
      expect(sources).toMatchObject([{ sourceId, latestRevisionId: tip }])

      const { id, baseFingerprint } = await call('createSession', {
        sourceRef: { sourceId, revisionId: tip },
      })
      const fork = await call('forkSession', { sourceSessionId: id, newTags: { attempt: '1' } })
      expect(fork.baseFingerprint).toBe(baseFingerprint)
      const sessionId = fork.id
      await call('applyBatch', {
        sessionId,
        operations: [
          { write: { path: '/readme', content: bytes('changed'), expectedHash: hashOf('read me') } },
          { write: { path: '/new/ä', content: bytes('new'), expectedHash: '' } },
        ],
      })
      expect(await contentOf(id, '/readme')).toBe('read me')
      const { changedFiles } = await call('generateCommitSummary', { sessionId })
      expect(changedFiles).toEqual(['/new/ä', '/readme'])
      const { approvalId } = await call('requestApproval', { sessionId, details: { changedFiles } })
      await call('grantApproval', { sessionId, approvalId })
      const author = { name: 'Ada', email: 'ada@example.org' }
      const { commitId } = await call('commit', {
        sessionId,
        message: 'work',
        author,
        gitBranch: { branchName: 'work' },
      })
      expect(native.tip('refs/heads/work')).toBe(commitId)
      expect(native.changes(tip, commitId)).toEqual(['100644 A new/ä', '100644 M readme'])
      native.fsck()
      expect(await call('getAnalytics', { sessionId })).toMatchObject({ totalFileMutations: 1 })

      // Another client pushed first.
      native.commitFiles([['100644', 'theirs', 'x']], 'refs/heads/work')
      await call('unlink', { sessionId, path: '/readme' })
      await expect(
        call('commit', { sessionId, message: 'late', gitBranch: { branchName: 'work' } }),
      ).rejects.toEqual(refused('BRANCH_MOVED', 10))
      expect(await statusOf(sessionId)).toBe('SESSION_STATUS_CONFLICT')
      await call('commit', { sessionId, message: 'late', gitBranch: { branchName: 'other' } })
      expect(await statusOf(sessionId)).toBe('SESSION_STATUS_ACTIVE')

      const again = await ended(await call('refreshSource', { sourceId }))
      expect(again).toMatchObject({ state: 'UNDERLAY_IMPORT_JOB_STATE_SUCCEEDED', revisionId: tip })
      const promoted = await ended(await call('promoteSession', { sourceId, sessionId, revisionLabel: 'v1' }))
      expect(promoted.state).toBe('UNDERLAY_IMPORT_JOB_STATE_SUCCEEDED')
      const next = await call('createSession', { sourceRef: { sourceId, revisionId: 'v1' } })
      expect(await contentOf(next.id, '/new/ä')).toBe('new')
      await expect(contentOf(next.id, '/readme')).rejects.toEqual(refused('PATH_NOT_FOUND', 5))
    })

    test('shows running and failed jobs', async () => {
      let open: (() => void) | undefined
      hold = new Promise((resolve) => (open = resolve))
      const sourceId = await newSource()
      const queued = await call('startImport', { sourceId })
      let job = queued
      while (job.state === 'UNDERLAY_IMPORT_JOB_STATE_QUEUED') {
        await pause(5)
        job = await call('getJob', queued)
      }
      expect(job).toMatchObject({
        state: 'UNDERLAY_IMPORT_JOB_STATE_RUNNING',
        completedAt: '',
        revisionId: '',
      })
      expect(job.startedAt).not.toBe('')
      open!()
      hold = undefined
      expect((await ended(queued)).state).toBe('UNDERLAY_IMPORT_JOB_STATE_SUCCEEDED')
      const failed = await ended(await call('startImport', { sourceId, git: { gitRef: 'none' } }))
      expect(failed).toMatchObject({
        state: 'UNDERLAY_IMPORT_JOB_STATE_FAILED',
        errorCode: 'REF_NOT_FOUND',
        revisionId: '',
      })
      expect((await call('getSource', { sourceId })).status).toBe('UNDERLAY_SOURCE_STATUS_READY')
    })
  })
})
