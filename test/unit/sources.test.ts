import {
  chmodSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  EngineError,
  ImportJobState,
  limits,
  memoryStorage,
  openEngine,
  SourceKind,
  SourceStatus,
  type Engine,
  type ImportJob,
  type LogEntry,
  type Session,
  type Sources,
  type Storage,
} from '../../src/index.js'
import { systemEnvironment } from '../../src/adapters/system/index.js'
import { createEngine } from '../../src/engine/create-engine.js'
import type { Importer, TreeSink } from '../../src/engine/ports.js'
import { wrapped } from '../../src/engine/storage/wrapped-store.js'
import { FailingStorage } from '../support/failing-storage.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { tarEntry, tarOf } from '../support/raw-archives.js'
import { storages } from '../support/storages.js'
import { unhandledDuring } from '../support/unhandled.js'

let root: string
let made = 0
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'forkspace-sources-'))
})
afterAll(() => rmSync(root, { recursive: true, force: true }))

function newDirectory(): string {
  const directory = join(root, `d${++made}`)
  mkdirSync(directory)
  return directory
}

async function uploaded(engine: Engine): Promise<string> {
  return (await engine.sources.create({ displayName: 'app', uploadedSnapshot: {} })).sourceId
}

async function upload(
  engine: Engine,
  sourceId: string,
  files: Record<string, string | Uint8Array>,
): Promise<ImportJob> {
  return engine.sources.waitForJob(
    await engine.sources.startImport(sourceId, { uploadedSnapshot: { files } }),
  )
}

async function on(engine: Engine, sourceId: string, revisionId?: string): Promise<Session> {
  return engine.sessions.create({
    sourceRef: { sourceId, ...(revisionId !== undefined && { revisionId }) },
  })
}

async function read(session: Session, path: string): Promise<string> {
  return String(await session.fs.promises.readFile(path))
}

/** A repository with one commit. */
function repositoryOf(files: Record<string, string>): GitRepository {
  const repository = GitRepository.create(newDirectory(), { bare: false })
  stage(repository.path, files)
  return repository
}

/** Commits files; undefined removes one. */
function stage(path: string, files: Record<string, string | undefined>): void {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true })
    if (content === undefined) unlinkSync(join(path, name))
    else writeFileSync(join(path, name), content)
  }
  const repository = new GitRepository(path)
  repository.git(['add', '-A'])
  repository.git(['commit', '-qm', 'm'])
}

async function errorOf(failing: Promise<unknown>): Promise<EngineError> {
  const error = await failing.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(EngineError)
  return error as EngineError
}

async function reasonOf(failing: Promise<unknown>): Promise<string> {
  const error = await failing.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(EngineError)
  return (error as EngineError).reason
}

/** A content that yields nothing and never ends. */
async function* silent(): AsyncGenerator<Uint8Array> {
  await new Promise(() => undefined)
  yield Buffer.alloc(0)
}

