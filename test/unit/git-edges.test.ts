import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import fs, { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import git from 'isomorphic-git'
import { describe, expect, test } from 'vitest'
import { createGitAdapter, type GitAdapterOptions } from '../../src/adapters/git/index.js'
import { EngineError, type CommitRequest, type GitObject, type GitRemote } from '../../src/engine/ports.js'
import {
  commitRequest,
  failure,
  file,
  importFrom,
  link,
  loopback,
  removed,
  sample,
  sampleLines,
  useGit,
} from '../support/git-harness.js'
import { nativeLines } from '../support/git-oracle.js'
import { hasGit } from '../support/git-repository.js'
import { basic, type GitServerOptions } from '../support/git-server.js'
import { MemoryObjects } from '../support/git-sinks.js'
import { isLong, seed } from '../support/seed.js'

const { root, newRepository, sampleRepository, serve, importUrl, importAndPush } = useGit()

const formats = ['sha1', 'sha256'] as const
const protocols = [0, 1, 2] as const

describe.runIf(hasGit).each(formats)('a repository of %s ids', (format) => {
  describe.each(format === 'sha1' || isLong ? protocols : [2 as const])('over protocol %i', (protocol) => {
    test('can be imported, refreshed, committed to and pushed to', async () => {
      const repository = sampleRepository({ format })
      repository.git(['tag', '-a', 'v1', '-m', 'annotated', 'main'])
      repository.git(['tag', '-a', 'nested', '-m', 'nested', 'v1'])
      const remote = { remoteUrl: `${(await serve({ protocol })).url}/${repository.name}` }
      for (const gitRef of ['', 'main', 'v1', 'nested', repository.first]) {
        const got = await importFrom(remote, gitRef)
        expect(got).toMatchObject({ commitId: repository.first, lines: sampleLines })
      }
      const base = await importFrom(remote)
      const push = { remote, branchName: 'main', expectedTip: base.commitId }
      const { committer } = createGitAdapter(loopback)
      const changes = [file('dir/b.txt', 'new'), removed('run.sh'), link('deep/er/link', '../..')]
      const { commitId } = await committer.commit(commitRequest(base, changes, { push }))
      expect(repository.tip('refs/heads/main')).toBe(commitId)
      expect(repository.changes(base.commitId, commitId)).toEqual([
        '000000 D run.sh',
        '100644 M dir/b.txt',
        '120000 A deep/er/link',
      ])
      repository.fsck()
      const after = await importFrom(remote, 'main', loopback, new AbortController().signal, base)
      expect(after.calls.toSorted()).toEqual([
        '/deep',
        '/deep/er',
        '/deep/er/link',
        '/dir/b.txt',
        'remove /run.sh',
      ])
      expect(after.lines.toSorted()).toEqual(nativeLines(repository, 'main'))
    })

    // Before git 2.41, only protocol 2 reports the format of an empty repository.
    test.runIf(format === 'sha1' || protocol === 2)('gets its first commit when empty', async () => {
      const repository = newRepository({ format })
      const remote = { remoteUrl: `${(await serve({ protocol })).url}/${repository.name}` }
      const base = await importFrom(remote)
      expect(base).toMatchObject({ commitId: '', lines: [] })
      expect(base.treeId).toBe(repository.git(['hash-object', '-t', 'tree', '--stdin'], { input: '' }))
      const push = { remote, branchName: 'main', expectedTip: null }
      for (const more of [{}, { parent: null, baseTree: null }]) {
        const { committer } = createGitAdapter(loopback)
        const request = commitRequest(base, [file('x', 'y')], { push, ...more })
        expect((await committer.commit(request)).commitId).toBe(repository.git(['rev-parse', 'main']))
      }
      expect(repository.git(['rev-list', '--count', 'main'])).toBe('1')
      repository.fsck()
    })
  })

  test('keeps a submodule as a directory with its commit', async () => {
    const repository = newRepository({ format })
    const oid = (format === 'sha1' ? '12345' : '1234567a').repeat(8)
    repository.stage([...sample, ['160000', 'vendor/module', oid]])
    repository.commit()
    const got = await importUrl(repository)
    expect(got.lines).toContain(`dir 755 /vendor/module user.git.gitlink=${oid}`)
    expect(got.lines.toSorted()).toEqual(nativeLines(repository, 'main'))
  })

  test('rejects a commit of the other format', async () => {
    const [repository, other] = formats.map((each) => sampleRepository({ format: each }))
    const remote = { remoteUrl: `${(await serve()).url}/${(format === 'sha1' ? other! : repository!).name}` }
    const base = await importUrl(format === 'sha1' ? repository! : other!)
    const push = { remote, branchName: 'other', expectedTip: null }
    const work = createGitAdapter(loopback).committer.commit(commitRequest(base, [], { push }))
    expect((await failure(work)).reason).toBe('GIT_PUSH_REJECTED')
  })

  test('accepts signed commits that others can verify', async () => {
    const repository = sampleRepository({ format })
    const key = join(repository.path, 'key')
    run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'grace@example.org', '-f', key])
    const payloads: string[] = []
    const sign = (payload: string): Promise<string> => {
      payloads.push(payload)
      return Promise.resolve(run('ssh-keygen', ['-q', '-Y', 'sign', '-n', 'git', '-f', key], payload))
    }
    const { commitId } = await importAndPush(
      repository,
      [file('x', 'y')],
      { message: 'Grüße\n\nbody' },
      { ...loopback, sign },
    )
    const publicKey = fs.readFileSync(`${key}.pub`, 'utf8')
    writeFileSync(`${key}.allowed`, `grace@example.org ${publicKey}`)
    repository.git(['-c', `gpg.ssh.allowedSignersFile=${key}.allowed`, 'verify-commit', commitId])
    expect(payloads).toHaveLength(1)
    expect(payloads[0]).toMatch(/^tree [0-9a-f]+\nparent /)
  })
})

