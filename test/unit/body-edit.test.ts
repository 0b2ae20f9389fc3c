import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { limits } from '../../src/engine/base/limits.js'
import { BlobRef } from '../../src/engine/cas/blob.js'
import { layOver, normalize, truncate, type Piece } from '../../src/engine/cas/body-edit.js'
import {
  blockAt,
  BlockBody,
  hasMoreExtents,
  isSameNode,
  listExtents,
  sameExtents,
  UnloadedBody,
  type LoadedBody,
} from '../../src/engine/cas/body.js'
import { runs, seed } from '../support/seed.js'
import type { Core } from '../../src/engine/session/core.js'
import { compact } from '../../src/engine/session/edits/compaction.js'
import type { RedoPiece } from '../../src/engine/records/event.js'
import { StagedBlobs } from '../../src/engine/cas/staging.js'
import { FileNode, noAttributes } from '../../src/engine/tree/node.js'

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

const { blockBytes, blocksPerChunk } = limits
const chunkBytes = blockBytes * blocksPerChunk

function hole(offset: number, length: number): Piece {
  return { offset, length, blob: undefined, casOffset: 0 }
}

test(`many pieces at once, also holes and pieces over several blocks, give the bytes of a plain copy (FORKSPACE_SEED=${seed})`, () => {
  // Few places near the edges of blocks and chunks, so that pieces often touch and overlap.
  const bases = [0, blockBytes - 4, 2 * blockBytes - 4, chunkBytes - 4, chunkBytes + blockBytes - 4]
  const place = fc.record({ base: fc.constantFrom(...bases), within: fc.nat({ max: 12 }) })
  const piece = fc.record({
    at: place,
    // Some reach from one base into the next ones.
    length: fc.oneof(
      { weight: 5, arbitrary: fc.nat({ max: 8 }) },
      fc.constantFrom(blockBytes, 2 * blockBytes),
    ),
    isHole: fc.boolean(),
    skip: fc.nat({ max: 3 }),
  })
  const source = BlobRef.of(
    Buffer.from(Array.from({ length: 2 * blockBytes + 8 }, (_, index) => 1 + (index % 251))),
  )
  const bytesOf = (body: LoadedBody): Map<number, number> => {
    const found = new Map<number, number>()
    let last = -1
    for (const { offset, length, blob, casOffset } of listExtents(body, all)) {
      expect(offset).toBeGreaterThan(last)
      expect(length).toBeGreaterThan(0)
      last = offset + length - 1
      for (const base of bases)
        for (let at = base; at < base + 24; at++)
          if (at >= offset && at < offset + length) found.set(at, blob.bytes![casOffset + at - offset]!)
    }
    return found
  }
  fc.assert(
    fc.property(fc.array(fc.array(piece, { minLength: 1, maxLength: 6 }), { maxLength: 5 }), (rounds) => {
      let body: LoadedBody
      const model = new Map<number, number>()
      for (const round of rounds) {
        const pieces = round.map(({ at, length, isHole, skip }): Piece => {
          const offset = at.base + at.within
          if (isHole) return hole(offset, length)
          // A piece that is not split at the blocks has a blob of its own size.
          return { offset, length, blob: source, casOffset: skip }
        })
        body = layOver(body, pieces)
        for (const { offset, length, blob, casOffset } of pieces)
          for (const base of bases)
            for (let at = base; at < base + 24; at++) {
              if (at < offset || at >= offset + length) continue
              if (blob === undefined) model.delete(at)
              else model.set(at, blob.bytes![casOffset + at - offset]!)
            }
      }
      expect([...bytesOf(body)].toSorted(([a], [b]) => a - b)).toEqual(
        [...model].toSorted(([a], [b]) => a - b),
      )
    }),
    { seed, numRuns: runs(300) },
  )
})

describe('a body that is cut off', () => {
  const body = layOver(undefined, [
    pieceAt(0, 'start'),
    pieceAt(blockBytes - 2, 'ab'),
    pieceAt(blockBytes, 'cd'),
    pieceAt(chunkBytes, 'ef'),
  ])

  test.each([
    [chunkBytes + 2, `0:start ${blockBytes - 2}:ab ${blockBytes}:cd ${chunkBytes}:ef`],
    [chunkBytes + 1, `0:start ${blockBytes - 2}:ab ${blockBytes}:cd ${chunkBytes}:e`],
    [chunkBytes, `0:start ${blockBytes - 2}:ab ${blockBytes}:cd`],
    [blockBytes + 1, `0:start ${blockBytes - 2}:ab ${blockBytes}:c`],
    [blockBytes, `0:start ${blockBytes - 2}:ab`],
    [blockBytes - 1, `0:start ${blockBytes - 2}:a`],
    [5, '0:start'],
    [1, '0:s'],
    [0, ''],
  ])('at %i has only the bytes before', (size, text) => {
    expect(textOf(truncate(body, size))).toBe(text)
    expect(textOf(body)).toContain(`${chunkBytes}:ef`)
  })

  test('after its end is the same', () => {
    const blob = BlobRef.of(Buffer.from('abc'))
    expect(truncate(blob, 3)).toBe(blob)
    expect(truncate(undefined, 0)).toBeUndefined()
    expect(textOf(truncate(blob, 2))).toBe('0:ab')
  })

  test('has no empty chunks, and none of the blocks at the end', () => {
    const cut = truncate(body, 5) as BlockBody
    expect([cut.chunkNumbers, cut.chunks.map(({ length }) => length)]).toEqual([[0], [1]])
    expect((truncate(body, 0) as BlockBody).chunks).toEqual([])
  })
})