describe.each(storages)('sources on %s', (_name, make, lasting) => {
  test('an upload makes a revision named by its tree, and an equal upload the same revision', async () => {
    await using engine = await openEngine({ storage: make(newDirectory()) })
    const sourceId = await uploaded(engine)
    expect(await engine.sources.get(sourceId)).toMatchObject({
      kind: SourceKind.UPLOADED_SNAPSHOT,
      status: SourceStatus.READY,
      latestRevisionId: '',
    })
    const large = Buffer.alloc(2 ** 21 + 5, 7)
    const first = await upload(engine, sourceId, { '/a.txt': 'one', '/dir/large': large, '/empty': '' })
    const session = await on(engine, sourceId)
    expect(await read(session, '/a.txt')).toBe('one')
    expect(Buffer.compare(await session.fs.promises.readFile('/dir/large'), large)).toBe(0)
    expect(await read(session, '/empty')).toBe('')
    const info = await engine.sessions.get(session.id)
    expect(info.baseFingerprint).toBe(first.revisionId)
    const again = await upload(engine, sourceId, { '/empty': '', '/dir/large': large, '/a.txt': 'one' })
    expect(again.revisionId).toBe(first.revisionId)
    const second = await upload(engine, sourceId, { '/a.txt': 'two' })
    expect(second.revisionId).not.toBe(first.revisionId)
    expect(await read(await on(engine, sourceId), '/a.txt')).toBe('two')
    expect(await read(await on(engine, sourceId, first.revisionId), '/a.txt')).toBe('one')
  })

  test('rejects requests that do not match the kind of the source, and changes nothing', async () => {
    await using engine = await openEngine({ storage: make(newDirectory()) })
    const sourceId = await uploaded(engine)
    const refused = [
      () => engine.sources.startImport(sourceId, { git: { gitRef: 'main' } }),
      () => engine.sources.startImport(sourceId, {}),
      () => engine.sources.startImport(sourceId, { uploadedSnapshot: {} }),
      () => engine.sources.startImport(sourceId, { uploadedSnapshot: { files: {}, content: Buffer.of(1) } }),
      () => engine.sources.startImport(sourceId, { uploadedGitBundle: { content: Buffer.of(1) } }),
      () => engine.sources.create({ displayName: 'a' }),
      () => engine.sources.create({ displayName: 'a', uploadedSnapshot: {}, hostPath: { path: '/x' } }),
    ]
    for (const refusal of refused) expect(await reasonOf(refusal())).toBe('INVALID_ARGUMENT')
    expect(await reasonOf(engine.sources.refresh(sourceId))).toBe('SOURCE_NOT_REFRESHABLE')
    expect(
      await reasonOf(engine.sources.create({ displayName: 'a', hostPath: { path: newDirectory() } })),
    ).toBe('HOST_PATH_NOT_ALLOWED')
    expect((await engine.sources.list()).sources).toHaveLength(1)
    expect((await engine.sources.get(sourceId)).latestRevisionId).toBe('')
  })

  test('deleting a source keeps its sessions and named revisions', async () => {
    const directory = newDirectory()
    const storage = make(directory)
    const engine = await openEngine({ storage })
    const sourceId = await uploaded(engine)
    const other = await uploaded(engine)
    const { revisionId } = await upload(engine, sourceId, { '/a': '1' })
    const session = await on(engine, sourceId)
    await engine.sources.delete(sourceId)
    const check = async (opened: Engine): Promise<void> => {
      for (const gone of [
        () => opened.sources.get(sourceId),
        () => opened.sources.delete(sourceId),
        () => opened.sources.startImport(sourceId, { uploadedSnapshot: { files: {} } }),
        () => on(opened, sourceId),
      ]) {
        expect(await reasonOf(gone())).toBe('SOURCE_NOT_FOUND')
      }
      expect((await opened.sources.list()).sources.map((source) => source.sourceId)).toEqual([other])
      expect(await read(await opened.sessions.open(session.id), '/a')).toBe('1')
      expect(await read(await on(opened, sourceId, revisionId), '/a')).toBe('1')
    }
    await check(engine)
    await engine.close()
    if (!lasting) return
    await using again = await openEngine({ storage })
    await check(again)
  })

  test('a promoted state is available at once as a revision, by id and by label', async () => {
    const directory = newDirectory()
    const storage = make(directory)
    const engine = await openEngine({ storage })
    const sourceId = await uploaded(engine)
    await upload(engine, sourceId, { '/a': '1', '/d/b': '2' })
    const session = await on(engine, sourceId)
    await session.fs.promises.writeFile('/a', 'changed')
    await session.fs.promises.symlink('a', '/link')
    await session.files.link({ srcPath: '/a', dstPath: '/hard' })
    const queued = await engine.sources.promoteSession(sourceId, {
      sessionId: session.id,
      revisionLabel: 'v1',
    })
    // The revision has the state at the call.
    await session.fs.promises.writeFile('/a', 'later')
    expect(queued.state).toBe(ImportJobState.QUEUED)
    const { revisionId } = await engine.sources.waitForJob(queued)
    expect((await engine.sources.get(sourceId)).latestRevisionId).toBe(revisionId)
    const types = []
    for await (const { eventType, details } of session.events) types.push([eventType, details])
    expect(types.at(-1)).toEqual([
      'v1.UnderlaySourceService.PromoteSession',
      { sourceId, jobId: queued.jobId },
    ])
    const check = async (opened: Engine): Promise<void> => {
      for (const name of [revisionId, 'v1', undefined]) {
        const next = await on(opened, sourceId, name)
        expect(await read(next, '/link')).toBe('changed')
        expect((await next.fs.promises.stat('/hard')).nlink).toBe(2)
        expect(await read(next, '/d/b')).toBe('2')
      }
    }
    await check(engine)
    expect(
      await reasonOf(engine.sources.promoteSession(sourceId, { sessionId: session.id, revisionLabel: 'v1' })),
    ).toBe('ALREADY_EXISTS')
    expect(await reasonOf(engine.sources.promoteSession(sourceId, { sessionId: 'x' }))).toBe(
      'SESSION_NOT_FOUND',
    )
    expect(await reasonOf(engine.sources.promoteSession(session.id, { sessionId: session.id }))).toBe(
      'SOURCE_NOT_FOUND',
    )
    await engine.close()
    if (!lasting) return
    await using again = await openEngine({ storage })
    await check(again)
  })

  test('only one of two concurrent promotions with the same label succeeds', async () => {
    await using engine = await openEngine({ storage: make(newDirectory()) })
    const sourceId = await uploaded(engine)
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    const request = { sessionId: session.id, revisionLabel: 'x' }
    const both = await Promise.allSettled([
      engine.sources.promoteSession(sourceId, request),
      engine.sources.promoteSession(sourceId, request),
    ])
    expect(both.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
  })

  test.each<[string, () => unknown]>([
    ['throws', () => fail()],
    ['rejects', async () => fail()],
  ])('a listener of jobs that %s is logged, and fails no job', async (_how, listener) => {
    const logged: string[] = []
    const unhandled = await unhandledDuring(async () => {
      const log = ({ message }: LogEntry): number => logged.push(message)
      await using engine = await openEngine({ storage: make(newDirectory()), log })
      const sourceId = await uploaded(engine)
      engine.sources.onJob(listener)
      const job = await engine.sources.startImport(sourceId, { uploadedSnapshot: { files: { '/a': '1' } } })
      await engine.sources.waitForJob(job)
    })
    expect(unhandled).toEqual([])
    expect(new Set(logged)).toEqual(new Set(['a job listener threw an error', 'a job succeeded']))
  })

  test('a job can be polled, observed and aborted', async () => {
    await using engine = await openEngine({ storage: make(newDirectory()) })
    const sourceId = await uploaded(engine)
    const heard: string[] = []
    const unsubscribe = engine.sources.onJob(({ state }) => heard.push(state))
    const job = await engine.sources.startImport(sourceId, { uploadedSnapshot: { files: { '/a': '1' } } })
    const watched: string[] = []
    for await (const { state } of engine.sources.watchJob(job)) watched.push(state)
    expect(watched.at(-1)).toBe(ImportJobState.SUCCEEDED)
    expect(heard[0]).toBe(ImportJobState.QUEUED)
    expect(heard.at(-1)).toBe(ImportJobState.SUCCEEDED)
    for await (const { state } of engine.sources.watchJob(job)) watched.push(state)
    expect(watched.at(-1)).toBe(ImportJobState.SUCCEEDED)
    unsubscribe()
    const count = heard.length

    // Aborts an endless upload.
    const endless = async function* (): AsyncGenerator<Uint8Array> {
      for (;;) {
        yield await new Promise<Uint8Array>((resolve) => setTimeout(() => resolve(Buffer.alloc(512)), 1))
      }
    }
    const queued = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content: endless() } })
    expect(await engine.sources.abortJob(queued)).toMatchObject({
      state: ImportJobState.FAILED,
      errorCode: 'INTERRUPTED',
    })
    expect(heard).toHaveLength(count)
    expect((await engine.sources.get(sourceId)).status).toBe(SourceStatus.READY)
    expect(await reasonOf(engine.sources.abortJob({ sourceId, jobId: sourceId }))).toBe('JOB_NOT_FOUND')
  })

  test('lists the jobs of a source, the newest first, with the progress of those that run', async () => {
    await using engine = await openEngine({ storage: make(newDirectory()) })
    const sourceId = await uploaded(engine)
    const list = (request: { pageSize?: number; pageToken?: string } = {}): ReturnType<Sources['listJobs']> =>
      engine.sources.listJobs({ sourceId, ...request })
    expect(await list()).toEqual({ jobs: [], nextPageToken: '' })
    const first = await upload(engine, sourceId, { '/a': '1' })
    const failing = await engine.sources.startImport(sourceId, {
      uploadedSnapshot: { content: Buffer.from('no archive') },
    })
    expect(await reasonOf(engine.sources.waitForJob(failing))).toBe('IMPORT_FAILED')
    await upload(engine, await uploaded(engine), { '/other': '1' })
    const content = async function* (): AsyncGenerator<Uint8Array> {
      yield tarEntry({ name: 'a', content: Buffer.alloc(1000) })
      yield* silent()
    }
    const slow = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content: content() } })
    for await (const { filesProcessed } of engine.sources.watchJob(slow)) if (filesProcessed === 1) break
    const queued = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content: silent() } })

    const { jobs } = await list()
    expect(jobs).toEqual(
      await Promise.all([queued, slow, failing, first].map((job) => engine.sources.getJob(job))),
    )
    expect(jobs.slice(0, 3)).toMatchObject([
      { state: ImportJobState.QUEUED, startedAt: '' },
      { state: ImportJobState.RUNNING, filesProcessed: 1, bytesProcessed: 1000 },
      { state: ImportJobState.FAILED, errorCode: 'INVALID_ARCHIVE' },
    ])
    for (const pageSize of [1, 2, 3, 4]) {
      const paged: ImportJob[] = []
      for (let pageToken = ''; ;) {
        const page = await list({ pageSize, pageToken })
        expect(page.jobs.length).toBeLessThanOrEqual(pageSize)
        paged.push(...page.jobs)
        pageToken = page.nextPageToken
        if (pageToken === '') break
      }
      expect(paged).toEqual(jobs)
    }
    expect(await reasonOf(list({ pageToken: 'x' }))).toBe('INVALID_ARGUMENT')
    expect(await reasonOf(list({ pageSize: -1 }))).toBe('INVALID_ARGUMENT')
    const others = engine.as({ tenant: 'other' }).sources
    expect(await reasonOf(others.listJobs({ sourceId }))).toBe('SOURCE_NOT_FOUND')
    await engine.sources.delete(sourceId)
    expect(await reasonOf(list())).toBe('SOURCE_NOT_FOUND')
  })

  test('a label is never confused with an id', async () => {
    await using engine = await openEngine({ storage: make(newDirectory()) })
    const sourceId = await uploaded(engine)
    const { revisionId } = await upload(engine, await uploaded(engine), { '/imported': '1' })
    const session = await engine.sessions.create({ files: { '/promoted': '1' } })
    const promote = async (revisionLabel: string): Promise<ImportJob> =>
      engine.sources.waitForJob(
        await engine.sources.promoteSession(sourceId, { sessionId: session.id, revisionLabel }),
      )
    const promoted = await promote('v1')
    expect(await reasonOf(on(engine, sourceId, '=v1'))).toBe('REVISION_NOT_FOUND')
    for (const name of ['__proto__', '=', '=v1', 'é'.repeat(512), revisionId]) {
      await promote(name)
      expect(await (await on(engine, sourceId, name)).fs.promises.readdir('/')).toEqual(['promoted'])
    }
    // A label equal to the id of a revision could never be found.
    expect(await reasonOf(promote(promoted.revisionId))).toBe('ALREADY_EXISTS')
    expect(await reasonOf(promote('é'.repeat(513)))).toBe('TOO_LARGE')
    // A later revision whose id equals the label is a different one.
    await upload(engine, sourceId, { '/imported': '1' })
    for (const name of [revisionId, undefined])
      expect(await (await on(engine, sourceId, name)).fs.promises.readdir('/')).toEqual(['imported'])
  })

  test('a promotion that never starts releases its label', async () => {
    await using engine = await openEngine({ storage: make(newDirectory()) })
    const sourceId = await uploaded(engine)
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    const request = { sessionId: session.id, revisionLabel: 'x' }
    const aborted = engine.sources.promoteSession(sourceId, { ...request, signal: AbortSignal.abort() })
    await expect(aborted).rejects.toThrow('aborted')
    await engine.sources.waitForJob(await engine.sources.promoteSession(sourceId, request))
  })

  test('a promotion uses the state at its call, however long it waits', async () => {
    const storage = make(newDirectory())
    const before = await openEngine({ storage })
    const made = await before.sessions.create({ files: { '/a': '1', '/b/c/d': '1' } })
    // A reopened session has to be loaded first if reads are asynchronous.
    if (lasting) await before.close()
    await using engine = lasting ? await openEngine({ storage }) : before
    const session = await engine.sessions.open(made.id)
    const sourceId = await uploaded(engine)
    const first = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content: silent() } })
    const promoted = await Promise.all([
      session.files.write({ path: '/b/c/d', content: 'before' }),
      engine.sources.promoteSession(sourceId, { sessionId: session.id }),
      session.files.write({ path: '/b/c/d', content: 'after' }),
    ])
    await session.files.write({ path: '/a', content: 'later' })
    await engine.sources.abortJob(first)
    await engine.sources.waitForJob(promoted[1])
    const next = await on(engine, sourceId)
    expect([await read(next, '/a'), await read(next, '/b/c/d')]).toEqual(['1', 'before'])
  })

  test('each job of a source builds on the result of the previous one', async () => {
    await using engine = await openEngine({ storage: make(newDirectory()) })
    const sourceId = await uploaded(engine)
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    for (let i = 0; i < 10; i++) {
      const written = session.files.write({ path: '/a', content: `s${i}` })
      const jobs = await Promise.all([
        engine.sources.promoteSession(sourceId, { sessionId: session.id }),
        engine.sources.startImport(sourceId, { uploadedSnapshot: { files: { '/a': `u${i}` } } }),
        written,
      ])
      const ended = await Promise.all([jobs[0], jobs[1]].map((job) => engine.sources.waitForJob(job)))
      const last = ended.toSorted((a, b) => (a.jobId < b.jobId ? -1 : 1)).at(-1)!
      expect((await engine.sources.get(sourceId)).latestRevisionId).toBe(last.revisionId)
    }
  })

  test('contents are copied at the call', async () => {
    await using engine = await openEngine({ storage: make(newDirectory()) })
    const sourceId = await uploaded(engine)
    const bytes = Buffer.from('one')
    const starting = engine.sources.startImport(sourceId, { uploadedSnapshot: { files: { '/a': bytes } } })
    bytes.fill(0)
    await engine.sources.waitForJob(await starting)
    expect(await read(await on(engine, sourceId), '/a')).toBe('one')
  })

  test('rejects paths that make no valid tree at the call', async () => {
    await using engine = await openEngine({ storage: make(newDirectory()) })
    const sourceId = await uploaded(engine)
    for (const files of [
      { a: '1' },
      { '/': '1' },
      { '/a/../b': '1' },
      { '/a': '1', '/a/b': '1' },
      { '/a/b/c': '1', '/a': '1' },
      { '/a': '1', '/a/': '1' },
      { '/a': 5 as unknown as string },
    ]) {
      const starting = engine.sources.startImport(sourceId, { uploadedSnapshot: { files } })
      expect(await reasonOf(starting)).toBe('INVALID_ARGUMENT')
      expect(await reasonOf(engine.sessions.create({ files }))).toBe('INVALID_ARGUMENT')
    }
  })

  test('rejects requests of the wrong types', async () => {
    await using engine = await openEngine({ storage: make(newDirectory()) })
    const sourceId = await uploaded(engine)
    const job = await upload(engine, sourceId, { '/a': '1' })
    const { id: sessionId } = await on(engine, sourceId)
    const { sources } = engine
    const wrong = (value: unknown): never => value as never
    const watch = async (options: unknown): Promise<void> => {
      for await (const _ of sources.watchJob(job, wrong(options)));
    }
    const files = { '/a': '1' }
    const signal = wrong({})
    for (const refused of [
      () => sources.promoteSession(sourceId, wrong(null)),
      () => sources.promoteSession(sourceId, { sessionId, signal }),
      () => sources.startImport(sourceId, { uploadedSnapshot: { files }, signal }),
      () => sources.startImport(sourceId, { uploadedSnapshot: wrong(null) }),
      () => sources.refresh(sourceId, { signal }),
      () => sources.waitForJob(job, { signal }),
      () => sources.waitForJob(job, { onProgress: wrong(1) }),
      () => watch(null),
      () => watch({ signal }),
      async () => sources.onJob(wrong(1)),
    ])
      expect(await reasonOf(refused())).toBe('INVALID_ARGUMENT')
  })

  test('a job fails with any error that its content throws', async () => {
    await using engine = await openEngine({ storage: make(newDirectory()) })
    const sourceId = await uploaded(engine)
    const long = new Error('x'.repeat(100_000))
    for (const thrown of [
      Object.create(null),
      undefined,
      Object.assign(new Error(), { message: 1n }),
      long,
    ]) {
      const content = (async function* (): AsyncGenerator<Uint8Array> {
        yield Buffer.alloc(0)
        throw thrown
      })()
      const job = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content } })
      expect(await reasonOf(engine.sources.waitForJob(job))).toBe('IMPORT_FAILED')
      const { state, errorCode, errorMessage } = await engine.sources.getJob(job)
      expect([state, errorCode]).toEqual([ImportJobState.FAILED, 'INTERNAL'])
      expect(errorMessage.length).toBeLessThanOrEqual(4096)
    }
  })

  test('a waiting job stops immediately on an abort, and all jobs stop on deletion and close', async () => {
    const storage = make(newDirectory())
    const engine = await openEngine({ storage })
    const sourceId = await uploaded(engine)
    const start = (): Promise<ImportJob> =>
      engine.sources.startImport(sourceId, { uploadedSnapshot: { content: silent() } })
    const [first, second] = [await start(), await start()]
    const interrupted = { state: ImportJobState.FAILED, errorCode: 'INTERRUPTED' }
    expect(await engine.sources.abortJob(second)).toMatchObject(interrupted)
    expect((await engine.sources.getJob(first)).state).not.toBe(ImportJobState.FAILED)
    const states = async (job: ImportJob): Promise<string[]> => {
      const seen: string[] = []
      for await (const { state } of engine.sources.watchJob(job)) seen.push(state)
      return seen
    }
    const watched = [states(first), states(await start())]
    const deleted = engine.sources.delete(sourceId)
    const late = start().catch((error: unknown) => error)
    await deleted
    for (const seen of watched) expect((await seen).at(-1)).toBe(ImportJobState.FAILED)
    await late

    const other = await uploaded(engine)
    const content = silent()
    const closing = await engine.sources.startImport(other, { uploadedSnapshot: { content } })
    const seen = states(closing)
    const pending = engine.sources.startImport(other, { uploadedSnapshot: { content: silent() } })
    const settled = pending.catch((error: unknown) => (error as EngineError).reason)
    await engine.close()
    expect((await seen).at(-1)).toBe(ImportJobState.FAILED)
    await settled
    expect(await reasonOf(engine.sources.startImport(other))).toMatch(/STORE_CLOSED|INVALID_ARGUMENT/)
  })

  test('rescans a directory only where it changed', async () => {
    const directory = newDirectory()
    const host = newDirectory()
    const storage = make(directory)
    mkdirSync(join(host, 'sub'))
    writeFileSync(join(host, 'a'), 'one')
    writeFileSync(join(host, 'sub', 'b'), 'two', { mode: 0o755 })
    // Old enough to distinguish it from a change within the same clock tick.
    const past = new Date(Date.now() - 60_000)
    for (const path of ['a', 'sub/b']) utimesSync(join(host, path), past, past)
    const engine = await openEngine({ storage, hostPaths: { roots: [root] } })
    const { sourceId, kind } = await engine.sources.create({ displayName: 'h', hostPath: { path: host } })
    expect(kind).toBe(SourceKind.HOST_PATH)
    const first = await engine.sources.waitForJob(await engine.sources.startImport(sourceId))
    expect(first.filesProcessed).toBe(2)
    const session = await on(engine, sourceId)
    expect(await read(session, '/sub/b')).toBe('two')
    expect((await session.fs.promises.stat('/sub/b')).mode & 0o777).toBe(0o755)
    await new Promise((resolve) => setTimeout(resolve, 50))
    const same = await engine.sources.waitForJob(await engine.sources.refresh(sourceId))
    expect(same.revisionId).toBe(first.revisionId)
    writeFileSync(join(host, 'a'), 'three')
    renameSync(join(host, 'sub', 'b'), join(host, 'sub', 'c'))
    const changed = await engine.sources.waitForJob(await engine.sources.refresh(sourceId))
    expect(changed.revisionId).not.toBe(first.revisionId)
    const check = async (opened: Engine): Promise<void> => {
      const next = await on(opened, sourceId)
      expect(await read(next, '/a')).toBe('three')
      expect(await next.fs.promises.readdir('/sub')).toEqual(['c'])
      expect(await read(await on(opened, sourceId, first.revisionId), '/sub/b')).toBe('two')
    }
    await check(engine)
    // A fresh scan of the directory gives the same result.
    const fresh = await engine.sources.create({ displayName: 'h2', hostPath: { path: host } })
    const whole = await engine.sources.waitForJob(await engine.sources.startImport(fresh.sourceId))
    expect(whole.revisionId).toBe(changed.revisionId)
    await engine.close()
    if (!lasting) return
    await using again = await openEngine({ storage, hostPaths: { roots: [root] } })
    await check(again)
    const unchanged = await again.sources.waitForJob(await again.sources.refresh(sourceId))
    expect(unchanged.revisionId).toBe(changed.revisionId)
  })

  test('a successful job reports the files and bytes of the revision, and the bytes transferred', async () => {
    const host = newDirectory()
    writeFileSync(join(host, 'a'), 'one')
    writeFileSync(join(host, 'b'), 'four')
    symlinkSync('a', join(host, 'l'))
    linkSync(join(host, 'b'), join(host, 'again'))
    const past = new Date(Date.now() - 60_000)
    for (const name of ['a', 'b']) utimesSync(join(host, name), past, past)
    await using engine = await openEngine({ storage: make(newDirectory()), hostPaths: { roots: [root] } })
    const { sourceId } = await engine.sources.create({ displayName: 'h', hostPath: { path: host } })
    const refreshed = async (): Promise<number[]> => {
      const job = await engine.sources.waitForJob(await engine.sources.refresh(sourceId))
      expect(await engine.sources.getJob(job)).toEqual(job)
      return [job.filesProcessed, job.bytesProcessed, job.bytesTransferred]
    }
    expect(await refreshed()).toEqual([4, 11, 11])
    await new Promise((resolve) => setTimeout(resolve, 50))
    await refreshed()
    expect(await refreshed()).toEqual([4, 11, 0])
    writeFileSync(join(host, 'c'), 'more')
    unlinkSync(join(host, 'a'))
    expect((await refreshed()).slice(0, 2)).toEqual([4, 12])

    const archive = tarOf(
      { name: 'a', content: 'one' },
      { name: 'd/', type: '5' },
      { name: 'b', content: 'four' },
    )
    const snapshot = await uploaded(engine)
    for (let i = 0; i < 2; i++) {
      const job = await engine.sources.startImport(snapshot, { uploadedSnapshot: { content: archive } })
      expect(await engine.sources.waitForJob(job)).toMatchObject({
        filesProcessed: 2,
        bytesProcessed: 7,
        bytesTransferred: archive.length,
      })
    }
    const given = await upload(engine, snapshot, { '/x': 'four', '/y': 'five' })
    expect(given).toMatchObject({ filesProcessed: 2, bytesProcessed: 8, bytesTransferred: 8 })
    const session = await on(engine, snapshot)
    await session.fs.promises.writeFile('/z', 'more')
    await session.fs.promises.unlink('/x')
    const promoting = await engine.sources.promoteSession(snapshot, { sessionId: session.id })
    expect(await engine.sources.waitForJob(promoting)).toMatchObject({
      filesProcessed: 2,
      bytesProcessed: 8,
      bytesTransferred: 0,
    })
  })

  test('a scan that replaces a file does not change files that were linked to it', async () => {
    const host = newDirectory()
    await using engine = await openEngine({ storage: make(newDirectory()), hostPaths: { roots: [root] } })
    const { sourceId } = await engine.sources.create({ displayName: 'h', hostPath: { path: host } })
    const session = await engine.sessions.create({ files: { '/a': 'one' } })
    await session.files.link({ srcPath: '/a', dstPath: '/b' })
    // A revision with the same contents, in which both names are one file.
    const promoted = await engine.sources.waitForJob(
      await engine.sources.promoteSession(sourceId, { sessionId: session.id }),
    )
    const past = new Date(Date.now() - 60_000)
    for (const name of ['a', 'b']) {
      writeFileSync(join(host, name), 'one', { mode: 0o644 })
      utimesSync(join(host, name), past, past)
    }
    const { mode } = await session.fs.promises.stat('/')
    chmodSync(host, mode & 0o777)
    const scanned = await engine.sources.waitForJob(await engine.sources.startImport(sourceId))
    expect(scanned.revisionId).toBe(promoted.revisionId)
    writeFileSync(join(host, 'a'), 'two')
    await engine.sources.waitForJob(await engine.sources.refresh(sourceId))
    const next = await on(engine, sourceId)
    expect([await read(next, '/a'), await read(next, '/b')]).toEqual(['two', 'one'])
  })

  test.runIf(hasGit)(
    'a git import reports the files of its revision even if nothing is transferred',
    async () => {
      const storage = make(newDirectory())
      const { path } = repositoryOf({ 'a.txt': 'one', 'd/b.txt': 'four' })
      const options = { storage, hostPaths: { roots: [root] } }
      await using engine = await openEngine(options)
      const importAgain = async (): Promise<number[]> => {
        const { sourceId } = await engine.sources.create({ displayName: 'r', gitRepository: { path } })
        const job = await engine.sources.waitForJob(await engine.sources.startImport(sourceId))
        return [job.filesProcessed, job.bytesProcessed]
      }
      expect([await importAgain(), await importAgain()]).toEqual([
        [2, 7],
        [2, 7],
      ])
      stage(path, { 'a.txt': 'more', 'd/b.txt': undefined, 'd/c.txt': 'three' })
      expect([await importAgain(), await importAgain()]).toEqual([
        [2, 9],
        [2, 9],
      ])
    },
  )

  test.runIf(hasGit)(
    'a session from a repository without the requested ref leaves no source behind',
    async () => {
      await using engine = await openEngine({ storage: make(newDirectory()), hostPaths: { roots: [root] } })
      const { path } = GitRepository.create(newDirectory())
      const creating = engine.sessions.create({ gitRepository: { path, gitRef: 'missing' } })
      expect(await reasonOf(creating)).toBe('IMPORT_FAILED')
      expect((await engine.sources.list()).sources).toEqual([])
    },
  )
})

