import { Buffer } from 'node:buffer'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  openEngine,
  type ChangedFile,
  type Diff,
  type Engine,
  type Session,
  type Storage,
} from '../../src/index.js'
import { storages } from '../support/storages.js'

const numbered = (from: number, to: number): string =>
  Array.from({ length: to - from }, (_, i) => `line ${from + i}\n`).join('')

async function listed(items: AsyncIterable<ChangedFile>): Promise<ChangedFile[]> {
  const all: ChangedFile[] = []
  for await (const item of items) all.push(item)
  return all
}

async function summary(diff: Diff, options?: Parameters<Diff['files']>[0]): Promise<unknown[][]> {
  return (await listed(diff.files(options))).map((file) => [
    file.oldPath === undefined ? file.path : `${file.oldPath} => ${file.path}`,
    file.change,
    file.additions,
    file.deletions,
  ])
}

describe.each(storages)('the content of a diff on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'diff-files-'))
    storage = makeStorage(directory)
    engine = await openEngine({ storage })
    session = await engine.sessions.create({
      files: { '/a.ts': numbered(0, 20), '/b/moved': numbered(50, 80), '/gone': 'x\n', '/bytes': 'a\0b' },
    })
    const { promises } = session.fs
    await promises.symlink('a.ts', '/link')
    await session.checkpoint({ checkpointLabel: 'before' })
    await promises.writeFile('/a.ts', numbered(0, 20).replace('line 9\n', 'nine\nand\n'))
    await promises.mkdir('/c')
    await promises.rename('/b/moved', '/c/moved')
    await promises.rm('/gone')
    await promises.writeFile('/bytes', 'a\0c')
    await promises.writeFile('/new.md', 'one\ntwo')
    await promises.rm('/link')
    await promises.symlink('b', '/link')
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  test('lists files with renames, lines, modes and hashes, also after reopening', async () => {
    if (lasting) {
      await engine.close()
      engine = await openEngine({ storage })
      session = await engine.sessions.open(session.id)
    }
    const diff = session.diff({ checkpointLabel: 'before' })
    expect(await summary(diff)).toEqual([
      ['/a.ts', 'modified', 2, 1],
      ['/bytes', 'modified', 0, 0],
      ['/b/moved => /c/moved', 'renamed', 0, 0],
      ['/gone', 'removed', 0, 1],
      ['/link', 'modified', 1, 1],
      ['/new.md', 'added', 2, 0],
    ])
    const [first, bytes, , gone] = await listed(diff.files())
    expect(first).toEqual({
      path: '/a.ts',
      change: 'modified',
      kind: 'file',
      oldMode: 0o644,
      mode: 0o644,
      oldHash: expect.stringMatching(/^sha256:/),
      hash: await session.files.contentHash('/a.ts'),
      isBinary: false,
      isTruncated: false,
      additions: 2,
      deletions: 1,
    })
    expect(bytes).toMatchObject({ isBinary: true })
    expect(Object.keys(gone ?? {})).not.toContain('hash')
    expect(await diff.stats()).toEqual({
      files: 6,
      additions: 5,
      deletions: 3,
      binaryFiles: 1,
      truncatedFiles: 0,
    })
    expect(await diff.counts()).toEqual({ added: 3, removed: 2, modified: 3 })
  })

  test('has hunks with the wanted context', async () => {
    const diff = session.diff({ checkpointLabel: 'before' })
    const [file] = await listed(diff.files({ hunks: true, context: 1, globs: ['*.ts'] }))
    expect(file?.hunks).toEqual([
      {
        oldStart: 9,
        oldLines: 3,
        newStart: 9,
        newLines: 4,
        lines: [' line 8', '-line 9', '+nine', '+and', ' line 10'],
      },
    ])
    const [added] = await listed(diff.files({ hunks: true, globs: ['/new.*'] }))
    expect(added?.hunks?.[0]?.lines).toEqual(['+one', '+two', '\\ No newline at end of file'])
  })

  test('finds renames as the option says', async () => {
    await session.files.write({ path: '/c/moved', content: `${numbered(50, 79)}other\n` })
    const diff = session.diff({ checkpointLabel: 'before' })
    const globs = ['/b/**', '/c/**']
    expect(await summary(diff, { globs })).toEqual([
      ['/b/moved', 'removed', 0, 30],
      ['/c/moved', 'added', 30, 0],
    ])
    expect(await summary(diff, { globs, renames: { similarity: 60 } })).toEqual([
      ['/b/moved => /c/moved', 'renamed', 1, 1],
    ])
    await session.files.write({ path: '/c/moved', content: numbered(50, 80) })
    expect(
      await summary(session.diff({ checkpointLabel: 'before' }), { globs, renames: 'none' }),
    ).toHaveLength(2)
  })

  test('a file over a limit is truncated', async () => {
    await session.files.write({ path: '/large', content: Buffer.alloc(8 * 2 ** 20 + 1, 'x') })
    await session.files.write({ path: '/lines', content: '\n'.repeat(500_001) })
    const diff = session.diff({ checkpointLabel: 'before' })
    const files = await listed(diff.files({ globs: ['/l*s', '/large'] }))
    expect(files.map(({ path, isTruncated, isBinary }) => [path, isTruncated, isBinary])).toEqual([
      ['/large', true, false],
      ['/lines', true, false],
    ])
    const patches: string[] = []
    for await (const bytes of diff.patch({ globs: ['/l*s', '/large'] }))
      patches.push(Buffer.from(bytes).toString())
    expect(patches[0]).toContain('Binary files differ')
    expect(patches[1]).toContain('GIT binary patch\nliteral 500001\n')
  })

  test.each([
    ['a negative context', { context: -1 }, /context: must be a whole number from 0 to 1000; it is -1/],
    ['an unknown kind of renames', { renames: 'all' }, /renames: must be 'exact', 'none' or/],
    [
      'no similarity',
      { renames: { similarity: 0 } },
      /renames.similarity: must be a whole number from 1 to 100/,
    ],
    ['an unknown key of renames', { renames: { similar: 5 } }, /renames.similar: unknown key/],
    ['globs that are no array', { globs: 'a' }, /globs: must be an array/],
    ['a long glob', { globs: ['['.repeat(5000)] }, /globs/],
    ['an unknown option', { unknown: 1 }, /unknown: unknown key/],
  ])('rejects %s', async (_case, options, message) => {
    await expect(listed(session.diff().files(options as never))).rejects.toThrow(message)
  })

  test('a disposed diff is not read', async () => {
    const diff = session.diff()
    diff[Symbol.dispose]()
    for (const read of [diff.stats(), diff.counts(), listed(diff.files()), diff.patch().next()])
      await expect(read).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
  })
})
