import { AssertionError } from 'node:assert'
import { mkdtempSync, mkdirSync, rmSync, writeFileSync, type ReadStream } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  assertTree,
  fixture,
  fsModules,
  treeMatchers,
  type Fixture,
  type TreeMatchers,
} from '../../src/testing.js'
import { GitRepository } from '../support/git-repository.js'

declare module 'vitest' {
  // oxlint-disable-next-line typescript/no-explicit-any -- the declaration of Vitest has it
  interface Matchers<T = any> extends TreeMatchers {}
}

expect.extend(treeMatchers)

const files = { '/package.json': '{}', 'src/a.ts': 'export const a = 1\n', 'src/b.ts': 'b', logs: null }

describe('a fixture of files', () => {
  let project: Fixture

  beforeAll(async () => {
    project = await fixture({ files })
  })
  afterAll(() => project.close())

  test('has the files, and an empty directory', async () => {
    await expect(project.session).toHaveTree(files)
  })

  test('gives each test its own files', async () => {
    await using first = await project.fork()
    await using second = await project.fork()
    await first.fs.promises.rm('/src', { recursive: true })
    await expect(second).toHaveTree(files)
    await expect(first).toHaveTree({ 'package.json': '{}', logs: null })
    await expect(first).not.toHaveSameTreeAs(second)
  })

  test.each(['using', 'await using'] as const)(
    'deletes a fork at the end of a block with %s',
    async (how) => {
      let id: string
      if (how === 'using') {
        using session = await project.fork()
        id = session.id
      } else {
        await using session = await project.fork()
        id = session.id
      }
      await expect(project.engine.sessions.open(id)).rejects.toMatchObject({ reason: 'SESSION_NOT_FOUND' })
    },
  )

  test('allows a test to delete its fork itself', async () => {
    const session = await project.fork()
    await session.delete()
    await expect(session[Symbol.asyncDispose]()).resolves.toBeUndefined()
  })

  test('passes the request on to the fork', async () => {
    await using session = await project.fork({ newTags: { test: 'one' } })
    expect((await session.get()).tags).toEqual({ test: 'one' })
  })
})

describe('fixtures', () => {
  test('have the same ids and times in each run', async () => {
    const facts = async (): Promise<unknown> => {
      await using project = await fixture({ files }, { seed: 7 })
      return (await project.fork()).get()
    }
    expect(await facts()).toEqual(await facts())
  })

  test('close with forks that are being deleted, and twice', async () => {
    const project = await fixture({ files })
    {
      using _ = await project.fork()
    }
    await project.close()
    await project.close()
    await expect(project.fork()).rejects.toMatchObject({ reason: 'STORE_CLOSED' })
  })

  test('allow a fork to end after the fixture was closed', async () => {
    const project = await fixture({ files })
    const session = await project.fork()
    await project.close()
    await expect(session[Symbol.asyncDispose]()).resolves.toBeUndefined()
  })

  test('load a directory, which does not change', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'fixture-'))
    try {
      mkdirSync(join(directory, 'src'))
      writeFileSync(join(directory, 'src/a.ts'), 'a')
      await using project = await fixture({ directory })
      await using session = await project.fork()
      await session.fs.promises.writeFile('/src/a.ts', 'changed')
      await expect(project.session).toHaveTree({ 'src/a.ts': 'a' })
    } finally {
      rmSync(directory, { recursive: true })
    }
  })

  test('load a git repository at a branch', async () => {
    const path = mkdtempSync(join(tmpdir(), 'fixture-'))
    try {
      const repository = GitRepository.create(path, { bare: false })
      for (const [branch, content] of [
        ['main', 'one'],
        ['next', 'two'],
      ] as const) {
        repository.stage([['100644', 'a.txt', content]])
        repository.commit(`refs/heads/${branch}`)
      }
      await using main = await fixture({ gitRepository: { path } })
      await using next = await fixture({ gitRepository: { path, gitRef: 'next' } })
      await expect(main.session).toHaveTree({ 'a.txt': 'one' })
      await expect(next.session).toHaveTree({ 'a.txt': 'two' })
    } finally {
      rmSync(path, { recursive: true })
    }
  })

  test('load an archive', async () => {
    await using project = await fixture({ files })
    await using unpacked = await fixture({ archive: project.session.exportTar() })
    await expect(unpacked.session).toHaveSameTreeAs(project.session)
  })

  test.each([
    ['nothing', {}],
    ['two bases', { files: {}, directory: '/tmp' }],
    ['an unknown base', { file: {} }],
    ['no object', 'files'],
    ['a directory that is no text', { directory: 7 }],
    ['a repository without a path', { gitRepository: {} }],
  ])('reject %s', async (_title, base) => {
    await expect(fixture(base as never)).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
  })

  test('name the path of a repository that lacks it', async () => {
    const made = fixture({ gitRepository: {} as never })
    await expect(made).rejects.toThrow('path: must be a path; it is undefined')
  })

  test('reject a directory that does not exist', async () => {
    await expect(fixture({ directory: '/nowhere/at/all' })).rejects.toMatchObject({ name: 'EngineError' })
  })

  test('reject options of another call, and storages', async () => {
    for (const options of [{ storage: {} }, { seeds: 1 }, null, { hostPaths: { roots: 'x' } }])
      await expect(fixture({ files }, options as never)).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
  })
})