function run(command: string, args: readonly string[], input = ''): string {
  const done = spawnSync(command, args, { input })
  if (done.status !== 0) throw new Error(`${command}: ${done.stderr.toString()}`)
  return done.stdout.toString()
}

describe.runIf(hasGit)('signing', () => {
  test('writes the signature to a header that isomorphic-git reads', async () => {
    const repository = sampleRepository()
    const payloads: string[] = []
    const signature = '-----BEGIN PGP SIGNATURE-----\n\nabc\n-----END PGP SIGNATURE-----'
    const sign = (payload: string): Promise<string> => {
      payloads.push(payload)
      return Promise.resolve(`${signature.replaceAll('\n', '\r\n')}\r\n`)
    }
    const { commitId } = await importAndPush(repository, [file('x', 'y')], {}, { ...loopback, sign })
    const { payload, commit } = await git.readCommit({ fs, gitdir: repository.path, oid: commitId })
    expect([payload, commit.gpgsig?.trim()]).toEqual([payloads[0], signature])
  })

  test.each([
    ['nothing', ''],
    ['an empty first line', '\nx'],
    ['a NUL', 'x\0'],
    ['an undefined signature', undefined as unknown as string],
  ])('with %s is rejected, and nothing is stored or pushed', async (_, signature) => {
    const repository = sampleRepository()
    const remote = { remoteUrl: `${(await serve()).url}/${repository.name}` }
    const base = await importFrom(remote)
    const { committer } = createGitAdapter({ ...loopback, sign: () => Promise.resolve(signature) })
    const push = { remote, branchName: 'main', expectedTip: base.commitId }
    const error = await failure(committer.commit(commitRequest(base, [file('x', 'y')], { push })))
    expect([error.reason, error.details['field']]).toEqual(['INVALID_ARGUMENT', 'git.sign'])
    expect(repository.tip('refs/heads/main')).toBe(base.commitId)
  })

  test('that fails or is aborted fails the commit with its own reason', async () => {
    const base = await importUrl(sampleRepository())
    const failed = new Error('no key')
    const failing = createGitAdapter({ sign: () => Promise.reject(failed) })
    await expect(failing.committer.commit(commitRequest(base, []))).rejects.toBe(failed)
    const abort = new AbortController()
    const never = createGitAdapter({
      sign: () => {
        abort.abort(failed)
        return new Promise(() => {})
      },
    })
    const request = commitRequest(base, [], { signal: abort.signal })
    await expect(never.committer.commit(request)).rejects.toBe(failed)
  })
})

