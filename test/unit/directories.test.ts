/** Metadata of a path, directory listings in pages, and pages of a diff. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { compareUtf8 } from '../../src/engine/base/order.js'
import { callOperation } from '../../src/engine/contract.js'
import { EngineError, memoryStorage, openEngine, type Engine, type Session } from '../../src/index.js'

let engine: Engine
let session: Session

beforeEach(async () => {
  engine = await openEngine()
  session = await engine.sessions.create({
    files: { '/a.b': '', '/a/x': '1', '/a/y/z': '22', '/b': '', '/é': '', '/\u{1f600}': '' },
  })
  await session.files.createSymlink({ linkPath: '/to', target: 'a/y' })
  await session.files.link({ srcPath: '/b', dstPath: '/a/b' })
})
afterEach(() => engine.close())

async function listed(path: string, pageSize: number, recursive: boolean): Promise<string[]> {
  const names: string[] = []
  for (let pageToken: string | undefined; pageToken !== '';) {
    const page = await session.files.list({
      path,
      pageSize,
      recursive,
      ...(pageToken !== undefined && { pageToken }),
    })
    names.push(...page.entries.map(({ name, kind }) => `${name} ${kind}`))
    pageToken = page.nextPageToken
  }
  return names
}

describe('a directory', () => {
  test.each([1, 2, 3, 100])('is listed in pages of %i', async (pageSize) => {
    expect(await listed('/', pageSize, false)).toEqual([
      'a directory',
      'a.b file',
      'b file',
      'to symlink',
      'é file',
      '\u{1f600} file',
    ])
    expect(await listed('/a', pageSize, true)).toEqual(['b file', 'x file', 'y directory', 'y/z file'])
    expect(await listed('/to', pageSize, true)).toEqual(['z file'])
    expect(await listed('/', pageSize, true)).toHaveLength(10)
  })

  test('listing rejects files, missing paths and foreign page tokens', async () => {
    const { nextPageToken: pageToken } = await session.files.list({ path: '/', pageSize: 1 })
    for (const [request, reason] of [
      [{ path: '/b' }, 'NOT_A_DIRECTORY'],
      [{ path: '/none' }, 'PATH_NOT_FOUND'],
      [{ path: '/a', pageToken }, 'INVALID_ARGUMENT'],
      [{ path: '/', recursive: true, pageToken }, 'INVALID_ARGUMENT'],
      [{ path: '/', recursive: 1 as unknown as boolean }, 'INVALID_ARGUMENT'],
    ] as const)
      await expect(session.files.list(request)).rejects.toMatchObject({ reason })
  })

  test('is created with its parents and removed with its contents', async () => {
    const { files } = session
    await files.createDirectory({ path: '/p/q', recursive: true })
    await files.createDirectory({ path: '/p/q', recursive: true })
    await expect(files.createDirectory({ path: '/b', recursive: true })).rejects.toMatchObject({
      reason: 'ALREADY_EXISTS',
    })
    await files.removeDirectory({ path: '/p', recursive: true })
    await expect(files.stat({ path: '/p' })).rejects.toBeInstanceOf(EngineError)
  })
})

test('stat follows symlinks or describes them', async () => {
  const { files } = session
  const stats = session.fs.statSync('/a/b')
  expect(await files.stat({ path: '/a/b', includeContentHash: true })).toEqual({
    path: '/a/b',
    kind: 'file',
    sizeBytes: 0,
    mode: 0o644,
    inode: stats.ino,
    nlink: 2,
    mtimeMs: stats.mtimeMs,
    ctimeMs: stats.ctimeMs,
    birthtimeMs: stats.birthtimeMs,
    contentHash: await files.contentHash('/b'),
  })
  expect(await files.stat({ path: '/to' })).toMatchObject({
    path: '/a/y',
    kind: 'directory',
    contentHash: '',
  })
  expect(await files.stat({ path: '/to', followSymlinks: false })).toMatchObject({
    path: '/to',
    kind: 'symlink',
    sizeBytes: 3,
    mode: 0o777,
  })
})

test('setAttributes with the mode that a path has, or of a symlink itself, is no change', async () => {
  await session.files.setAttributes({ path: '/b', mode: 0o600 })
  const last = async (): Promise<unknown> => (await session.events.list()).events.at(-1)?.eventId
  const eventId = await last()
  for (const path of ['/b', '/a/b']) await session.files.setAttributes({ path, mode: 0o600 })
  await session.files.setAttributes({ path: '/a', mode: 0o755 })
  await session.files.setAttributes({ path: '/to', mode: 0o600, followSymlinks: false })
  await session.files.setAttributes({ path: '/b' })
  expect(await last()).toBe(eventId)
})

test('a copy of a file onto itself, by any of its names, is no change', async () => {
  const last = async (): Promise<unknown> => (await session.events.list()).events.at(-1)?.eventId
  const eventId = await last()
  for (const destinationPath of ['/b', '/a/b'])
    await session.files.copy({ sourcePath: '/b', destinationPath })
  expect(await last()).toBe(eventId)
})

test('setAttributes sets attributes, also of a symlink itself', async () => {
  const { files } = session
  await files.setAttributes({ path: '/b', mode: 0o600, mtimeMs: 1.25 })
  expect(await files.stat({ path: '/a/b' })).toMatchObject({ mode: 0o600, mtimeMs: 1.25 })
  await files.setAttributes({ path: '/to', mtimeMs: 7, followSymlinks: false })
  expect((await files.stat({ path: '/to', followSymlinks: false })).mtimeMs).toBe(7)
  expect((await files.stat({ path: '/to' })).mtimeMs).not.toBe(7)
})

test('write supports createParents and exclusive', async () => {
  const { files } = session
  const refused = (reason: string): unknown => expect.objectContaining({ reason })
  const content = 'new'
  await expect(files.write({ path: '/n/o', content, createParents: false })).rejects.toEqual(
    refused('PATH_NOT_FOUND'),
  )
  await expect(files.append({ path: '/n/o', content, createParents: false })).rejects.toEqual(
    refused('PATH_NOT_FOUND'),
  )
  await expect(files.write({ path: '/b', content, exclusive: true })).rejects.toEqual(
    refused('ALREADY_EXISTS'),
  )
  await files.copy({ sourcePath: '/a/x', destinationPath: '/b' })
  expect(session.fs.readFileSync('/a/b', 'utf8')).toBe('1')
  await expect(files.copy({ sourcePath: '/b', destinationPath: '/a/x', exclusive: true })).rejects.toEqual(
    refused('ALREADY_EXISTS'),
  )
})

test.each([1, 2, 100])('a diff is read in pages of %i', async (pageSize) => {
  const { id: sessionId, files } = session
  await files.delete({ path: '/b' })
  await files.removeDirectory({ path: '/a', recursive: true })
  await files.write({ path: '/a', content: 'a file now' })
  const whole = []
  for await (const change of session.diff()) whole.push(change)
  const paged = []
  for (let pageToken = undefined as string | undefined; pageToken !== '';) {
    const request = {
      sessionId,
      from: { base: true },
      pageSize,
      ...(pageToken !== undefined && { pageToken }),
    }
    const page = await callOperation(engine, 'diff', request)
    expect(page.changes.length).toBeLessThanOrEqual(pageSize)
    paged.push(...page.changes)
    pageToken = page.nextPageToken
  }
  expect(paged).toEqual(whole)
  expect(whole.length).toBeGreaterThan(4)
})

test('a move of a directory changes its ctime, but not that in a fork', async () => {
  const fork = await session.fork()
  const before = fork.fs.statSync('/a').ctimeMs
  await sleep(5)
  await session.files.rename({ sourcePath: '/a', destinationPath: '/moved' })
  expect(session.fs.statSync('/moved').ctimeMs).toBeGreaterThan(before)
  expect(fork.fs.statSync('/a').ctimeMs).toBe(before)
})

test.each([0, 300])(
  'names whose order of bytes differs from that of JavaScript are found after reopening, with %i others',
  async (count) => {
    const storage = memoryStorage({ durable: true })
    const others = Array.from({ length: count }, (_, index) => `n${index}`)
    const names = [...others, '\ue000', '～', '\uffff', '😀', '\u{10ffff}']
    const writing = await openEngine({ storage })
    const { id } = await writing.sessions.create({
      files: Object.fromEntries(names.map((name) => [`/d/${name}`, name])),
    })
    await writing.close()
    const engine = await openEngine({ storage })
    const session = await engine.sessions.open(id)
    for (const name of names.slice(count))
      expect(await session.fs.promises.readFile(`/d/${name}`, 'utf8')).toBe(name)
    await session.files.write({ path: '/d/\u{1f601}', content: '' })
    const found = await session.fs.promises.readdir('/d')
    expect(found).toEqual([...names, '\u{1f601}'].toSorted(compareUtf8))
    await engine.close()
  },
)
