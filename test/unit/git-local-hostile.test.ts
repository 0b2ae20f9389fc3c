import { spawnSync } from 'node:child_process'
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { createGitAdapter } from '../../src/adapters/git/index.js'
import { gitLimits } from '../../src/adapters/git/limits.js'
import { RepositoryDirectory } from '../../src/adapters/git/local/repository-directory.js'
import { commitRequest, failure, file, importFrom, sampleLines, useGit } from '../support/git-harness.js'
import { hasGit } from '../support/git-repository.js'

const git = useGit()

/** A repository in the root, and an empty directory outside it. */
function places(bare = true) {
  const repository = git.sampleRepository({ bare })
  const outside = join(git.root, `outside-of-${repository.name}`)
  mkdirSync(outside)
  const remote = { repositoryPath: repository.path }
  return { repository, outside, remote, options: { hostPathRoots: [repository.path] } }
}

/** Moves an entry to another path and leaves a symlink to it. */
function moveOut(path: string, to: string): void {
  renameSync(path, to)
  symlinkSync(to, path)
}

/** Creates empty object directories and lists them as alternates of the repository, followed by the given lines. */
function nameAlternates(
  repository: ReturnType<typeof places>['repository'],
  count: number,
  lines: readonly string[] = [],
): void {
  const names = Array.from({ length: count }, (_, at) => `../o${at}`)
  for (const name of names) mkdirSync(join(repository.path, 'objects', name))
  mkdirSync(join(repository.path, 'objects/info'), { recursive: true })
  const text = [...names, ...lines].map((line) => `${line}\n`).join('')
  writeFileSync(join(repository.path, 'objects/info/alternates'), text)
}

