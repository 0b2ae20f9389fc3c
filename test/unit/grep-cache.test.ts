import { expect, test } from 'vitest'
import { limits } from '../../src/engine/base/limits.js'
import { GrepCache } from '../../src/engine/session/search/grep-cache.js'
import type { Dir } from '../../src/engine/tree/node.js'

const nothing = { path: '/', hits: [], skippedCount: 0 }

test('drops the results of contents before those of directories', () => {
  const cache = new GrepCache()
  const older = cache.of('older')
  const newer = cache.of('newer')
  const dir = {} as Dir
  older.keepPart(dir, nothing)
  newer.keepPart(dir, nothing)
  const content = {}
  newer.keepContent(content, 'hash', 'none')
  expect(newer.content(content, undefined)).toBe('none')
  for (let i = 0; i < 100_000; i++) newer.keepContent({}, undefined, 'none')
  expect(newer.content(content, 'hash')).toBeUndefined()
  for (const results of [older, newer]) {
    expect(results.part(dir, '/')).toBe(nothing)
    expect(results.bytes).toBeLessThanOrEqual(limits.grepCacheBytes)
  }
})

test('drops the results of older queries before those of the newest', () => {
  const cache = new GrepCache()
  const older = cache.of('older')
  const newer = cache.of('newer')
  const dir = {} as Dir
  older.keepPart(dir, nothing)
  for (let i = 0; i < 100_000; i++) newer.keepPart({} as Dir, nothing)
  newer.keepPart(dir, nothing)
  expect(newer.part(dir, '/')).toBe(nothing)
  expect(older.part(dir, '/')).toBe(nothing)
  for (let i = 0; i < 12_000; i++) newer.keepPart({} as Dir, nothing)
  expect(newer.bytes).toBeLessThanOrEqual(limits.grepCacheBytes)
  expect(older.part(dir, '/')).toBeUndefined()
})
