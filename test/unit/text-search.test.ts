import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  EngineError,
  formatMatches,
  limits,
  openEngine,
  type Engine,
  type GrepRequest,
  type Session,
  type Storage,
} from '../../src/index.js'
import { gitEnvironment, hasGit } from '../support/git-repository.js'
import { deepPath, longPatterns } from '../support/slow-globs.js'
import { runs, seed } from '../support/seed.js'
import { fewStorages } from '../support/storages.js'

async function refusalOf(work: Promise<unknown>): Promise<EngineError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (error instanceof EngineError) return error
  throw error ?? new Error('nothing was thrown')
}

describe.each(fewStorages)('searches on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'search-'))
    storage = makeStorage(directory)
    engine = await openEngine({ storage })
    session = await engine.sessions.create({
      files: {
        '/README.md': '# Title\nTODO: write\n',
        '/src/a.ts': 'const a = 1\nconst b = a + 1 // TODO\nexport { a, b }\n',
        '/src/lib/b.ts': 'export const total = 1\n',
        '/src/lib/c.js': 'var todo = 1\n',
        '/.hidden/x.ts': 'const hidden = 1\n',
        '/bin': new Uint8Array([0x54, 0x4f, 0x44, 0x4f, 0, 1]),
      },
    })
  })

  afterEach(async () => {
    await engine.close()
    rmSync(directory, { recursive: true, force: true })
  })

  async function reload(): Promise<void> {
    if (!lasting) return
    const { id } = session
    await engine.close()
    engine = await openEngine({ storage })
    session = await engine.sessions.open(id)
  }

  const grep = async (request: GrepRequest, of: Session = session): Promise<string[]> =>
    formatMatches((await of.text.grep(request)).lines)
      .split('\n')
      .filter((line) => line !== '')

  describe('glob', () => {
    const glob = async (...given: Parameters<Session['text']['glob']>): Promise<string[]> =>
      (await session.text.glob(...given)).entries.map(({ path }) => path)

    test('finds files by patterns from a directory or the root', async () => {
      expect(await glob({ patterns: ['**/*.ts'] })).toEqual(['/src/a.ts', '/src/lib/b.ts'])
      expect(await glob({ patterns: ['*.ts'], path: '/src' })).toEqual(['/src/a.ts'])
      expect(await glob({ patterns: ['./lib/*', '/*.md'], path: '/src' })).toEqual([
        '/README.md',
        '/src/lib/b.ts',
        '/src/lib/c.js',
      ])
      expect(await glob({ patterns: ['.hidden/*'] })).toEqual(['/.hidden/x.ts'])
      expect(await glob({ patterns: ['**'], exclude: ['src/lib'] })).toEqual([
        '/README.md',
        '/bin',
        '/src/a.ts',
      ])
    })

    test('excludes only directories by a pattern that ends with a slash', async () => {
      expect(await glob({ patterns: ['**'], exclude: ['bin/', 'src/'] })).toEqual(['/README.md', '/bin'])
    })

    test('takes special characters of the directory literally', async () => {
      await session.files.write({ path: '/[x]{a,b}/f.ts', content: '' })
      expect(await glob({ patterns: ['*.ts'], path: '/[x]{a,b}' })).toEqual(['/[x]{a,b}/f.ts'])
    })

    test('returns directories on request, and facts about each entry', async () => {
      expect(await glob({ patterns: ['src/*'], includeDirectories: true })).toEqual(['/src/a.ts', '/src/lib'])
      await session.files.createSymlink({ linkPath: '/src/link', target: '/README.md' })
      const { entries } = await session.text.glob({ patterns: ['src/*'] })
      const { mtimeMs } = await session.files.stat({ path: '/src/a.ts' })
      expect(entries[0]).toEqual({ path: '/src/a.ts', kind: 'file', sizeBytes: 52, mtimeMs })
      expect(entries[1]).toMatchObject({ path: '/src/link', kind: 'symlink', sizeBytes: 0 })
    })

    test('is limited, and can return the newest first', async () => {
      await session.files.setAttributes({ path: '/src/lib/b.ts', mtimeMs: Date.now() + 60_000 })
      const request = { patterns: ['**/*.{ts,js,md}'], limit: 2 }
      expect(await session.text.glob(request)).toMatchObject({ isTruncated: true })
      expect(await glob({ ...request, order: 'modified' })).toEqual(['/src/lib/b.ts', '/README.md'])
      expect(await session.text.glob({ ...request, limit: 4 })).toMatchObject({ isTruncated: false })
    })

    test('refuses malformed patterns and missing directories', async () => {
      expect((await refusalOf(glob({ patterns: [] }))).reason).toBe('INVALID_ARGUMENT')
      expect((await refusalOf(glob({ patterns: ['../a'] }))).reason).toBe('INVALID_ARGUMENT')
      expect((await refusalOf(glob({ patterns: ['!(a)'] }))).reason).toBe('INVALID_ARGUMENT')
      expect((await refusalOf(glob({ patterns: ['*'], path: '/none' }))).reason).toBe('PATH_NOT_FOUND')
      expect((await refusalOf(glob({ patterns: ['*'], path: '/README.md' }))).reason).toBe('NOT_A_DIRECTORY')
    })
  })

  test('with long patterns gives the event loop turns at each path, and ends when its signal aborts', async () => {
    const path = deepPath.split('/').slice(0, 7).join('/')
    const { id } = await engine.sessions.create({ files: { [`${path}/b`]: 'x' } })
    const deep = await engine.sessions.open(id)
    const patterns = longPatterns('').slice(0, 4)
    const globs = longPatterns('/').slice(0, 4)
    const filter = { globs, excludeGlobs: globs }
    for (const search of [
      (signal?: AbortSignal) => deep.text.glob({ patterns, exclude: patterns }, signal && { signal }),
      (signal?: AbortSignal) => deep.text.grep({ pattern: 'x', ...filter }, signal && { signal }),
    ]) {
      let turns = 0
      const turn = (): void => {
        turns++
        counting = setImmediate(turn)
      }
      let counting = setImmediate(turn)
      await search()
      clearImmediate(counting)
      expect(turns).toBeGreaterThan(patterns.length)
      const controller = new AbortController()
      const searched = search(controller.signal)
      controller.abort(new Error('enough'))
      await expect(searched).rejects.toThrow('enough')
      await expect(search(AbortSignal.abort(new Error('ended')))).rejects.toThrow('ended')
    }
    expect(await refusalOf(deep.text.glob({ patterns: ['*'] }, { signal: 1 as never }))).toMatchObject({
      reason: 'INVALID_ARGUMENT',
      details: { field: 'signal' },
    })
  })

  test('refuses patterns that are too long together', async () => {
    const patterns = Array.from({ length: 17 }, () => 'x'.repeat(4000))
    const refused = { reason: 'TOO_LARGE', details: { limit: String(limits.searchGlobsSize) } }
    expect(await refusalOf(session.text.glob({ patterns }))).toMatchObject(refused)
    expect(await refusalOf(session.text.grep({ pattern: 'x', globs: patterns }))).toMatchObject(refused)
  })

  describe('grep', () => {
    test('returns matching lines by path', async () => {
      await reload()
      const result = await session.text.grep({ pattern: 'TODO' })
      expect(result).toEqual({
        lines: [
          {
            path: '/README.md',
            lineNumber: 2,
            column: 1,
            text: 'TODO: write',
            isMatch: true,
            isTruncated: false,
          },
          {
            path: '/src/a.ts',
            lineNumber: 2,
            column: 20,
            text: 'const b = a + 1 // TODO',
            isMatch: true,
            isTruncated: false,
          },
        ],
        files: [],
        isTruncated: false,
        nextOffset: 2,
        skippedFileCount: 0,
      })
    })

    test.each<[string, Partial<GrepRequest> & { pattern: string }, string[]]>([
      ['a regular expression', { pattern: '^const \\w+ = \\d$' }, ['/.hidden/x.ts:1', '/src/a.ts:1']],
      ['a case', { pattern: 'todo' }, ['/src/lib/c.js:1']],
      ['any case', { pattern: 'todo', ignoreCase: true }, ['/README.md:2', '/src/a.ts:2', '/src/lib/c.js:1']],
      [
        'any case by an expression',
        { pattern: 'TO[D]o', ignoreCase: true },
        ['/README.md:2', '/src/a.ts:2', '/src/lib/c.js:1'],
      ],
      ['words', { pattern: 'a', wholeWord: true }, ['/src/a.ts:1', '/src/a.ts:2', '/src/a.ts:3']],
      [
        'words by an expression',
        { pattern: 'to?tal|[b]', wholeWord: true },
        ['/src/a.ts:2', '/src/a.ts:3', '/src/lib/b.ts:1'],
      ],
      ['a text with special characters', { pattern: 'a + 1', literal: true }, ['/src/a.ts:2']],
      [
        'names',
        { pattern: 'const', globs: ['*.ts'], excludeGlobs: ['lib'] },
        ['/.hidden/x.ts:1', '/src/a.ts:1', '/src/a.ts:2'],
      ],
      ['paths', { pattern: 'const', globs: ['src/lib/*'] }, ['/src/lib/b.ts:1']],
      ['types', { pattern: '1', fileTypes: ['js', 'md'] }, ['/src/lib/c.js:1']],
      ['a directory', { pattern: '1', path: '/src/lib' }, ['/src/lib/b.ts:1', '/src/lib/c.js:1']],
      ['a file', { pattern: '1', path: '/src/lib/b.ts', fileTypes: ['js'] }, ['/src/lib/b.ts:1']],
      ['a count for each file', { pattern: 'a', path: '/src/a.ts', maxCount: 1 }, ['/src/a.ts:1']],
    ])('searches for %s', async (_case, request, expected) => {
      const { lines } = await session.text.grep(request)
      expect(lines.map(({ path, lineNumber }) => `${path}:${lineNumber}`)).toEqual(expected)
      // A remembered result is the same.
      expect((await session.text.grep(request)).lines).toEqual(lines)
    })

    test('returns context, each line once', async () => {
      const content = Array.from({ length: 12 }, (_, index) => (index % 4 === 2 ? 'x' : `${index + 1}`)).join(
        '\n',
      )
      await session.files.write({ path: '/f', content })
      expect(await grep({ pattern: 'x', path: '/f', context: 1 })).toEqual([
        '/f-2-2',
        '/f:3:x',
        '/f-4-4',
        '--',
        '/f-6-6',
        '/f:7:x',
        '/f-8-8',
        '--',
        '/f-10-10',
        '/f:11:x',
        '/f-12-12',
      ])
      expect(await grep({ pattern: 'x', path: '/f', before: 3, after: 0 })).toEqual([
        '/f-1-1',
        '/f-2-2',
        '/f:3:x',
        '/f-4-4',
        '/f-5-5',
        '/f-6-6',
        '/f:7:x',
        '/f-8-8',
        '/f-9-9',
        '/f-10-10',
        '/f:11:x',
      ])
      const page = { pattern: 'x', path: '/f', after: 2, limit: 1, offset: 1 }
      expect(await grep(page)).toEqual(['/f:7:x', '/f-8-8', '/f-9-9'])
      expect(await session.text.grep(page)).toMatchObject({ isTruncated: true, nextOffset: 2 })
    })

    test('returns files or counts', async () => {
      const request = { pattern: 'a', path: '/src' }
      expect(await session.text.grep({ ...request, mode: 'count' })).toMatchObject({
        lines: [],
        files: [
          { path: '/src/a.ts', matchCount: 3 },
          { path: '/src/lib/b.ts', matchCount: 1 },
          { path: '/src/lib/c.js', matchCount: 1 },
        ],
      })
      const { files, isTruncated, nextOffset } = await session.text.grep({
        ...request,
        mode: 'files',
        limit: 2,
      })
      expect(files.map(({ path }) => path)).toEqual(['/src/a.ts', '/src/lib/b.ts'])
      expect(isTruncated).toBe(true)
      const rest = await session.text.grep({ ...request, mode: 'files', limit: 2, offset: nextOffset })
      expect(rest.files.map(({ path }) => path)).toEqual(['/src/lib/c.js'])
      expect(rest.isTruncated).toBe(false)
    })

    test('takes a match for a word if no letter, digit or underscore touches it', async () => {
      await session.files.write({ path: '/f', content: 'a -x\nfoo(a\n-x9\nfoo(\n-x_\n_b_ b\n' })
      const lines = async (request: GrepRequest): Promise<unknown> =>
        (await session.text.grep({ ...request, path: '/f', wholeWord: true })).lines.map(
          ({ lineNumber, column }) => [lineNumber, column],
        )
      for (const multiline of [false, true]) {
        expect(await lines({ pattern: '-x', multiline })).toEqual([[1, 3]])
        expect(await lines({ pattern: '-[x]', multiline })).toEqual([[1, 3]])
        expect(await lines({ pattern: String.raw`fo*\(`, multiline })).toEqual([[4, 1]])
        expect(await lines({ pattern: 'foo(', literal: true, multiline })).toEqual([[4, 1]])
        expect(await lines({ pattern: 'b', multiline })).toEqual([[6, 5]])
      }
    })

    test('takes CR for a part of a line end only before LF', async () => {
      await session.files.write({ path: '/f', content: 'abc\r' })
      expect(await grep({ pattern: 'c$', path: '/f' })).toEqual([])
      expect(await grep({ pattern: 'c.$', path: '/f' })).toEqual(['/f:1:abc\r'])
      await session.files.write({ path: '/f', content: 'xc\nabc\r' })
      expect(await grep({ pattern: 'c$', path: '/f' })).toEqual(['/f:1:xc'])
      await session.files.write({ path: '/f', content: 'a\r\nb\rc\r\n' })
      expect(await grep({ pattern: 'a\r', path: '/f' })).toEqual([])
      expect(await grep({ pattern: 'b\r', path: '/f' })).toEqual(['/f:2:b\rc'])
    })

    test('bounds the steps of a complex pattern', async () => {
      const pattern = '(a{0,30}){0,30}b'
      await session.files.write({ path: '/f', content: `${'c'.repeat(20_000)}b\n${'c'.repeat(5000)}b\n` })
      const columns = async (request: GrepRequest): Promise<number[]> =>
        (await session.text.grep({ path: '/f', ...request })).lines.map(({ column }) => column)
      expect(await columns({ pattern: 'c+b' })).toEqual([1, 1])
      // Only the first characters of the longer line are matched.
      expect(await columns({ pattern })).toEqual([5001])
      await session.files.write({ path: '/f', content: 'a'.repeat(100_000) })
      const skipped = async (request: GrepRequest): Promise<number> =>
        (await session.text.grep({ path: '/f', multiline: true, ...request })).skippedFileCount
      expect(await skipped({ pattern })).toBe(1)
      expect(await skipped({ pattern: 'a+' })).toBe(0)
    })

    test('finds matches over several lines on request', async () => {
      expect((await refusalOf(session.text.grep({ pattern: 'a\nb' }))).reason).toBe('INVALID_ARGUMENT')
      await session.files.write({ path: '/f', content: 'x\r\nstart\r\nmiddle\r\nend\r\ny\r\n' })
      expect(await grep({ pattern: 'start.*end$', path: '/f' })).toEqual([])
      expect(await grep({ pattern: 'start.*end$', path: '/f', multiline: true })).toEqual([
        '/f:2:start',
        '/f:3:middle',
        '/f:4:end',
      ])
      expect(await grep({ pattern: 'x\ns', literal: true, path: '/f', multiline: true })).toHaveLength(2)
    })

    test('matches lines with CRLF, a byte order mark and invalid UTF-8', async () => {
      await session.files.write({ path: '/f', content: Buffer.from('one\r\n\xff two\r\n', 'latin1') })
      await session.files.write({ path: '/g', content: '\ufeffone\r\n😀 two\r\n' })
      expect(await grep({ pattern: '^one$', path: '/g' })).toEqual(['/g:1:one'])
      expect(await grep({ pattern: 'two$', path: '/f' })).toEqual(['/f:2:\ufffd two'])
      const { lines } = await session.text.grep({ pattern: 'two', path: '/g' })
      expect(lines).toMatchObject([{ column: 4, text: '😀 two' }])
      expect((await session.text.grep({ pattern: 't[w]o', path: '/g' })).lines).toEqual(lines)
      expect(await grep({ pattern: '😀', path: '/g' })).toHaveLength(1)
      expect(await grep({ pattern: 'É', path: '/g', ignoreCase: true })).toEqual([])
      await session.files.write({ path: '/g', content: 'été' })
      expect(await grep({ pattern: 'É', path: '/g', ignoreCase: true })).toEqual(['/g:1:été'])
    })

    test('cuts long lines, and skips large files', async () => {
      await session.files.write({ path: '/f', content: `${'é'.repeat(3000)} x` })
      const { lines } = await session.text.grep({ pattern: 'x', path: '/f' })
      expect(lines).toMatchObject([{ text: 'é'.repeat(2000), isTruncated: true, column: 3002 }])
      await session.files.write({ path: '/src/big', content: Buffer.alloc(16 * 2 ** 20 + 1, 'x') })
      const request = { pattern: 'big', path: '/src' }
      expect(await session.text.grep(request)).toMatchObject({ skippedFileCount: 1 })
      expect(await session.text.grep(request)).toMatchObject({ skippedFileCount: 1 })
    })

    test('follows hard links in the order of their names, also after a change', async () => {
      await session.files.link({ srcPath: '/src/lib/b.ts', dstPath: '/linked.ts' })
      const request = { pattern: 'total|sum', mode: 'files' } as const
      const paths = async (): Promise<string[]> =>
        (await session.text.grep(request)).files.map(({ path }) => path)
      expect(await paths()).toEqual(['/linked.ts', '/src/lib/b.ts'])
      await session.files.write({ path: '/linked.ts', content: 'none' })
      expect(await paths()).toEqual([])
    })

    test('sees every change, also in forks and after moves', async () => {
      const request = { pattern: 'const', mode: 'files' } as const
      const paths = async (of: Session): Promise<string[]> =>
        (await of.text.grep(request)).files.map(({ path }) => path)
      const all = ['/.hidden/x.ts', '/src/a.ts', '/src/lib/b.ts']
      expect(await paths(session)).toEqual(all)
      const fork = await session.fork()
      expect(await paths(fork)).toEqual(all)
      await fork.files.rename({ sourcePath: '/src/lib', destinationPath: '/lib' })
      await fork.files.write({ path: '/src/a.ts', content: 'let' })
      await fork.files.write({ path: '/README.md', content: 'const' })
      expect(await paths(fork)).toEqual(['/.hidden/x.ts', '/README.md', '/lib/b.ts'])
      expect(await paths(session)).toEqual(all)
      await reload()
      expect(await paths(session)).toEqual(all)
    })

    test('takes time in proportion to the text for hostile patterns', async () => {
      // A search that backtracks would exceed the time limit of a test.
      await session.files.write({ path: '/f', content: `${'a'.repeat(200_000)}!\n`.repeat(3) })
      for (const pattern of ['(a+)+$', '(a|a)*b', '(a*)*b', '(.*){10}x', 'a{1,200}b'])
        expect(await grep({ pattern, path: '/f' })).toEqual([])
    })

    test.each(['(', 'a**', '(?=a)', '\\1', 'a{1001}', '[z-a]', ''])(
      'refuses the pattern %j',
      async (pattern) => {
        const error = await refusalOf(session.text.grep({ pattern }))
        expect(error.reason).toBe('INVALID_ARGUMENT')
        expect(error.details['field']).toBe('pattern')
      },
    )

    test('refuses unknown types, and a missing path', async () => {
      expect((await refusalOf(session.text.grep({ pattern: 'a', fileTypes: ['cobol'] }))).reason).toBe(
        'INVALID_ARGUMENT',
      )
      expect((await refusalOf(session.text.grep({ pattern: 'a', path: '/none' }))).reason).toBe(
        'PATH_NOT_FOUND',
      )
      expect((await refusalOf(session.text.grep({ pattern: 'a'.repeat(1001) }))).reason).toBe(
        'INVALID_ARGUMENT',
      )
    })

    test('ends when its signal aborts', async () => {
      const controller = new AbortController()
      const files: Record<string, string> = {}
      for (let index = 0; index < 3000; index++) files[`/f${index}`] = 'a line\n'.repeat(40)
      const large = await engine.sessions.create({ files })
      const searched = large.text.grep({ pattern: 'x|y' }, { signal: controller.signal })
      controller.abort(new Error('enough'))
      await expect(searched).rejects.toThrow('enough')
      await expect(
        large.text.grep({ pattern: 'x' }, { signal: AbortSignal.abort(new Error('ended')) }),
      ).rejects.toThrow('ended')
    })

    test('needs the right to read', async () => {
      const narrowed = session.narrow({ without: ['files.read'] })
      expect((await refusalOf(narrowed.text.grep({ pattern: 'a' }))).reason).toBe('PERMISSION_DENIED')
      expect((await refusalOf(narrowed.text.glob({ patterns: ['*'] }))).reason).toBe('PERMISSION_DENIED')
      expect((await refusalOf(narrowed.text.readLines({ path: '/README.md' }))).reason).toBe(
        'PERMISSION_DENIED',
      )
    })
  })
})

