/** Page sizes and page tokens. */
import { expect, test } from 'vitest'
import { limits, memoryStorage, openEngine } from '../../src/index.js'
import { fixedEnvironment } from '../../src/testing.js'
import { lowerBound } from '../support/lower-bound.js'
import { visitPaths } from '../../src/engine/tree/cursor.js'
import { Symlink, type Dir } from '../../src/engine/tree/node.js'
import type { NodeLoader } from '../../src/engine/tree/node-loader.js'
import { emptyRoot, Tree } from '../../src/engine/tree/tree.js'
import { encodePageToken, parsePageSize, parsePageToken } from '../../src/engine/base/paging.js'

test.each([
  [undefined, limits.pageSizeDefault],
  [0, limits.pageSizeDefault],
  [1, 1],
  [limits.pageSizeMax, limits.pageSizeMax],
  [limits.pageSizeMax + 1, limits.pageSizeMax],
  [Number.MAX_SAFE_INTEGER, limits.pageSizeMax],
])('a page size of %s is %i', (given, expected) => {
  expect(parsePageSize(given)).toBe(expected)
})

test.each([-1, 0.5, Number.NaN, 2 ** 53, '1'])('rejects a page size of %s', (given) => {
  expect(() => parsePageSize(given as number)).toThrow('pageSize: must be a whole number from 0')
})

test.each([
  ['', undefined, '/a /a/1 /b /b/1 /b/2 /c'],
  ['', '/a/1', '/b /b/1 /b/2 /c'],
  ['', '/a/2', '/b /b/1 /b/2 /c'],
  ['/b', undefined, '/b /b/1 /b/2'],
  ['/b/', undefined, '/b/1 /b/2'],
  ['/b/', '/b/1', '/b/2'],
  ['/b/', '/b/2', ''],
  ['/b/', '/a/5', '/b/1 /b/2'],
  ['/b/', '/b', '/b/1 /b/2'],
  ['/b/', '/c', ''],
  ['/none/', undefined, ''],
])('the paths with the prefix %j after %s are %j', (prefix, after, expected) => {
  const attributes = { ino: 1, mode: 0o755, mtime: 1, ctime: 1, birthtime: 1 }
  const loader = {} as NodeLoader
  const tree = new Tree(emptyRoot(attributes), loader)
  for (const directory of ['a', 'b']) tree.makeDir([directory], attributes)
  for (const names of [['a', '1'], ['b', '1'], ['b', '2'], ['c']])
    tree.put(names, new Symlink(2, 'target', 1), 1)
  const found: string[] = []
  visitPaths(tree.freeze(), { prefix, after }, loader, (path) => found.push(path) > 0)
  expect(found.join(' ')).toBe(expected)
})

test('a token is only valid for its own listing', () => {
  const token = encodePageToken('files', 'key\0ü')
  expect(parsePageToken('files', token)).toBe('key\0ü')
  expect(parsePageToken('files', '')).toBe(undefined)
  const longer = Buffer.from(JSON.stringify(['files', 'key', 1])).toString('base64url')
  const number = Buffer.from(JSON.stringify(['files', 1])).toString('base64url')
  for (const wrong of [encodePageToken('other', 'key'), longer, number, 'e', '{}', token.slice(0, -2), 1])
    expect(() => parsePageToken('files', wrong as string)).toThrow('is not a page token of this listing')
})

test('a page of large entries ends early, and the pages together have all of them', async () => {
  const engine = await openEngine()
  const count = 200
  const value = 'v'.repeat(limits.tagValueBytes)
  const initialTags = Object.fromEntries(
    Array.from({ length: limits.tagEntries }, (_, i) => [`k${i}`, value]),
  )
  const created: string[] = []
  for (let i = 0; i < count; i++) created.push((await engine.sessions.create({ initialTags })).id)
  const session = await engine.sessions.create()
  const directory = `/${`${'d'.repeat(250)}/`.repeat(15)}`
  const paths = Array.from({ length: limits.pathsInDetails }, (_, i) => `${directory}${i}`)
  for (let i = 0; i < 30; i++)
    await session.files.batch(paths.map((path) => ({ write: { path, content: `${i}` } })))

  for (const filter of ['', 'k1=' + value]) {
    const ids: string[] = []
    let pages = 0
    for (let pageToken = ''; pages === 0 || pageToken !== ''; pages++) {
      const page = await engine.sessions.list({ pageSize: 10_000, pageToken, ...(filter && { filter }) })
      ids.push(...page.sessions.map(({ id }) => id))
      pageToken = page.nextPageToken
    }
    expect(ids.filter((id) => id !== session.id)).toEqual(created)
    expect(pages).toBeGreaterThan(1)
  }
  const { events, nextPageToken } = await session.events.list({ pageSize: 10_000 })
  expect(JSON.stringify(events).length).toBeLessThan(limits.pageBytes + 2 ** 20)
  expect(nextPageToken).not.toBe('')
  const all: string[] = []
  for await (const { eventId } of session.events) all.push(eventId)
  expect(all).toHaveLength(31)
  await engine.close()
})

test('a page of sessions does not end early before its first session', async () => {
  const environment = fixedEnvironment({ stepMs: 0 })
  const engine = await openEngine({ environment, storage: memoryStorage({ durable: true }) })
  for (let i = 0; i < 5; i++) await engine.sessions.create({ ttlSeconds: 60 })
  environment.advance(61_000)
  const { id } = await engine.sessions.create()
  lowerBound(limits, 'pageBytes', 1)
  expect((await engine.sessions.list({ pageSize: 10 })).sessions).toMatchObject([{ id }])
  await engine.close()
})

test('a directory keeps the bound of its height when it is copied', () => {
  const attributes = { ino: 1, mode: 0o755, mtime: 1, ctime: 1, birthtime: 1 }
  const tree = new Tree(emptyRoot(attributes), {} as NodeLoader)
  for (const names of [['a'], ['a', 'b'], ['a', 'b', 'c']]) tree.makeDir(names, attributes)
  const frozen = tree.freeze()
  tree.put(['a', 'x'], new Symlink(2, 'target', 1), 2)
  tree.freeze()
  tree.put(['y'], new Symlink(3, 'target', 1), 3)
  expect(tree.root).not.toBe(frozen)
  expect([tree.root.height, (tree.find(['a']) as Dir).height]).toEqual([3, 2])
  tree.makeDir(['z'], attributes)
  tree.move(['a'], ['z', 'a'], 4)
  expect([tree.root.height, (tree.find(['z']) as Dir).height]).toEqual([4, 3])
})