describe('the normal form of a body', () => {
  const blob = BlobRef.of(Buffer.from('abc'))

  test('is the blob that is the whole content', () => {
    expect(normalize(blob, 3)).toBe(blob)
    expect(normalize(new BlockBody([0], [[blob]]), 3)).toBe(blob)
    expect(normalize(undefined, 3)).toBeUndefined()
    expect(normalize(new BlockBody([], []), 0)).toBeUndefined()
  })

  test.each([
    ['a blob that is shorter than the content', blob, 4, [0]],
    ['blocks of which the only one is shorter', new BlockBody([0], [[blob]]), 4, [0]],
    ['blocks in another chunk', new BlockBody([1], [[blob]]), 3, [1]],
    ['several blocks', new BlockBody([0], [[blob, blob]]), 3, [0]],
    ['several chunks', new BlockBody([0, 1], [[blob], [blob]]), 3, [0, 1]],
    ['a hole', new BlockBody([], []), 3, []],
  ])('of %s has blocks', (_what, body, size, numbers) => {
    const normal = normalize(body, size)
    expect(normal).toBeInstanceOf(BlockBody)
    expect((normal as BlockBody).chunkNumbers).toEqual(numbers)
  })
})

describe('blocks of a body', () => {
  const blob = BlobRef.of(Buffer.from('abc'))
  const body = layOver(undefined, [pieceAt(0, 'a'), pieceAt(chunkBytes + blockBytes, 'b')])

  test('are found by their numbers', () => {
    expect([blockAt(undefined, 0), blockAt(blob, 0), blockAt(blob, 1)]).toEqual([undefined, blob, undefined])
    const found = [0, 1, blocksPerChunk, blocksPerChunk + 1, blocksPerChunk + 2, 2 * blocksPerChunk]
    expect(found.map((number) => blockAt(body, number) !== undefined)).toEqual([
      true,
      false,
      false,
      true,
      false,
      false,
    ])
  })

  test('are counted as extents', () => {
    const many = layOver(body, [pieceAt(3, 'x'), pieceAt(9, 'y')]) as BlockBody
    expect([3, 4].map((limit) => hasMoreExtents(many, limit))).toEqual([true, false])
    expect([1, 2].map((limit) => hasMoreExtents(body as BlockBody, limit))).toEqual([true, false])
  })

  test('are read within a range only', () => {
    const offsets = (from: number, to: number): number[] =>
      listExtents(body, { from, to }).map(({ offset }) => offset)
    const second = chunkBytes + blockBytes
    expect(offsets(0, second)).toEqual([0])
    expect(offsets(0, second + 1)).toEqual([0, second])
    expect(offsets(1, second + 1)).toEqual([second])
    expect(offsets(second + 1, second + 9)).toEqual([])
    expect(listExtents(blob, { from: 1, to: 2 })).toEqual([{ offset: 1, length: 1, blob, casOffset: 1 }])
    expect(listExtents(blob, { from: 3, to: 9 })).toEqual([])
  })

  test('are the same only with the same ranges of the same blobs', () => {
    const extent = { offset: 1, length: 2, blob, casOffset: 3 }
    expect(sameExtents([extent], [{ ...extent }])).toBe(true)
    expect(sameExtents([], [extent])).toBe(false)
    expect(sameExtents([extent], [])).toBe(false)
    for (const other of [
      { offset: 0 },
      { length: 1 },
      { casOffset: 0 },
      { blob: BlobRef.of(Buffer.from('abc')) },
    ])
      expect(sameExtents([extent], [{ ...extent, ...other }])).toBe(false)
  })
})