test.runIf(hasGit)('revisions of earlier versions without counts are counted once', async () => {
  let counted = 0
  /** A store whose revision and tree records lack their counts. */
  const storage: Storage = {
    async open() {
      const store = await memoryStorage({ durable: true }).open()
      return wrapped(store, {
        get: async (key) => {
          const json = await store.get(key)
          return /^[df]/.test(key) ? json?.replace(/,"counts":\{[^}]*\}/, '') : json
        },
        commit: (commit) => {
          for (const [key, value] of commit.put ?? [])
            if (/^[df]/.test(key) && JSON.stringify(value).includes('"counts"')) counted++
          return store.commit(commit)
        },
      })
    },
  }
  await using engine = await openEngine({ storage, hostPaths: { roots: [root] } })
  const { path } = repositoryOf({ 'a.txt': 'one', 'd/b.txt': 'four' })
  const { sourceId } = await engine.sources.create({ displayName: 'r', gitRepository: { path } })
  for (let i = 1; i <= 2; i++) {
    const job = await engine.sources.waitForJob(await engine.sources.refresh(sourceId))
    expect(job).toMatchObject({ filesProcessed: 2, bytesProcessed: 7 })
    expect(counted).toBe(2 * i)
  }
})

describe('deadlines and limits', () => {
  const never = new Promise<never>(() => undefined)

  test('stop an import at its deadline', async () => {
    await using engine = await openEngine({ imports: { deadlineSeconds: 0.05 } })
    const sourceId = await uploaded(engine)
    const job = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content: silent() } })
    const failure = await errorOf(engine.sources.waitForJob(job))
    expect(failure).toMatchObject({
      reason: 'IMPORT_FAILED',
      details: { errorCode: 'DEADLINE_EXCEEDED' },
      message: 'the job took over 0.05 seconds; the option imports.deadlineSeconds allows more',
      cause: { reason: 'DEADLINE_EXCEEDED' },
    })
    expect(await engine.sources.get(sourceId)).toMatchObject({ status: SourceStatus.FAILED })
    // The next job gets its turn and its own deadline.
    expect(await upload(engine, sourceId, { '/a': '1' })).toMatchObject({ state: ImportJobState.SUCCEEDED })
  })

  test('stop an import whose upload is too slow', async () => {
    const imports = { minBytesPerSecond: 1000, rateWindowSeconds: 0.05 }
    await using engine = await openEngine({ imports })
    const sourceId = await uploaded(engine)
    const job = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content: silent() } })
    const failure = await errorOf(engine.sources.waitForJob(job))
    expect(failure).toMatchObject({ details: { errorCode: 'DEADLINE_EXCEEDED' } })
    expect(failure.message).toContain('the source sends too slowly: 0 bytes in 0.05 seconds')
  })

  test.each([
    { deadlineSeconds: 0 },
    { deadlineSeconds: -1 },
    { deadlineSeconds: Number.NaN },
    { deadlineSeconds: 8 * 86_400 },
    { deadlineSeconds: '60' as never },
    { rateWindowSeconds: 0 },
    { rateWindowSeconds: 3601 },
    { minBytesPerSecond: -1 },
    { minBytesPerSecond: 2 ** 30 + 1 },
  ])('reject invalid values: %j', async (imports) => {
    expect(await reasonOf(openEngine({ imports }))).toBe('INVALID_ARGUMENT')
  })

  test('stop a bundle import when the engine closes', async () => {
    const engine = await openEngine()
    const importing = reasonOf(engine.sessions.importBundle(silent()))
    await new Promise((resolve) => setTimeout(resolve, 10))
    await engine.close()
    expect(await importing).toBe('STORE_CLOSED')
  })

  test('stop a commit with a pending signature some time after the engine closes', async () => {
    const engine = await openEngine({ git: { sign: () => never } })
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    const committing = reasonOf(session.commit({ message: 'm' }))
    await new Promise((resolve) => setTimeout(resolve, 10))
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    try {
      const closing = engine.close()
      while (vi.getTimerCount() === 0) await new Promise((resolve) => setImmediate(resolve))
      vi.advanceTimersByTime(limits.commitGraceMs)
      await closing
    } finally {
      vi.useRealTimers()
    }
    expect(await committing).toBe('STORE_CLOSED')
  })

  test('stop a commit at its deadline', async () => {
    await using engine = await openEngine({ git: { sign: () => never }, imports: { deadlineSeconds: 0.05 } })
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    expect(await reasonOf(session.commit({ message: 'm' }))).toBe('DEADLINE_EXCEEDED')
  })
})

