import { Buffer } from 'node:buffer'
import { describe, expect, it } from 'vitest'
import { BlobRef } from '../../src/engine/cas/blob.js'
import { limits } from '../../src/engine/base/limits.js'

/** Small copies that follow each other in the same memory. */
function neighbors(): { first: BlobRef; second: BlobRef } {
  return { first: BlobRef.copyOf(Buffer.from('first')), second: BlobRef.copyOf(Buffer.from('second')) }
}

describe('a blob that shares memory with others', () => {
  it('gives its own bytes only, also for ranges that end after it', () => {
    const { first, second } = neighbors()
    expect([first, second].map(({ bytes }) => bytes?.toString())).toEqual(['first', 'second'])
    expect(first.view(2, 100)?.toString()).toBe('rst')
    const target = Buffer.alloc(8, '.')
    first.copyTo(target, 1, 100)
    expect(target.toString()).toBe('irst....')
  })

  it('keeps its bytes when the caller changes them, and hashes them as they were', () => {
    const bytes = Buffer.from('before')
    const blob = BlobRef.copyOf(bytes)
    bytes.fill('x')
    expect(blob.bytes?.toString()).toBe('before')
    expect(blob.hash).toBe(BlobRef.of(Buffer.from('before')).hash)
  })

  it('has the bytes that were read from the store after it dropped its own', () => {
    const { second } = neighbors()
    const { hash, bytes } = second.toStore()
    expect({ hash, text: bytes.toString() }).toEqual({ hash: second.hash, text: 'second' })
    second.drop()
    expect([second.isLoaded, second.bytes, second.view(0, 1)]).toEqual([false, undefined, undefined])
    second.keep(Buffer.from('second'))
    expect(second.bytes?.toString()).toBe('second')
  })

  it.each([0, 1, limits.slabShareBytes, limits.slabShareBytes + 1, limits.slabBytes])(
    'is correct with %i bytes',
    (length) => {
      const blobs = Array.from({ length: 5 }, (_, i) => BlobRef.copyOf(Buffer.alloc(length, i + 1)))
      for (const [i, blob] of blobs.entries()) expect(blob.bytes).toEqual(Buffer.alloc(length, i + 1))
    },
  )
})
