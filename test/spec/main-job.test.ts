/** The main job through the public API, with native git as the remote. */
import { createHash } from 'node:crypto'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import {
  EngineError,
  ImportJobState,
  openEngine,
  SessionStatus,
  SourceKind,
  SourceStatus,
  type Engine,
  type EngineOptions,
  type ImportJob,
  type ManifestNode,
  type Session,
} from '../../src/index.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { serveGit, type GitServer } from '../support/git-server.js'
import { isLong } from '../support/seed.js'

const author = { name: 'Ada', email: 'ada@example.org' }
const main = 'refs/heads/main'

type Entry = readonly [mode: string, path: string, content: string]

const entries = makeEntries()
const regular = entries.filter(([mode]) => mode !== '120000')

let templates: string
let directory: string
let native: GitRepository
let server: GitServer
let engines: Engine[]
let storage: 'memory' | 'level'
/** While it is set, the server answers no requests. */
let gate: Gate | undefined

beforeAll(() => {
  templates = mkdtempSync(join(tmpdir(), 'main-job-templates-'))
  if (!hasGit) return
  GitRepository.create(join(templates, 'large.git')).commitFiles(entries)
  GitRepository.create(join(templates, 'small.git')).commitFiles(entries.slice(0, 12))
})

afterAll(() => rmSync(templates, { recursive: true, force: true }))

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'main-job-'))
  engines = []
  server = await serveGit(directory, { hold: () => gate?.opened })
})

afterEach(async () => {
  gate?.open()
  gate = undefined
  for (const engine of engines) await engine.close()
  await server.close()
  rmSync(directory, { recursive: true, force: true })
})

