import { createHash } from 'node:crypto'

/** Bytes that look random and do not repeat: the same ones for the same seed, whatever the length. */
export function randomBytes(length: number, seed: number | string): Buffer {
  if (length === 0) return Buffer.alloc(0)
  return createHash('shake256', { outputLength: length }).update(String(seed)).digest()
}
