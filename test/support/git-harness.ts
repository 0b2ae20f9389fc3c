import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, expect } from 'vitest'
import { createGitAdapter, type GitAdapterOptions } from '../../src/adapters/git/index.js'
import {
  EngineError,
  type CommitRequest,
  type GitRemote,
  type ImportResult,
  type PathChange,
} from '../../src/engine/ports.js'
import { GitRepository, type NewRepository, type StagedEntry } from './git-repository.js'
import { serveGit, type GitServer, type GitServerOptions } from './git-server.js'
import { MemoryObjects, TreeRecorder, type KnownTrees } from './git-sinks.js'

export type NamedRepository = GitRepository & { readonly name: string }

/** Helpers for tests of the git adapter. Servers are closed after each test; repositories are removed at the end. */
export interface Git {
  /** The directory of the repositories. */
  readonly root: string
  readonly newRepository: (options?: NewRepository) => NamedRepository
  /** A repository with `sample` as its first commit on main. */
  readonly sampleRepository: (options?: NewRepository) => NamedRepository & { readonly first: string }
  readonly serve: (options?: GitServerOptions) => Promise<GitServer>
  readonly importUrl: (
    repository: { readonly name: string },
    gitRef?: string,
    serverOptions?: GitServerOptions,
    options?: GitAdapterOptions,
  ) => Promise<Imported>
  /** Imports main, commits the changes on top of it, pushes, and checks the result with native git. */
  readonly importAndPush: (
    repository: NamedRepository,
    changes: readonly PathChange[],
    more?: Partial<CommitRequest>,
    options?: GitAdapterOptions,
  ) => Promise<{ commitId: string; base: Imported; paths: string[] }>
}

export function useGit(): Git {
  const root = mkdtempSync(join(tmpdir(), 'forkspace-git-'))
  let servers: GitServer[] = []
  let created = 0
  afterEach(async () => {
    await Promise.all(servers.map((server) => server.close()))
    servers = []
  })
  afterAll(() => rmSync(root, { recursive: true, force: true }))

  const newRepository: Git['newRepository'] = (options) => {
    const name = `r${++created}.git`
    return Object.assign(GitRepository.create(join(root, name), options), { name })
  }
  const serve: Git['serve'] = async (options) => {
    const server = await serveGit(root, options)
    servers.push(server)
    return server
  }
  return {
    root,
    newRepository,
    serve,
    sampleRepository(options) {
      const repository = newRepository(options)
      repository.stage(sample)
      return Object.assign(repository, { first: repository.commit('refs/heads/main', 'first') })
    },
    async importUrl({ name }, gitRef = '', serverOptions = {}, options = loopback) {
      const server = await serve(serverOptions)
      return importFrom({ remoteUrl: `${server.url}/${name}` }, gitRef, options)
    },
    async importAndPush(repository, changes, more = {}, options = loopback) {
      const server = await serve()
      const remote = { remoteUrl: `${server.url}/${repository.name}` }
      const base = await importFrom(remote, 'main')
      const request = commitRequest(base, changes, {
        push: { remote, branchName: 'main', expectedTip: base.commitId },
        ...more,
      })
      const { commitId, treeId } = await createGitAdapter(options).committer.commit(request)
      expect(repository.tip('refs/heads/main')).toBe(commitId)
      expect(repository.git(['rev-parse', 'main^{tree}', 'main^'])).toBe(`${treeId}\n${base.commitId}`)
      repository.fsck()
      for (const oid of repository.git(['rev-list', '--objects', `${base.commitId}..main`]).split('\n')) {
        expect([oid, base.objects.stored.has(oid.slice(0, commitId.length))]).toEqual([oid, true])
      }
      return { commitId, base, paths: repository.changes(base.commitId, commitId) }
    },
  }
}

export interface Imported extends ImportResult {
  readonly lines: readonly string[]
  /** The calls that the sink received. */
  readonly calls: readonly string[]
  readonly objects: MemoryObjects
  readonly known: KnownTrees
  /** The commits that a later import may build on, newest first. */
  readonly commits: readonly string[]
  readonly mtimeMs: number
  readonly progress: { readonly bytesTransferred: number; readonly filesProcessed: number }
}

/** The state that earlier imports left. */
export type Before = Pick<Imported, 'objects' | 'known' | 'commits'>

/** Options for servers on loopback. */
export const loopback: GitAdapterOptions = { allowPrivateAddresses: true, idleTimeoutMs: 20_000 }

export async function importFrom(
  remote: GitRemote,
  gitRef = '',
  options: GitAdapterOptions = loopback,
  signal: AbortSignal = new AbortController().signal,
  before: Before = { objects: new MemoryObjects(), known: new Map(), commits: [] },
): Promise<Imported> {
  const { objects, known, commits } = before
  const sink = new TreeRecorder(objects, known)
  let progress = { bytesTransferred: 0, filesProcessed: 0 }
  let resolved = 0
  const result = await createGitAdapter(options).importer.import({ remote, gitRef }, sink, {
    signal,
    objects,
    knownCommits: commits,
    onResolved: () => resolved++,
    onProgress(now) {
      expect(now.bytesTransferred).toBeGreaterThanOrEqual(progress.bytesTransferred)
      expect(now.filesProcessed).toBeGreaterThanOrEqual(progress.filesProcessed)
      progress = now
    },
  })
  expect(resolved).toBe(1)
  expect(objects.flushed).toBe(objects.added.length)
  sink.remember(result.treeId)
  const { lines, calls, mtimeMs } = sink
  const imported = result.commitId === '' ? commits : [result.commitId, ...commits]
  return { ...result, lines, calls, objects, known, commits: imported, mtimeMs, progress }
}

export async function failure(work: Promise<unknown>): Promise<EngineError> {
  const error: unknown = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(EngineError)
  return error as EngineError
}

export function file(path: string, content: string | Uint8Array, executable = false): PathChange {
  const read = (): Promise<Uint8Array> => Promise.resolve(Buffer.from(content))
  return { parts: path.split('/'), kind: 'file', executable, read }
}

export function link(path: string, target: string): PathChange {
  return { parts: path.split('/'), kind: 'symlink', target }
}

export function removed(path: string): PathChange {
  return { parts: path.split('/'), kind: 'removed' }
}

export function commitRequest(
  base: Pick<Imported, 'commitId' | 'treeId' | 'objects'>,
  changes: readonly PathChange[],
  more: Partial<CommitRequest> = {},
): CommitRequest {
  return {
    parent: base.commitId,
    baseTree: base.treeId,
    changes: stream(changes),
    message: 'a change',
    author: { name: 'Grace', email: 'grace@example.org' },
    timestampSeconds: 1_700_000_100,
    objects: base.objects,
    signal: new AbortController().signal,
    ...more,
  }
}

async function* stream(changes: readonly PathChange[]): AsyncIterable<PathChange> {
  yield* changes
}

export const sample: readonly StagedEntry[] = [
  ['100644', 'a.txt', 'one\n'],
  ['100644', 'dir/b.txt', 'two\n'],
  ['100644', 'dir/sub/c.txt', 'three\n'],
  ['100755', 'run.sh', '#!/bin/sh\n'],
]

export const sampleLines = [
  'file 644 /a.txt one\n',
  'dir 755 /dir',
  'file 644 /dir/b.txt two\n',
  'dir 755 /dir/sub',
  'file 644 /dir/sub/c.txt three\n',
  'file 755 /run.sh #!/bin/sh\n',
]
