import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { createServer as createTcpServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { gitLimits } from '../../src/adapters/git/limits.js'
import { isPrivateAddress, publicLookup } from '../../src/adapters/git/remote/address-policy.js'
import {
  checkBranchName,
  checkRemoteUrl,
  createGitAdapter,
  type GitAdapterOptions,
} from '../../src/adapters/git/index.js'
import { parseTree } from '../../src/adapters/git/objects/raw-tree.js'
import { cleanRemoteText } from '../../src/adapters/git/remote/remote-errors.js'
import { EngineError } from '../../src/engine/ports.js'
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
import { gitEnvironment, hasGit } from '../support/git-repository.js'
import { basic, type GitServerOptions } from '../support/git-server.js'
import { MemoryObjects } from '../support/git-sinks.js'
import { isLong } from '../support/seed.js'

const { root, newRepository, sampleRepository, serve, importUrl, importAndPush } = useGit()

function outcome<T>(work: () => T): { value?: T; error?: EngineError } {
  try {
    return { value: work() }
  } catch (error) {
    if (error instanceof EngineError) return { error }
    throw error
  }
}

describe.runIf(hasGit)('import', () => {
  test('reads HEAD with modes, times, progress and raw objects', async () => {
    const repository = sampleRepository()
    const got = await importUrl(repository)
    expect(got.lines).toEqual(sampleLines)
    expect(got.commitId).toBe(repository.first)
    expect(got.treeId).toBe(repository.git(['rev-parse', 'main^{tree}']))
    expect(got.mtimeMs).toBe(1_700_000_000_000)
    expect(got.progress.filesProcessed).toBe(4)
    expect(got.progress.bytesTransferred).toBeGreaterThan(100)
    const types = [...got.objects.stored.values()].map(({ type }) => type)
    expect(types.sort().join(' ')).toBe('blob blob blob blob commit tree tree tree')
    for (const { oid, type, body } of got.objects.stored.values()) {
      expect(repository.gitBytes(['cat-file', type, oid]).equals(body)).toBe(true)
    }
  })

  test.each(['protocol 0', 'no side band', 'gzip'])('reads the same over a server with %s', async (kind) => {
    const repository = sampleRepository()
    const rewrite: GitServerOptions['rewrite'] = (request, body) => {
      if (kind !== 'no side band' || request.url?.includes('info/refs') !== true) return body
      return Buffer.from(
        body.toString('latin1').replace(/side-band(-64k)?/g, (name) => name.replace('s', 'x')),
        'latin1',
      )
    }
    const options: GitServerOptions = kind === 'gzip' ? { gzip: true } : { protocol: 0, rewrite }
    expect((await importUrl(repository, 'main', options)).lines).toEqual(sampleLines)
  })

  describe('refs', () => {
    let repository: ReturnType<typeof sampleRepository>
    beforeAll(() => {
      repository = sampleRepository()
      repository.git(['tag', 'light', 'main'])
      repository.git(['tag', '-a', 'v1', '-m', 'annotated', 'main'])
      repository.git(['tag', '-a', 'nested', '-m', 'nested', 'v1'])
      repository.git(['tag', 'tree', 'main^{tree}'])
      repository.git(['tag', '-a', 'annotated-tree', '-m', 't', 'main^{tree}'])
      repository.git(['tag', 'blob', 'main:a.txt'])
      repository.git(['update-ref', 'refs/heads/deep/er/name', 'main'])
      repository.git(['update-ref', 'refs/pull/1/head', 'main'])
      repository.stage([['100644', 'both.txt', 'branch\n']])
      repository.commit('refs/heads/both')
      repository.git(['tag', 'both', 'main'])
    })

    test.each(isLong ? ([0, 1, 2] as const) : ([2] as const))(
      'resolves each form of a ref (protocol %i)',
      async (protocol) => {
        const server = await serve({ protocol })
        const remote = { remoteUrl: `${server.url}/${repository.name}` }
        const forms = ['HEAD', 'main', 'refs/heads/main', 'heads/main', 'light', 'v1', 'nested', 'tags/v1']
        forms.push('refs/tags/nested', 'deep/er/name', 'refs/pull/1/head', 'pull/1/head', repository.first)
        forms.push(repository.first.toUpperCase())
        for (const form of forms) {
          const { commitId } = await importFrom(remote, form)
          expect([form, commitId]).toEqual([form, repository.first])
        }
      },
    )

    test('prefers a branch to a tag of the same name', async () => {
      expect((await importUrl(repository, 'both')).commitId).toBe(repository.tip('refs/heads/both'))
      expect((await importUrl(repository, 'refs/tags/both')).commitId).toBe(repository.first)
    })

    test.each(['tree', 'annotated-tree'])('imports a tag of a tree without a commit: %s', async (tag) => {
      const got = await importUrl(repository, tag)
      expect(got.lines).toEqual(sampleLines)
      expect([got.commitId, got.treeId]).toEqual(['', repository.git(['rev-parse', 'main^{tree}'])])
      const { commitId } = await createGitAdapter().committer.commit(commitRequest(got, []))
      expect(Buffer.from(got.objects.stored.get(commitId)!.body).toString()).not.toContain('parent')
    })

    test.each([
      ['HEAD~1', 'GIT_REF_NOT_FOUND'],
      ['missing', 'GIT_REF_NOT_FOUND'],
      ['refs/heads/missing', 'GIT_REF_NOT_FOUND'],
      ['main\nref-prefix refs', 'GIT_REF_NOT_FOUND'],
      ['-x', 'GIT_REF_NOT_FOUND'],
      ['1111111111111111111111111111111111111111', 'GIT_REF_NOT_FOUND'],
      ['blob', 'GIT_NOT_A_TREE'],
    ])('%j fails with %s', async (gitRef, reason) => {
      expect((await failure(importUrl(repository, gitRef))).reason).toBe(reason)
      const remote = { repositoryPath: repository.path }
      const local = importFrom(remote, gitRef, { hostPathRoots: [root] })
      expect((await failure(local)).reason).toBe(reason)
    })
  })

  test('imports an empty repository as an empty baseline, but only for the default branch', async () => {
    const repository = newRepository()
    for (const protocol of [0, 1, 2] as const) {
      const got = await importUrl(repository, '', { protocol })
      expect(got).toMatchObject({
        commitId: '',
        lines: [],
        treeId: '4b825dc642cb6eb9a060e54bf8d69288fbee4904',
      })
      expect((await failure(importUrl(repository, 'main', { protocol }))).reason).toBe('GIT_REF_NOT_FOUND')
    }
  })

  test('names the existing branches if HEAD is unborn', async () => {
    const repository = sampleRepository()
    repository.git(['symbolic-ref', 'HEAD', 'refs/heads/gone'])
    const error = await failure(importUrl(repository))
    expect(error.reason).toBe('GIT_REF_NOT_FOUND')
    expect(error.message).toContain('main')
  })

  test('imports a detached HEAD and an empty tree', async () => {
    const detached = sampleRepository()
    writeFileSync(join(detached.path, 'HEAD'), `${detached.first}\n`)
    expect((await importUrl(detached)).lines).toEqual(sampleLines)
    const bare = newRepository()
    const commit = bare.commitTree(bare.git(['mktree'], { input: '' }))
    expect(await importUrl(bare)).toMatchObject({ commitId: commit, lines: [] })
  })

  test('imports modes, symlinks, submodules and unusual names', async () => {
    const repository = newRepository()
    const blob = repository.blob('x')
    const gitlink = '1'.repeat(40)
    const target = repository.blob('../../etc/passwd')
    const badTarget = repository.blob(Buffer.from([0xff]))
    repository.commitTree(
      repository.rawTree([
        ['100664', ' lead', blob],
        ['100644', 'a\\b', blob],
        ['100644', Buffer.from('bad\xff', 'latin1'), blob],
        ['120000', 'badlink', badTarget],
        ['100644', '\ufeffbom', blob],
        ['100755', 'exe', blob],
        ['120000', 'link', target],
        ['160000', 'module', gitlink],
        ['100644', 'new\nline', blob],
      ]),
    )
    expect((await importUrl(repository)).lines).toEqual([
      'file 644 / lead x',
      'file 644 /a\\b x',
      'file 644 /\ufeffbom x',
      'file 755 /exe x',
      'link /link ../../etc/passwd',
      `dir 755 /module user.git.gitlink=${gitlink}`,
      'file 644 /new\nline x',
    ])
  })

  test('imports a commit in another encoding and with a signature header', async () => {
    const repository = sampleRepository()
    const tree = repository.git(['rev-parse', 'main^{tree}'])
    const person = 'J\xf6rg <j@example.org> 1600000000 +0530'
    const text = `tree ${tree}\nauthor ${person}\ncommitter ${person}\nencoding ISO-8859-1\ngpgsig -----BEGIN\n x\n -----END\n\nGr\xfc\xdfe\n`
    const commit = repository.git(['hash-object', '-t', 'commit', '-w', '--stdin'], {
      input: Buffer.from(text, 'latin1'),
    })
    repository.git(['update-ref', 'refs/heads/main', commit])
    expect(await importUrl(repository)).toMatchObject({ commitId: commit, mtimeMs: 1_600_000_000_000 })
  })

  test.each([
    '.',
    '..',
    '.git',
    '.GiT',
    'git~1',
    '.git ',
    '.git.',
    '.git::$INDEX_ALLOCATION',
    '.g\u200cit',
    'a/b',
    '.git\\config',
  ])('refuses the name %j', async (name) => {
    const repository = newRepository()
    const inner = repository.rawTree([['100644', name, repository.blob('x')]])
    repository.commitTree(repository.rawTree([['40000', 'dir', inner]]))
    const error = await failure(importUrl(repository))
    expect([error.reason, error.details['path']]).toEqual(['GIT_UNSAFE_PATH', `/dir/${name}`])
  })

  test('refuses duplicate names, also of different kinds', async () => {
    for (const mode of ['100644', '40000']) {
      const repository = newRepository()
      const blob = repository.blob('x')
      const other = mode === '40000' ? repository.rawTree([['100644', 'f', blob]]) : repository.blob('y')
      repository.commitTree(
        repository.rawTree([
          ['120000', 'a', blob],
          [mode, 'a', other],
        ]),
      )
      expect((await failure(importUrl(repository))).details['path']).toBe('/a')
    }
  })

  test('imports 256 levels and refuses 257', async () => {
    const repository = newRepository()
    let tree = repository.rawTree([['100644', 'f', repository.blob('x')]])
    for (let level = 1; level < 256; level++) tree = repository.rawTree([['40000', 'd', tree]])
    repository.commitTree(tree, 'refs/heads/main')
    repository.commitTree(repository.rawTree([['40000', 'd', tree]]), 'refs/heads/deeper')
    expect((await importUrl(repository, 'main')).lines).toHaveLength(256)
    expect((await failure(importUrl(repository, 'deeper'))).reason).toBe('GIT_TOO_LARGE')
  })

  test('resolves deltas', async () => {
    const repository = newRepository()
    const big = Array.from({ length: 3000 }, (_, line) => `line ${line}\n`)
    repository.stage(['a', 'b', 'c', 'd'].map((name, at) => ['100644', name, big.with(at, 'x\n').join('')]))
    repository.commit()
    repository.git(['repack', '-adfq'])
    const got = await importUrl(repository)
    expect(got.lines[2]).toBe(`file 644 /c ${big.with(2, 'x\n').join('')}`)
  })
})

describe.runIf(hasGit)('a remote that misbehaves', () => {
  const answer = (status: number, body: string, headers: Record<string, string> = {}): GitServerOptions => ({
    intercept(_, response) {
      response.writeHead(status, headers).end(body)
      return true
    },
  })

  test.each<[string, GitServerOptions, string]>([
    ['401', { auth: 'a:b' }, 'GIT_AUTH_REQUIRED'],
    ['403', answer(403, 'no'), 'GIT_AUTH_FAILED'],
    ['404', answer(404, 'no'), 'GIT_REPO_NOT_FOUND'],
    ['429', answer(429, 'slower'), 'GIT_REMOTE_ERROR'],
    ['500', answer(500, 'x'.repeat(1_000_000)), 'GIT_REMOTE_ERROR'],
    ['503', answer(503, ''), 'GIT_REMOTE_ERROR'],
    ['an HTML page', answer(200, '<html></html>', { 'content-type': 'text/html' }), 'GIT_NOT_A_REPOSITORY'],
    [
      'a malformed body',
      answer(200, 'hello0000', { 'content-type': 'application/x-git-upload-pack-advertisement' }),
      'GIT_NOT_A_REPOSITORY',
    ],
    [
      'an endless redirect',
      answer(302, '', { location: '/x/info/refs?service=git-upload-pack' }),
      'GIT_REMOTE_ERROR',
    ],
    ['a redirect to a file URL', answer(301, '', { location: 'file:///etc/passwd' }), 'GIT_REMOTE_ERROR'],
    ['a truncated list of refs', { cutAfter: () => 40 }, 'GIT_UNREACHABLE'],
    ['a short list of refs', { rewrite: (_, body) => body.subarray(0, 60) }, 'GIT_CORRUPT'],
    ['a truncated pack', { cutAfter: (r) => (isFetch(r) ? 300 : undefined) }, 'GIT_UNREACHABLE'],
    [
      'a pack that ends early',
      { rewrite: (r, body) => (isFetch(r) ? body.subarray(0, 300) : body) },
      'GIT_CORRUPT',
    ],
    [
      'an error line',
      { rewrite: (r, body) => (isFetch(r) ? Buffer.from('000fERR broken!') : body) },
      'GIT_REMOTE_ERROR',
    ],
    ['a corrupt pack', { rewrite: (r, body) => (isFetch(r) ? flipByte(body) : body) }, 'GIT_CORRUPT'],
  ])('%s', async (_, options, reason) => {
    const repository = sampleRepository()
    const error = await failure(importUrl(repository, '', options))
    expect(error).toMatchObject({ reason })
  })

  // The other POST of protocol 2, ls-refs, is shorter.
  const isFetch = (request: IncomingMessage): boolean =>
    request.method === 'POST' && Number(request.headers['content-length']) > 110
  const flipByte = (body: Buffer): Buffer => {
    const at = body.indexOf('PACK') + 60
    body[at] = body[at]! ^ 1
    return body
  }

  test('fails with GIT_TIMEOUT if the remote is silent, before or during its response', async () => {
    const repository = sampleRepository()
    const options = { ...loopback, idleTimeoutMs: 200 }
    const mute = await failure(importUrl(repository, '', { intercept: () => true }, options))
    expect(mute.reason).toBe('GIT_TIMEOUT')
    const stuck: GitServerOptions = {
      intercept(_, response) {
        response.writeHead(200, { 'content-type': 'application/x-git-upload-pack-advertisement' })
        response.write('001e# service=git-upload-pack\n')
        return true
      },
    }
    expect((await failure(importUrl(repository, '', stuck, options))).reason).toBe('GIT_TIMEOUT')
  })

  test('fails with GIT_UNREACHABLE for a closed port or an unknown host', async () => {
    const server = createTcpServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const { port } = server.address() as AddressInfo
    await new Promise((resolve) => server.close(resolve))
    for (const host of [`127.0.0.1:${port}`, 'host.invalid']) {
      expect((await failure(importFrom({ remoteUrl: `http://${host}/r` }))).reason).toBe('GIT_UNREACHABLE')
    }
  })

  test('fails with GIT_NOT_A_REPOSITORY for a server that does not speak HTTP', async () => {
    const server = createTcpServer((socket) => void socket.end('SSH-2.0-OpenSSH\r\n')).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const { port } = server.address() as AddressInfo
    expect((await failure(importFrom({ remoteUrl: `http://127.0.0.1:${port}/r` }))).reason).toBe(
      'GIT_NOT_A_REPOSITORY',
    )
    server.close()
  })

  test.each([301, 302, 307, 308])('follows a redirect with %i for each request', async (status) => {
    const repository = sampleRepository()
    const target = await serve()
    const server = await serve({
      intercept(request, response) {
        response.writeHead(status, { location: target.url + (request.url ?? '').replace('/moved', '') }).end()
        return true
      },
    })
    const remote = { remoteUrl: `${server.url}/moved/${repository.name}` }
    const base = await importFrom(remote)
    expect(base.lines).toEqual(sampleLines)
    expect(server.requests).toHaveLength(1)
    const push = { remote, branchName: 'main', expectedTip: base.commitId }
    await createGitAdapter(loopback).committer.commit(commitRequest(base, [file('new', 'x')], { push }))
    repository.fsck()
  })

  test('fails a push if the remote reports an unpack error', async () => {
    const repository = sampleRepository()
    const packetOf = (text: string): string => (text.length + 4).toString(16).padStart(4, '0') + text
    const server = await serve({
      intercept(request, response) {
        if (request.method !== 'POST' || request.url?.endsWith('/git-receive-pack') !== true) return false
        const report = `${packetOf('unpack no space left\n')}0000`
        const type = 'application/x-git-receive-pack-result'
        response.writeHead(200, { 'content-type': type }).end(`${packetOf(`\u0001${report}`)}0000`)
        return true
      },
    })
    const remote = { remoteUrl: `${server.url}/${repository.name}` }
    const base = await importFrom(remote)
    const push = { remote, branchName: 'main', expectedTip: base.commitId }
    const request = commitRequest(base, [file('new', 'x')], { push })
    expect(await failure(createGitAdapter(loopback).committer.commit(request))).toMatchObject({
      reason: 'GIT_PUSH_REJECTED',
      details: { reason: 'unpack: no space left' },
    })
  })

  test('requests credentials once and sends them only to their origin', async () => {
    const repository = sampleRepository()
    const target = await serve()
    const guarded = await serve({ auth: 'user:secret' })
    const redirecting = await serve({
      auth: 'user:secret',
      intercept(request, response) {
        if (request.headers.authorization === undefined) return false
        response.writeHead(302, { location: target.url + request.url }).end()
        return true
      },
    })
    const asked: string[] = []
    const options: GitAdapterOptions = {
      ...loopback,
      credentials: ({ remoteUrl, credentialsSecretId }) => {
        asked.push(remoteUrl + credentialsSecretId)
        return Promise.resolve({ username: 'user', password: 'secret' })
      },
    }
    for (const server of [guarded, redirecting]) {
      const remoteUrl = `${server.url}/${repository.name}`
      expect((await importFrom({ remoteUrl }, '', options)).lines).toEqual(sampleLines)
      expect(asked.splice(0)).toEqual([remoteUrl])
    }
    expect(guarded.requests.at(-1)!.authorization).toBe(basic('user:secret'))
    expect(target.requests.map(({ authorization }) => authorization)).toEqual([
      undefined,
      undefined,
      undefined,
    ])

    const remote = { remoteUrl: `${guarded.url}/${repository.name}` }
    const wrong = { ...options, credentials: () => Promise.resolve({ username: 'user', password: 'wrong' }) }
    const refused = await failure(importFrom(remote, '', wrong))
    expect(refused.reason).toBe('GIT_AUTH_FAILED')
    expect(JSON.stringify([refused.message, refused.details, String(refused.cause)])).not.toContain('wrong')
    const thrown = new EngineError('PERMISSION_DENIED', 'no such secret')
    const failing = { ...options, credentials: () => Promise.reject(thrown) }
    expect(await failure(importFrom(remote, '', failing))).toBe(thrown)
  })

  test('refuses private addresses by default, in digits and by name', async () => {
    const repository = sampleRepository()
    const server = await serve()
    const port = new URL(server.url).port
    for (const host of [
      '127.0.0.1',
      'localhost',
      '[::1]',
      '[::ffff:127.0.0.1]',
      '2130706433',
      '0',
      '10.1.2.3',
    ]) {
      const remote = { remoteUrl: `http://${host}:${port}/${repository.name}` }
      const { reason } = await failure(importFrom(remote, '', {}))
      expect([host, reason]).toEqual([host, 'GIT_ADDRESS_REFUSED'])
    }
    expect(server.requests).toEqual([])
  })

  test('an abort ends the import with its reason', async () => {
    const repository = sampleRepository()
    const reason = new Error('enough')
    for (const when of ['before', 'connecting', 'pack']) {
      const abort = new AbortController()
      if (when === 'before') abort.abort(reason)
      const server = await serve({
        intercept(request) {
          if (when === 'connecting' || (when === 'pack' && request.method === 'POST')) abort.abort(reason)
          return when === 'connecting'
        },
      })
      const remote = { remoteUrl: `${server.url}/${repository.name}` }
      await expect(importFrom(remote, '', loopback, abort.signal)).rejects.toBe(reason)
    }
  })
})

describe.runIf(hasGit)('commit', () => {
  test('changes exactly the given paths', async () => {
    const { paths, commitId, base } = await importAndPush(sampleRepository(), [
      file('dir/b.txt', 'changed\n'),
      file('dir/new/deep/file', 'new\n'),
      file('tool', 'x', true),
      link('link', 'a.txt'),
      removed('dir/sub/c.txt'),
      file('run.sh', '#!/bin/sh\n', false),
    ])
    expect(paths).toEqual([
      '000000 D dir/sub/c.txt',
      '100644 A dir/new/deep/file',
      '100644 M dir/b.txt',
      '100644 M run.sh',
      '100755 A tool',
      '120000 A link',
    ])
    expect(base.objects.stored.get(commitId)!.type).toBe('commit')
  })

  test('replaces a file with a directory, a directory with a file, and removes a subtree', async () => {
    const repository = sampleRepository()
    const { paths } = await importAndPush(repository, [
      removed('a.txt'),
      file('a.txt/inner', 'x'),
      file('dir', 'flat'),
    ])
    expect(paths).toEqual([
      '000000 D a.txt',
      '000000 D dir/b.txt',
      '000000 D dir/sub/c.txt',
      '100644 A a.txt/inner',
      '100644 A dir',
    ])
    const again = await importAndPush(repository, [
      file('a.txt', 'back'),
      removed('a.txt/inner'),
      removed('dir'),
      file('dir/x', 'y'),
    ])
    expect(again.paths).toEqual(['000000 D a.txt/inner', '000000 D dir', '100644 A a.txt', '100644 A dir/x'])
    expect((await importAndPush(repository, [removed('dir')])).paths).toEqual(['000000 D dir/x'])
  })

  test('a directory that was removed and recreated keeps none of its old entries', async () => {
    const { paths } = await importAndPush(sampleRepository(), [file('dir/z', 'z'), removed('dir')])
    // The last change of `dir` itself is its removal; the entries below it are new.
    expect(paths).toEqual(['000000 D dir/b.txt', '000000 D dir/sub/c.txt', '100644 A dir/z'])
  })

  test('keeps untouched entries byte for byte', async () => {
    const repository = newRepository()
    const blob = repository.blob('x')
    const odd = Buffer.from('bad\xff', 'latin1')
    const inner = repository.rawTree([
      ['100664', 'group', blob],
      ['100664', 'kept', blob],
      ['160000', 'module', '1'.repeat(40)],
      ['100664', 'other', blob],
      ['100644', Buffer.from('z\xfe', 'latin1'), blob],
    ])
    repository.commitTree(
      repository.rawTree([
        ['100644', 'a\\b', blob],
        ['100644', odd, blob],
        ['100644', 'dir.txt', blob],
        ['40000', 'dir', inner],
      ]),
    )
    const changes = [
      file('dir/group', 'changed'),
      file('dir/other', 'x', true),
      removed('dir/module/none'),
      file('dir0', 'n'),
    ]
    const { commitId } = await importAndPush(repository, changes)
    // ls-tree would show modes in their normalized form.
    const entries = (tree: string): string[] =>
      parseTree(repository.gitBytes(['cat-file', 'tree', tree]), 'sha1').map(
        ({ mode, name, oid }) => `${mode} ${name} ${oid}`,
      )
    const changed = repository.git(['hash-object', '--stdin'], { input: 'changed' })
    expect(entries(`${commitId}:dir`)).toEqual([
      `100664 group ${changed}`,
      `100664 kept ${blob}`,
      `160000 module ${'1'.repeat(40)}`,
      `100755 other ${blob}`,
      `100644 z\xfe ${blob}`,
    ])
    const names = entries(`${commitId}^{tree}`).map((line) => line.split(' ')[1])
    expect(names).toEqual(['a\\b', 'bad\xff', 'dir.txt', 'dir', 'dir0'])
  })

  test('writes parent, author and time without characters that would break the commit', async () => {
    const repository = sampleRepository()
    const { commitId } = await importAndPush(repository, [file('x', 'y')], {
      author: { name: 'Eve <x>\nparent 1', email: 'eve>\n@example.org\0' },
      message: 'Grüße\0\n\nbody',
      timestampSeconds: 1_700_000_123.9,
    })
    const person = 'Eve xparent 1 <eve@example.org> 1700000123 +0000'
    const [head, message] = repository
      .gitBytes(['cat-file', 'commit', commitId])
      .toString()
      .split(/\n\n(.*)/s)
    expect(head!.split('\n').slice(1)).toEqual([
      `parent ${repository.first}`,
      `author ${person}`,
      `committer ${person}`,
    ])
    expect(message).toBe('Grüße\n\nbody\n')
    const nameless = await importAndPush(repository, [], { author: { name: '', email: 'me@example.org' } })
    expect(repository.git(['log', '-1', '--format=%an|%ae', nameless.commitId])).toBe(
      'me@example.org|me@example.org',
    )
  })

  test('makes the same commit for the same request, and can push it again', async () => {
    const repository = sampleRepository()
    const server = await serve()
    const remote = { remoteUrl: `${server.url}/${repository.name}` }
    const base = await importFrom(remote)
    const push = { remote, branchName: 'main', expectedTip: base.commitId }
    const { committer } = createGitAdapter(loopback)
    const once = await committer.commit(commitRequest(base, [file('x', 'y')], { push }))
    expect(await committer.commit(commitRequest(base, [file('x', 'y')], { push }))).toEqual(once)
    expect(await committer.commit(commitRequest(base, [file('x', 'y')]))).toEqual(once)
  })

  test('only stores the objects without a remote', async () => {
    const objects = new MemoryObjects()
    const none = { commitId: '', treeId: '', objects }
    const request = commitRequest(none, [file('a/b', 'x')], { parent: null, baseTree: null })
    const { commitId, treeId } = await createGitAdapter().committer.commit(request)
    expect([...objects.stored.keys()].slice(-2)).toEqual([treeId, commitId])
    const empty = await createGitAdapter().committer.commit(
      commitRequest(none, [], { parent: null, baseTree: null }),
    )
    expect(empty.treeId).toBe('4b825dc642cb6eb9a060e54bf8d69288fbee4904')
    expect(objects.stored.has(empty.treeId)).toBe(true)
  })

  test('creates a new branch, also the first one of an empty repository', async () => {
    const repository = sampleRepository()
    const server = await serve()
    const remote = { remoteUrl: `${server.url}/${repository.name}` }
    const base = await importFrom(remote)
    const push = { remote, branchName: 'feature/größe', expectedTip: null }
    const { committer } = createGitAdapter(loopback)
    const { commitId } = await committer.commit(commitRequest(base, [file('x', 'y')], { push }))
    expect(repository.tip('refs/heads/feature/größe')).toBe(commitId)
    expect(repository.changes('main', commitId)).toEqual(['100644 A x'])
    repository.fsck()

    const fresh = newRepository()
    const emptyRemote = { remoteUrl: `${server.url}/${fresh.name}` }
    const baseline = await importFrom(emptyRemote)
    const first = { remote: emptyRemote, branchName: 'main', expectedTip: null }
    const rootCommit = await committer.commit(commitRequest(baseline, [file('x', 'y')], { push: first }))
    expect(fresh.git(['rev-list', '--parents', 'main'])).toBe(rootCommit.commitId)
    fresh.fsck()
    const other = newRepository()
    const otherRemote = { remoteUrl: `${server.url}/${other.name}` }
    const nothing = { remote: otherRemote, branchName: 'main', expectedTip: '' }
    await committer.commit(commitRequest(await importFrom(otherRemote), [], { push: nothing }))
    other.fsck()
  })

  test('commits many and large files', async () => {
    const many = Array.from({ length: 300 }, (_, at) => file(`many/${at % 7}/f${at}`, `${at}`))
    const large = Buffer.alloc(3_000_000, 'abcdefg')
    const repository = sampleRepository()
    const { paths, commitId } = await importAndPush(repository, [...many, file('large', large)])
    expect(paths).toHaveLength(301)
    expect(repository.gitBytes(['cat-file', 'blob', `${commitId}:large`]).equals(large)).toBe(true)
  })

  describe('a branch that moved', () => {
    test('fails before sending anything and leaves the remote unchanged', async () => {
      const repository = sampleRepository()
      const server = await serve()
      const remote = { remoteUrl: `${server.url}/${repository.name}` }
      const base = await importFrom(remote)
      repository.stage([['100644', 'foreign', 'x']])
      const foreign = repository.commit()
      for (const [branchName, expectedTip, actualOid] of [
        ['main', base.commitId, foreign],
        ['main', null, foreign],
      ] as const) {
        const request = commitRequest(base, [file('x', 'y')], { push: { remote, branchName, expectedTip } })
        const error = await failure(createGitAdapter(loopback).committer.commit(request))
        expect(error.reason).toBe('BRANCH_MOVED')
        expect(error.details).toEqual({ branch: branchName, expectedOid: expectedTip ?? '', actualOid })
      }
      expect(
        server.requests.filter(({ method, url }) => method === 'POST' && url.endsWith('git-receive-pack')),
      ).toEqual([])
      expect(repository.git(['for-each-ref', '--format=%(objectname) %(refname)'])).toBe(
        `${foreign} refs/heads/main`,
      )
    })

    test('can be recreated after it was deleted', async () => {
      const repository = sampleRepository()
      const server = await serve()
      const remote = { remoteUrl: `${server.url}/${repository.name}` }
      const base = await importFrom(remote)
      const push = { remote, branchName: 'gone', expectedTip: base.commitId }
      const { commitId } = await createGitAdapter(loopback).committer.commit(
        commitRequest(base, [file('x', 'y')], { push }),
      )
      expect(repository.tip('refs/heads/gone')).toBe(commitId)
      repository.fsck()
    })

    test('is also detected when it moves at the last moment', async () => {
      const repository = sampleRepository()
      let foreign: string | undefined
      const server = await serve({
        intercept(request) {
          if (request.method === 'POST' && request.url?.endsWith('git-receive-pack') === true) {
            repository.stage([['100644', 'foreign', 'x']])
            foreign = repository.commit()
          }
          return false
        },
      })
      const remote = { remoteUrl: `${server.url}/${repository.name}` }
      const base = await importFrom(remote)
      const push = { remote, branchName: 'main', expectedTip: base.commitId }
      const error = await failure(
        createGitAdapter(loopback).committer.commit(commitRequest(base, [file('x', 'y')], { push })),
      )
      expect([error.reason, error.details['actualOid']]).toEqual(['BRANCH_MOVED', foreign])
      expect(repository.tip('refs/heads/main')).toBe(foreign)
    })
  })

  test.each([
    [
      'pre-receive',
      'printf "policy: \\033[31mno pushes\\033[0m on fridays\\n" >&2; exit 1',
      /no pushes on fridays/,
    ],
    ['update', 'echo "not you" >&2; exit 1', /not you/],
  ])('reports a rejection by the %s hook', async (hook, script, message) => {
    const repository = sampleRepository()
    repository.hook(hook, script)
    const error = await failure(importAndPush(repository, [file('x', 'y')]))
    expect(error.reason).toBe('GIT_PUSH_REJECTED')
    expect(error.details['remoteMessage']).toMatch(message)
    expect(error.details['reason']).toMatch(/hook declined/)
    expect(repository.tip('refs/heads/main')).toBe(repository.first)
  })

  test('fails for a remote without push, a checked-out branch and a conflicting name', async () => {
    const closed = sampleRepository()
    closed.git(['config', 'http.receivepack', 'false'])
    expect((await failure(importAndPush(closed, []))).reason).toBe('GIT_AUTH_FAILED')
    const worktree = newRepository({ bare: false })
    worktree.stage(sample)
    worktree.commit()
    const name = `${worktree.name}/.git`
    const error = await failure(importAndPush(Object.assign(worktree, { name }), [file('x', 'y')]))
    expect([error.reason, error.details['reason']]).toEqual([
      'GIT_PUSH_REJECTED',
      'branch is currently checked out',
    ])

    const repository = sampleRepository()
    const remote = { remoteUrl: `${(await serve()).url}/${repository.name}` }
    const push = { remote, branchName: 'main/below', expectedTip: null }
    const request = commitRequest(await importFrom(remote), [file('x', 'y')], { push })
    expect((await failure(createGitAdapter(loopback).committer.commit(request))).reason).toBe(
      'GIT_PUSH_REJECTED',
    )
  })

  const isPush = (request: IncomingMessage): boolean =>
    request.method === 'POST' && request.url?.endsWith('git-receive-pack') === true

  test.each<[string, GitServerOptions, string | undefined]>([
    ['the response is lost', { cutAfter: (r) => (isPush(r) ? 0 : undefined) }, undefined],
    ['the response is truncated', { cutAfter: (r) => (isPush(r) ? 10 : undefined) }, undefined],
    ['no side band', { rewrite: (_, body) => renamed(body, /side-band-64k/g) }, undefined],
    ['no report', { rewrite: (_, body) => renamed(body, /report-status/g) }, undefined],
    [
      'the request is lost',
      {
        intercept(request, response) {
          if (isPush(request)) response.destroy()
          return isPush(request)
        },
      },
      'GIT_UNREACHABLE',
    ],
  ])('%s: the outcome depends on the ref', async (_, options, reason) => {
    const repository = sampleRepository()
    const remote = { remoteUrl: `${(await serve(options)).url}/${repository.name}` }
    const base = await importFrom({ remoteUrl: `${(await serve()).url}/${repository.name}` })
    const push = { remote, branchName: 'main', expectedTip: base.commitId }
    const done = createGitAdapter(loopback).committer.commit(commitRequest(base, [file('x', 'y')], { push }))
    const [result] = await Promise.allSettled([done])
    const { commitId } = await createGitAdapter().committer.commit(commitRequest(base, [file('x', 'y')]))
    expect(repository.tip('refs/heads/main')).toBe(reason === undefined ? commitId : base.commitId)
    expect(result).toMatchObject(
      reason === undefined ? { status: 'fulfilled', value: { commitId } } : { reason: { reason } },
    )
    repository.fsck()
  })

  const renamed = (body: Buffer, name: RegExp): Buffer =>
    Buffer.from(
      body.toString('latin1').replace(name, (found) => found.replaceAll('e', 'x')),
      'latin1',
    )

  test('refuses an unsafe name and a missing base tree', async () => {
    const base = await importUrl(sampleRepository())
    const unsafe = commitRequest(base, [file('dir/.GIT/config', 'x')])
    expect((await failure(createGitAdapter().committer.commit(unsafe))).reason).toBe('GIT_UNSAFE_PATH')
    const symlink = { parts: ['dir', '.gitmodules'], kind: 'symlink', target: 'x' } as const
    const links = commitRequest(base, [symlink])
    expect((await failure(createGitAdapter().committer.commit(links))).reason).toBe('GIT_UNSAFE_PATH')
    await createGitAdapter().committer.commit(commitRequest(base, [file('dir/.gitmodules', 'x')]))
    const missing = commitRequest(base, [file('x', 'y')], { baseTree: '2'.repeat(40) })
    expect((await failure(createGitAdapter().committer.commit(missing))).reason).toBe('GIT_CORRUPT')
  })
})

describe.runIf(hasGit)('a repository of this host', () => {
  const local = (): GitAdapterOptions => ({ hostPathRoots: [root] })

  test.each(['loose', 'packed'])('is read and written: %s', async (layout) => {
    const repository = sampleRepository()
    if (layout === 'packed') {
      repository.git(['repack', '-adq'])
      repository.git(['pack-refs', '--all'])
    }
    const remote = { repositoryPath: repository.path }
    const base = await importFrom(remote, 'main', local())
    expect(base.lines).toEqual(sampleLines)
    expect(base.commitId).toBe(repository.first)
    expect(base.progress.filesProcessed).toBe(4)
    const { committer } = createGitAdapter(local())
    const push = { remote, branchName: 'main', expectedTip: base.commitId }
    const { commitId } = await committer.commit(commitRequest(base, [file('dir/b.txt', 'new')], { push }))
    expect(repository.tip('refs/heads/main')).toBe(commitId)
    expect(repository.changes(base.commitId, commitId)).toEqual(['100644 M dir/b.txt'])
    repository.fsck()

    const stale = await failure(committer.commit(commitRequest(base, [file('y', 'z')], { push })))
    expect(stale.reason).toBe('BRANCH_MOVED')
    const many = Array.from({ length: 200 }, (_, at) => file(`many/${at}`, `${at}`))
    const next = { remote, branchName: 'topic/a', expectedTip: null }
    const second = await committer.commit(commitRequest(base, many, { push: next }))
    expect(repository.tip('refs/heads/topic/a')).toBe(second.commitId)
    repository.fsck()
    for (const branchName of ['topic', 'topic/a/b']) {
      const conflict = commitRequest(base, [], { push: { remote, branchName, expectedTip: null } })
      expect((await failure(committer.commit(conflict))).reason).toBe('GIT_PUSH_REJECTED')
    }
    repository.git(['branch', '-D', 'topic/a'])
    mkdirSync(join(repository.path, 'refs/heads/topic/left'), { recursive: true })
    await committer.commit(
      commitRequest(base, [], { push: { remote, branchName: 'topic', expectedTip: null } }),
    )
    repository.fsck()
  })

  test('works with a working directory, its worktrees and alternates', async () => {
    const repository = newRepository({ bare: false })
    repository.stage(sample)
    const first = repository.commit()
    repository.git(['worktree', 'add', '-q', '-b', 'side', '../linked'])
    repository.git(['clone', '-q', '--bare', '--shared', '.', '../shared.git'])
    const { committer } = createGitAdapter(local())
    for (const name of [repository.name, 'linked', 'shared.git']) {
      const got = await importFrom({ repositoryPath: join(root, name) }, '', local())
      expect(got).toMatchObject({ commitId: first, lines: sampleLines })
    }
    const remote = { repositoryPath: repository.path }
    const base = await importFrom(remote, '', local())
    for (const branchName of ['main', 'side']) {
      const push = { remote, branchName, expectedTip: first }
      const error = await failure(committer.commit(commitRequest(base, [file('x', 'y')], { push })))
      expect([error.reason, error.details['reason']]).toEqual([
        'GIT_PUSH_REJECTED',
        'branch is currently checked out',
      ])
    }
    const shared = { repositoryPath: join(root, 'shared.git') }
    const other = await committer.commit(
      commitRequest(await importFrom(shared, '', local()), [file('only', 'there')], {
        push: { remote: shared, branchName: 'free', expectedTip: null },
      }),
    )
    // A push writes to the repository itself, not to the alternate.
    expect(() => repository.git(['cat-file', '-t', other.commitId])).toThrow(/./)
    const push = { remote, branchName: 'free', expectedTip: null }
    const { commitId } = await committer.commit(commitRequest(base, [file('x', 'y')], { push }))
    expect(repository.tip('refs/heads/free')).toBe(commitId)
    repository.fsck()
  })

  test('lets one of several writers win, and none of them waits for the lock of another', async () => {
    const { lockWaitMs } = gitLimits
    using _ = { [Symbol.dispose]: () => void Object.assign(gitLimits, { lockWaitMs }) }
    Object.assign(gitLimits, { lockWaitMs: -1 })
    const repository = sampleRepository()
    const remote = { repositoryPath: repository.path }
    const base = await importFrom(remote, '', local())
    const { committer } = createGitAdapter(local())
    const push = { remote, branchName: 'main', expectedTip: base.commitId }
    const results = await Promise.allSettled(
      Array.from({ length: 8 }, (_, at) =>
        committer.commit(commitRequest(base, [file('x', `${at}`)], { push })),
      ),
    )
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    const losers = results.filter((result) => result.status === 'rejected')
    expect(losers.map(({ reason }) => (reason as EngineError).reason)).toEqual(Array(7).fill('BRANCH_MOVED'))
    repository.fsck()
  })

  test('waits for a foreign lock, then reports it and leaves it in place', async () => {
    const repository = sampleRepository()
    const remote = { repositoryPath: repository.path }
    const base = await importFrom(remote, '', local())
    const lock = join(repository.path, 'refs/heads/main.lock')
    writeFileSync(lock, '')
    const push = { remote, branchName: 'main', expectedTip: base.commitId }
    const { committer } = createGitAdapter(local())
    expect((await failure(committer.commit(commitRequest(base, [], { push })))).reason).toBe(
      'GIT_REMOTE_ERROR',
    )
    expect(repository.tip('refs/heads/main')).toBe(base.commitId)
    setTimeout(() => rmSync(lock), 100)
    await committer.commit(commitRequest(base, [file('x', 'y')], { push }))
    repository.fsck()
  })

  test('outside the roots is not opened', async () => {
    const repository = sampleRepository()
    const inside = join(root, 'inside')
    mkdirSync(inside, { recursive: true })
    symlinkSync(repository.path, join(inside, 'escape'))
    mkdirSync(join(inside, 'gitfile'))
    writeFileSync(join(inside, 'gitfile', '.git'), `gitdir: ${repository.path}\n`)
    mkdirSync(join(inside, 'plain'))
    writeFileSync(join(inside, 'file'), '')
    for (const [path, roots, reason] of [
      [repository.path, [], 'PERMISSION_DENIED'],
      [repository.path, [inside], 'PERMISSION_DENIED'],
      [join(inside, 'escape'), [inside], 'PERMISSION_DENIED'],
      [join(inside, 'gitfile'), [inside], 'PERMISSION_DENIED'],
      [join(inside, '..', 'missing'), [inside], 'PERMISSION_DENIED'],
      [`${inside}x`, [inside], 'PERMISSION_DENIED'],
      [join(inside, 'missing', 'more'), [inside], 'GIT_REPO_NOT_FOUND'],
      [join(inside, 'plain'), [inside], 'GIT_NOT_A_REPOSITORY'],
      [join(inside, 'file'), [inside], 'GIT_REPO_NOT_FOUND'],
      ['relative', [inside], 'INVALID_ARGUMENT'],
    ] as const) {
      const error = await failure(importFrom({ repositoryPath: path }, '', { hostPathRoots: roots }))
      expect([path, error.reason]).toEqual([path, reason])
    }
  })

  test('without commits is an empty baseline', async () => {
    const repository = newRepository()
    const remote = { repositoryPath: repository.path }
    const base = await importFrom(remote, '', local())
    expect(base).toMatchObject({ commitId: '', lines: [] })
    const push = { remote, branchName: 'main', expectedTip: null }
    await createGitAdapter(local()).committer.commit(commitRequest(base, [file('x', 'y')], { push }))
    expect(repository.git(['rev-list', '--count', 'main'])).toBe('1')
    repository.fsck()
  })
})

describe('validation', () => {
  test.each([
    ['https://example.org/a/b.git', 'https://example.org/a/b.git'],
    ['HTTPS://Example.org:443/a/', 'https://example.org/a'],
    ['http://example.org/@scope/x', 'http://example.org/@scope/x'],
    ['ssh://git@example.org/a', 'GIT_UNSUPPORTED_TRANSPORT'],
    ['git@example.org:a/b.git', 'GIT_UNSUPPORTED_TRANSPORT'],
    ['example.org:a/b.git', 'GIT_UNSUPPORTED_TRANSPORT'],
    ['git://example.org/a', 'GIT_UNSUPPORTED_TRANSPORT'],
    ['file:///etc', 'GIT_UNSUPPORTED_TRANSPORT'],
    ['ext::sh -c x', 'GIT_UNSUPPORTED_TRANSPORT'],
    ['/a/b', 'INVALID_ARGUMENT'],
    ['', 'INVALID_ARGUMENT'],
    ['http://', 'INVALID_ARGUMENT'],
    ['https://example.org/a?x=secret', 'INVALID_ARGUMENT'],
    ['https://user:secret@example.org/a', 'INVALID_ARGUMENT'],
    ['https://secret@example.org/a', 'INVALID_ARGUMENT'],
    ['ssh://user:secret@example.org/a', 'GIT_UNSUPPORTED_TRANSPORT'],
  ])('remote URL %j: %s', (url, expected) => {
    const { value, error } = outcome(() => checkRemoteUrl(url))
    expect(value ?? error?.reason).toBe(expected)
    expect(`${error?.message}${JSON.stringify(error?.details)}`).not.toContain('secret')
    expect(error?.details['field']).toBe(expected === 'INVALID_ARGUMENT' ? 'remoteUrl' : undefined)
  })

  test.runIf(hasGit)('accepts the same branch names as git check-ref-format', () => {
    const names = [
      'main',
      'a/b',
      'a',
      '@',
      '-x',
      'x-',
      'a..b',
      'a.',
      '.a',
      'a/.b',
      'a.lock',
      'a.lock/b',
      'a/',
      '/a',
    ]
    names.push(
      'a//b',
      'a b',
      'a~',
      'a^',
      'a:',
      'a?',
      'a*',
      'a[',
      'a]',
      'a\\b',
      'a@{b',
      'a@b',
      '@a',
      '',
      'HEAD',
    )
    names.push(
      'a\x01b',
      'a\x7f',
      'größe',
      '.',
      '..',
      'refs/heads/x',
      'a"b',
      '{',
      'x.y',
      'head',
      'a/@',
      '@{-1}',
    )
    for (const name of names) {
      const native = spawnSync('git', ['check-ref-format', '--branch', name], {
        cwd: tmpdir(),
        env: gitEnvironment,
      })
      const { error } = outcome(() => checkBranchName(name))
      const expected = native.status === 0 ? undefined : 'branchName'
      expect([name, error?.details['field']]).toEqual([name, expected])
    }
  })

  test.each([
    ['127.0.0.1', true],
    ['10.0.0.1', true],
    ['172.31.255.255', true],
    ['172.32.0.1', false],
    ['192.168.1.1', true],
    ['169.254.169.254', true],
    ['100.64.0.1', true],
    ['0.0.0.0', true],
    ['255.255.255.255', true],
    ['224.0.0.1', true],
    ['8.8.8.8', false],
    ['140.82.121.3', false],
    ['::', true],
    ['::1', true],
    ['::ffff:8.8.8.8', true],
    ['::ffff:127.0.0.1', true],
    ['fe80::1', true],
    ['fc00::1', true],
    ['fd12::1', true],
    ['ff02::1', true],
    ['64:ff9b::7f00:1', true],
    ['::ffff:0:7f00:1', true],
    ['::ffff:0:127.0.0.1', true],
    ['2002:7f00:1::', true],
    ['2606:50c0:8000::153', false],
    ['2a00:1450:4001:80b::200e', false],
    ['example.org', true],
  ])('the address %s is private: %s', (address, isPrivate) => {
    expect(isPrivateAddress(address)).toBe(isPrivate)
  })

  test('a lookup returns only public addresses, in the requested form', async () => {
    const look = (host: string, all: boolean): Promise<unknown> =>
      new Promise((resolve) => {
        publicLookup(host, { all }, (error, address, family) => resolve(error ?? [address, family]))
      })
    expect(await look('8.8.8.8', true)).toEqual([[{ address: '8.8.8.8', family: 4 }], undefined])
    expect(await look('8.8.8.8', false)).toEqual(['8.8.8.8', 4])
    expect(await look('localhost', true)).toMatchObject({ reason: 'GIT_ADDRESS_REFUSED' })
  })

  test('removes control characters from remote text', () => {
    expect(cleanRemoteText('\x1b[1;31mno\x1b[0m\r\nway\x07\x9b\0 ')).toBe('no\nway')
    expect(cleanRemoteText('run \u202egnp.sh\u202c \u2066now\u2069')).toBe('run gnp.sh now')
  })
})
