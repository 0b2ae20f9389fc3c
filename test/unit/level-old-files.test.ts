/** Detects damage to any byte of the files that LevelDB writes. */
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ClassicLevel } from 'classic-level'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { maskedCrc32c } from '../../src/adapters/level/format-1/crc32c.js'
import { findLogDamage, logRecords } from '../../src/adapters/level/format-1/level-log.js'
import { findTableDamage } from '../../src/adapters/level/format-1/level-table.js'
import { uncompress } from '../../src/adapters/level/format-1/snappy.js'
import { randomWords } from '../../src/testing.js'
import { seed } from '../support/seed.js'

let directory: string

beforeEach(async () => void (directory = await mkdtemp(join(tmpdir(), 'level-old-files-'))))
afterEach(() => rm(directory, { recursive: true, force: true }))

describe.each([true, false])('a table (compressed: %s)', (compression) => {
  test('is accepted as LevelDB writes it, and rejected with any bit flipped before its footer', async () => {
    const db = new ClassicLevel(directory, { compression })
    for (let n = 0; n < 600; n++) await db.put(`key ${n}`, `value ${n} `.repeat(n % 50))
    await db.compactRange('', '~')
    await db.close()
    const tables = (await readdir(directory)).filter((name) => name.endsWith('.ldb'))
    expect(tables.length).toBeGreaterThan(0)
    for (const name of tables) {
      const whole = await readFile(join(directory, name))
      expect(findTableDamage(whole)).toBeUndefined()
      const random = randomWords(seed)
      for (let tries = 0; tries < 300; tries++) {
        const damaged = Buffer.from(whole)
        const at = random() % (whole.length - 48)
        damaged[at]! ^= 1 << (random() % 8)
        expect(findTableDamage(damaged), `byte ${at}`).toBeLessThanOrEqual(at)
      }
      for (const bytes of [0, 47, 48, 100, whole.length - 1])
        expect(findTableDamage(whole.subarray(0, bytes)), `${bytes} bytes`).toBeDefined()
      const twice = Buffer.concat([whole.subarray(0, 512), whole])
      expect(findTableDamage(twice)).toBeDefined()
    }
  })
})

describe('a handmade table', () => {
  test('is accepted if its blocks end at its footer', () => {
    expect(findTableDamage(makeTable({}))).toBeUndefined()
  })

  test('is rejected with bytes between two blocks', () => {
    expect(findTableDamage(makeTable({ gap: 3 }))).toBe(dataBytes + 5)
  })

  test('is rejected with bytes between the last block and the footer', () => {
    const table = makeTable({})
    expect(findTableDamage(makeTable({ rest: 3 }))).toBe(table.length - 48)
  })

  test('is rejected if its last block ends one byte inside the footer', () => {
    // The checksum of the last block must end with the first byte of the footer.
    for (let salt = 0; salt < 2 ** 16; salt++) {
      const table = makeTable({ salt })
      const footer = table.length - 48
      if (table[footer - 1] !== table[footer]) continue
      const overlapping = Buffer.concat([table.subarray(0, footer - 1), table.subarray(footer)])
      expect(findTableDamage(overlapping)).toBe(footer - listBytes - 5)
      return
    }
    expect.unreachable()
  })
})

describe('a log', () => {
  test('is accepted as LevelDB writes it, and rejected with any bit flipped', async () => {
    const log = await writeLog()
    expect(findLogDamage(log)).toBeUndefined()
    expect([...logRecords(log)]).toHaveLength(120)
    const random = randomWords(seed)
    const places = Array.from({ length: 1500 }, () => random() % log.length)
    // Each byte of the last header, whose length must not look like a truncated write.
    const last = log.length - lastRecordBytes(log)
    for (const at of [...places, ...Array.from({ length: 7 }, (_, n) => last + n)]) {
      const damaged = Buffer.from(log)
      damaged[at]! ^= 1 << (random() % 8)
      expect(findLogDamage(damaged), `byte ${at}`).toBeLessThanOrEqual(at)
    }
  })

  test('is accepted without its end', async () => {
    const log = await writeLog()
    const random = randomWords(seed)
    for (let tries = 0; tries < 300; tries++)
      expect(findLogDamage(log.subarray(0, random() % log.length))).toBeUndefined()
  })

  test('is accepted with zeros after its records in a sector, and rejected with a zeroed sector', async () => {
    const log = await writeLog()
    expect(log.length % 512).not.toBe(0)
    expect(findLogDamage(Buffer.concat([log, Buffer.alloc(700)]))).toBeUndefined()
    expect(findLogDamage(Buffer.concat([log, Buffer.alloc(700), Buffer.from([1])]))).toBe(log.length)
    expect(findLogDamage(Buffer.alloc(log.length))).toBe(0)
  })

  test('is accepted with a record that fills its block, and rejected if one ends after it', () => {
    const inBlock = fragment(32 * 1024 - 7)
    expect(findLogDamage(inBlock)).toBeUndefined()
    expect([...logRecords(inBlock)]).toHaveLength(1)
    const overBlock = fragment(32 * 1024 - 6)
    expect(findLogDamage(overBlock)).toBe(0)
    expect([...logRecords(overBlock)]).toEqual([])
    expect(findLogDamage(overBlock.subarray(0, 100))).toBe(0)
    expect(findLogDamage(inBlock.subarray(0, 100))).toBeUndefined()
  })

  test('is rejected if a part of a record is missing', async () => {
    const log = await writeLog()
    const second = 32 * 1024
    expect(log[second + 6]).toBe(4)
    expect(findLogDamage(log.subarray(second))).toBe(0)
  })
})

