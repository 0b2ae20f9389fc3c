import { expect, test } from 'vitest'
import { gitLimits } from '../../src/adapters/git/limits.js'
import { EntryCaches } from '../../src/adapters/git/pack/stream-pack.js'

test('a cached object is given to the tenant that it is of only', () => {
  const caches = new EntryCaches()
  const entry = Buffer.from('entry')
  caches.of('acme').set('1234', entry, entry.length)
  expect(caches.of('acme').get('1234')).toBe(entry)
  expect(caches.of('other').get('1234')).toBeUndefined()
})

test('tenants share the limit of the cache', () => {
  const caches = new EntryCaches()
  const [acme, other] = [caches.of('acme'), caches.of('other')]
  const part = gitLimits.entryCacheBytes / 4
  acme.set('1', Buffer.from('1'), part)
  for (const oid of ['2', '3', '4', '5']) other.set(oid, Buffer.from(oid), part)
  expect(acme.get('1')).toBeUndefined()
  expect(other.get('5')).toEqual(Buffer.from('5'))
})
