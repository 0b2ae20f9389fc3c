import { expect } from 'vitest'

const isAdded = Symbol.for('forkspace.byte-equality')
const shared = globalThis as { [isAdded]?: true }

/**
 * Lets `toEqual` and `toStrictEqual` compare arrays of bytes as bytes. By itself `expect` compares them index by index,
 * which takes seconds for some MiB. Arrays of different classes are left to it, and so are those that differ.
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
