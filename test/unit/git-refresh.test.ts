import { spawnSync } from 'node:child_process'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { buffer } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { createGitAdapter } from '../../src/adapters/git/index.js'
import type { GitRemote } from '../../src/engine/ports.js'
import {
  failure,
  importFrom,
  loopback,
  sampleLines,
  useGit,
  type Before,
  type Imported,
} from '../support/git-harness.js'
import { nativeLines } from '../support/git-oracle.js'
import { gitEnvironment, hasGit } from '../support/git-repository.js'
import type { GitServer, GitServerOptions } from '../support/git-server.js'
import { MemoryObjects, TreeRecorder } from '../support/git-sinks.js'
import { isLong, runs, seed } from '../support/seed.js'

const { root, newRepository, sampleRepository, serve } = useGit()

function refresh(remote: GitRemote, before: Before, gitRef = ''): Promise<Imported> {
  return importFrom(remote, gitRef, loopback, new AbortController().signal, before)
}

function fetches(server: GitServer): number {
  // The first POST of protocol 2 is ls-refs.
  const posts = server.requests.filter(({ method }) => method === 'POST').length
  return posts - server.requests.filter(({ url }) => url.includes('/info/refs')).length
}

const isFetch = (request: IncomingMessage): boolean =>
  request.method === 'POST' && Number(request.headers['content-length']) > 110

/** Text that compresses badly, reproducible from the seed. */
function noise(seed: number, bytes: number): string {
  let state = seed + 1
  let text = ''
  while (text.length < bytes) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    text += state.toString(36)
  }
  return text
}

describe.runIf(hasGit)('an import of a known revision', () => {
  test.each([
    [0, 1],
    [1, 1],
    [2, 2],
  ] as const)('costs only the requests for the ref: protocol %i, %i requests', async (protocol, count) => {
    const repository = sampleRepository()
    repository.git(['tag', '-a', 'v1', '-m', 'annotated', 'main'])
    const server = await serve({ protocol })
    const remote = { remoteUrl: `${server.url}/${repository.name}` }
    let before = await importFrom(remote)
    for (const gitRef of ['', 'main', 'v1']) {
      const from = server.requests.length
      const again = await refresh(remote, before, gitRef)
      expect(server.requests).toHaveLength(from + count)
      expect(again).toMatchObject({ commitId: repository.first, calls: [], lines: sampleLines })
      expect(again.progress).toEqual({ bytesTransferred: 0, filesProcessed: 0 })
      before = again
    }
  })

  test('by its id costs no request', async () => {
    const repository = sampleRepository()
    const server = await serve()
    const remote = { remoteUrl: `${server.url}/${repository.name}` }
    const before = await importFrom(remote)
    await server.close()
    expect(await refresh(remote, before, repository.first)).toMatchObject({ calls: [], lines: sampleLines })
  })

  test('under another commit adds nothing', async () => {
    const repository = sampleRepository()
    const remote = { remoteUrl: `${(await serve()).url}/${repository.name}` }
    const before = await importFrom(remote)
    const commit = repository.commit()
    expect(commit).not.toBe(repository.first)
    const after = await refresh(remote, before)
    expect(after).toMatchObject({ commitId: commit, treeId: before.treeId, calls: [], lines: sampleLines })
  })

  test('imports the whole tree if the sink has forgotten it', async () => {
    const repository = sampleRepository()
    const remote = { remoteUrl: `${(await serve()).url}/${repository.name}` }
    const { objects, commits } = await importFrom(remote)
    const after = await refresh(remote, { objects, commits, known: new Map() })
    expect(after.lines).toEqual(sampleLines)
  })
})