describe.runIf(hasGit)('import', () => {
  test('reads the same as isomorphic-git', async () => {
    const repository = sampleRepository()
    repository.stage([
      ['120000', 'link', 'a.txt'],
      ['100644', 'größe/日本', 'x'],
      ['100644', '__proto__', 'x'],
      ['100644', 'constructor/toString', 'x'],
    ])
    repository.commit()
    const lines: string[] = []
    await git.walk({
      fs,
      gitdir: repository.path,
      dir: repository.path,
      trees: [git.TREE({ ref: 'main' })],
      map: async (path, [entry]) => {
        if (path === '.' || entry == null) return
        const content = Buffer.from((await entry.content()) ?? []).toString()
        const mode = (await entry.mode()).toString(8)
        if (mode === '120000') lines.push(`link /${path} ${content}`)
        else if ((await entry.type()) === 'tree') lines.push(`dir 755 /${path}`)
        else lines.push(`file ${mode.slice(3)} /${path} ${content}`)
      },
    })
    const got = await importUrl(repository)
    expect(got.lines.toSorted()).toEqual(lines.sort())
    expect(got.lines.toSorted()).toEqual(nativeLines(repository, 'main'))
  })

  test('reads a remote that is itself shallow', async () => {
    const origin = sampleRepository()
    origin.commitFiles([['100644', 'a.txt', 'two\n']])
    const shallow = newRepository()
    shallow.git(['fetch', '-q', '--depth=1', `file://${origin.path}`, 'main:main'])
    for (const protocol of protocols) {
      const remote = { remoteUrl: `${(await serve({ protocol })).url}/${shallow.name}` }
      const got = await importFrom(remote, 'main')
      expect(got.lines.toSorted()).toEqual(nativeLines(shallow, 'main'))
      const again = await importFrom(remote, 'main', loopback, new AbortController().signal, got)
      expect(again.calls).toEqual([])
    }
  })

  test.each(['http', 'local', 'bundle'])(
    'accepts large files in pieces, but not as symlinks or revisions: %s',
    async (kind) => {
      const repository = newRepository()
      const content = Buffer.alloc(5 * 2 ** 20, 'abcdefg')
      const large = repository.blob(content)
      const blob = repository.blob('x')
      repository.commitTree(
        repository.rawTree([
          ['100644', 'large', large],
          ['120000', 'link', large],
          ['100644', 'small', blob],
        ]),
      )
      repository.git(['tag', 'large', large])
      repository.git(['repack', '-adq'])
      const bundle = repository.gitBytes(['bundle', 'create', '-q', '-', '--all'])
      const remotes: Record<string, GitRemote> = {
        http: { remoteUrl: `${(await serve()).url}/${repository.name}` },
        local: { repositoryPath: repository.path },
        bundle: { bundle },
      }
      const options = { ...loopback, hostPathRoots: [root] }
      const got = await importFrom(remotes[kind]!, 'main', options)
      expect(got.calls).toEqual(['/large', '/small'])
      expect(got.objects.inPieces).toEqual([large])
      expect(content.equals(got.objects.stored.get(large)!.body)).toBe(true)
      expect((await failure(importFrom(remotes[kind]!, 'large', options))).reason).toBe('GIT_NOT_A_TREE')
    },
  )

  test.runIf(isLong)('reads a directory of 10,000 entries and finds the changed one', async () => {
    const repository = newRepository()
    repository.commitFiles(
      Array.from({ length: 10_000 }, (_, at) => ['100644', `wide/f${at}`, String(at % 100)] as const),
    )
    const remote = { remoteUrl: `${(await serve()).url}/${repository.name}` }
    const got = await importFrom(remote)
    expect(got.progress.filesProcessed).toBe(10_000)
    expect(got.lines.toSorted()).toEqual(nativeLines(repository, 'main'))
    repository.commitFiles([['100644', 'wide/f5000', 'changed']])
    const after = await importFrom(remote, '', loopback, new AbortController().signal, got)
    expect(after.calls).toEqual(['/wide/f5000'])
  })

  test('reads a path of 250 levels', async () => {
    const repository = newRepository()
    repository.commitFiles([['100644', `${'d/'.repeat(249)}f`, 'x']])
    const got = await importUrl(repository)
    expect(got.lines.toSorted()).toEqual(nativeLines(repository, 'main'))
  })

  test('rejects names and paths that are too long', async () => {
    const repository = newRepository()
    const blob = repository.blob('x')
    repository.commitTree(repository.rawTree([['100644', 'n'.repeat(256), blob]]), 'refs/heads/name')
    let tree = repository.rawTree([['100644', 'f', blob]])
    for (let level = 0; level < 17; level++) tree = repository.rawTree([['40000', 'ü'.repeat(125), tree]])
    repository.commitTree(tree, 'refs/heads/path')
    for (const gitRef of ['name', 'path']) {
      expect((await failure(importUrl(repository, gitRef))).reason).toBe('GIT_TOO_LARGE')
    }
  })

  test.runIf(isLong)('rejects a small pack that expands to endless entries early', async () => {
    const repository = newRepository()
    let tree = repository.rawTree([['100644', 'f', repository.blob('x')]])
    for (let level = 0; level < 20; level++) {
      tree = repository.rawTree('0123456789'.split('').map((name) => ['40000', name, tree] as const))
    }
    repository.commitTree(tree)
    const error = await failure(importUrl(repository))
    expect([error.reason, error.details['limit']]).toEqual(['GIT_TOO_LARGE', '200000'])
  })

  test('reads a tree that occurs at many paths', async () => {
    const repository = newRepository()
    const inner = repository.rawTree(
      Array.from(
        { length: 100 },
        (_, at) => ['100644', `f${1000 + at}`, repository.blob(`${at % 3}`)] as const,
      ),
    )
    repository.commitTree(
      repository.rawTree(Array.from({ length: 200 }, (_, at) => ['40000', `d${1000 + at}`, inner] as const)),
    )
    expect((await importUrl(repository)).progress.filesProcessed).toBe(20_000)
  })

  test.each(protocols)('names the branches when HEAD is unborn: protocol %i', async (protocol) => {
    const repository = sampleRepository()
    repository.git(['symbolic-ref', 'HEAD', 'refs/heads/gone'])
    const error = await failure(importUrl(repository, '', { protocol }))
    expect([error.reason, error.details['branches']]).toEqual(['GIT_REF_NOT_FOUND', 'main'])
  })

  test.each(protocols)('resolves tags of trees and rejects tags of blobs: protocol %i', async (protocol) => {
    const repository = sampleRepository()
    repository.git(['tag', '-a', 'tree', '-m', 't', 'main^{tree}'])
    repository.git(['tag', '-a', 'tree-tag', '-m', 't', 'tree'])
    repository.git(['tag', '-a', 'blob', '-m', 'b', 'main:a.txt'])
    repository.git(['tag', '-a', 'blob-tag', '-m', 'b', 'blob'])
    for (const tag of ['tree', 'tree-tag']) {
      const got = await importUrl(repository, tag, { protocol })
      expect(got).toMatchObject({ commitId: '', lines: sampleLines })
    }
    for (const tag of ['blob', 'blob-tag']) {
      expect((await failure(importUrl(repository, tag, { protocol }))).reason).toBe('GIT_NOT_A_TREE')
    }
  })

  test.runIf(isLong)('rejects a directory with too many entries', async () => {
    const repository = newRepository()
    const blob = repository.blob('x')
    const entries = Array.from({ length: 500_001 }, (_, at) => `${1_000_000 + at}`)
    repository.commitTree(repository.rawTree(entries.map((name) => ['100644', name, blob])))
    const error = await failure(importUrl(repository))
    expect([error.reason, error.details['limit']]).toEqual(['GIT_TOO_LARGE', '500000'])
  })

  test('rejects a tag that is nested too deeply', async () => {
    const repository = sampleRepository()
    let oid = repository.first
    let type = 'commit'
    for (let level = 0; level < 17; level++) {
      const text = `object ${oid}\ntype ${type}\ntag t${level}\ntagger A <a@b> 1700000000 +0000\n\nx\n`
      oid = repository.git(['hash-object', '-t', 'tag', '-w', '--stdin'], { input: text })
      type = 'tag'
    }
    repository.git(['update-ref', 'refs/tags/deep', oid])
    expect((await failure(importUrl(repository, 'deep'))).reason).toBe('GIT_TOO_LARGE')
  })

  test.each(['.git\u200c', '\u202e.git', 'GIT~1', '.git...', '.git . ', '.git:stream', '.GIT\\x'])(
    'refuses the disguised name %j',
    async (name) => {
      const repository = newRepository()
      repository.commitTree(repository.rawTree([['40000', name, repository.rawTree([])]]))
      expect((await failure(importUrl(repository))).details['path']).toBe(`/${name}`)
    },
  )

  test('refuses a symlink .gitmodules but accepts a file of that name', async () => {
    const repository = newRepository()
    const blob = repository.blob('x')
    repository.commitTree(repository.rawTree([['100644', '.gitmodules', blob]]))
    await importUrl(repository)
    repository.commitTree(repository.rawTree([['120000', '.GitModules', blob]]))
    const error = await failure(importUrl(repository))
    expect([error.reason, error.details['path']]).toEqual(['GIT_UNSAFE_PATH', '/.GitModules'])
  })

  test('refuses an unsafe name in a refresh', async () => {
    const repository = sampleRepository()
    const remote = { remoteUrl: `${(await serve()).url}/${repository.name}` }
    const before = await importFrom(remote)
    const bad = repository.rawTree([['100644', '.git', repository.blob('x')]])
    repository.commitTree(bad)
    const work = importFrom(remote, '', loopback, new AbortController().signal, before)
    expect((await failure(work)).reason).toBe('GIT_UNSAFE_PATH')
    const twice = repository.rawTree([
      ['100644', 'a.txt', repository.blob('one\n')],
      ['40000', 'a.txt', repository.rawTree([])],
    ])
    repository.commitTree(twice)
    const again = importFrom(remote, '', loopback, new AbortController().signal, before)
    expect((await failure(again)).reason).toBe('GIT_UNSAFE_PATH')
  })

  test('rejects a ref with a malformed id', async () => {
    const options: GitServerOptions = {
      rewrite: (request, body) =>
        request.method === 'POST' ? Buffer.from('001b../../../../../x HEAD\n0000') : body,
    }
    expect((await failure(importUrl(sampleRepository(), '', options))).reason).toBe('GIT_CORRUPT')
  })
})

