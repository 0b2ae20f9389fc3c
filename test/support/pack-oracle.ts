import { readPack, type PackReading } from '../../src/adapters/git/pack/pack-reader.js'
import type { GitObject } from '../../src/engine/ports.js'
import type { GitRepository } from './git-repository.js'
import type { Format } from './raw-pack.js'

export interface PackContent {
  readonly objects: Map<string, GitObject>
  /** The ids of objects that arrived in pieces. */
  readonly large: ReadonlySet<string>
  /** The number of requests for a base. */
  readonly asked: number
}

/** Reads a pack into memory. */
export async function readAll(
  chunks: AsyncIterable<Uint8Array>,
  format: Format = 'sha1',
  more: Partial<PackReading> = {},
): Promise<PackContent> {
  const objects = new Map<string, GitObject>()
  const large = new Set<string>()
  let asked = 0
  const result = await readPack(chunks, {
    format,
    signal: new AbortController().signal,
    onObject(object) {
      objects.set(object.oid, object)
    },
    async onBlob(pieces, oid) {
      const parts: Uint8Array[] = []
      for await (const piece of pieces) parts.push(piece)
      objects.set(oid(), { oid: oid(), type: 'blob', body: Buffer.concat(parts) })
      large.add(oid())
    },
    getBase(oid) {
      asked++
      return Promise.resolve(objects.get(oid))
    },
    ...more,
  })
  if (result.objects < objects.size) throw new Error('fewer objects than were given')
  return { objects, large, asked }
}

/** A pack in chunks of 1 to `most` bytes, with random sizes from `seed`. */
export async function* chunksOf(
  pack: Uint8Array,
  random: () => number = () => 0.5,
  most = 100_000,
): AsyncGenerator<Uint8Array, void, undefined> {
  for (let at = 0; at < pack.length;) {
    const end = at + 1 + Math.floor(random() * most)
    yield pack.subarray(at, end)
    at = end
  }
}

/** Random numbers between 0 and 1, reproducible from the seed. */
export function randomNumbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Every object of a repository, as native git reads it. */
export function nativeObjects(repository: GitRepository): Map<string, { type: string; body: Buffer }> {
  const output = repository.gitBytes(['cat-file', '--batch', '--batch-all-objects', '--buffer'])
  const objects = new Map<string, { type: string; body: Buffer }>()
  for (let at = 0; at < output.length;) {
    const end = output.indexOf(10, at)
    const [oid = '', type = '', size = ''] = output.toString('latin1', at, end).split(' ')
    const start = end + 1
    objects.set(oid, { type, body: output.subarray(start, start + Number(size)) })
    at = start + Number(size) + 1
  }
  return objects
}

/** Long text in versions with small differences, suitable for deltas. */
export function versions(random: () => number, count: number, lines: number): string[] {
  const text = Array.from({ length: lines }, (_, line) => `line ${line} ${random()}`)
  return Array.from({ length: count }, () => {
    text[Math.floor(random() * lines)] = `changed ${random()}`
    if (random() < 0.3) text.splice(Math.floor(random() * lines), 1)
    if (random() < 0.3) text.splice(Math.floor(random() * lines), 0, `added ${random()}`)
    return text.join('\n')
  })
}
