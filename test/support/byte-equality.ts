import { expect } from 'vitest'

const isAdded = Symbol.for('forkspace.byte-equality')
const shared = globalThis as { [isAdded]?: true }

/**
 * Lets `toEqual` and `toStrictEqual` compare byte arrays as bytes. By default `expect` compares them index by index,
 * which takes seconds for a few MiB. Arrays of different classes, and arrays that differ, are left to the default.
 */
if (shared[isAdded] === undefined) {
  shared[isAdded] = true
  expect.addEqualityTesters([
    (one: unknown, other: unknown): true | undefined =>
      one instanceof Uint8Array &&
      other instanceof Uint8Array &&
      Object.getPrototypeOf(one) === Object.getPrototypeOf(other) &&
      Buffer.compare(one, other) === 0
        ? true
        : undefined,
  ])
}
