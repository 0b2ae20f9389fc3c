import { createHash } from 'node:crypto'

/** Random-looking bytes. One seed always gives the same bytes for a length. */
export function randomBytes(length: number, seed: number | string): Buffer {
  if (length === 0) return Buffer.alloc(0)
  return createHash('shake256', { outputLength: length }).update(String(seed)).digest()
}
