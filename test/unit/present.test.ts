import { describe, expect, test } from 'vitest'
import { itemAt, onlyItem, present } from '../../src/engine/base/present.js'

describe('present', () => {
  test.each([0, '', false])('returns %j', (value) => {
    expect(present(value, 'the value')).toBe(value)
  })

  test.each([undefined, null])('reports %j as a defect', (value) => {
    expect(() => present(value, 'the head')).toThrow(
      expect.objectContaining({ reason: 'INTERNAL', message: 'the head is missing' }),
    )
  })
})

describe('itemAt', () => {
  test('counts from the start, and from the end for a negative index', () => {
    expect([itemAt(['a', 'b', 'c'], 1), itemAt(['a', 'b', 'c'], -1)]).toEqual(['b', 'c'])
  })

  test('reads the bytes of an array of bytes', () => {
    expect(itemAt(Uint8Array.of(0, 7), 0)).toBe(0)
  })

  test.each([3, -4])('reports the missing index %i as a defect', (index) => {
    expect(() => itemAt(['a', 'b', 'c'], index)).toThrow(
      expect.objectContaining({ reason: 'INTERNAL', message: `a list has no item at ${index}` }),
    )
  })
})

test('onlyItem returns the item of a list of one, and nothing of any other list', () => {
  expect([onlyItem(['a']), onlyItem([]), onlyItem(['a', 'b'])]).toEqual(['a', undefined, undefined])
})