describe.skipIf(!hasGit).each(isLong ? (['memory', 'level'] as const) : (['level'] as const))(
  'over %s:',
  (kind) => {
    beforeEach(() => {
      storage = kind
    })

    describe('import, fork, change, compare, commit', () => {
      beforeEach(() => provide('large.git'))

      test('runs the whole job', async () => {
        const engine = await open()
        const sourceId = await newSource(engine)
        expect(await engine.sources.get(sourceId)).toMatchObject({
          kind: SourceKind.GIT_REMOTE,
          status: SourceStatus.READY,
          latestRevisionId: '',
        })

        const seen: ImportJob[] = []
        const queued = await engine.sources.startImport(sourceId, { git: { gitRef: 'main' } })
        expect(queued).toMatchObject({ state: ImportJobState.QUEUED, startedAt: '', filesProcessed: 0 })
        const job = await engine.sources.waitForJob(queued, { onProgress: (job) => seen.push(job) })
        const tip = native.tip(main)!
        expect(job).toMatchObject({ state: ImportJobState.SUCCEEDED, revisionId: tip, errorCode: '' })
        expect(job.filesProcessed).toBe(entries.length)
        expect(job.bytesProcessed).toBeGreaterThan(10_000)
        expect(await engine.sources.getJob(queued)).toEqual(job)
        expectGrowth([queued, ...seen, job])
        expect(seen.filter(({ state }) => state === ImportJobState.RUNNING).length).toBeGreaterThan(2)
        expect(seen.at(-1)).toEqual(job)
        expect(await engine.sources.get(sourceId)).toMatchObject({
          status: SourceStatus.READY,
          latestRevisionId: tip,
        })

        const session = await engine.sessions.create({ sourceRef: { sourceId, revisionId: tip } })
        expect(await describeTree(session)).toEqual(describeEntries())
        expect(await session.diff().paths()).toEqual({ added: [], removed: [], modified: [] })

        const attempts: { edit: Edit; fork: Session }[] = []
        for (const edit of edits) attempts.push({ edit, fork: await session.fork() })
        await Promise.all(attempts.map(({ edit, fork }) => edit.apply(fork)))
        for (const { edit, fork } of attempts) {
          expect([edit.name, await fork.diff(session).paths()]).toEqual([edit.name, expectedPaths(edit)])
        }
        expect(await describeTree(session)).toEqual(describeEntries())

        expect(edits[wide]!.git.length).toBeGreaterThan(200)
        const refs = new Map([[main, tip]])
        for (const { edit, fork } of attempts) {
          const before = await manifestHash(fork)
          await fork.checkpoint({ checkpointLabel: 'good' })
          for (const name of await fork.fs.promises.readdir('/'))
            await fork.fs.promises.rm(`/${name}`, { recursive: true })
          expect((await fork.manifest()).nodes).toEqual([])
          expect(await manifestHash(fork)).not.toBe(before)
          await fork.restore({ checkpointLabel: 'good' })
          expect(await manifestHash(fork)).toBe(before)

          const commitId = await commit(fork, edit.name)
          refs.set(`refs/heads/${edit.name}`, commitId)
          expect(native.git(['rev-parse', `${commitId}^@`])).toBe(tip)
          expect([edit.name, native.changes(tip, commitId)]).toEqual([edit.name, edit.git.toSorted()])
        }
        expect(allRefs()).toEqual(refs)

        const { edit, fork } = attempts[wide]!
        const first = refs.get(`refs/heads/${edit.name}`)!
        expect(show(`${first}:src/m04/f007.ts`)).toBe(`// header\n${contentOf('src/m04/f007.ts')}`)
        await fork.files.write({ path: '/src/m04/neu.ts', content: 'neu' })
        await fork.files.delete({ path: '/docs/日本語.txt' })
        const second = await commit(fork, edit.name)
        expect(native.git(['rev-parse', `${second}^@`])).toBe(first)
        expect(native.changes(first, second)).toEqual(['000000 D docs/日本語.txt', '100644 A src/m04/neu.ts'])
        expect(native.git(['log', '-1', '--format=%an <%ae>|%s', second])).toBe(
          `Ada <ada@example.org>|to ${edit.name}`,
        )
        expect(allRefs()).toEqual(refs.set(`refs/heads/${edit.name}`, second))
        native.fsck()
      })
    })

    describe('a small repository:', () => {
      beforeEach(() => provide('small.git'))

      test('a moved branch is a conflict and stays unchanged', async () => {
        let engine = await open()
        const sourceId = await newSource(engine)
        await runImport(engine, sourceId)
        let session = await engine.sessions.create({ sourceRef: { sourceId } })
        await session.files.write({ path: '/mine', content: 'mine' })
        const foreign = native.commitFiles([['100644', 'theirs', 'theirs']])
        const refs = allRefs()

        expect((await rejection(commit(session, 'main'))).reason).toBe('BRANCH_MOVED')
        expect(allRefs()).toEqual(refs)
        expect((await session.get()).status).toBe(SessionStatus.CONFLICT)
        expect(Buffer.from(await session.files.read({ path: '/mine' })).toString()).toBe('mine')
        if (kind === 'level') {
          await engine.close()
          engine = await open()
          session = await engine.sessions.open(session.id)
        }
        expect((await session.get()).status).toBe(SessionStatus.CONFLICT)
        expect((await rejection(commit(session, 'main'))).reason).toBe('BRANCH_MOVED')

        const mine = await commit(session, 'mine')
        expect((await session.get()).status).toBe(SessionStatus.ACTIVE)
        expect(allRefs()).toEqual(refs.set('refs/heads/mine', mine))
        expect(native.changes(foreign, mine)).toEqual(['000000 D theirs', '100644 A mine'])
        native.fsck()
      })

      test('a moved branch of the session is also a conflict', async () => {
        const engine = await open()
        const sourceId = await newSource(engine)
        await runImport(engine, sourceId)
        const session = await engine.sessions.create({ sourceRef: { sourceId } })
        await session.files.write({ path: '/one', content: '1' })
        await commit(session, 'work')
        native.commitFiles([['100644', 'theirs', 'theirs']], 'refs/heads/work')
        const refs = allRefs()
        await session.files.write({ path: '/two', content: '2' })
        expect((await rejection(commit(session, 'work'))).reason).toBe('BRANCH_MOVED')
        expect(allRefs()).toEqual(refs)
        expect((await session.get()).status).toBe(SessionStatus.CONFLICT)
      })

      test('an aborted import fails as interrupted and leaves nothing usable', async () => {
        const engine = await open()
        const sourceId = await newSource(engine)
        gate = makeGate()
        const abort = new AbortController()
        const job = await engine.sources.startImport(sourceId, { signal: abort.signal })
        await gate.reached
        const waiting = rejection(engine.sources.waitForJob(job))
        const reason = new Error('no longer wanted')
        abort.abort(reason)
        expect(await waiting).toMatchObject({
          reason: 'IMPORT_FAILED',
          details: { sourceId, jobId: job.jobId, errorCode: 'INTERRUPTED' },
          cause: reason,
        })
        const failed = { state: ImportJobState.FAILED, errorCode: 'INTERRUPTED', revisionId: '' }
        expect(await engine.sources.getJob(job)).toMatchObject(failed)
        expect(await engine.sources.get(sourceId)).toMatchObject({
          status: SourceStatus.FAILED,
          latestRevisionId: '',
        })
        const creation = engine.sessions.create({ sourceRef: { sourceId } })
        expect((await rejection(creation)).reason).toBe('SOURCE_WITHOUT_REVISION')
        const revisionId = native.tip(main)!
        const onTip = engine.sessions.create({ sourceRef: { sourceId, revisionId } })
        expect((await rejection(onTip)).reason).toBe('REVISION_NOT_FOUND')
        expect((await engine.sessions.list()).sessions).toEqual([])

        openGate()
        expect((await runImport(engine, sourceId)).revisionId).toBe(revisionId)
        expect((await engine.sources.get(sourceId)).status).toBe(SourceStatus.READY)
        const session = await engine.sessions.create({ sourceRef: { sourceId } })
        expect(await describeTree(session)).toEqual(describeEntries(entries.slice(0, 12)))
      })

      test('an import aborted while it waits for another one never runs', async () => {
        const engine = await open()
        const sourceId = await newSource(engine)
        gate = makeGate()
        const first = await engine.sources.startImport(sourceId)
        await gate.reached
        const abort = new AbortController()
        // Another name for the same ref, because requests for equal refs share a job.
        const git = { gitRef: 'refs/heads/main' }
        const second = await engine.sources.startImport(sourceId, { git, signal: abort.signal })
        const waiting = rejection(engine.sources.waitForJob(second))
        abort.abort()
        openGate()
        expect((await engine.sources.waitForJob(first)).state).toBe(ImportJobState.SUCCEEDED)
        expect((await waiting).reason).toBe('IMPORT_FAILED')
        const failed = { state: ImportJobState.FAILED, errorCode: 'INTERRUPTED', startedAt: '' }
        expect(await engine.sources.getJob(second)).toMatchObject(failed)
        expect((await engine.sources.get(sourceId)).status).toBe(SourceStatus.READY)
      })

      test('aborting a wait ends only that wait', async () => {
        const engine = await open()
        gate = makeGate()
        const job = await engine.sources.startImport(await newSource(engine))
        await gate.reached
        const abort = new AbortController()
        const reason = new Error('no more patience')
        const aborted = thrownBy(engine.sources.waitForJob(job, { signal: abort.signal }))
        const patient = engine.sources.waitForJob(job)
        abort.abort(reason)
        expect(await aborted).toBe(reason)
        expect(await thrownBy(engine.sources.waitForJob(job, { signal: abort.signal }))).toBe(reason)
        expect((await engine.sources.getJob(job)).state).toBe(ImportJobState.RUNNING)
        openGate()
        expect((await patient).state).toBe(ImportJobState.SUCCEEDED)
      })

      test('a listener that throws ends its own wait, not the job', async () => {
        const engine = await open()
        gate = makeGate()
        const job = await engine.sources.startImport(await newSource(engine))
        await gate.reached
        const error = new Error('a defect of the listener')
        let calls = 0
        const onProgress = (): void => {
          calls++
          throw error
        }
        const states: string[] = []
        const failing = thrownBy(engine.sources.waitForJob(job, { onProgress }))
        const other = engine.sources.waitForJob(job, { onProgress: ({ state }) => states.push(state) })
        openGate()
        expect(await failing).toBe(error)
        expect((await other).state).toBe(ImportJobState.SUCCEEDED)
        expect(calls).toBe(1)
        expect(states.at(-1)).toBe(ImportJobState.SUCCEEDED)
        expect((await engine.sources.getJob(job)).errorCode).toBe('')
      })

      test('a session from a local directory can be committed back', async () => {
        const engine = await open({ hostPaths: { roots: [directory] } })
        const base = native.tip(main)!
        const session = await engine.sessions.create({ gitRepository: { path: native.path } })
        expect(await describeTree(session)).toEqual(describeEntries(entries.slice(0, 12)))
        const { sources } = await engine.sources.list()
        expect(sources).toMatchObject([
          { kind: SourceKind.GIT_REPOSITORY, status: SourceStatus.READY, latestRevisionId: base },
        ])
        await session.files.write({ path: '/new/ä.txt', content: 'new' })
        const first = await commit(session, 'work')
        expect(native.changes(base, first)).toEqual(['100644 A new/ä.txt'])
        expect(allRefs()).toEqual(
          new Map([
            [main, base],
            ['refs/heads/work', first],
          ]),
        )
        const onMain = await commit(session, 'main')
        expect(native.git(['rev-parse', 'main', `${onMain}^@`]).split('\n')).toEqual([onMain, base])
        await session.files.delete({ path: '/new/ä.txt' })
        const second = await commit(session, 'main')
        expect(native.changes(base, second)).toEqual([])
        expect(native.git(['rev-list', 'main']).split('\n')).toEqual([second, onMain, base])
        native.fsck()
        expect(server.requests).toEqual([])
      })

      test('a session can start from a ref of a local directory', async () => {
        const engine = await open({ hostPaths: { roots: [directory] } })
        native.commitFiles([['100644', 'on-the-branch', 'x']], 'refs/heads/branch')
        const gitRepository = { path: native.path, gitRef: 'branch' }
        const session = await engine.sessions.create({ gitRepository })
        expect(await session.fs.promises.readdir('/')).toEqual(['on-the-branch'])
      })

      test('the same ref gives the same revision, a moved one a new revision', async () => {
        const engine = await open()
        const sourceId = await newSource(engine)
        const first = await runImport(engine, sourceId)
        const again = await runImport(engine, sourceId)
        expect(again.jobId).not.toBe(first.jobId)
        expect(again.revisionId).toBe(first.revisionId)
        const onFirst = await engine.sessions.create({ sourceRef: { sourceId } })
        const old = describeEntries(entries.slice(0, 12))
        expect(await describeTree(onFirst)).toEqual(old)

        const tip = native.commitFiles([['100644', 'later', 'later']])
        expect(await describeTree(onFirst)).toEqual(old)
        const moved = await runImport(engine, sourceId)
        expect(moved.revisionId).toBe(tip)
        expect((await engine.sources.get(sourceId)).latestRevisionId).toBe(tip)
        expect(await describeTree(onFirst)).toEqual(old)

        const onTip = await engine.sessions.create({ sourceRef: { sourceId } })
        const { revisionId } = first
        const stillFirst = await engine.sessions.create({ sourceRef: { sourceId, revisionId } })
        const added = { added: ['/later'], removed: [], modified: [] }
        expect(await onTip.diff(onFirst).paths()).toEqual(added)
        expect(await onTip.diff(stillFirst).paths()).toEqual(added)
        expect(await manifestHash(stillFirst)).toBe(await manifestHash(onFirst))
        const infos = await Promise.all([onFirst.get(), stillFirst.get(), onTip.get()])
        const prints = infos.map(({ baseFingerprint }) => baseFingerprint)
        expect(prints[0]).toBe(prints[1])
        expect(prints[0]).not.toBe(prints[2])

        await onFirst.files.write({ path: '/mine', content: 'mine' })
        const commitId = await commit(onFirst, 'from-the-first')
        expect(native.git(['rev-parse', `${commitId}^@`])).toBe(revisionId)
      })
    })
  },
)