describe('comparisons of trees', () => {
  let project: Fixture

  beforeAll(async () => {
    project = await fixture({ files: { 'src/a.ts': 'one\ntwo\nthree\n', 'src/b.json': '{"port":80}' } })
    await project.session.fs.promises.writeFile('/bytes', Buffer.from([0, 255]))
  })
  afterAll(() => project.close())

  const message = async (expected: object, at = '/'): Promise<string> => {
    const { pass, message } = await treeMatchers.toHaveTree(project.session, expected as never, at)
    expect(pass).toBe(false)
    return message()
  }

  test('accept text, bytes, regular expressions and matchers', async () => {
    await expect(project.session).toHaveTree({
      'src/a.ts': /^two$/m,
      'src/b.json': expect.stringContaining('port'),
      bytes: Uint8Array.of(0, 255),
    })
    await expect(project.session).toContainTree({ 'a.ts': /o/g }, '/src')
    await assertTree(project.session, { '/bytes': Uint8Array.of(0, 255) }, { contains: true })
  })

  test('follow a symlink to the directory', async () => {
    const session = await project.session.fork()
    await session.fs.promises.symlink('/src', '/link')
    await expect(session).toContainTree({ 'a.ts': /one/ }, '/link')
    await expect(session).toHaveSameTreeAs(project.session, '/src')
  })

  test('list what is missing, unexpected and different', async () => {
    expect(await message({ 'a.ts': 'one\n2\nthree\n', 'c.ts': '' }, '/src')).toBe(
      [
        'the files at /src differ from the expected ones:',
        '  other content: /src/a.ts, from line 2 on',
        '    expected "2"',
        '    found    "two"',
        '  missing: /src/c.ts',
        '  unexpected: /src/b.json',
      ].join('\n'),
    )
    expect(await message({ 'a.ts': 'one\ntwo\nthree', 'b.json': /x/ }, '/src')).toContain(
      ['    expected the end of the file', '    found    ""'].join('\n'),
    )
    expect(await message({ 'a.ts': null, 'b.json': expect.any(Number) }, '/src')).toMatch(
      /not an empty directory: \/src\/a\.ts[^]*not accepted by the matcher: \/src\/b\.json/,
    )
    expect(await message({ bytes: Uint8Array.of(1) })).toContain('expected 1 bytes, found 2')
    expect(await message({ 'a.ts': 'one' }, '/none/')).toContain('missing: /none/a.ts')
  })

  test('cut off a long list and a long content', async () => {
    const many = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`${i}`, '']))
    expect(await message(many)).toContain('… 13 more')
    expect((await message({ 'src/a.ts': 'x'.repeat(9000) })).length).toBeLessThan(2000)
  })

  test('of node:test throw an AssertionError with both sides', async () => {
    const failed = assertTree(project.session, { 'src/a.ts': 'one' })
    await expect(failed).rejects.toBeInstanceOf(AssertionError)
    await expect(failed).rejects.toMatchObject({
      actual: { '/src/a.ts': 'one\ntwo\nthree\n' },
      expected: { 'src/a.ts': 'one' },
    })
  })

  test.each([
    ['a number as a tree', () => assertTree(project.session, 7 as never)],
    ['a number as a content', () => assertTree(project.session, { bytes: 7 } as never)],
    ['something else than a session', () => assertTree({} as never, {})],
    [
      'a path outside of the directory',
      () => assertTree(project.session, { '../bytes': '' }, { at: '/src' }),
    ],
    ['an unknown option', () => assertTree(project.session, {}, { path: '/' } as never)],
  ])('reject %s', async (_title, call) => {
    await expect(call()).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
  })
})

describe('modules for mocks', () => {
  test('send each call to the current session', async () => {
    await using project = await fixture({ files: { '/a.txt': 'one' } })
    const current = { session: await project.fork() }
    const { fs, promises } = fsModules(() => current.session)
    const first = current.session
    fs.writeFileSync('/a.txt', 'first')
    current.session = await project.fork()
    expect(fs.readFileSync('/a.txt', 'utf8')).toBe('one')
    await promises.writeFile('/a.txt', 'second')
    expect(await fs.promises.readFile('/a.txt', 'utf8')).toBe('second')
    expect(await fs.default.promises.readFile('/a.txt', 'utf8')).toBe('second')
    expect(fs.realpathSync.native('/a.txt')).toBe('/a.txt')
    expect(await promisify(fs.exists)('/a.txt')).toBe(true)
    expect(fs.constants.O_RDONLY).toBe(0)
    const stream = (Reflect.construct(fs.ReadStream, ['/a.txt']) as ReadStream).setEncoding('utf8')
    expect(stream).toBeInstanceOf(fs.ReadStream)
    expect(await stream.toArray()).toEqual(['second'])
    expect(fs.statSync('/a.txt')).toBeInstanceOf(fs.Stats)
    expect(first.fs.readFileSync('/a.txt', 'utf8')).toBe('first')
  })

  test('need a function that returns a session', () => {
    expect(() => fsModules(() => ({}) as never)).toThrow(
      expect.objectContaining({ reason: 'INVALID_ARGUMENT' }),
    )
  })
})
