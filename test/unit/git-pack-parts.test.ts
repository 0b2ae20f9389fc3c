/** The components that limit the cost of reading a pack. */
import { describe, expect, test } from 'vitest'
import { gitLimits } from '../../src/adapters/git/limits.js'
import { ByteCache } from '../../src/adapters/git/pack/byte-cache.js'
import { PendingDeltas } from '../../src/adapters/git/pack/pending-deltas.js'
import { PackBudget } from '../../src/adapters/git/pack/pack-budget.js'
import { PackEntries } from '../../src/adapters/git/pack/pack-entries.js'
import { PackedObjects } from '../../src/adapters/git/pack/packed-objects.js'
import { memoryBytes } from '../../src/adapters/git/pack/random-bytes.js'
import { TimeSlice, type GitObject } from '../../src/engine/ports.js'
import { chunksOf, readAll } from '../support/pack-oracle.js'
import { idDelta, idOf, makeDelta, offsetDelta, plainEntry, rawPack } from '../support/raw-pack.js'
import { isLong } from '../support/seed.js'

const tooLarge = expect.objectContaining({ reason: 'GIT_TOO_LARGE' }) as unknown

describe('the budget of a pack', () => {
  test('limits the received bytes', () => {
    const budget = new PackBudget()
    budget.receive(gitLimits.packBytes - 1)
    budget.receive(1)
    expect(() => budget.receive(1)).toThrow(tooLarge)
  })

  test('grows with the received bytes', () => {
    const budget = new PackBudget()
    for (let times = 0; times < 2; times++) budget.receive(1000)
    budget.inflate(gitLimits.inflatedBytesFree + 2000 * gitLimits.inflatedBytesPerByte)
    expect(() => budget.inflate(1)).toThrow(tooLarge)
    budget.hold(gitLimits.deltaBytesFree + 2000 * gitLimits.deltaBytesPerByte)
    expect(() => budget.hold(gitLimits.deltaBytesFree + 2000 * gitLimits.deltaBytesPerByte + 1)).toThrow(
      tooLarge,
    )
  })
})

test('taking pending deltas frees room for others', () => {
  const pending = new PendingDeltas()
  const delta = Buffer.alloc(gitLimits.pendingDeltaBytes / 2)
  for (let entry = 0; entry < 5; entry++) {
    pending.add('base', { entry, delta })
    expect(pending.take(-1, 'base')).toHaveLength(1)
  }
  pending.add('base', { entry: 5, delta })
  expect(() => pending.add('base', { entry: 6, delta })).toThrow(tooLarge)
})

test('finds exactly the entries of a pack by id among many', () => {
  const entries = new PackEntries('sha1')
  const idOf = (entry: number): string => entry.toString(16).padStart(8, '0').padEnd(40, 'a')
  expect(entries.find(idOf(0))).toBeUndefined()
  for (let entry = 0; entry < 5000; entry++) {
    entries.resolve(entries.add(entry * 10), idOf(entry), 0)
    if (entry % 512 !== 511) continue
    expect(entries.find(idOf(entry))).toBe(entry)
    expect(entries.find(idOf(entry + 1))).toBeUndefined()
  }
})

describe('a chain of deltas', () => {
  const { deltaDepth } = gitLimits
  const bodyAt = (depth: number): Buffer => Buffer.from(String(depth).padStart(8, '0'))
  const deltaAt = (depth: number): Buffer => makeDelta(8, 8, [bodyAt(depth)])
  const first = plainEntry('blob', bodyAt(0))

  /** Each delta is based on the previous entry. */
  function byOffset(deltas: number): Buffer[] {
    const entries = [first]
    for (let depth = 1; depth <= deltas; depth++)
      entries.push(offsetDelta(entries.at(-1)!.length, deltaAt(depth)))
    return entries
  }

  function byId(deltas: number): Buffer[] {
    const entries = [first]
    for (let depth = 1; depth <= deltas; depth++)
      entries.push(idDelta(idOf('blob', bodyAt(depth - 1)), deltaAt(depth)))
    return entries
  }

  const chains: [string, (deltas: number) => Buffer[]][] = [
    ['by id, each before its base', (deltas) => byId(deltas).toReversed()],
    ['by offset', byOffset],
    ['by id', byId],
  ]
  test.each(isLong ? chains : chains.slice(0, 1))(
    'in a stream is read up to the limit: %s',
    async (_, chain) => {
      const { objects } = await readAll(chunksOf(rawPack(chain(deltaDepth))))
      expect(objects.size).toBe(deltaDepth + 1)
      await expect(readAll(chunksOf(rawPack(chain(deltaDepth + 1))))).rejects.toEqual(tooLarge)
    },
  )

  test('in a stream counts depth across a base that was evicted from memory', async () => {
    const entries = byOffset(deltaDepth)
    const { baseCacheBytes, streamedBlobBytes } = gitLimits
    const filler = Buffer.alloc(streamedBlobBytes)
    for (let at = 0; at <= baseCacheBytes / streamedBlobBytes; at++) {
      filler[0] = at
      entries.push(plainEntry('blob', filler))
    }
    const distance = entries.slice(deltaDepth).reduce((sum, { length }) => sum + length, 0)
    const pack = rawPack([...entries, offsetDelta(distance, deltaAt(deltaDepth + 1))])
    const asked: string[] = []
    const getBase = (oid: string): Promise<GitObject> => {
      asked.push(oid)
      return Promise.resolve({ oid, type: 'blob', body: bodyAt(deltaDepth) })
    }
    await expect(readAll(chunksOf(pack), 'sha1', { getBase })).rejects.toEqual(tooLarge)
    expect(asked).toEqual([idOf('blob', bodyAt(deltaDepth))])
  })

  test('in a file is read up to the limit', async () => {
    const entries = byOffset(deltaDepth + 1)
    const offsets: number[] = []
    let end = 12
    for (const { length } of entries) {
      offsets.push(end)
      end += length
    }
    const open = (): PackedObjects =>
      new PackedObjects(memoryBytes(rawPack(entries)), {
        name: '',
        cache: new ByteCache(gitLimits.baseCacheBytes),
        format: 'sha1',
        slice: new TimeSlice(performance, new AbortController().signal),
        find: () => undefined,
      })
    expect(await open().open(offsets[deltaDepth]!)).toMatchObject({ body: bodyAt(deltaDepth) })
    await expect(open().open(offsets[deltaDepth + 1]!)).rejects.toEqual(tooLarge)
  })
})
