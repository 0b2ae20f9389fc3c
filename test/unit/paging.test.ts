/** Page sizes and page tokens. */
import { expect, test } from 'vitest'
import { limits } from '../../src/engine/base/limits.js'
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

test('a token is only valid for its own listing', () => {
  const token = encodePageToken('files', 'key\0ü')
  expect(parsePageToken('files', token)).toBe('key\0ü')
  expect(parsePageToken('files', '')).toBe(undefined)
  const longer = Buffer.from(JSON.stringify(['files', 'key', 1])).toString('base64url')
  const number = Buffer.from(JSON.stringify(['files', 1])).toString('base64url')
  for (const wrong of [encodePageToken('other', 'key'), longer, number, 'e', '{}', token.slice(0, -2), 1])
    expect(() => parsePageToken('files', wrong as string)).toThrow('is not a page token of this listing')
})