describe.runIf(hasGit)('a response', () => {
  test('with any damage fails or is harmless', async () => {
    const repository = sampleRepository()
    repository.commitFiles(
      Array.from(
        { length: 30 },
        (_, at) => ['100644', `d${at % 5}/f${at}`, `content ${at}\n`.repeat(50)] as const,
      ),
    )
    repository.git(['repack', '-adfq'])
    const expected = nativeLines(repository, 'main')
    let state = 0
    const random = (below: number): number => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
      return Math.floor((state / 2 ** 32) * below)
    }
    const server = await serve({
      isConstant: true,
      rewrite(_, body) {
        const damaged = Buffer.from(body)
        const at = random(damaged.length)
        switch (random(8)) {
          case 0:
            damaged[at] = random(256)
            return damaged
          case 1:
            return damaged.subarray(0, at)
          case 2:
            return Buffer.concat([damaged.subarray(0, at), damaged.subarray(at + random(50))])
          default:
            return damaged
        }
      },
    })
    const remote = { remoteUrl: `${server.url}/${repository.name}` }
    const failures: string[] = []
    for (let round = seed; round < seed + 60; round++) {
      state = round
      const done = await importFrom(remote, '', { ...loopback, idleTimeoutMs: 5000 }).then(
        ({ lines }) => lines.toSorted(),
        (error: unknown) => (error instanceof EngineError ? error.reason : error),
      )
      if (typeof done === 'string') failures.push(done)
      // An empty list of refs is a repository without refs.
      const isHarmless = typeof done === 'string' || (Array.isArray(done) && done.length === 0)
      expect({ round, done: isHarmless ? expected : done }).toEqual({ round, done: expected })
    }
    expect(failures).not.toContain('INTERNAL')
    expect(failures.length).toBeGreaterThan(5)
  })

  // One that goes on must not be slower than the time-out because the machine is busy. Silence ends in any case.
  test.each<[then: string, pauseMs: number, idleTimeoutMs: number]>([
    ...(isLong ? [['goes on', 4000, 2500] as [string, number, number]] : []),
    ['falls silent then', 800, 500],
  ])('read slowly is not a timeout, but %s', async (then, pauseMs, idleTimeoutMs) => {
    const repository = newRepository()
    for (let at = 0; at < 6; at++) {
      repository.stage([['100644', `f${at}`, randomBytes(500_000)]])
    }
    const commit = repository.commit()
    const ask = (options: readonly string[], input = ''): Buffer =>
      repository.gitBytes(['upload-pack', '--stateless-rpc', ...options, '.'], {
        input,
        env: { GIT_PROTOCOL: 'version=2' },
      })
    // No slow work is left to do.
    const refs = Buffer.concat([
      Buffer.from('001e# service=git-upload-pack\n0000'),
      ask(['--advertise-refs']),
    ])
    const pack = ask([], `0011command=fetch0001000fno-progress0032want ${commit}\n0009done\n0000`)
    const server = await serve({
      intercept(request, response) {
        const kind = request.method === 'GET' ? 'advertisement' : 'result'
        response.writeHead(200, { 'content-type': `application/x-git-upload-pack-${kind}` })
        if (kind === 'advertisement') response.end(refs)
        else if (then === 'goes on') response.end(pack)
        else response.write(pack.subarray(0, 2_500_000))
        return true
      },
    })
    class SlowObjects extends MemoryObjects {
      isSlow = true

      override async add(object: GitObject): Promise<void> {
        if (this.isSlow && object.type === 'blob') {
          this.isSlow = false
          await setTimeout(pauseMs)
        }
        await super.add(object)
      }
    }
    const before = { objects: new SlowObjects(), known: new Map(), commits: [] }
    const remote = { remoteUrl: `${server.url}/${repository.name}` }
    const options = { ...loopback, idleTimeoutMs }
    const work = importFrom(remote, commit, options, new AbortController().signal, before)
    const done = await work.then(
      ({ calls }) => calls.length,
      (error: EngineError) => error.reason,
    )
    expect(done).toBe(then === 'goes on' ? 6 : 'GIT_TIMEOUT')
  })
})

