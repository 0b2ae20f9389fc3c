import { crc32 } from 'node:zlib'
import { expect, test } from 'vitest'
import { checksum } from '../../src/adapters/level/log/checksum.js'
import { levelLimits } from '../../src/adapters/level/limits.js'
import { randomBytes } from '../support/random-bytes.js'

test('computes the CRC-32 of zlib for ranges of any length, from any value', () => {
  const bytes = randomBytes(4 * levelLimits.checksumBytes, 1)
  for (let length = 0; length <= 2 * levelLimits.checksumBytes; length++) {
    for (const before of [0, 1, 5, 0x7fffffff, 0x80000000, 0xffffffff]) {
      const from = length % 7
      const expected = crc32(bytes.subarray(from, from + length), before)
      expect(checksum(bytes, from, from + length, before)).toBe(expected)
    }
  }
})