test('data that an adapter delivers after an abort is not stored', async () => {
  let sink!: TreeSink
  let go!: () => void
  const went = new Promise<void>((resolve) => (go = resolve))
  const archives = {
    read: async (_content: unknown, given: TreeSink): Promise<void> => {
      sink = given
      await went
    },
    writeTar: () => {
      throw new Error('unused')
    },
  }
  const storage = memoryStorage({ durable: true })
  await using engine = await createEngine({
    storage,
    environment: systemEnvironment,
    archives: () => Promise.resolve(archives),
  })
  const sourceId = await uploaded(engine)
  const job = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content: new Uint8Array(9) } })
  while (sink === undefined) await new Promise((resolve) => setImmediate(resolve))
  expect(await engine.sources.abortJob(job)).toMatchObject({ errorCode: 'INTERRUPTED' })
  const attributes = { mode: 0o644, mtimeMs: 0 }
  expect(() => sink.file('/a', new Uint8Array(9), attributes)).toThrow('the job was aborted')
  go()
})

test('reports the failure of an import that the end of the process interrupted', async () => {
  const storage = memoryStorage({ durable: true })
  await using engine = await openEngine({ storage })
  const { sources } = engine.as({ tenant: 'other' })
  const started: ImportJob[] = []
  for (const files of [undefined, { '/a': '1' }]) {
    const { sourceId } = await sources.create({ displayName: 'app', uploadedSnapshot: {} })
    if (files !== undefined)
      await sources.waitForJob(await sources.startImport(sourceId, { uploadedSnapshot: { files } }))
    started.push(await sources.startImport(sourceId, { uploadedSnapshot: { content: silent() } }))
  }
  // Simulates a crash: the first engine is not closed.
  await using again = await openEngine({ storage })
  const recovered = again.as({ tenant: 'other' }).sources
  const statuses: string[] = []
  for (const job of started) {
    expect(await recovered.getJob(job)).toMatchObject({
      state: ImportJobState.FAILED,
      errorCode: 'INTERRUPTED',
    })
    statuses.push((await recovered.get(job.sourceId)).status)
  }
  expect(statuses).toEqual([SourceStatus.FAILED, SourceStatus.READY])
})

