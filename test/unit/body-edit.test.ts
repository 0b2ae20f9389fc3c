import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { limits } from '../../src/engine/base/limits.js'
import { BlobRef } from '../../src/engine/cas/blob.js'
import { layOver, type Piece } from '../../src/engine/cas/body-edit.js'
import { listExtents, type LoadedBody } from '../../src/engine/cas/body.js'
import { runs, seed } from '../support/seed.js'

const all = { from: 0, to: Number.MAX_SAFE_INTEGER }

function pieceAt(offset: number, text: string): Piece {
  const blob = BlobRef.of(Buffer.from(text))
  return { offset, length: blob.length, blob, casOffset: 0 }
}

function textOf(body: LoadedBody): string {
  return listExtents(body, all)
    .map(({ offset, length, blob, casOffset }) => {
      const bytes = Buffer.from(blob.bytes!).subarray(casOffset, casOffset + length)
      return `${offset}:${bytes.toString()}`
    })
    .join(' ')
}

describe('versions of a block', () => {
  const first = layOver(layOver(undefined, [pieceAt(0, 'one')]), [pieceAt(3, 'two')])

  test('that add to its end do not change earlier ones', () => {
    const second = layOver(first, [pieceAt(6, 'three')])
    const third = layOver(second, [pieceAt(20, 'four')])
    expect(textOf(first)).toBe('0:one 3:two')
    expect(textOf(second)).toBe('0:one 3:two 6:three')
    expect(textOf(third)).toBe('0:one 3:two 6:three 20:four')
  })

  test('can both add to the same earlier one', () => {
    const left = layOver(first, [pieceAt(6, 'left')])
    const right = layOver(first, [pieceAt(8, 'right')])
    const more = layOver(left, [pieceAt(10, 'more')])
    expect(textOf(left)).toBe('0:one 3:two 6:left')
    expect(textOf(right)).toBe('0:one 3:two 8:right')
    expect(textOf(more)).toBe('0:one 3:two 6:left 10:more')
  })

  test('read only the extents of a range', () => {
    const body = layOver(layOver(first, [pieceAt(6, 'three')]), [pieceAt(20, 'four')])
    const offsets = (from: number, to: number): number[] =>
      listExtents(body, { from, to }).map(({ offset }) => offset)
    expect(offsets(0, 3)).toEqual([0])
    expect(offsets(2, 4)).toEqual([2, 3])
    expect(offsets(11, 20)).toEqual([])
    expect(offsets(21, 30)).toEqual([21])
  })
})

test(`one piece gives the same content as together with an empty one (FORKSPACE_SEED=${seed})`, () => {
  const { blockBytes, blocksPerChunk } = limits
  const offset = fc.oneof(
    fc.nat({ max: 12 }),
    fc.nat({ max: 12 }).map((within) => blockBytes - 6 + within),
    fc.nat({ max: 12 }).map((within) => blockBytes * blocksPerChunk * 2 - 6 + within),
  )
  const writes = fc.array(
    fc.record({ offset, text: fc.string({ minLength: 1, maxLength: 8, unit: 'grapheme-ascii' }) }),
  )
  const nothing: Piece = { offset: 0, length: 0, blob: undefined, casOffset: 0 }
  fc.assert(
    fc.property(writes, (list) => {
      let alone: LoadedBody
      let together: LoadedBody
      for (const write of list) {
        const piece = pieceAt(write.offset, write.text)
        const before = textOf(alone)
        const next = layOver(alone, [piece])
        // The version before stays as it was.
        expect(textOf(alone)).toBe(before)
        alone = next
        together = layOver(together, [piece, nothing])
      }
      expect(textOf(alone)).toBe(textOf(together))
    }),
    { seed, numRuns: runs(2000) },
  )
})
