/** The order of names by their UTF-8 bytes. */
import { expect, test } from 'vitest'
import { compareUtf8, needsUtf8Order } from '../../src/engine/base/order.js'

const names = [
  '',
  'a',
  'aa',
  'b',
  '\u007f',
  'ü',
  '\ud7ff',
  '\ue000',
  '～',
  '\uffff',
  '😀',
  '😀a',
  '\u{103fe}',
  '\u{103ff}',
  '\u{10ffff}',
]

test('names are ordered by their UTF-8 bytes', () => {
  for (const a of names)
    for (const b of names) {
      const expected = Buffer.compare(Buffer.from(a), Buffer.from(b))
      expect([a, b, Math.sign(compareUtf8(a, b))]).toEqual([a, b, expected])
    }
})

test('names that need no special order are in string order', () => {
  const plain = names.filter((name) => !needsUtf8Order(name))
  expect(plain).toEqual(['', 'a', 'aa', 'b', '\u007f', 'ü', '\ud7ff'])
  expect(plain.toSorted()).toEqual(plain.toSorted(compareUtf8))
})