describe.skipIf(!hasGit)('a search', () => {
  test('finds the lines that git grep finds', { timeout: 900_000 }, async () => {
    const path = mkdtempSync(join(tmpdir(), 'search-git-'))
    const engine = await openEngine()
    const line = fc.constantFrom(
      'foo',
      'foo bar',
      'Foo_bar',
      ' bar(x)',
      'a.b',
      '',
      'x foo.',
      'été foo',
      '$1',
      'aab\tb',
    )
    const content = fc
      .tuple(fc.array(line, { maxLength: 9 }), fc.boolean())
      .map(([lines, ends]) => lines.join('\n') + (ends ? '\n' : ''))
    const names = fc.constantFrom('a.ts', 'b.js', 'd/c.ts', 'd/e/f.md')
    const trees = fc.dictionary(names, content, { minKeys: 1, noNullPrototype: true })
    const pattern = fc.constantFrom(
      'foo',
      'bar',
      '^foo',
      'foo$',
      'fo+',
      '(foo|bar)',
      'a.b',
      '[a-z]+_',
      'x.*f',
      'a*b',
      '[^f]oo',
    )
    const options = fc.record({
      literal: fc.boolean(),
      ignoreCase: fc.boolean(),
      context: fc.constantFrom(0, 0, 1, 2),
    })
    const git = (args: readonly string[]): string =>
      spawnSync('git', args, { cwd: path, env: gitEnvironment }).stdout.toString()
    await fc.assert(
      fc.asyncProperty(trees, pattern, options, async (files, wanted, { literal, ignoreCase, context }) => {
        for (const [name, text] of Object.entries(files)) {
          mkdirSync(dirname(join(path, name)), { recursive: true })
          writeFileSync(join(path, name), text)
        }
        const session = await engine.sessions.create({
          files: Object.fromEntries(Object.entries(files).map(([name, text]) => [`/${name}`, text])),
        })
        const { lines } = await session.text.grep({ pattern: wanted, literal, ignoreCase, context })
        const flags = [
          literal ? '-F' : '-E',
          ...(ignoreCase ? ['-i'] : []),
          ...(context > 0 ? [`-C${context}`] : []),
        ]
        const names = Object.keys(files).sort()
        const printed = git(['grep', '--no-index', '-n', ...flags, '-e', wanted, '--', ...names])
        // `formatMatches` does not know that context was wanted, if there is none.
        const expected = lines.every(({ isMatch }) => isMatch) ? printed.replaceAll(/^--\n/gm, '') : printed
        const found = formatMatches(lines).replaceAll(/^\//gm, '')
        expect(found === '' ? '' : `${found}\n`).toBe(expected)
        await session.delete()
      }),
      { seed, numRuns: runs(500) },
    )
    await engine.close()
    rmSync(path, { recursive: true, force: true })
  })
})

// `git grep` also finds one after the last line.
test('a search for empty lines finds none after the last line', async () => {
  const engine = await openEngine()
  const session = await engine.sessions.create({ files: { '/a': 'foo\n', '/b': 'foo\n\nbar\n', '/c': '' } })
  const { lines } = await session.text.grep({ pattern: '^$' })
  expect(formatMatches(lines)).toBe('/b:2:')
  await engine.close()
})
