import { createHash } from 'node:crypto'

/** Pseudorandom bytes, reproducible from the seed and the length. */
export function randomBytes(length: number, seed: number | string): Buffer {
  if (length === 0) return Buffer.alloc(0)
  return createHash('shake256', { outputLength: length }).update(String(seed)).digest()
}