test.each([true, false])(
  'a store failure during an import publishes nothing (synchronous reads: %s)',
  async (syncReads) => {
    for (const failsAt of [0, 1, 5, 9]) {
      const storage = memoryStorage({ durable: true, syncReads })
      const failing = new FailingStorage(storage)
      const engine = await openEngine({ storage: failing })
      const sourceId = await uploaded(engine)
      const { revisionId } = await upload(engine, sourceId, { '/a': '1' })
      const content = (async function* (): AsyncGenerator<Uint8Array> {
        for (let i = 0; i < 10; i++) {
          if (i === failsAt) failing.next = 'fail'
          const entry = tarEntry({ name: `f${i}`, content: Buffer.alloc(2 ** 20, i) })
          yield entry
        }
        yield Buffer.alloc(1024)
      })()
      const job = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content } })
      expect(await reasonOf(engine.sources.waitForJob(job))).toBe('IMPORT_FAILED')
      expect((await engine.sources.get(sourceId)).latestRevisionId).toBe(revisionId)
      await engine.close().catch(() => undefined)
      await using again = await openEngine({ storage })
      expect((await again.sources.get(sourceId)).latestRevisionId).toBe(revisionId)
      expect(await again.sources.getJob(job)).toMatchObject({ errorCode: 'INTERRUPTED' })
    }
  },
)

test('an import is given the newest commits of its remote, newest first, also by other sources', async () => {
  const commits = Array.from({ length: limits.knownCommits + 2 }, (_, n) => `${n}`.padStart(40, '0'))
  const given: (readonly string[])[] = []
  const importer: Importer = {
    import: async (_request, _sink, context) => {
      context.onResolved()
      given.push(context.knownCommits)
      return { commitId: commits[given.length - 1]!, treeId: '1'.repeat(40) }
    },
  }
  await using engine = await createEngine({
    storage: memoryStorage(),
    environment: systemEnvironment,
    importer: async () => importer,
  })
  for (const _ of commits) {
    const gitRemote = { remoteUrl: 'https://example.org/x' }
    const { sourceId } = await engine.sources.create({ displayName: 'app', gitRemote })
    await engine.sources.waitForJob(await engine.sources.startImport(sourceId))
  }
  expect(given.slice(0, 3)).toEqual([[], [commits[0]], [commits[1], commits[0]]])
  expect(given.at(-1)).toEqual(commits.slice(1, -1).toReversed())
})

function fail(): never {
  throw new Error('mine')
}