test.each([
  ['no length', []],
  ['an endless length', [0x80, 0x80, 0x80, 0x80, 0x80, 0x01]],
  ['a truncated literal', [5, 16, 1, 2]],
  ['a literal with a truncated length', [5, 244, 1]],
  ['more than its length', [1, 4, 1, 2]],
  ['less than its length', [3, 4, 1, 2]],
  ['a copy of no earlier bytes', [5, 0, 1, 1, 0]],
  ['a copy from before the start', [5, 0, 1, 1, 2]],
  ['a truncated copy', [6, 0, 1, 2]],
  ['a copy beyond its length', [4, 0, 1, 1, 1]],
  ['a length over the limit', [101, 240, 100, ...Array.from({ length: 101 }, () => 7)]],
])('rejects Snappy data with %s', (_name, bytes) => {
  expect(uncompress(Buffer.from(bytes), 100)).toBeUndefined()
})

test('reads Snappy data with literals and all kinds of copies', () => {
  const bytes = [18, 8, 97, 98, 99, 9, 3, 10, 2, 0, 7, 1, 0, 0, 0, 240, 3, 119, 120, 121, 122]
  expect(String(uncompress(Buffer.from(bytes), 18))).toBe('abcabcabcbcbbbwxyz')
  const literal = Buffer.from(Array.from({ length: 300 }, (_, n) => n % 251))
  const far = Buffer.concat([Buffer.from([0xb0, 2, 244, 0x2b, 1]), literal, Buffer.from([33, 0x2c])])
  expect(uncompress(far, 304)).toEqual(Buffer.concat([literal, literal.subarray(0, 4)]))
})

const dataBytes = 20
/** The size of a block with one entry and one restart point. */
const listBytes = 3 + 2 + 2 + 8

/** A table with a data block, an empty metaindex and an index. */
function makeTable({ gap = 0, rest = 0, salt = 0 }): Buffer {
  const data = block(Buffer.alloc(dataBytes, 1))
  const meta = block(Buffer.from([0, 0, 0, 0, 1, 0, 0, 0]))
  // A key of two bytes, and the position of the data block.
  const index = block(Buffer.from([0, 2, 2, salt & 255, salt >> 8, 0, dataBytes, 0, 0, 0, 0, 1, 0, 0, 0]))
  const footer = Buffer.alloc(48)
  const metaAt = data.length + gap
  footer.set([metaAt, meta.length - 5, metaAt + meta.length, index.length - 5])
  footer.writeBigUInt64LE(0xdb4775248b80fb57n, 40)
  return Buffer.concat([data, Buffer.alloc(gap), meta, index, Buffer.alloc(rest), footer])
}

function block(content: Buffer): Buffer {
  const bytes = Buffer.concat([content, Buffer.alloc(5)])
  bytes.writeUInt32LE(maskedCrc32c(bytes, 0, content.length + 1), content.length + 1)
  return bytes
}

/** A complete log record of this many bytes. */
function fragment(size: number): Buffer {
  const bytes = Buffer.alloc(7 + size, 1)
  bytes.writeUInt16LE(size, 4)
  bytes.writeUInt32LE(maskedCrc32c(bytes, 6, bytes.length), 0)
  return bytes
}

async function writeLog(): Promise<Buffer> {
  const db = new ClassicLevel(directory)
  for (let n = 0; n < 120; n++) await db.put(`key ${n}`, 'v'.repeat((n * 13) % 900))
  await db.close()
  const name = (await readdir(directory)).find((name) => name.endsWith('.log'))!
  return readFile(join(directory, name))
}

function lastRecordBytes(log: Buffer): number {
  return 7 + [...logRecords(log)].at(-1)!.length
}