describe.skipIf(!hasGit)('after reopening a directory', () => {
  beforeEach(() => {
    storage = 'level'
  })

  test('keeps sources, sessions, checkpoints and jobs', async () => {
    provide('large.git')
    let engine = await open()
    const sourceId = await newSource(engine)
    const job = await runImport(engine, sourceId)
    const session = await engine.sessions.create({
      sourceRef: { sourceId },
      initialTags: { task: 'größe' },
    })
    const fork = await session.fork({ newTags: { attempt: '1' } })
    await edits[wide]!.apply(fork)
    const checkpoint = await fork.checkpoint({ checkpointLabel: 'good' })
    const good = await manifestHash(fork)
    const first = await commit(fork, 'work')
    await fork.files.write({ path: '/second', content: '2' })
    const second = await commit(fork, 'work')
    // Reads come first because they change the last activity.
    const trees = await Promise.all([describeTree(fork), describeTree(session)])
    const before = [await fork.get(), ...trees, await listAll(engine)]
    await engine.close()

    engine = await open()
    const again = await engine.sessions.open(fork.id)
    const parent = await engine.sessions.open(session.id)
    const infos = [await again.get(), await listAll(engine)] as const
    const after = [infos[0], await describeTree(again), await describeTree(parent), infos[1]]
    expect(after).toEqual(before)
    expect(infos[0].tags).toEqual({ task: 'größe', attempt: '1' })
    expect(await engine.sources.getJob(job)).toEqual(job)
    expect((await again.listCheckpoints()).checkpoints).toEqual([checkpoint])
    const { added, removed, modified } = expectedPaths(edits[wide]!)
    const expected = { added: [...added, '/second'], removed, modified }
    expect(await again.diff(parent).paths()).toEqual(expected)
    expect(await again.diff().paths()).toEqual(expected)

    await again.files.write({ path: '/third', content: '3' })
    const third = await commit(again, 'work')
    expect(native.git(['rev-list', 'work']).split('\n')).toEqual([third, second, first, job.revisionId])
    expect(native.changes(second, third)).toEqual(['100644 A third'])
    native.fsck()
    await again.restore({ checkpointLabel: 'good' })
    expect(await manifestHash(again)).toBe(good)
  })

  test('a job interrupted by closing has failed', async () => {
    provide('small.git')
    let engine = await open()
    const fresh = await newSource(engine)
    const imported = await newSource(engine)
    const { revisionId } = await runImport(engine, imported)
    gate = makeGate(2)
    const jobs = [await engine.sources.startImport(fresh), await engine.sources.startImport(imported)]
    const queued = await engine.sources.startImport(fresh)
    await gate.reached
    await engine.close()

    engine = await open()
    for (const job of [...jobs, queued]) {
      expect(await engine.sources.getJob(job)).toMatchObject({
        state: ImportJobState.FAILED,
        errorCode: 'INTERRUPTED',
        errorMessage: expect.stringMatching(/./),
        completedAt: expect.stringMatching(/Z$/),
        revisionId: '',
      })
      expect((await rejection(engine.sources.waitForJob(job))).reason).toBe('IMPORT_FAILED')
    }
    expect(await engine.sources.get(fresh)).toMatchObject({
      status: SourceStatus.FAILED,
      latestRevisionId: '',
    })
    expect(await engine.sources.get(imported)).toMatchObject({
      status: SourceStatus.READY,
      latestRevisionId: revisionId,
    })
    openGate()
    expect((await runImport(engine, fresh)).revisionId).toBe(revisionId)
    expect((await engine.sources.get(fresh)).status).toBe(SourceStatus.READY)
  })
})

