import { cp, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { segmentHeaderBytes } from '../../src/adapters/level/log/segment-format.js'
import { randomWords } from '../../src/testing.js'
import { seed, size, stepOf } from '../support/seed.js'
import { PlainStore, blobOf, openSmall, readContents, reasonOf, sessionId } from '../support/level-world.js'
import type { StoredContents } from '../support/level-world.js'

/** 10,000 with FORKSPACE_TEST_SIZE=50. */
const flips = 120 * size
const sessions = [sessionId(1), sessionId(2), sessionId('gone')]

let directory: string
let expected: StoredContents
let hashes: string[]
const images: Record<'closed' | 'killed', string> = { closed: '', killed: '' }

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'level-damage-'))
  images.closed = join(directory, 'closed')
  images.killed = join(directory, 'killed')
  const plain = new PlainStore()
  const data = join(directory, 'data')
  let store = await openSmall(data)
  const write = async (from: number, to: number): Promise<void> => {
    for (let n = from; n < to; n++) {
      const commit = {
        events: [{ sessionId: sessions[n % 2]!, seq: Math.floor(n / 2) + 1, body: [n, 'event'] }],
        put: [
          [`k${n % 100}`, `value ${n}`],
          [`é${n % 30}`, 'x'.repeat(n % 50)],
        ] as const,
        ...(n % 5 === 0 && { blobs: [blobOf(n, n % 60 === 0 ? 70_000 : 300)] }),
        ...(n % 7 === 0 && { del: [`k${(n * 3) % 100}`] }),
      }
      plain.apply(commit)
      expect(await store.commit(commit)).toBe(true)
    }
  }
  await write(0, 150)
  const gone = { events: [1, 2, 3].map((seq) => ({ sessionId: sessions[2]!, seq, body: [seq] })) }
  const deletion = { deleteEvents: [sessions[2]!], deleteBlobs: [blobOf(5, 300).hash] }
  for (const commit of [gone, deletion]) {
    plain.apply(commit)
    await store.commit(commit)
  }
  await store.reclaim()
  await store.close()
  store = await openSmall(data)
  await write(150, 300)
  await cp(data, images.killed, { recursive: true })
  await store.close()
  await cp(data, images.closed, { recursive: true })
  expected = plain.contents(sessions)
  hashes = Object.keys(expected.blobs)
})

afterAll(() => rm(directory, { recursive: true, force: true }))

/** Opens the store and reads everything, twice, because the first opening must not hide the damage. */
async function outcome(data: string): Promise<string> {
  const outcomes: string[] = []
  for (let times = 0; times < 2; times++) {
    const opened = await openSmall(data).catch(reasonOf)
    if (typeof opened === 'string') {
      outcomes.push(`refused: ${opened}`)
      continue
    }
    const found = await readContents(opened, sessions, hashes).catch(reasonOf)
    await opened.close()
    if (typeof found === 'string') outcomes.push(`unreadable: ${found}`)
    else {
      if (!isDeepStrictEqual(found, expected)) throw new Error('something else was read than was written')
      outcomes.push('right')
    }
  }
  return outcomes.join(', then ')
}

describe('a flipped bit', () => {
  test('is never read as correct data', { timeout: 600_000 }, async () => {
    const random = randomWords(seed)
    const files = (await readdir(images.closed, { recursive: true, withFileTypes: true })).filter((entry) =>
      entry.isFile(),
    )
    const counts: Record<string, number> = {}
    for (let n = 0; n < flips; n++) {
      // The first flip is in the header of a segment, so that at least one opening fails.
      const file = n === 0 ? files.find((one) => one.name.endsWith('.seg'))! : files[random() % files.length]!
      const name = join(file.parentPath, file.name).slice(images.closed.length + 1)
      const bytes = await readFile(join(images.closed, name))
      if (bytes.length === 0) continue
      const at = random() % (n === 0 ? segmentHeaderBytes : bytes.length)
      const change = random() % 3 === 0 ? random() % 255 : 1 << (random() % 8)
      bytes[at]! ^= change === 0 ? 1 : change
      const data = join(directory, 'flipped')
      await cp(images.closed, data, { recursive: true })
      await writeFile(join(data, name), bytes)
      const result = await outcome(data).catch((error: unknown) => {
        throw new Error(`seed ${seed}: byte ${at} of ${name} changed by ${change}`, { cause: error })
      })
      const kind = `${name.split('/')[0]}: ${result}`
      counts[kind] = (counts[kind] ?? 0) + 1
      await rm(data, { recursive: true })
    }
    expect(Object.keys(counts).some((kind) => kind.startsWith('segments: refused'))).toBe(true)
  })
})

describe('a missing file', () => {
  test('is rejected or rebuilt', { timeout: 120_000 }, async () => {
    const table: Record<string, string> = {}
    for (const [state, image] of Object.entries(images)) {
      const names = (await readdir(image, { recursive: true })).sort()
      for (const name of names.filter((_, index) => index % stepOf(2) === 0)) {
        const data = join(directory, 'missing')
        await cp(image, data, { recursive: true })
        await rm(join(data, name), { recursive: true })
        table[`${state} ${name}`] = await outcome(data)
        await rm(data, { recursive: true })
      }
    }
    for (const [file, result] of Object.entries(table)) {
      const isTruth = /forkspace\.json$| segments/.test(file)
      const wanted = isTruth ? 'refused: DATA_LOSS, then refused: DATA_LOSS' : 'right, then right'
      expect([file, result]).toEqual([file, wanted])
    }
  })
})