describe.runIf(hasGit)('a refresh', () => {
  test.each([0, 2] as const)(
    'from a repository of the other object format sends no haves (protocol %i)',
    async (protocol) => {
      const [old, next] = [sampleRepository(), sampleRepository({ format: 'sha256' })]
      const sent: string[] = []
      const server = await serve({
        protocol,
        hold(request) {
          request.on('data', (chunk: Buffer) => sent.push(chunk.toString()))
          return undefined
        },
      })
      const before = await importFrom({ remoteUrl: `${server.url}/${old.name}` })
      sent.length = 0
      const after = await refresh({ remoteUrl: `${server.url}/${next.name}` }, before)
      expect(after).toMatchObject({ commitId: next.first, lines: sampleLines })
      expect(sent.join('')).toContain(`want ${next.first}`)
      expect(sent.join('')).not.toContain(old.first)
    },
  )

  function many(count: number): ['100644', string, string][] {
    return Array.from({ length: count }, (_, at) => [
      '100644',
      `d${at % 40}/s${at % 7}/f${at}`,
      noise(at, 1000),
    ])
  }

  test.each(isLong ? ([0, 2] as const) : ([2] as const))(
    'fetches and reports only changes (protocol %i)',
    async (protocol) => {
      const repository = newRepository()
      const files = many(2000)
      repository.commitFiles(files)
      const server = await serve({ protocol })
      const remote = { remoteUrl: `${server.url}/${repository.name}` }
      const before = await importFrom(remote)
      expect(server.requests.at(-1)!.answerBytes).toBeGreaterThan(1_000_000)
      repository.commitFiles([
        ['100644', 'd3/s3/f3', `${noise(3, 1000)}!`],
        ['100644', 'd5/s5/new', 'new'],
        ['100644', 'd6/s6/f6', null],
      ])
      const after = await refresh(remote, before)
      // The changed file is a delta based on the known one.
      expect(server.requests.at(-1)!.answerBytes).toBeLessThan(20_000)
      expect(after.calls.toSorted()).toEqual(['/d3/s3/f3', '/d5/s5/new', 'remove /d6/s6/f6'])
      expect(after.progress.filesProcessed).toBe(2)
      expect(after.lines.toSorted()).toEqual(nativeLines(repository, 'main'))
    },
  )

  test('of a changed line in a large file transfers little more than the line', async () => {
    const repository = newRepository()
    const text = noise(1, 200_000)
    repository.commitFiles([['100644', 'a', text]])
    const server = await serve()
    const remote = { remoteUrl: `${server.url}/${repository.name}` }
    const before = await importFrom(remote)
    repository.commitFiles([['100644', 'a', `${text.slice(0, 1000)}?${text.slice(1000)}`]])
    const after = await refresh(remote, before)
    expect(server.requests.at(-1)!.answerBytes).toBeLessThan(2000)
    expect(after.lines).toEqual(nativeLines(repository, 'main'))
  })

  test('handles every change of kind', async () => {
    const repository = newRepository()
    const x = repository.blob('x')
    const y = repository.blob('y')
    const target = repository.blob('to/there')
    const badTarget = repository.blob(Buffer.from([0xff]))
    const inner = repository.rawTree([['100644', 'inner', x]])
    const other = repository.rawTree([
      ['100644', 'added', x],
      ['100644', 'inner', x],
    ])
    const empty = repository.rawTree([])
    const link = (digit: string): string => digit.repeat(40)
    const odd = Buffer.from('odd\xff', 'latin1')
    type Entry = readonly [mode: string, oid: string]
    const cases: [
      name: string | Buffer,
      before: Entry | undefined,
      after: Entry | undefined,
      calls: string[],
    ][] = [
      ['file-dir', ['100644', x], ['40000', inner], ['remove /file-dir', '/file-dir', '/file-dir/inner']],
      ['dir-file', ['40000', inner], ['100644', x], ['remove /dir-file', '/dir-file']],
      ['file-link', ['100644', x], ['120000', target], ['remove /file-link', '/file-link']],
      ['link-file', ['120000', target], ['100755', x], ['remove /link-file', '/link-file']],
      ['link-dir', ['120000', target], ['40000', empty], ['remove /link-dir', '/link-dir']],
      ['dir-link', ['40000', inner], ['120000', target], ['remove /dir-link', '/dir-link']],
      [
        'module-dir',
        ['160000', link('1')],
        ['40000', inner],
        ['remove /module-dir', '/module-dir', '/module-dir/inner'],
      ],
      ['dir-module', ['40000', inner], ['160000', link('1')], ['remove /dir-module', '/dir-module']],
      ['module', ['160000', link('1')], ['160000', link('2')], ['remove /module', '/module']],
      ['module-same', ['160000', link('1')], ['160000', link('1')], []],
      ['link', ['120000', target], ['120000', x], ['/link']],
      ['link-bad', ['120000', target], ['120000', badTarget], ['remove /link-bad']],
      ['bad-link', ['120000', badTarget], ['120000', target], ['/bad-link']],
      ['dir', ['40000', inner], ['40000', other], ['/dir/added']],
      ['dir-empty', ['40000', inner], ['40000', empty], ['remove /dir-empty/inner']],
      ['dir-gone', ['40000', inner], undefined, ['remove /dir-gone']],
      ['dir-new', undefined, ['40000', inner], ['/dir-new', '/dir-new/inner']],
      ['content', ['100644', x], ['100644', y], ['/content']],
      ['exec', ['100644', x], ['100755', x], ['/exec']],
      ['group', ['100644', x], ['100664', x], []],
      ['same', ['100644', x], ['100644', x], []],
      ['gone', ['100644', x], undefined, ['remove /gone']],
      ['new', undefined, ['100644', x], ['/new']],
      [odd, ['100644', x], ['40000', inner], []],
      [Buffer.concat([odd, odd]), ['100644', x], undefined, []],
    ]
    const commit = (side: 1 | 2): string => {
      const entries = cases.flatMap((row) => {
        const entry = row[side]
        const [name] = row
        return entry === undefined ? [] : [[entry[0], name, entry[1]] as const]
      })
      const key = ([mode, name]: readonly [string, string | Buffer, string]): Buffer =>
        Buffer.concat([Buffer.from(name), Buffer.from(mode === '40000' ? '/' : '')])
      return repository.commitTree(repository.rawTree(entries.toSorted((a, b) => key(a).compare(key(b)))))
    }
    commit(1)
    const remote = { remoteUrl: `${(await serve()).url}/${repository.name}` }
    const before = await importFrom(remote)
    commit(2)
    const after = await refresh(remote, before)
    expect(after.calls.toSorted()).toEqual(cases.flatMap(([, , , calls]) => calls).sort())
    const fresh = await importFrom(remote)
    expect(after.lines.toSorted()).toEqual(fresh.lines.toSorted())
    const back = await refresh(remote, after, before.commitId)
    expect(back.calls).toEqual([])
  })

  test('of another branch, and back, builds on known objects', async () => {
    const repository = sampleRepository()
    repository.stage([['100644', 'dir/topic', 'x']])
    repository.commit('refs/heads/topic')
    const remote = { remoteUrl: `${(await serve()).url}/${repository.name}` }
    const main = await importFrom(remote, 'main')
    const topic = await refresh(remote, main, 'topic')
    expect(topic.calls).toEqual(['/dir/topic'])
    expect(await refresh(remote, topic, 'main')).toMatchObject({ calls: [], lines: sampleLines })
  })

  test.each(['the old commit is kept', 'the old commit is gone'])('after a forced push: %s', async (what) => {
    const repository = sampleRepository()
    const remote = { remoteUrl: `${(await serve()).url}/${repository.name}` }
    const before = await importFrom(remote)
    repository.git(['update-ref', '-d', 'refs/heads/main'])
    repository.unstageAll()
    if (what.endsWith('gone')) {
      repository.git(['reflog', 'expire', '--expire=now', '--all'])
      repository.git(['gc', '-q', '--prune=now'])
    }
    repository.stage([
      ['100644', 'a.txt', 'one\n'],
      ['100644', 'dir/b.txt', 'other\n'],
    ])
    const commit = repository.commit()
    const after = await refresh(remote, before)
    expect(after.commitId).toBe(commit)
    expect(after.calls).toEqual(['remove /run.sh', 'remove /dir/sub', '/dir/b.txt'])
    expect(after.lines.toSorted()).toEqual(nativeLines(repository, 'main'))
  })

  test('works after the remote was repacked', async () => {
    const repository = newRepository()
    repository.commitFiles(many(300))
    const remote = { remoteUrl: `${(await serve()).url}/${repository.name}` }
    let before = await importFrom(remote)
    for (let round = 0; round < 3; round++) {
      repository.commitFiles([['100644', `d1/s1/f${round}`, `${noise(round, 1000)}${round}`]])
      repository.git(round === 1 ? ['repack', '-adfq', '--depth=250'] : ['repack', '-dq'])
      before = await refresh(remote, before)
      expect(before.lines.toSorted()).toEqual(nativeLines(repository, 'main'))
      expect(before.calls.length).toBeLessThan(5)
    }
  })

  const renamed =
    (from: string, to: string): NonNullable<GitServerOptions['rewrite']> =>
    (request, body) =>
      request.url?.includes('info/refs') === true
        ? Buffer.from(body.toString('latin1').replaceAll(from, to), 'latin1')
        : body

  test.each([
    [0, { protocol: 0, rewrite: renamed(' shallow ', ' xhallow ') }],
    [2, { rewrite: renamed('fetch=shallow', 'fetch=xhallow') }],
  ] satisfies [number, GitServerOptions][])(
    'works with a remote without shallow fetches: protocol %i',
    async (_, options) => {
      const repository = sampleRepository()
      repository.commitFiles([['100644', 'a.txt', 'two\n']])
      const remote = { remoteUrl: `${(await serve(options)).url}/${repository.name}` }
      const before = await importFrom(remote)
      // The old content is only in the history, which is not known here.
      repository.commitFiles([['100644', 'a.txt', 'one\n']])
      const after = await refresh(remote, { ...before, objects: withoutBlob(before.objects, 'one\n') })
      expect(after.calls).toEqual(['/a.txt'])
      expect(after.lines.toSorted()).toEqual(nativeLines(repository, 'main'))
    },
  )

  function withoutBlob(objects: MemoryObjects, content: string): MemoryObjects {
    for (const { oid, type, body } of objects.stored.values()) {
      if (type === 'blob' && Buffer.from(body).toString() === content) objects.stored.delete(oid)
    }
    return objects
  }

  describe('with missing known objects', () => {
    test('refetches without haves if a delta base is missing', async () => {
      const repository = newRepository()
      const text = noise(1, 50_000)
      repository.commitFiles([['100644', 'a', text]])
      const server = await serve()
      const remote = { remoteUrl: `${server.url}/${repository.name}` }
      const before = await importFrom(remote)
      expect(fetches(server)).toBe(1)
      withoutBlob(before.objects, text)
      repository.commitFiles([['100644', 'a', `${text}!`]])
      const after = await refresh(remote, before)
      expect(fetches(server)).toBe(3)
      expect(after.lines).toEqual([`file 644 /a ${text}!`])
    })

    test('fails with GIT_CORRUPT if the remote repeats the delta', async () => {
      const repository = newRepository()
      const text = noise(1, 50_000)
      repository.commitFiles([['100644', 'a', text]])
      const good = { remoteUrl: `${(await serve()).url}/${repository.name}` }
      const before = await importFrom(good)
      withoutBlob(before.objects, text)
      repository.commitFiles([['100644', 'a', `${text}!`]])
      let thin: Buffer | undefined
      const stubborn = await serve({
        rewrite: (request, body) => (isFetch(request) ? (thin ??= Buffer.from(body)) : body),
      })
      const remote = { remoteUrl: `${stubborn.url}/${repository.name}` }
      expect((await failure(refresh(remote, before))).reason).toBe('GIT_CORRUPT')
      expect(fetches(stubborn)).toBe(2)
    })

    test('refetches if the tree is missing', async () => {
      const repository = sampleRepository()
      const server = await serve()
      const remote = { remoteUrl: `${server.url}/${repository.name}` }
      const before = await importFrom(remote)
      withoutBlob(before.objects, 'one\n')
      repository.stage([['100644', 'dir/copy', 'one\n']])
      repository.commit()
      const after = await refresh(remote, before)
      expect(after.calls).toEqual(['/dir/copy'])
      expect(fetches(server)).toBe(3)
    })
  })

  test.each(['sha1', ...(isLong ? ['sha256'] : [])] as ('sha1' | 'sha256')[])(
    'of random trees equals the listing of native git: %s',
    async (format) => {
      let state = seed
      const random = (below: number): number => {
        state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
        return Math.floor((state / 2 ** 32) * below)
      }
      const repository = newRepository({ format })
      const remotes = await Promise.all(
        ([0, 2] as const).map(async (protocol) => ({
          remoteUrl: `${(await serve({ protocol })).url}/${repository.name}`,
        })),
      )
      let befores: (Before | undefined)[] = remotes.map(() => undefined)
      for (let round = 0; round < runs(60); round++) {
        const changes = Array.from(
          { length: 1 + random(20) },
          (): readonly [string, string, string | null] => {
            const parts = Array.from({ length: 1 + random(4) }, () => `n${random(3)}`)
            const kind = random(6)
            const mode = kind === 0 ? '120000' : kind === 1 ? '100755' : '100644'
            return [mode, parts.join('/'), kind === 5 ? null : noise(random(50), 20 + random(2000))]
          },
        )
        repository.commitFiles([...changes, ['100644', 'always', String(round)]])
        if (random(3) === 0) repository.git(['repack', '-adq'])
        const expected = nativeLines(repository, 'main')
        befores = await Promise.all(
          remotes.map(async (remote, at) => {
            const before = befores[at]
            const after = await (before === undefined ? importFrom(remote) : refresh(remote, before))
            expect({ seed, round, at, lines: after.lines.toSorted() }).toEqual({
              seed,
              round,
              at,
              lines: expected,
            })
            return random(4) === 0 ? { ...after, commits: after.commits.slice(1) } : after
          }),
        )
      }
    },
  )

  test('from a local directory reads only changes', async () => {
    const repository = newRepository()
    repository.commitFiles(many(500))
    repository.git(['repack', '-adq'])
    const options = { hostPathRoots: [root] }
    const remote = { repositoryPath: repository.path }
    const before = await importFrom(remote, '', options)
    expect(before.progress.bytesTransferred).toBeGreaterThan(500_000)
    const change = `${noise(3, 1000)}!`
    repository.commitFiles([['100644', 'd3/s3/f3', change]])
    const after = await importFrom(remote, '', options, new AbortController().signal, before)
    expect(after.calls).toEqual(['/d3/s3/f3'])
    // A commit, three trees and a file.
    expect(after.objects.added).toHaveLength(new Set(after.objects.added).size)
    expect(after.progress.bytesTransferred).toBeLessThan(10_000)
    expect(after.lines.toSorted()).toEqual(nativeLines(repository, 'main'))
    const same = await importFrom(remote, '', options, new AbortController().signal, after)
    expect(same).toMatchObject({ calls: [], progress: { bytesTransferred: 0, filesProcessed: 0 } })
  })

  test('from a bundle of the changes builds on known objects', async () => {
    const repository = newRepository()
    const first = repository.commitFiles(many(100))
    const whole = repository.gitBytes(['bundle', 'create', '-q', '-', 'main'])
    repository.commitFiles([['100644', 'd3/s3/f3', `${noise(3, 1000)}!`]])
    const rest = repository.gitBytes(['bundle', 'create', '-q', '-', `${first}..main`])
    const before = await importFrom({ bundle: whole }, 'main')
    const after = await refresh({ bundle: rest }, before, 'main')
    expect(after.calls).toEqual(['/d3/s3/f3'])
    expect(after.lines.toSorted()).toEqual(nativeLines(repository, 'main'))
    const unknown = await failure(importFrom({ bundle: rest }, 'main'))
    expect([unknown.reason, unknown.details['oids']]).toEqual(['GIT_BUNDLE_PREREQUISITE', first])
  })

  test.runIf(isLong)('stores objects while the pack is still arriving, and reports progress', async () => {
    const repository = newRepository()
    repository.commitFiles(many(2000))
    const objects = new MemoryObjects()
    let half = 0
    const server = await serve({
      intercept(request, response) {
        if (!isFetch(request)) return false
        const answer = async (): Promise<void> => {
          const input = await buffer(request)
          const { stdout } = spawnSync(
            'git',
            ['upload-pack', '--stateless-rpc', join(root, repository.name)],
            {
              input,
              env: { ...gitEnvironment, GIT_PROTOCOL: 'version=2' },
              maxBuffer: 2 ** 30,
            },
          )
          response.writeHead(200, { 'content-type': 'application/x-git-upload-pack-result' })
          response.write(stdout.subarray(0, stdout.length / 2))
          while (objects.added.length < 500) await setTimeout(5)
          half = objects.added.length
          response.end(stdout.subarray(stdout.length / 2))
        }
        answer().catch(() => response.destroy())
        return true
      },
    })
    const transferred: number[] = []
    const remote = { remoteUrl: `${server.url}/${repository.name}` }
    const sink = new TreeRecorder(objects)
    await createGitAdapter(loopback).importer.import({ remote, gitRef: '' }, sink, {
      signal: new AbortController().signal,
      objects,
      knownCommits: [],
      onResolved: () => {},
      onProgress: ({ bytesTransferred }) => transferred.push(bytesTransferred),
    })
    expect(half).toBeGreaterThanOrEqual(500)
    expect(new Set(transferred).size).toBeGreaterThan(5)
    expect(sink.lines.toSorted()).toEqual(nativeLines(repository, 'main'))
  })
})
