import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  EngineError,
  formatNumberedLines,
  openEngine,
  type Engine,
  type Session,
  type Storage,
  type TextEdit,
} from '../../src/index.js'
import { limits } from '../../src/engine/base/limits.js'
import { lowerBound } from '../support/lower-bound.js'
import { fewStorages } from '../support/storages.js'

describe.each(fewStorages)('the text of files on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'text-'))
    storage = makeStorage(directory)
    engine = await openEngine({ storage })
    session = await engine.sessions.create({ files: { '/a.txt': 'one\ntwo\nthree\n' } })
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  async function reload(): Promise<void> {
    if (!lasting) return
    const { id } = session
    await engine.close()
    engine = await openEngine({ storage })
    session = await engine.sessions.open(id)
  }

  const write = (content: string | Uint8Array, path = '/a.txt'): Promise<void> =>
    session.files.write({ path, content })
  const content = async (path = '/a.txt'): Promise<Buffer> => Buffer.from(await session.files.read({ path }))
  const read = async (path = '/a.txt'): Promise<string> => (await content(path)).toString()

  async function refusalOf(work: Promise<unknown>): Promise<EngineError> {
    const error = await work.then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    if (error instanceof EngineError) return error
    throw error ?? new Error('nothing was thrown')
  }

  describe('readLines', () => {
    test('returns all lines with facts about the file', async () => {
      const result = await session.text.readLines({ path: '/a.txt' })
      expect(result).toEqual({
        lines: ['one', 'two', 'three'].map((text, index) => ({
          lineNumber: index + 1,
          text,
          isTruncated: false,
        })),
        totalLines: 3,
        isTruncated: false,
        contentHash: await session.files.contentHash('/a.txt'),
        sizeBytes: 14,
        lineEnding: 'LF',
        hasBom: false,
      })
      expect(formatNumberedLines(result.lines)).toBe('     1\tone\n     2\ttwo\n     3\tthree')
    })

    test.each([
      [{ startLine: 2 }, [2, 3], false],
      [{ startLine: 2, endLine: 2 }, [2], false],
      [{ startLine: 2, endLine: -1 }, [2, 3], false],
      [{ limit: 2 }, [1, 2], true],
      [{ endLine: 2, limit: 2 }, [1, 2], false],
      [{ startLine: 4 }, [], false],
      [{ startLine: 3, endLine: 99 }, [3], false],
    ])('with %j returns the lines %j', async (range, numbers, isTruncated) => {
      const result = await session.text.readLines({ path: '/a.txt', ...range })
      expect(result.lines.map(({ lineNumber }) => lineNumber)).toEqual(numbers)
      expect(result.isTruncated).toBe(isTruncated)
    })

    test('counts a last line without a line end, and an empty file as no line', async () => {
      await write('one\ntwo')
      expect((await session.text.readLines({ path: '/a.txt' })).totalLines).toBe(2)
      await write('')
      expect(await session.text.readLines({ path: '/a.txt' })).toMatchObject({ lines: [], totalLines: 0 })
    })

    test('leaves out CRLF and a byte order mark', async () => {
      await write('\ufeffone\r\ntwo\r\n')
      const result = await session.text.readLines({ path: '/a.txt' })
      expect(result.lines.map(({ text }) => text)).toEqual(['one', 'two'])
      expect(result).toMatchObject({ hasBom: true, lineEnding: 'CRLF' })
      await write('one\r\ntwo\n')
      expect(await session.text.readLines({ path: '/a.txt' })).toMatchObject({ lineEnding: 'mixed' })
      await write('one')
      expect(await session.text.readLines({ path: '/a.txt' })).toMatchObject({ lineEnding: 'none' })
    })

    test('cuts long lines, but no character', async () => {
      await write('ab😀cd\n')
      const lines = async (maxLineLength: number): Promise<unknown> =>
        (await session.text.readLines({ path: '/a.txt', maxLineLength })).lines
      expect(await lines(3)).toEqual([{ lineNumber: 1, text: 'ab', isTruncated: true }])
      expect(await lines(4)).toEqual([{ lineNumber: 1, text: 'ab😀', isTruncated: true }])
      expect(await lines(6)).toEqual([{ lineNumber: 1, text: 'ab😀cd', isTruncated: false }])
    })

    test('cuts a first line after its byte order mark', async () => {
      await write('\ufeff€€\n')
      const line = async (maxLineLength: number): Promise<unknown> =>
        (await session.text.readLines({ path: '/a.txt', maxLineLength })).lines[0]
      expect(await line(1)).toEqual({ lineNumber: 1, text: '€', isTruncated: true })
      expect(await line(2)).toEqual({ lineNumber: 1, text: '€€', isTruncated: false })
    })

    test('keeps a last CR without LF, which is no line end', async () => {
      await write('one\r\ntwo\r')
      const { lines } = await session.text.readLines({ path: '/a.txt' })
      expect(lines.map(({ text }) => text)).toEqual(['one', 'two\r'])
    })

    test('shows bytes that are not UTF-8 as U+FFFD', async () => {
      await write(Buffer.from([0x61, 0xff, 0x0a]))
      expect((await session.text.readLines({ path: '/a.txt' })).lines[0]?.text).toBe('a\ufffd')
    })

    test('reads lines of a file of several blocks, also across their borders', async () => {
      const lines = Array.from({ length: 120_000 }, (_, index) => `line ${index + 1} of the file`)
      await write(`${lines.join('\n')}\n`)
      await reload()
      for (const startLine of [1, 43_000, 47_000, 119_998]) {
        const result = await session.text.readLines({ path: '/a.txt', startLine, limit: 5000 })
        expect(result.lines.map(({ text }) => text)).toEqual(lines.slice(startLine - 1, startLine + 4999))
        expect(result.totalLines).toBe(120_000)
      }
    })

    test('knows line ends that two blocks share', async () => {
      for (const [before, ending] of [
        ['\r', 'CRLF'],
        ['x', 'mixed'],
      ] as const) {
        const start = `a\r\n${'x'.repeat(limits.blockBytes - 4)}${before}`
        await write(`${start}\nlast\r\n`)
        const { lineEnding, totalLines, lines } = await session.text.readLines({
          path: '/a.txt',
          startLine: 3,
        })
        expect([lineEnding, totalLines, lines.map(({ text }) => text)]).toEqual([ending, 3, ['last']])
      }
    })

    test('refuses a directory, a missing file, and an empty range', async () => {
      expect((await refusalOf(session.text.readLines({ path: '/' }))).reason).toBe('IS_A_DIRECTORY')
      expect((await refusalOf(session.text.readLines({ path: '/none' }))).reason).toBe('PATH_NOT_FOUND')
      expect(
        (await refusalOf(session.text.readLines({ path: '/a.txt', startLine: 3, endLine: 2 }))).reason,
      ).toBe('INVALID_ARGUMENT')
      expect((await refusalOf(session.text.readLines({ path: '/a.txt', startLine: 0 }))).reason).toBe(
        'INVALID_ARGUMENT',
      )
    })
  })

  describe('edit', () => {
    test('replaces text that matches once, as one event', async () => {
      const result = await session.text.edit({ path: '/a.txt', oldText: 'two', newText: '2' })
      expect(await read()).toBe('one\n2\nthree\n')
      expect(result).toEqual({
        replacementCount: 1,
        changedLines: [{ startLine: 2, endLine: 2 }],
        contentHash: await session.files.contentHash('/a.txt'),
        sizeBytes: 12,
      })
      const { events } = await session.events.list()
      expect(events.at(-1)).toMatchObject({
        eventType: 'v1.FileSystemService.EditFile',
        details: { path: '/a.txt', replacementCount: 1 },
      })
      await reload()
      expect(await read()).toBe('one\n2\nthree\n')
    })

    test('makes several edits in order as one event', async () => {
      const before = (await session.events.list()).events.length
      const result = await session.text.edit({
        path: '/a.txt',
        edits: [
          { oldText: 'one', newText: 'zero\none' },
          { oldText: 'three\n', newText: 'tree\n' },
          { oldText: 'zero', newText: '0' },
        ],
      })
      expect(await read()).toBe('0\none\ntwo\ntree\n')
      expect(result.changedLines).toEqual([
        { startLine: 1, endLine: 2 },
        { startLine: 4, endLine: 4 },
      ])
      expect((await session.events.list()).events.length).toBe(before + 1)
    })

    describe('with context, returns the changed lines', () => {
      const hunksOf = async (content: string, edits: TextEdit[], context: number, dryRun = false) => {
        await write(content)
        const { hunks } = await session.text.edit({ path: '/a.txt', edits, context, dryRun })
        return hunks
      }
      const ten = Array.from({ length: 10 }, (_, index) => `line ${index + 1}\n`).join('')

      test('and the lines around them', async () => {
        const edits = [{ oldText: 'line 5', newText: 'five\nand a half' }]
        expect(await hunksOf(ten, edits, 1)).toEqual([
          { startLine: 4, lines: ['line 4', 'five', 'and a half', 'line 6'] },
        ])
        expect(await hunksOf(ten, edits, 0)).toEqual([{ startLine: 5, lines: ['five', 'and a half'] }])
      })

      test('up to the ends of the file', async () => {
        const edits = [
          { oldText: 'line 1\n', newText: 'first\n' },
          { oldText: 'line 10\n', newText: 'last' },
        ]
        expect(await hunksOf(ten, edits, 2)).toEqual([
          { startLine: 1, lines: ['first', 'line 2', 'line 3'] },
          { startLine: 8, lines: ['line 8', 'line 9', 'last'] },
        ])
      })

      test('once where the lines of two changes touch', async () => {
        const edits = [
          { oldText: 'line 3', newText: '3' },
          { oldText: 'line 6', newText: '6' },
        ]
        expect(await hunksOf(ten, edits, 1)).toEqual([
          { startLine: 2, lines: ['line 2', '3', 'line 4', 'line 5', '6', 'line 7'] },
        ])
        expect(await hunksOf(ten, edits, 5)).toEqual([
          {
            startLine: 1,
            lines: [
              'line 1',
              'line 2',
              '3',
              'line 4',
              'line 5',
              '6',
              'line 7',
              'line 8',
              'line 9',
              'line 10',
            ],
          },
        ])
      })

      test('as the line in the place of removed ones', async () => {
        const edits = [{ oldText: 'line 5\n', newText: '' }]
        expect(await hunksOf(ten, edits, 1)).toEqual([
          { startLine: 4, lines: ['line 4', 'line 6', 'line 7'] },
        ])
        expect(await hunksOf(ten, edits, 0)).toEqual([{ startLine: 5, lines: ['line 6'] }])
        expect(await hunksOf(ten, [{ oldText: 'line 10\n', newText: '' }], 1)).toEqual([
          { startLine: 9, lines: ['line 9'] },
        ])
        expect(await hunksOf('all', [{ oldText: 'all', newText: '' }], 3)).toEqual([])
      })

      test('without line ends and byte order mark, as characters', async () => {
        const edits = [{ oldText: 'ä', newText: 'ö' }]
        expect(await hunksOf('\ufeffone ä\r\ntwo ✓\r\n', edits, 3)).toEqual([
          { startLine: 1, lines: ['one ö', 'two ✓'] },
        ])
      })

      test('cut where a line is long, and not more than 1,000', async () => {
        const long = '✓'.repeat(3000)
        expect(await hunksOf(`${long}\nx\n`, [{ oldText: 'x', newText: 'y' }], 1)).toEqual([
          { startLine: 1, lines: ['✓'.repeat(2000), 'y'] },
        ])
        const many = await hunksOf('a\n'.repeat(3000), [{ oldText: 'a', newText: 'b', all: true }], 100)
        expect(many).toEqual([{ startLine: 1, lines: Array.from({ length: 1000 }, () => 'b') }])
        const apart = await hunksOf('a\n\n\n'.repeat(3000), [{ oldText: 'a', newText: 'b', all: true }], 0)
        expect(apart).toHaveLength(1000)
      })

      test('also when nothing is changed by dryRun', async () => {
        const edits = [{ oldText: 'line 5', newText: 'five' }]
        expect(await hunksOf(ten, edits, 0, true)).toEqual([{ startLine: 5, lines: ['five'] }])
        expect(await read()).toBe(ten)
      })

      test('and refuses a context that is no number from 0 to 100', async () => {
        for (const context of [-1, 101, 1.5, '1' as unknown as number]) {
          const request = { path: '/a.txt', oldText: 'one', newText: '1', context }
          expect(await refusalOf(session.text.edit(request))).toMatchObject({
            reason: 'INVALID_ARGUMENT',
            details: { field: 'context' },
          })
        }
      })
    })

    test('changes nothing when one of several edits fails', async () => {
      const edits = [
        { oldText: 'one', newText: '1' },
        { oldText: 'none', newText: '' },
      ]
      const error = await refusalOf(session.text.edit({ path: '/a.txt', edits }))
      expect(error.reason).toBe('NO_MATCH')
      expect(error.details['field']).toBe('edits[1]')
      expect(await read()).toBe('one\ntwo\nthree\n')
    })

    test('takes the new text literally', async () => {
      await session.text.edit({ path: '/a.txt', oldText: 'two', newText: "$& $1 $$ $` $'" })
      expect(await read()).toBe("one\n$& $1 $$ $` $'\nthree\n")
    })

    test('replaces all matches with all', async () => {
      await write('a a\nb\na\n')
      const result = await session.text.edit({ path: '/a.txt', oldText: 'a', newText: 'aa', all: true })
      expect(await read()).toBe('aa aa\nb\naa\n')
      expect(result).toMatchObject({
        replacementCount: 3,
        changedLines: [
          { startLine: 1, endLine: 1 },
          { startLine: 3, endLine: 3 },
        ],
      })
    })

    test('refuses text that matches several times, also overlapping, with the lines', async () => {
      await write('x\naaa\ny\n')
      const error = await refusalOf(session.text.edit({ path: '/a.txt', oldText: 'aa', newText: '' }))
      expect(error.reason).toBe('NOT_UNIQUE')
      expect(error.details).toMatchObject({ matchCount: '2', lineNumbers: '2,2' })
      await write('a\nb\na\n')
      const second = await refusalOf(session.text.edit({ path: '/a.txt', oldText: 'a\n', newText: '' }))
      expect(second.reason).toBe('NOT_UNIQUE')
      expect(second.message).toContain('at lines 1, 3')
    })

    test('shows the nearest lines of text that does not match', async () => {
      await write('function add(a, b) {\n  return a + b\n}\n')
      const edit = { path: '/a.txt', oldText: 'function add(a, b) {\n  return a - b\n', newText: '' }
      const error = await refusalOf(session.text.edit(edit))
      expect(error.reason).toBe('NO_MATCH')
      expect(error.details).toMatchObject({ lineNumbers: '1,2,3' })
      expect(error.message).toContain('2: "  return a + b"')
      const similar = await refusalOf(
        session.text.edit({ path: '/a.txt', oldText: 'return a * b', newText: '' }),
      )
      expect(similar.reason).toBe('NO_MATCH')
      expect(similar.details).toMatchObject({ lineNumbers: '2' })
    })

    test('keeps CRLF, a byte order mark and bytes that are not UTF-8', async () => {
      await write(Buffer.concat([Buffer.from('\ufeffone\r\ntwo\r\n'), Buffer.from([0xff, 0xc3, 0x0d, 0x0a])]))
      await session.text.edit({ path: '/a.txt', oldText: 'one\ntwo\n', newText: 'ein\nzwei\ndrei\n' })
      expect(await content()).toEqual(
        Buffer.concat([Buffer.from('\ufeffein\r\nzwei\r\ndrei\r\n'), Buffer.from([0xff, 0xc3, 0x0d, 0x0a])]),
      )
      await session.text.edit({ path: '/a.txt', oldText: '\ufeffein', newText: 'eins' })
      expect((await content()).subarray(0, 7).toString()).toBe('\ufeffeins')
    })

    test('matches across both kinds of line ends, and keeps the kind at the match', async () => {
      await write('a\r\nb\r\nc\nd\ne\n')
      await session.text.edit({ path: '/a.txt', oldText: 'a\nb\n', newText: 'A\nB\n' })
      await session.text.edit({ path: '/a.txt', oldText: 'd\ne\n', newText: 'D\nE\n' })
      expect(await read()).toBe('A\r\nB\r\nc\nD\nE\n')
    })

    test('takes matches with LF and with CRLF in a file with both for equal', async () => {
      await write('a\nb\r\na\r\nb\n')
      const edit = { path: '/a.txt', oldText: 'a\nb', newText: 'A\nB' }
      expect((await refusalOf(session.text.edit(edit))).reason).toBe('NOT_UNIQUE')
      expect((await session.text.edit({ ...edit, all: true })).replacementCount).toBe(2)
      expect(await read()).toBe('A\nB\r\nA\r\nB\n')
      await session.text.edit({ ...edit, oldText: 'A\r\nB', newText: 'c' })
      expect(await read()).toBe('A\nB\r\nc\n')
    })

    test('takes an edit with CRLF in a file with LF', async () => {
      await session.text.edit({ path: '/a.txt', oldText: 'one\r\ntwo\r\n', newText: '1\r\n2\r\n' })
      expect(await read()).toBe('1\n2\nthree\n')
    })

    test('tolerates white space only on request, and keeps the indentation of the file', async () => {
      await write('if (a) {\n    b()  \n\n    c()\n}\n')
      const edit = { path: '/a.txt', oldText: 'b()\n\nc()', newText: 'b()\nif (c) {\n  c()\n}' }
      expect((await refusalOf(session.text.edit(edit))).reason).toBe('NO_MATCH')
      await session.text.edit({ ...edit, whitespace: 'tolerant' })
      expect(await read()).toBe('if (a) {\n    b()\n    if (c) {\n      c()\n    }\n}\n')
    })

    test('keeps the line end at a tolerant match in a file with both', async () => {
      await write('a\n  b  \r\n  c\r\n')
      const edit = { path: '/a.txt', whitespace: 'tolerant' } as const
      await session.text.edit({ ...edit, oldText: 'b\nc\n', newText: 'x\ny\n' })
      expect(await read()).toBe('a\n  x\r\n  y\r\n')
      await session.text.edit({ ...edit, oldText: '\tx', newText: '\tz' })
      expect(await read()).toBe('a\n  z\r\n  y\r\n')
    })

    test('prefers an exact match to a tolerant one, and refuses several tolerant ones', async () => {
      await write('  a\na\n')
      const edit = { path: '/a.txt', oldText: 'a\n', newText: 'b\n', whitespace: 'tolerant' } as const
      expect((await refusalOf(session.text.edit(edit))).reason).toBe('NOT_UNIQUE')
      await write('  a \n\ta \n')
      expect((await refusalOf(session.text.edit(edit))).reason).toBe('NOT_UNIQUE')
      await session.text.edit({ ...edit, oldText: '  a\n' })
      expect(await read()).toBe('b\n\ta \n')
    })

    test('checks the hash before the edit', async () => {
      const { contentHash } = await session.text.readLines({ path: '/a.txt' })
      const edit = { path: '/a.txt', oldText: 'two', newText: '2', expectedHash: contentHash }
      const result = await session.text.edit(edit)
      expect((await refusalOf(session.text.edit(edit))).reason).toBe('HASH_MISMATCH')
      await session.text.edit({ ...edit, oldText: '2', newText: 'two', expectedHash: result.contentHash })
    })

    test('changes nothing with dryRun, and gives the same answer', async () => {
      const edit = { path: '/a.txt', oldText: 'two', newText: '2' }
      const tried = await session.text.edit({ ...edit, dryRun: true })
      expect(await read()).toBe('one\ntwo\nthree\n')
      expect(await session.text.edit(edit)).toEqual(tried)
    })

    test('keeps mode and attributes, and writes through a symlink', async () => {
      await session.files.setMode({ path: '/a.txt', mode: 0o755 })
      await session.files.setXattr({ path: '/a.txt', name: 'user.x', value: 'y' })
      await session.files.createSymlink({ linkPath: '/link', target: '/a.txt' })
      await session.text.edit({ path: '/link', oldText: 'two', newText: '2' })
      expect((await session.files.stat({ path: '/a.txt' })).mode).toBe(0o755)
      expect((await session.files.listXattrs({ path: '/a.txt' })).names).toEqual(['user.x'])
      expect((await session.files.stat({ path: '/link', followSymlinks: false })).kind).toBe('symlink')
      expect(await read()).toBe('one\n2\nthree\n')
    })

    test('records no event when nothing changes', async () => {
      const before = (await session.events.list()).events.length
      await session.text.edit({ path: '/a.txt', oldText: 'two', newText: 'two' })
      expect((await session.events.list()).events.length).toBe(before)
    })

    test('takes effect in the order of the calls, also for a large file', async () => {
      await write(`${'x\n'.repeat(600_000)}end\n`)
      await reload()
      const edited = session.text.edit({ path: '/a.txt', oldText: 'end', newText: 'END' })
      const written = write('new')
      expect((await edited).changedLines).toEqual([{ startLine: 600_001, endLine: 600_001 }])
      await written
      expect(await read()).toBe('new')
    })

    test('is linear for text that almost matches everywhere', async () => {
      // A search in quadratic time would exceed the time limit of a test.
      await write('a'.repeat(4_000_000))
      const oldText = `b${'a'.repeat(500_000)}`
      expect((await refusalOf(session.text.edit({ path: '/a.txt', oldText, newText: '' }))).reason).toBe(
        'NO_MATCH',
      )
    })

    test('refuses too many replacements of all edits together, and too many edits of a large file', async () => {
      await write('a'.repeat(600_000))
      const edits = ['a', 'b'].map((oldText) => ({
        oldText,
        newText: oldText === 'a' ? 'b' : 'a',
        all: true,
      }))
      expect(await refusalOf(session.text.edit({ path: '/a.txt', edits }))).toMatchObject({
        reason: 'TOO_LARGE',
        details: { field: 'edits', limit: '1000000' },
      })
      await write('a'.repeat(2 ** 21))
      const many = Array.from({ length: 513 }, () => ({ oldText: 'b', newText: '' }))
      expect(await refusalOf(session.text.edit({ path: '/a.txt', edits: many }))).toMatchObject({
        reason: 'TOO_LARGE',
        details: { field: 'edits', limit: '512' },
      })
    })

    test('refuses a result that is too large with its line ends', async () => {
      lowerBound(limits, 'textFileBytes', 20)
      await write('aaaa\r\nbbbb\r\n')
      const edit = { path: '/a.txt', oldText: 'aaaa' }
      const refused = await refusalOf(session.text.edit({ ...edit, newText: '1\n2\n3\n4\n5' }))
      expect([refused.reason, refused.details['limit']]).toEqual(['TOO_LARGE', '20'])
      await session.text.edit({ ...edit, newText: '1\n2\n3\n4' })
      expect(await read()).toBe('1\r\n2\r\n3\r\n4\r\nbbbb\r\n')
    })

    test('refuses requests with a wrong form', async () => {
      const edit = (request: object): Promise<unknown> => session.text.edit({ path: '/a.txt', ...request })
      expect((await refusalOf(edit({}))).reason).toBe('INVALID_ARGUMENT')
      expect((await refusalOf(edit({ oldText: '', newText: 'a' }))).reason).toBe('INVALID_ARGUMENT')
      expect((await refusalOf(edit({ oldText: 'one' }))).reason).toBe('INVALID_ARGUMENT')
      expect((await refusalOf(edit({ edits: [], newText: 'a' }))).reason).toBe('INVALID_ARGUMENT')
      expect((await refusalOf(edit({ edits: [] }))).reason).toBe('INVALID_ARGUMENT')
      expect((await refusalOf(edit({ edits: [{ oldText: 'a', newText: 'b', regex: true }] }))).reason).toBe(
        'INVALID_ARGUMENT',
      )
      expect((await refusalOf(edit({ oldText: 'a'.repeat(2 ** 20 + 1), newText: '' }))).reason).toBe(
        'TOO_LARGE',
      )
      expect((await refusalOf(edit({ oldText: 'one', newText: '', whitespace: 'none' }))).reason).toBe(
        'INVALID_ARGUMENT',
      )
    })

    test('needs the rights to read and to write', async () => {
      const edit = { path: '/a.txt', oldText: 'two', newText: '2' }
      for (const capability of ['files.read', 'files.write'] as const)
        expect((await refusalOf(session.narrow({ without: [capability] }).text.edit(edit))).reason).toBe(
          'PERMISSION_DENIED',
        )
    })
  })
})