describe.runIf(hasGit)('a repository of this host', () => {
  test.each([
    'objects',
    'objects/pack',
    'refs',
    'refs/heads',
    'refs/heads/main',
    'packed-refs',
    'HEAD',
    'config',
  ])('is rejected if %s is a symlink to a path outside', async (place) => {
    const { repository, outside, remote, options } = places()
    repository.git(['repack', '-aq'])
    if (place === 'packed-refs') repository.git(['pack-refs', '--all'])
    moveOut(join(repository.path, place), join(outside, 'moved'))
    const error = await failure(importFrom(remote, place === 'HEAD' ? '' : 'main', options))
    expect([error.reason, error.details['path']]).toEqual([
      'GIT_NOT_A_REPOSITORY',
      expect.stringContaining(join(repository.path, place)),
    ])
    expect(error.message).toContain('symlink')
  })

  test.each(['a directory', 'a file'])('is rejected if %s of its objects is a symlink', async (what) => {
    const { repository, outside, remote, options } = places()
    const directory = join(repository.path, 'objects', repository.first.slice(0, 2))
    moveOut(
      what === 'a file' ? join(directory, repository.first.slice(2)) : directory,
      join(outside, 'moved'),
    )
    expect((await failure(importFrom(remote, 'main', options))).reason).toBe('GIT_NOT_A_REPOSITORY')
  })

  test.each(['pack', 'idx'])('is rejected if a .%s is a symlink', async (ending) => {
    const { repository, outside, remote, options } = places()
    repository.git(['repack', '-adq'])
    const directory = join(repository.path, 'objects/pack')
    const name = readdirSync(directory).find((one) => one.endsWith(`.${ending}`))!
    moveOut(join(directory, name), join(outside, name))
    expect((await failure(importFrom(remote, 'main', options))).reason).toBe('GIT_NOT_A_REPOSITORY')
  })

  test.each(['refs/heads/main', 'packed-refs', 'HEAD', 'config', 'objects/info/alternates', 'commondir'])(
    'is rejected immediately if %s is a FIFO',
    async (place) => {
      const { repository, remote, options } = places()
      const path = join(repository.path, place)
      rmSync(path, { force: true })
      spawnSync('mkfifo', [path])
      const error = await failure(importFrom(remote, place === 'HEAD' ? '' : 'main', options))
      expect([error.reason, error.details['path']]).toEqual(['GIT_NOT_A_REPOSITORY', path])
    },
  )

  test.each(['.git', '.git/commondir', '.git/objects/info/alternates'])(
    'is rejected if %s contains a path with a NUL',
    async (place) => {
      const { repository, remote, options } = places(false)
      const path = join(repository.path, place)
      if (place === '.git') renameSync(path, join(repository.path, 'git'))
      writeFileSync(path, place === '.git' ? 'gitdir: git\0\n' : 'a\0b\n')
      const error = await failure(importFrom(remote, 'main', options))
      expect([error.reason, error.details['path']]).toEqual(['GIT_NOT_A_REPOSITORY', path])
      expect(error.message).toContain('NUL')
    },
  )

  test('is rejected if a config file or a ref is endless', async () => {
    for (const place of ['config', 'packed-refs', 'refs/heads/main']) {
      const { repository, remote, options } = places()
      writeFileSync(join(repository.path, place), '')
      truncateSync(join(repository.path, place), 2 ** 40)
      const error = await failure(importFrom(remote, 'main', options))
      expect([place, error.reason]).toEqual([place, 'GIT_TOO_LARGE'])
    }
  })

  describe.each([
    ['empty', ''],
    ['zeroed', '\0'.repeat(41)],
    ['text', 'not an id\n'],
    ['a symbolic ref to itself', 'ref: refs/heads/main\n'],
    ['a symbolic ref to no ref', 'ref: ../main\n'],
  ])('with a branch that is %s', (_what, text) => {
    test.each(['', 'main', 'refs/heads/main'])('is not taken for an empty one: %j', async (gitRef) => {
      const { repository, remote, options } = places()
      writeFileSync(join(repository.path, 'refs/heads/main'), text)
      const error = await failure(importFrom(remote, gitRef, options))
      expect([error.reason, error.message]).toEqual([
        'GIT_CORRUPT',
        expect.stringContaining('the ref refs/heads/main is damaged'),
      ])
    })

    test('has other branches that can be imported, and is not overwritten by a push', async () => {
      const { repository, remote, options } = places()
      repository.git(['branch', 'other', 'main'])
      const base = await importFrom(remote, 'other', options)
      expect(base.commitId).toBe(repository.first)
      const path = join(repository.path, 'refs/heads/main')
      writeFileSync(path, text)
      expect(await importFrom(remote, 'other', options)).toMatchObject({ commitId: repository.first })
      const push = { remote, branchName: 'main', expectedTip: repository.first }
      const { committer } = createGitAdapter(options)
      const error = await failure(committer.commit(commitRequest(base, [file('x', 'x')], { push })))
      expect([error.reason, readFileSync(path, 'utf8')]).toEqual(['GIT_CORRUPT', text])
    })
  })

  test('ignores packed refs without a valid name, and is rejected for other lines', async () => {
    const { repository, remote, options } = places()
    const id = repository.first
    const names = ['heads/../../HEAD', 'heads//x', 'heads/a\0b', 'heads/x.lock', 'heads/x\r']
    const path = join(repository.path, 'packed-refs')
    const lines = [
      '# pack-refs with: peeled fully-peeled sorted ',
      ...names.map((name) => `${id} refs/${name}`),
    ]
    writeFileSync(path, [...lines, `^${id}`, ''].join('\n'))
    writeFileSync(join(repository.path, 'HEAD'), 'ref: refs/heads/unborn\n')
    expect((await failure(importFrom(remote, '', options))).message).toContain('one of the branches: main')
    writeFileSync(path, `${id} refs/heads/a\n${id.slice(1)} refs/heads/b\n`)
    const error = await failure(importFrom(remote, '', options))
    expect([error.reason, error.message]).toEqual(['GIT_CORRUPT', expect.stringContaining('packed-refs')])
  })

  test('stops on an abort while it reads many packed refs, and so gives the event loop turns', async () => {
    const { repository, remote, options } = places()
    const lines = Array.from({ length: 300_000 }, (_, at) => `${repository.first} refs/tags/${at}\n`)
    writeFileSync(join(repository.path, 'packed-refs'), lines.join(''))
    const controller = new AbortController()
    const reason = new Error('enough')
    const readText = vi.spyOn(RepositoryDirectory.prototype, 'readText')
    const list = vi.spyOn(RepositoryDirectory.prototype, 'list')
    try {
      const done = importFrom(remote, 'main', options, controller.signal).catch((error: unknown) => error)
      await vi.waitUntil(() => readText.mock.calls.some(([path]) => path === 'packed-refs'), { interval: 1 })
      await readText.mock.results.at(-1)?.value
      controller.abort(reason)
      expect(await done).toBe(reason)
      expect(list.mock.calls).toEqual([])
    } finally {
      readText.mockRestore()
      list.mockRestore()
    }
  })

  test('with many packed refs and an unborn HEAD looks for no file of each ref', async () => {
    const { repository, remote, options } = places()
    repository.git(['pack-refs', '--all'])
    const packed = Array.from({ length: 500 }, (_, at) => `${repository.first} refs/heads/many/${at}\n`)
    writeFileSync(join(repository.path, 'packed-refs'), packed.join(''))
    writeFileSync(join(repository.path, 'HEAD'), 'ref: refs/heads/unborn\n')
    const kind = vi.spyOn(RepositoryDirectory.prototype, 'kind')
    try {
      const { details } = await failure(importFrom(remote, '', options))
      expect(details['branches']).toContain('many/0, many/1, ')
      expect(kind.mock.calls.filter(([path]) => path.includes('many'))).toEqual([])
    } finally {
      kind.mockRestore()
    }
    expect((await importFrom(remote, 'many/499', options)).commitId).toBe(repository.first)
  })

  test('with an unborn HEAD is rejected if the files of packed refs are below a symlink', async () => {
    const { repository, outside, remote, options } = places()
    const line = `${repository.first} refs/heads/linked/a\n`
    writeFileSync(join(repository.path, 'packed-refs'), line)
    writeFileSync(join(repository.path, 'HEAD'), 'ref: refs/heads/unborn\n')
    symlinkSync(outside, join(repository.path, 'refs/heads/linked'))
    const error = await failure(importFrom(remote, '', options))
    expect([error.reason, error.message]).toEqual([
      'GIT_NOT_A_REPOSITORY',
      expect.stringContaining('symlink'),
    ])
  })

  test('reads only the target name of a symlink used as a symbolic ref', async () => {
    const { repository, remote, options } = places()
    rmSync(join(repository.path, 'HEAD'))
    symlinkSync('refs/heads/main', join(repository.path, 'HEAD'))
    expect(await importFrom(remote, '', options)).toMatchObject({
      commitId: repository.first,
      lines: sampleLines,
    })
    const alias = join(repository.path, 'refs/heads/alias')
    symlinkSync('refs/heads/main', alias)
    expect(await importFrom(remote, 'alias', options)).toMatchObject({ commitId: repository.first })
    const base = await importFrom(remote, 'main', options)
    const push = { remote, branchName: 'alias', expectedTip: repository.first }
    const { committer } = createGitAdapter(options)
    const error = await failure(committer.commit(commitRequest(base, [file('x', 'y')], { push })))
    expect([error.reason, error.details['reason']]).toEqual([
      'GIT_PUSH_REJECTED',
      'the branch is a symbolic ref',
    ])
  })

  test('with a symlink as HEAD rejects a push to the checked-out branch', async () => {
    const { repository, remote, options } = places(false)
    const base = await importFrom(remote, 'main', options)
    rmSync(join(repository.path, '.git/HEAD'))
    symlinkSync('refs/heads/main', join(repository.path, '.git/HEAD'))
    const push = { remote, branchName: 'main', expectedTip: repository.first }
    const { committer } = createGitAdapter(options)
    const error = await failure(committer.commit(commitRequest(base, [file('x', 'y')], { push })))
    expect(error.details['reason']).toBe('branch is currently checked out')
  })

  test.each(['objects', 'objects/pack', 'refs/heads/deep', 'every directory of objects'])(
    'rejects a commit through a symlink at %s',
    async (place) => {
      const { repository, outside, remote, options } = places()
      const base = await importFrom(remote, 'main', options)
      const paths =
        place === 'every directory of objects'
          ? Array.from({ length: 256 }, (_, byte) => `objects/${byte.toString(16).padStart(2, '0')}`)
          : [place]
      for (const path of paths) {
        rmSync(join(repository.path, path), { recursive: true, force: true })
        symlinkSync(outside, join(repository.path, path))
      }
      const many = Array.from({ length: 200 }, (_, at) => file(`many/${at}`, `${at}`))
      const changes = place === 'objects/pack' ? many : [file('x', 'y')]
      const push = { remote, branchName: 'deep/branch', expectedTip: null }
      const { committer } = createGitAdapter(options)
      const error = await failure(committer.commit(commitRequest(base, changes, { push })))
      expect(error.reason).toBe('GIT_NOT_A_REPOSITORY')
      expect(readdirSync(outside)).toEqual([])
    },
  )

  test('is rejected with more packs or alternates than the limits', async () => {
    const many = places()
    for (let at = 0; at <= gitLimits.packs; at++)
      writeFileSync(join(many.repository.path, 'objects/pack', `pack-${at}.idx`), '')
    const loop = places()
    nameAlternates(loop.repository, gitLimits.objectDirectories)
    for (const [{ remote, options }, limit] of [
      [many, gitLimits.packs],
      [loop, gitLimits.objectDirectories],
    ] as const) {
      const error = await failure(importFrom(remote, 'main', options))
      expect([error.reason, error.details['limit']]).toEqual(['GIT_TOO_LARGE', String(limit)])
    }
  })

  test('can be read at the limit of alternates, which refer to each other', async () => {
    const { repository, remote, options } = places()
    // Its own directory is one of them.
    const count = gitLimits.objectDirectories - 1
    nameAlternates(repository, count, ['', '# a comment', '../o0', '../objects'])
    for (const alternate of ['o0', `o${count - 1}`]) {
      mkdirSync(join(repository.path, alternate, 'info'))
      const lines = ['../objects', `../${alternate}`, '../o1']
      writeFileSync(join(repository.path, alternate, 'info/alternates'), `${lines.join('\n')}\n`)
    }
    expect(await importFrom(remote, 'main', options)).toMatchObject({ lines: sampleLines })
  })

  test('leaves no file open after use or rejection', async () => {
    const { repository, remote, options } = places()
    repository.git(['repack', '-adq'])
    const open = (): number => readdirSync('/proc/self/fd').length
    const use = async (): Promise<void> => {
      const base = await importFrom(remote, 'main', options)
      const push = { remote, branchName: 'x', expectedTip: null }
      const { committer } = createGitAdapter(options)
      await committer.commit(commitRequest(base, [file('x', 'y')], { push }))
      repository.git(['update-ref', '-d', 'refs/heads/x'])
      await failure(importFrom(remote, 'none', options))
      for (let at = 0; at < 20; at++)
        await failure(importFrom({ repositoryPath: join(repository.path, 'refs') }, '', options))
    }
    // The garbage collector also closes files, with a warning.
    const warnings: string[] = []
    const onWarning = ({ message }: Error): number => warnings.push(message)
    process.on('warning', onWarning)
    await use()
    const before = open()
    for (let round = 0; round < 5; round++) await use()
    await setImmediate()
    process.off('warning', onWarning)
    expect(warnings.filter((text) => text.includes('garbage collection'))).toEqual([])
    expect(open()).toBeLessThanOrEqual(before + 2)
  })

  test('refuses symbolic refs with upward paths', async () => {
    const { repository, remote, options } = places()
    for (const text of ['ref: refs/heads/../../config', 'ref: ../outside', 'ref: refs/heads/a.lock']) {
      writeFileSync(join(repository.path, 'refs/heads/odd'), text)
      expect((await failure(importFrom(remote, 'odd', options))).reason).toBe('GIT_CORRUPT')
    }
    expect((await failure(importFrom(remote, '../HEAD', options))).reason).toBe('GIT_REF_NOT_FOUND')
  })
})