describe('a patch of a file with many extents', () => {
  const { extentsPerBlock } = limits
  const core = {
    contentIds: { body: (file: FileNode) => file.body },
    content: {
      mustStoreAhead: () => false,
      readSync: (body: LoadedBody, offset: number, length: number) => {
        const bytes = Buffer.alloc(length)
        for (const extent of listExtents(body, { from: offset, to: offset + length }))
          extent.blob.bytes!.copy(
            bytes,
            extent.offset - offset,
            extent.casOffset,
            extent.casOffset + extent.length,
          )
        return bytes
      },
    },
  } as unknown as Core

  const fileOf = (extents: number, from = 0): FileNode => {
    const pieces = Array.from({ length: extents }, (_, index) => pieceAt(from + 3 * index, 'x'))
    const size = from + 3 * extents
    return new FileNode(noAttributes, size, layOver(undefined, [...pieces, hole(0, 0)]))
  }
  const patchOf = (size: number, ...pieces: Piece[]) => ({
    size,
    pieces: pieces.map(({ offset, length, blob, casOffset }): RedoPiece => [
      offset,
      length,
      blob ?? 0,
      casOffset,
    ]),
    blobs: pieces.flatMap(({ blob }) => blob ?? []),
  })
  const compacted = (file: FileNode, patch: ReturnType<typeof patchOf>) =>
    compact(core, file, patch, new StagedBlobs([], core))

  test('stays as it is while its block has few enough', () => {
    const file = fileOf(extentsPerBlock - 1)
    const patch = patchOf(file.size + 3, pieceAt(file.size, 'y'))
    expect(compacted(file, patch).pieces).toEqual(patch.pieces)
    // Replacing the whole of an extent adds none.
    const full = fileOf(extentsPerBlock)
    const same = patchOf(full.size, pieceAt(0, 'y'))
    expect(compacted(full, same).pieces).toEqual(same.pieces)
  })

  test('rewrites a block that gets one too many, up to the end of the file', () => {
    const file = fileOf(extentsPerBlock)
    const size = file.size + 5
    const { pieces, blobs } = compacted(file, patchOf(size, pieceAt(file.size, 'y')))
    expect(pieces).toHaveLength(1)
    const [offset, length, blob, casOffset] = pieces[0]!
    expect([offset, length, casOffset]).toEqual([0, size, 0])
    expect(blobs).toEqual([blob])
    const text = String((blob as BlobRef).bytes)
    expect(text).toBe('x\0\0'.repeat(extentsPerBlock) + 'y\0\0\0\0')
  })

  test('keeps the pieces and contents of other blocks', () => {
    const file = fileOf(extentsPerBlock, blockBytes)
    const other = pieceAt(0, 'first')
    const size = file.size + 2
    const { pieces, blobs } = compacted(file, patchOf(size, other, pieceAt(file.size, 'y')))
    expect(pieces.map(([offset, length]) => [offset, length])).toEqual([
      [0, 5],
      [blockBytes, size - blockBytes],
    ])
    expect(blobs).toEqual([other.blob, pieces[1]![2]])
  })

  test('keeps a piece that reaches into the next block', () => {
    const file = fileOf(extentsPerBlock, blockBytes)
    const wide = pieceAt(blockBytes - 1, 'ab')
    const { pieces, blobs } = compacted(file, patchOf(file.size + 2, wide, pieceAt(file.size, 'y')))
    expect(pieces[0]).toEqual([blockBytes - 1, 2, wide.blob, 0])
    expect(pieces[1]?.[0]).toBe(blockBytes)
    expect(blobs).toHaveLength(2)
    // The rewritten block has the byte of the piece, too.
    expect((pieces[1]![2] as BlobRef).bytes!.subarray(0, 4).toString()).toBe('b\0\0x')
  })

  test('keeps a piece that reaches from a rewritten block into the next one', () => {
    const file = fileOf(extentsPerBlock)
    const long = BlobRef.of(Buffer.alloc(blockBytes, 'z'))
    const from = 3 * extentsPerBlock + 1
    const wide: Piece = { offset: from, length: blockBytes, blob: long, casOffset: 0 }
    const { pieces, blobs } = compacted(file, patchOf(from + blockBytes, wide))
    expect(pieces.map(([offset, length]) => [offset, length])).toEqual([
      [from, blockBytes],
      [0, blockBytes],
    ])
    expect(blobs).toEqual([long, pieces[1]![2]])
  })

  test('that makes the file shorter rewrites only the remaining blocks', () => {
    const file = fileOf(extentsPerBlock + 40)
    const size = 3 * extentsPerBlock + 3
    const { pieces } = compacted(file, patchOf(size, pieceAt(1, 'y')))
    expect(pieces[0]?.slice(0, 2)).toEqual([0, size])
    // After the cut, few enough are left.
    const few = patchOf(30, pieceAt(1, 'y'))
    expect(compacted(file, few).pieces).toEqual(few.pieces)
  })
})

describe('two bodies', () => {
  const blocks = new BlockBody([0], [[BlobRef.of(Buffer.from('a'))]])
  const other = new BlockBody([0], [[BlobRef.of(Buffer.from('b'))]])
  const stored = (address: string, body: BlockBody | null): UnloadedBody =>
    Object.assign(new UnloadedBody(address), { body })

  test.each([
    ['the same stored node, of which one is loaded', stored('1', blocks), stored('1', null), true],
    ['one that was stored meanwhile', blocks, stored('1', blocks), true],
    ['nothing', undefined, undefined, true],
    ['different stored nodes', stored('1', null), stored('2', null), false],
    ['one in memory and one that is not loaded', blocks, stored('1', null), false],
    ['nothing and one that is not loaded', undefined, stored('1', null), false],
    ['different blocks', blocks, other, false],
  ])('are compared without loading them: %s', (_what, a, b, expected) => {
    expect(isSameNode(a, b)).toBe(expected)
    expect(isSameNode(b, a)).toBe(expected)
  })
})