describe.runIf(hasGit)('credentials', () => {
  const given = { username: 'user', password: 'hidden:\u00fc' }
  const auth = `${given.username}:${given.password}`

  test('of a source are requested once at the start and sent immediately', async () => {
    const repository = sampleRepository()
    const server = await serve({ auth })
    const asked: unknown[] = []
    const options: GitAdapterOptions = {
      ...loopback,
      credentials: (request) => {
        asked.push({ ...request, requests: server.requests.length })
        return Promise.resolve(given)
      },
    }
    const remoteUrl = `${server.url}/${repository.name}`
    const remote = { remoteUrl, credentialsSecretId: 'secret-1' }
    const base = await importFrom(remote, '', options)
    expect(base.lines).toEqual(sampleLines)
    expect(asked).toEqual([{ remoteUrl, credentialsSecretId: 'secret-1', requests: 0 }])
    expect(server.requests.map(({ authorization }) => authorization)).toEqual(Array(3).fill(basic(auth)))
    const push = { remote, branchName: 'main', expectedTip: base.commitId }
    const request = commitRequest(base, [file('x', 'y')], { push })
    await createGitAdapter(options).committer.commit(request)
    expect(asked).toHaveLength(2)
    repository.fsck()
  })

  test('that are unknown fail with CREDENTIALS_NOT_FOUND before any request to the remote', async () => {
    const repository = sampleRepository()
    const server = await serve()
    const base = await importUrl(repository)
    const remote = { remoteUrl: `${server.url}/${repository.name}`, credentialsSecretId: 'secret-1' }
    for (const credentials of [undefined, () => Promise.resolve(undefined)]) {
      const options: GitAdapterOptions = { ...loopback, ...(credentials && { credentials }) }
      for (const gitRef of ['', repository.first]) {
        const error = await failure(importFrom(remote, gitRef, options))
        expect(error.reason).toBe('CREDENTIALS_NOT_FOUND')
      }
      const push = { remote, branchName: 'main', expectedTip: base.commitId }
      const work = createGitAdapter(options).committer.commit(commitRequest(base, [], { push }))
      expect((await failure(work)).reason).toBe('CREDENTIALS_NOT_FOUND')
    }
    expect(server.requests).toEqual([])
  })

  test('are only awaited until the abort', async () => {
    const reason = new Error('enough')
    const abort = new AbortController()
    const options: GitAdapterOptions = {
      ...loopback,
      credentials: () => {
        abort.abort(reason)
        return new Promise(() => {})
      },
    }
    const repository = sampleRepository()
    const remoteUrl = `${(await serve({ auth })).url}/${repository.name}`
    for (const credentialsSecretId of ['', 'secret-1']) {
      const remote = { remoteUrl, credentialsSecretId }
      await expect(importFrom(remote, '', options, abort.signal)).rejects.toBe(reason)
    }
  })

  test('never appear in an error', async () => {
    const repository = sampleRepository()
    const options: GitAdapterOptions = { ...loopback, credentials: () => Promise.resolve(given) }
    const servers: GitServerOptions[] = [
      { auth: 'other:one' },
      { auth, intercept: (_, response) => response.writeHead(500).end('no') !== undefined },
      { auth, cutAfter: () => 30 },
      { auth, rewrite: (_, body) => body.subarray(0, 50) },
      { auth, intercept: (_, response) => response.writeHead(200).end('<html>') !== undefined },
    ]
    for (const server of servers) {
      for (const credentialsSecretId of ['', 'secret-1']) {
        const remoteUrl = `${(await serve(server)).url}/${repository.name}`
        const error = await failure(importFrom({ remoteUrl, credentialsSecretId }, '', options))
        const shown: string[] = []
        for (let next: unknown = error; next instanceof Error; next = next.cause) {
          shown.push(
            String(next),
            next.stack ?? '',
            JSON.stringify(next),
            JSON.stringify(Object.entries(next)),
          )
        }
        for (const secret of ['hidden', basic(auth).slice(6)]) expect(shown.join('\n')).not.toContain(secret)
      }
    }
  })

  describe.each([301, 302, 307, 308])('along a redirect with %i', (status) => {
    test.each(['', 'secret-1'])(
      'are sent only to their origin (credentialsSecretId %j)',
      async (credentialsSecretId) => {
        const repository = sampleRepository()
        const options: GitAdapterOptions = { ...loopback, credentials: () => Promise.resolve(given) }
        const target = await serve()
        const redirecting = await serve({
          auth,
          intercept(request, response) {
            if (request.headers.authorization === undefined) return false
            response.writeHead(status, { location: target.url + request.url }).end()
            return true
          },
        })
        const remote = { remoteUrl: `${redirecting.url}/${repository.name}`, credentialsSecretId }
        const base = await importFrom(remote, '', options)
        expect(base.lines).toEqual(sampleLines)
        const push = { remote, branchName: 'main', expectedTip: base.commitId }
        const request = commitRequest(base, [file('x', 'y')], { push })
        await createGitAdapter(options).committer.commit(request)
        expect(target.requests.length).toBeGreaterThan(4)
        for (const { authorization } of target.requests) expect(authorization).toBeUndefined()
        repository.fsck()
      },
    )

    test('are sent on a redirect within their origin', async () => {
      const repository = sampleRepository()
      const options: GitAdapterOptions = { ...loopback, credentials: () => Promise.resolve(given) }
      const server = await serve({
        auth,
        intercept(request, response) {
          if (request.url?.startsWith('/moved') !== true) return false
          response.writeHead(status, { location: request.url.replace('/moved', '') }).end()
          return true
        },
      })
      const got = await importFrom({ remoteUrl: `${server.url}/moved/${repository.name}` }, '', options)
      expect(got.lines).toEqual(sampleLines)
    })
  })

  test('are sent to the remote itself after a redirect to a server that refuses', async () => {
    const repository = sampleRepository()
    const options: GitAdapterOptions = { ...loopback, credentials: () => Promise.resolve(given) }
    const refusing = await serve({ auth })
    const redirecting = await serve({
      auth,
      intercept(request, response) {
        if (request.headers.authorization !== undefined) return false
        response.writeHead(302, { location: refusing.url + request.url }).end()
        return true
      },
    })
    const got = await importFrom({ remoteUrl: `${redirecting.url}/${repository.name}` }, '', options)
    expect(got.lines).toEqual(sampleLines)
    expect(refusing.requests.map(({ authorization }) => authorization)).toEqual([undefined])
  })

  test('a redirect to a private address is refused', async () => {
    const port = new URL((await serve()).url).port
    const remote = { remoteUrl: `http://127.0.0.1:${port}/x` }
    expect((await failure(importFrom(remote, '', { allowPrivateAddresses: false }))).reason).toBe(
      'GIT_ADDRESS_REFUSED',
    )
  })
})

