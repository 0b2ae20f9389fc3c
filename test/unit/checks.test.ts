/** The type checks of stored records. */
import { expect, test } from 'vitest'
import { parseText } from '../../src/engine/base/input.js'
import * as checks from '../../src/engine/base/checks.js'

const { isCount, isListOf, isNumber, isObject, isOneOf, isOptional, isText, isTexts, isTupleOf, isWith } =
  checks

test.each<[string, checks.Check, readonly unknown[], readonly unknown[]]>([
  ['a count', isCount, [0, 1, 2 ** 53 - 1], [-1, 0.5, 2 ** 53, Number.NaN, '1', null]],
  ['an object', isObject, [{}], [null, [], 'a', 1, undefined]],
  ['texts', isTexts, [{}, { a: '' }], [{ a: 1 }, ['a'], null]],
  ['optional', isOptional(isText), [undefined, ''], [null, 1]],
  [
    'a list',
    isListOf(isCount),
    [[], [1, 2]],
    [[1, -1], {}, null, '', Array.from({ length: 1 }), Object.assign([], { length: 1 })],
  ],
  ['a tuple', isTupleOf(isText, isNumber), [['a', 1]], [['a'], ['a', 1, 2], ['a', 'b'], [1, 'a'], {}, null]],
  ['one of some', isOneOf({ A: 'a', B: 'b' }), ['a', 'b'], ['A', 'c', 1, null]],
  [
    'an object with fields',
    isWith<{ a: string; b?: number }>({ a: isText, b: isOptional(isNumber) }),
    [{ a: '' }, { a: '', b: 1, c: 2 }],
    [{}, { a: 1 }, { a: '', b: '' }, Object.create({ a: '' }), null],
  ],
])('%s', (_what, check, right, wrong) => {
  expect(right.map(check)).toEqual(right.map(() => true))
  expect(wrong.map(check)).toEqual(wrong.map(() => false))
})

test('measures a text in bytes of UTF-8', () => {
  expect(parseText('field', 'ü'.repeat(50), 100)).toBe('ü'.repeat(50))
  expect(() => parseText('field', 'ü'.repeat(51), 100)).toThrow(
    expect.objectContaining({ reason: 'TOO_LARGE' }),
  )
})
