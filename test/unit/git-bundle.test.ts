import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createGitAdapter } from '../../src/adapters/git/index.js'
import {
  commitRequest,
  failure,
  file,
  importFrom,
  loopback,
  sampleLines,
  useGit,
} from '../support/git-harness.js'
import { hasGit, type GitRepository } from '../support/git-repository.js'
import { chunksOf, randomNumbers } from '../support/pack-oracle.js'
import type { Format } from '../support/raw-pack.js'
import { isLong, seed, stepOf } from '../support/seed.js'

const MiB = 2 ** 20
const git = useGit()

let made = 0
function bundleOf(repository: GitRepository, args: readonly string[], version?: 2 | 3): Buffer {
  const path = join(git.root, `b${++made}.bundle`)
  const chosen = version === undefined ? [] : [`--version=${version}`]
  repository.git(['bundle', 'create', '-q', ...chosen, path, ...args])
  return readFileSync(path)
}

describe.runIf(hasGit)('a bundle', () => {
  test.each<[Format, 2 | 3]>([
    ['sha1', 2],
    ['sha1', 3],
    ['sha256', 3],
  ])('of %s and version %i is imported whole and in pieces', async (format, version) => {
    const repository = git.sampleRepository({ format })
    repository.git(['tag', '-a', 'v1', '-m', 'a tag', 'main'])
    repository.git(['update-ref', 'refs/pull/1/head', 'main'])
    const second = repository.commitFiles([['100644', 'new', 'x']], 'refs/heads/topic')
    const bundle = bundleOf(repository, ['--all'], version)
    expect(bundle.toString('latin1', 0, 4)).toBe(`# v${version}`)
    const first = await importFrom({ bundle })
    expect(first).toMatchObject({ commitId: repository.first, lines: sampleLines })
    expect(first.treeId).toBe(repository.git(['rev-parse', 'main^{tree}']))
    expect(first.progress.bytesTransferred).toBe(bundle.length)
    for (const ref of ['main', 'v1', 'HEAD', 'refs/heads/main', 'refs/pull/1/head', repository.first]) {
      const got = await importFrom({ bundle: chunksOf(bundle, randomNumbers(seed), 100) }, ref)
      expect([ref, got.commitId]).toEqual([ref, repository.first])
      expect(got.progress.bytesTransferred).toBe(bundle.length)
    }
    expect((await importFrom({ bundle }, 'topic')).commitId).toBe(second)
    expect((await failure(importFrom({ bundle }, 'none'))).reason).toBe('GIT_REF_NOT_FOUND')
    const nowhere = 'e'.repeat(second.length)
    expect((await failure(importFrom({ bundle }, nowhere))).reason).toBe('GIT_REF_NOT_FOUND')
  })

  test('uses a single branch as HEAD, and no HEAD for several branches', async () => {
    const repository = git.sampleRepository()
    repository.git(['branch', 'other'])
    repository.git(['tag', 'v1'])
    expect((await importFrom({ bundle: bundleOf(repository, ['main', 'v1']) })).commitId).toBe(
      repository.first,
    )
    const several = bundleOf(repository, ['main', 'other'])
    expect(await failure(importFrom({ bundle: several }))).toMatchObject({
      reason: 'GIT_REF_NOT_FOUND',
      details: { branches: expect.stringContaining('other') as string },
    })
  })

  test.each<Format>(['sha1', 'sha256'])('requires its prerequisite commits, %s', async (format) => {
    const repository = git.newRepository({ format })
    const text = Array.from({ length: 500 }, (_, line) => `line ${line}`)
    const commit = (line: string): string => {
      text[250] = line
      return repository.commitFiles([
        ['100644', 'a', text.join('\n')],
        ['100644', `dir/${line}`, line],
      ])
    }
    const base = commit('one')
    const tip = commit('two')
    const bundle = bundleOf(repository, [`${base}..main`])
    expect(await failure(importFrom({ bundle }))).toMatchObject({
      reason: 'GIT_BUNDLE_PREREQUISITE',
      details: { oids: base },
    })
    const whole = await importFrom({ repositoryPath: repository.path }, base, { hostPathRoots: [git.root] })
    const later = await importFrom({ bundle }, '', loopback, undefined, whole)
    expect(later.commitId).toBe(tip)
    expect(later.treeId).toBe(repository.git(['rev-parse', 'main^{tree}']))
    expect(later.lines).toContain('file 644 /dir/one one')
    expect(later.lines).toContain('file 644 /dir/two two')
  })

  test('of a shallow clone is imported', async () => {
    const repository = git.sampleRepository()
    repository.commitFiles([['100644', 'a.txt', 'changed']])
    const clone = git.newRepository()
    clone.git(['fetch', '-q', '--depth=1', `file://${repository.path}`, 'main:main'])
    const got = await importFrom({ bundle: bundleOf(clone, ['main']) })
    expect(got.commitId).toBe(repository.tip('refs/heads/main'))
    expect(got.lines).toContain('file 644 /a.txt changed')
  })

  test('with large files is imported', async () => {
    const repository = git.newRepository()
    const body = Buffer.alloc(20 * MiB, 'some text ')
    repository.stage([['100644', 'large', body]])
    repository.commit()
    const { objects } = await importFrom({ bundle: bundleOf(repository, ['main']) })
    const oid = repository.git(['rev-parse', 'main:large'])
    expect(Buffer.from(objects.stored.get(oid)!.body).equals(body)).toBe(true)
  })

  test('cannot be pushed to', async () => {
    const repository = git.sampleRepository()
    const remote = { bundle: bundleOf(repository, ['main']) }
    const base = await importFrom(remote)
    const push = { remote, branchName: 'main', expectedTip: base.commitId }
    const request = commitRequest(base, [file('x', 'y')], { push })
    expect((await failure(createGitAdapter().committer.commit(request))).reason).toBe('GIT_PUSH_REJECTED')
  })

  test('with unknown prerequisites or an invalid header is rejected', async () => {
    const repository = git.sampleRepository()
    const sound = bundleOf(repository, ['main'], 3)
    const text = sound.toString('latin1')
    const header = text.slice(0, text.indexOf('\n\n') + 2)
    const line = header.split('\n').find((line) => line.includes(' refs/heads/main'))!
    const bundle = (head: string): Buffer =>
      Buffer.concat([Buffer.from(head, 'latin1'), sound.subarray(header.length)])
    expect((await importFrom({ bundle: bundle(header) })).commitId).toBe(repository.first)
    const withLine = (added: string): string => header.replace('bundle\n', `bundle\n${added}\n`)
    const cases: [string, string][] = [
      ['', 'GIT_UNSUPPORTED_BUNDLE'],
      [header.replace('v3', 'v1'), 'GIT_UNSUPPORTED_BUNDLE'],
      [header.replace('v3', 'v4'), 'GIT_UNSUPPORTED_BUNDLE'],
      [header.replace('git bundle', 'hg bundle'), 'GIT_UNSUPPORTED_BUNDLE'],
      [withLine('@filter=blob:none'), 'GIT_UNSUPPORTED_BUNDLE'],
      [withLine('@colour=red'), 'GIT_UNSUPPORTED_BUNDLE'],
      [withLine('@__proto__'), 'GIT_UNSUPPORTED_BUNDLE'],
      [withLine('@object-format=md5'), 'GIT_UNSUPPORTED_BUNDLE'],
      [withLine('hello'), 'GIT_UNSUPPORTED_BUNDLE'],
      [withLine('-hello'), 'GIT_UNSUPPORTED_BUNDLE'],
      [header.replace(line, line.slice(1)), 'GIT_UNSUPPORTED_BUNDLE'],
      [header.replace('object-format=sha1', 'object-format=sha256'), 'GIT_UNSUPPORTED_BUNDLE'],
      [header.replace('v3', 'v2'), 'GIT_UNSUPPORTED_BUNDLE'],
      [header.replace('\n\n', '\n'), 'GIT_UNSUPPORTED_BUNDLE'],
    ]
    for (const [head, reason] of cases) {
      const error = await failure(importFrom({ bundle: bundle(head) }))
      expect([head, error.reason]).toEqual([head, reason])
    }
    expect((await failure(importFrom({ bundle: new Uint8Array() }))).reason).toBe('GIT_UNSUPPORTED_BUNDLE')
  })

  test('that is truncated or damaged anywhere is rejected', async () => {
    const bundle = bundleOf(git.sampleRepository(), ['--all'])
    for (let cut = 0; cut < bundle.length; cut += stepOf(5)) {
      const { reason } = await failure(importFrom({ bundle: bundle.subarray(0, cut) }, 'main'))
      expect([cut, reason]).toEqual([
        cut,
        expect.stringMatching(/^GIT_(CORRUPT|UNSUPPORTED_BUNDLE|REF_NOT_FOUND)$/),
      ])
    }
    const start = bundle.indexOf('\n\n') + 2
    const random = randomNumbers(seed)
    for (let round = 0; round < (isLong ? 200 : 50); round++) {
      const damaged = Buffer.from(bundle)
      damaged[start + Math.floor(random() * (bundle.length - start))]! ^= 1 << Math.floor(random() * 8)
      const { reason } = await failure(importFrom({ bundle: damaged }, 'main'))
      expect(reason).toMatch(/^GIT_(CORRUPT|TOO_LARGE)$/)
    }
  })

  test('fails if its stream throws or stalls', async () => {
    const bundle = bundleOf(git.sampleRepository(), ['main'])
    const thrown = new Error('no more')
    const broken = async function* (): AsyncGenerator<Uint8Array, void, undefined> {
      yield bundle.subarray(0, 100)
      throw thrown
    }
    await expect(importFrom({ bundle: broken() })).rejects.toBe(thrown)
    const control = new AbortController()
    const stuck = async function* (): AsyncGenerator<Uint8Array, void, undefined> {
      yield bundle.subarray(0, 100)
      setTimeout(() => control.abort('enough'))
      await new Promise(() => {})
    }
    await expect(importFrom({ bundle: stuck() }, '', loopback, control.signal)).rejects.toBe('enough')
  })
})