describe.runIf(hasGit)('push', () => {
  test('lets one of two concurrent pushes succeed and fails the other with BRANCH_MOVED', async () => {
    const repository = sampleRepository()
    const remote = { remoteUrl: `${(await serve()).url}/${repository.name}` }
    const base = await importFrom(remote)
    const { committer } = createGitAdapter(loopback)
    const request = (content: string): CommitRequest =>
      commitRequest(base, [file('x', content)], {
        push: { remote, branchName: 'main', expectedTip: base.commitId },
      })
    const results = await Promise.allSettled([committer.commit(request('1')), committer.commit(request('2'))])
    const won = results.filter((result) => result.status === 'fulfilled')
    const lost = results.filter((result) => result.status === 'rejected')
    expect([won.length, lost.length]).toEqual([1, 1])
    expect((lost[0]!.reason as EngineError).reason).toBe('BRANCH_MOVED')
    expect(repository.tip('refs/heads/main')).toBe(won[0]!.value.commitId)
    expect(repository.git(['rev-parse', 'main^'])).toBe(base.commitId)
    repository.fsck()
  })

  test('stores everything before it sends the first byte', async () => {
    const repository = sampleRepository()
    const base = await importUrl(repository)
    const stored: number[] = []
    const server = await serve({
      intercept() {
        stored.push(base.objects.flushed)
        expect(base.objects.flushed).toBe(base.objects.added.length)
        return false
      },
    })
    const before = base.objects.added.length
    const remote = { remoteUrl: `${server.url}/${repository.name}` }
    const push = { remote, branchName: 'main', expectedTip: base.commitId }
    await createGitAdapter(loopback).committer.commit(commitRequest(base, [file('dir/x', 'y')], { push }))
    // A blob, two trees and a commit.
    expect(stored).toEqual([before + 4, before + 4])
  })

  test('ends with the reason of an abort at any point', async () => {
    const repository = sampleRepository()
    const base = await importUrl(repository)
    const reason = new Error('enough')
    for (const when of ['reading', 'connecting', 'sending'] as const) {
      const abort = new AbortController()
      const server = await serve({
        intercept(request) {
          const isPost = request.method === 'POST'
          if (when === 'connecting' || isPost) abort.abort(reason)
          return when === 'connecting' || isPost
        },
      })
      const remote = { remoteUrl: `${server.url}/${repository.name}` }
      const push = { remote, branchName: 'main', expectedTip: base.commitId }
      const change = file('x', 'y')
      const changes = {
        async *[Symbol.asyncIterator]() {
          if (when === 'reading') abort.abort(reason)
          yield await Promise.resolve(change)
        },
      }
      const request = commitRequest(base, [], { push, changes, signal: abort.signal })
      await expect(createGitAdapter(loopback).committer.commit(request)).rejects.toBe(reason)
      expect(repository.tip('refs/heads/main')).toBe(base.commitId)
    }
  })

  test('supports a large file', async () => {
    const repository = sampleRepository()
    const large = Buffer.alloc(9 * 2 ** 20, 'abcdefghij')
    const { paths, commitId } = await importAndPush(repository, [file('large', large)])
    expect(paths).toEqual(['100644 A large'])
    expect(repository.git(['cat-file', '-s', `${commitId}:large`])).toBe(String(large.length))
  })
})