describe('the config of a repository', () => {
  const version1 = '[core]\n\trepositoryformatversion = 1\n'

  test.each([
    ['a newer version', '[core]\n\trepositoryformatversion = 2\n', 'the format version 2'],
    [
      'an unknown extension',
      `${version1}[extensions]\n\tneverHeardOf = true\n`,
      'the extension neverheardof',
    ],
    ['refs in a table', `${version1}[extensions] refStorage = reftable\n`, 'refs of the form reftable'],
    ['other objects', `${version1}[Extensions]\n\tobjectFormat = "sha512"\n`, 'objects of the form sha512'],
  ])('with %s is refused, before anything is read or written', async (_what, config, what) => {
    const { repository, remote, options } = places()
    const base = await importFrom(remote, 'main', options)
    writeFileSync(join(repository.path, 'config'), config)
    const message = `the repository has ${what}, which is not supported. Clone it with git to a repository of another form, and use that one`
    const push = { remote, branchName: 'topic', expectedTip: null }
    const { committer } = createGitAdapter(options)
    for (const use of [
      () => importFrom(remote, 'main', options),
      () => committer.commit(commitRequest(base, [file('x', 'y')], { push })),
    ])
      expect(await failure(use())).toMatchObject({ reason: 'GIT_NOT_A_REPOSITORY', message })
    expect(repository.tip('refs/heads/topic')).toBeUndefined()
  })

  test.each([
    ['another section', '[remote "a"]\n\tbare = true\n[core "a"]\n\tbare = true\n', 'main', false],
    ['the section core as a word', '[CORE]\n\tBare = yes ; a comment\n', 'main', true],
    ['a line without a value', '[core] bare\n', 'main', true],
    ['an extension of a repository of version 0', '[extensions]\n\tneverHeardOf = 1\n', 'topic', true],
    ['long lines', `[core${' '.repeat(300_000)}\n${'a'.repeat(300_000)}\r b\n`, 'topic', true],
  ])('with %s allows the same pushes as git', async (_what, config, branchName, isPushed) => {
    const { repository, remote, options } = places(false)
    const base = await importFrom(remote, 'main', options)
    writeFileSync(join(repository.path, '.git/config'), config)
    const expectedTip = branchName === 'main' ? repository.first : null
    const request = commitRequest(base, [file('x', 'y')], { push: { remote, branchName, expectedTip } })
    const pushed = createGitAdapter(options).committer.commit(request)
    const refusal = await pushed.then(
      () => undefined,
      (error: { readonly details: { readonly reason: string } }) => error.details.reason,
    )
    expect(refusal).toBe(isPushed ? undefined : 'branch is currently checked out')
  })
})
