import { expect, test } from 'vitest'
import { parseIf, tokensOf } from '../../src/adapters/webdav/if-header.js'
import { webdavLimits } from '../../src/adapters/webdav/limits.js'
import { Locks, parseTimeout } from '../../src/adapters/webdav/locks.js'

const owner = { text: 'ann', href: undefined }

function locksAt(): { locks: Locks; pass: (seconds: number) => void } {
  let nowMs = 0
  return {
    locks: new Locks(() => nowMs),
    pass: (seconds) => {
      nowMs += seconds * 1000
    },
  }
}

test('a lock ends with its time, and a refresh starts the time again', () => {
  const { locks, pass } = locksAt()
  const { token } = locks.take({ path: '/a', isDeep: false, owner, seconds: 10 })
  pass(9)
  expect(locks.refresh(token, '/a', 10)?.seconds).toBe(10)
  pass(9)
  expect(locks.at('/a')?.token).toBe(token)
  pass(1)
  expect(locks.at('/a')).toBeUndefined()
  expect(locks.refresh(token, '/a', 10)).toBeUndefined()
  expect(locks.release(token, '/a')).toBe(false)
})

test('the time of a lock has bounds', () => {
  const { locks } = locksAt()
  const of = (path: string, seconds: number | undefined): number =>
    locks.take({ path, isDeep: false, owner, seconds }).seconds
  expect([of('/a', undefined), of('/b', 4_100_000_000), of('/c', 0)]).toEqual([3600, 3600, 1])
  expect(
    ['Second-60', 'Infinite, Second-5', 'Infinite', 'Second-41000000000', 'x', undefined].map(parseTimeout),
  ).toEqual([60, 5, undefined, undefined, undefined, undefined])
})

test('the number of locks has a bound, and expired ones do not count', () => {
  const { locks, pass } = locksAt()
  const take = (index: number): unknown =>
    locks.take({ path: `/${index}`, isDeep: false, owner, seconds: 60 })
  for (let index = 0; index < webdavLimits.locks; index++) take(index)
  expect(() => take(webdavLimits.locks)).toThrow('there are already 1000 locks')
  pass(60)
  take(webdavLimits.locks)
})

test('a deep lock covers everything below it, and excludes locks there', () => {
  const { locks } = locksAt()
  const { token } = locks.take({ path: '/a', isDeep: true, owner, seconds: 60 })
  for (const path of ['/a', '/a/b', '/a/b/c']) {
    expect(locks.covering(path).map((lock) => lock.token)).toEqual([token])
    expect(() => locks.take({ path, isDeep: false, owner, seconds: 60 })).toThrow('another client')
  }
  expect(locks.covering('/ab')).toEqual([])
  expect(() => locks.take({ path: '/', isDeep: true, owner, seconds: 60 })).toThrow('another client')
  const root = locks.take({ path: '/', isDeep: false, owner, seconds: 60 })
  expect(locks.covering('/a/b').map((lock) => lock.token)).toEqual([token])
  expect(locks.below('/').map(({ path }) => path)).toEqual(['/a'])
  locks.forget('/a')
  expect(locks.covering('/a/b')).toEqual([])
  expect(locks.at('/')).toBe(root)
})

test.each<[string, unknown]>([
  ['(<urn:uuid:1>)', [[undefined, ['token urn:uuid:1']]]],
  [
    '(<a> ["e"]) (Not <b>)',
    [
      [undefined, ['token a', 'etag "e"']],
      [undefined, ['not token b']],
    ],
  ],
  [
    '</x> (<a>)(["e"]) <http://h/y> ([W/"e"])',
    [
      ['/x', ['token a']],
      ['/x', ['etag "e"']],
      ['http://h/y', ['etag W/"e"']],
    ],
  ],
  ['  (  not  <a>  )  ', [[undefined, ['not token a']]]],
])('the header If %j has lists', (header, expected) => {
  const lists = parseIf(header).map(({ tag, conditions }) => [
    tag,
    conditions.map(({ isNegated, kind, value }) => `${isNegated ? 'not ' : ''}${kind} ${value}`),
  ])
  expect(lists).toEqual(expected)
})

test.each([
  '',
  ' ',
  '(',
  ')',
  '()',
  '(<a>',
  '<a>',
  '(Not)',
  '(Not Not <a>)',
  '((<a>))',
  '(<a>) x',
  '["e"]',
  '(Nota <b>)',
  '(<a)',
  '(["e)',
])('the header If %j is refused', (header) => {
  expect(() => parseIf(header)).toThrow('RFC 4918')
})

test('a hostile header If takes time in proportion to its length', () => {
  expect(() => parseIf('('.padEnd(16_000, '"a'))).toThrow('RFC 4918')
  expect(() => parseIf(`(${'<a>'.repeat(5000)})`)).toThrow('over 100 conditions')
  expect(() => parseIf(' '.repeat(16_000))).toThrow('RFC 4918')
  expect(() => parseIf(`(<a>)${' \t'.repeat(8000)}x`)).toThrow('RFC 4918')
})

test('negated tokens are not submitted', () => {
  expect([...tokensOf(parseIf('(<a> Not <b>) (<c>)'))]).toEqual(['a', 'c'])
})