interface Edit {
  /** Also the name of its branch. */
  readonly name: string
  apply(fork: Session): Promise<unknown>
  /** The changes as native git reports them. */
  readonly git: string[]
  /** Changed directories, which git does not record. */
  readonly directories?: { readonly added?: string[]; readonly removed?: string[] }
}

const headed = regular.map(([, path]) => path).filter((path) => /^src\/m0[4-6]\//.test(path))
const wide = 1

const edits: readonly Edit[] = [
  {
    name: 'append',
    apply: (fork) => fork.fs.promises.appendFile('/src/m00/f001.ts', 'more'),
    git: ['100644 M src/m00/f001.ts'],
  },
  {
    name: 'headers',
    apply: (fork) =>
      fork.files.batch(
        headed.map((path) => ({ write: { path: `/${path}`, content: `// header\n${contentOf(path)}` } })),
      ),
    git: headed.map((path) => `100644 M ${path}`),
  },
  {
    name: 'rename-directory',
    apply: (fork) => fork.files.rename({ sourcePath: '/src/m01', destinationPath: '/src/größer' }),
    git: below('src/m01').flatMap((path) => [
      `000000 D ${path}`,
      `100644 A ${path.replace('m01', 'größer')}`,
    ]),
    directories: { added: ['src/größer'], removed: ['src/m01'] },
  },
  {
    name: 'remove-directory',
    apply: (fork) => fork.fs.promises.rm('/docs', { recursive: true }),
    git: below('docs').map((path) => `000000 D ${path}`),
    directories: { removed: ['docs', 'docs/übersicht'] },
  },
  {
    name: 'add/files',
    async apply(fork) {
      await fork.files.write({ path: '/new/deep/ä.ts', content: 'export {}' })
      await fork.files.write({ path: '/new/empty', content: '' })
    },
    git: ['100644 A new/deep/ä.ts', '100644 A new/empty'],
    directories: { added: ['new', 'new/deep'] },
  },
  {
    name: 'executable',
    async apply({ fs }) {
      await fs.promises.chmod('/src/m02/f000.ts', 0o755)
      await fs.promises.chmod('/bin/run', 0o644)
    },
    git: ['100644 M bin/run', '100755 M src/m02/f000.ts'],
  },
  {
    name: 'symlinks',
    async apply({ fs }) {
      await fs.promises.unlink('/latest')
      await fs.promises.symlink('src/m03', '/latest')
      await fs.promises.symlink('../bin/run', '/docs/run')
    },
    git: ['120000 M latest', '120000 A docs/run'],
  },
  {
    name: 'large-file',
    apply: (fork) => fork.files.write({ path: '/video.bin', content: Buffer.alloc(3 << 20, 'frame') }),
    git: ['100644 A video.bin'],
  },
  {
    name: 'swap',
    async apply({ fs }) {
      await fs.promises.rename('/src/m00/f000.ts', '/swap')
      await fs.promises.rename('/docs/日本語.txt', '/src/m00/f000.ts')
      await fs.promises.rename('/swap', '/docs/日本語.txt')
    },
    git: ['100644 M docs/日本語.txt', '100644 M src/m00/f000.ts'],
  },
  {
    name: 'back-and-forth',
    async apply(fork) {
      await fork.files.write({ path: '/src/m07/f000.ts', content: 'other' })
      await fork.files.write({ path: '/src/m07/f000.ts', content: contentOf('src/m07/f000.ts') })
      await fork.files.write({ path: '/gone', content: 'x' })
      await fork.files.delete({ path: '/gone' })
      await fork.files.write({ path: '/src/m07/f001.ts', content: 'other' })
    },
    git: ['100644 M src/m07/f001.ts'],
  },
]

async function open(options: EngineOptions = {}): Promise<Engine> {
  const engine = await openEngine({
    ...(storage === 'level' && { storage: levelStorage(join(directory, 'store'), { durability: 'full' }) }),
    git: { allowPrivateAddresses: true },
    ...options,
  })
  engines.push(engine)
  return engine
}

/** The expected result of `diff().paths()`, in manifest order. */
function expectedPaths({ git, directories = {} }: Edit): ReturnType<typeof emptyPaths> {
  const { added, removed, modified } = emptyPaths()
  for (const line of git) {
    const [, change, path] = /^\d+ ([ADM]) (.*)$/.exec(line)!
    const list = change === 'A' ? added : change === 'D' ? removed : modified
    list.push(`/${path!}`)
  }
  for (const path of directories.added ?? []) added.push(`/${path}`)
  for (const path of directories.removed ?? []) removed.push(`/${path}`)
  return { added: added.sort(byParts), removed: removed.sort(byParts), modified: modified.sort(byParts) }
}

function emptyPaths(): { added: string[]; removed: string[]; modified: string[] } {
  return { added: [], removed: [], modified: [] }
}

function byParts(a: string, b: string): number {
  // A slash sorts before every other byte: a directory comes before its children.
  const key = (path: string): Buffer => Buffer.from(path.replaceAll('/', '\0'))
  return Buffer.compare(key(a), key(b))
}

/** More than a page of entries: a symlink, an executable file, non-ASCII names, and 14 directories. */
function makeEntries(): Entry[] {
  const found: Entry[] = [
    ['120000', 'latest', 'src/m00'],
    ['100755', 'bin/run', '#!/bin/sh\nexit 0\n'],
    ['100644', 'docs/日本語.txt', 'こんにちは\n'],
    ['100644', 'docs/übersicht/größe.md', 'groß\r\nno newline'],
    ['100644', 'docs/😀 with spaces.txt', ''],
  ]
  for (let n = 0; found.length < 1100; n++) {
    const path = `src/m${pad(Math.floor(n / 120), 2)}/f${pad(n % 120, 3)}.ts`
    found.push(['100644', path, `export const n${n} = ${n}\n`])
  }
  return found
}

function pad(n: number, length: number): string {
  return String(n).padStart(length, '0')
}

function below(folder: string): string[] {
  return entries.map(([, path]) => path).filter((path) => path.startsWith(`${folder}/`))
}

function contentOf(path: string): string {
  return entries.find(([, name]) => name === path)![2]
}

/** One line per file or symlink. */
function describeEntries(expected: readonly Entry[] = entries): string[] {
  return expected
    .map(([mode, path, content]) =>
      mode === '120000'
        ? `/${path} -> ${content}`
        : `/${path} ${mode.slice(3)} sha256:${createHash('sha256').update(content).digest('hex')}`,
    )
    .sort()
}

async function describeTree(session: Session): Promise<string[]> {
  const nodes: ManifestNode[] = []
  let pageToken = ''
  do {
    const page = await session.manifest({ pageToken })
    nodes.push(...page.nodes)
    pageToken = page.nextPageToken
  } while (pageToken !== '')
  const files = nodes.filter(({ fileType }) => fileType === 'VFS_FILE_TYPE_FILE')
  const { symlinks } = await session.files.listSymlinks()
  return [
    ...files.map(({ path, mode, contentHash }) => `${path} ${mode.toString(8)} ${contentHash}`),
    ...symlinks.map(({ path, target }) => `${path} -> ${target}`),
  ].sort()
}

async function manifestHash(session: Session): Promise<string> {
  return (await session.manifest({ pageSize: 1 })).manifestHash
}

async function listAll(engine: Engine): Promise<unknown[]> {
  const { sessions } = await engine.sessions.list()
  const { sources } = await engine.sources.list()
  return [...sessions.map(({ id, tags, status }) => ({ id, tags, status })), ...sources]
}

function expectGrowth(jobs: readonly ImportJob[]): void {
  const states = [ImportJobState.QUEUED, ImportJobState.RUNNING, ImportJobState.SUCCEEDED]
  for (const counter of ['bytesProcessed', 'filesProcessed'] as const) {
    const counts = jobs.map((job) => job[counter])
    expect(counts).toEqual(counts.toSorted((a, b) => a - b))
    expect(new Set(counts).size).toBeGreaterThan(1)
  }
  const order = jobs.map(({ state }) => (states as string[]).indexOf(state))
  expect(order).toEqual(order.toSorted((a, b) => a - b))
}

/** A fresh copy of a template at the path that the server serves. */
function provide(template: string): void {
  const path = join(directory, 'remote.git')
  cpSync(join(templates, template), path, { recursive: true })
  native = new GitRepository(path)
}

async function newSource(engine: Engine): Promise<string> {
  const gitRemote = { remoteUrl: `${server.url}/remote.git`, defaultRef: 'main' }
  return (await engine.sources.create({ displayName: 'remote', gitRemote })).sourceId
}

async function runImport(engine: Engine, sourceId: string): Promise<ImportJob> {
  return engine.sources.waitForJob(await engine.sources.startImport(sourceId))
}

/** Commits to a branch, and checks the result there. */
async function commit(session: Session, branchName: string): Promise<string> {
  const { commitId } = await session.commit({
    message: `to ${branchName}`,
    author,
    gitBranch: { branchName },
  })
  expect(native.tip(`refs/heads/${branchName}`)).toBe(commitId)
  return commitId
}

function allRefs(): Map<string, string> {
  const lines = native.git(['for-each-ref', '--format=%(refname) %(objectname)']).split('\n')
  return new Map(lines.map((line) => line.split(' ') as [string, string]))
}

function show(object: string): string {
  return native.gitBytes(['show', object]).toString()
}

interface Gate {
  /** Resolves when the server holds this many requests. */
  readonly reached: Promise<void>
  readonly opened: Promise<void>
  open(): void
}

function makeGate(count = 1): Gate {
  let open = (): void => undefined
  const opened = new Promise<void>((resolve) => (open = resolve))
  const reached = (async () => {
    const target = server.requests.length + count
    while (server.requests.length < target) await new Promise((resolve) => setTimeout(resolve, 2))
  })()
  return { reached, opened, open }
}

function openGate(): void {
  gate?.open()
  gate = undefined
}

async function thrownBy(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => expect.unreachable('nothing was thrown'),
    (error: unknown) => error,
  )
}

async function rejection(work: Promise<unknown>): Promise<EngineError> {
  const error = await thrownBy(work)
  if (!(error instanceof EngineError)) throw error
  return error
}
