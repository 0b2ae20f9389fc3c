import { createHash } from 'node:crypto'
import type { Store, StoreCommit } from '../../src/engine/ports.js'

/** The expected contents of a store after some commits, as plain maps. */
export class StoreModel {
  readonly records: Map<string, string>
  /** The texts of event bodies; the first event has number 1. */
  readonly events: Map<string, readonly string[]>
  readonly blobs: Set<string>

  constructor(other?: StoreModel) {
    this.records = new Map(other?.records)
    this.events = new Map(other?.events)
    this.blobs = new Set(other?.blobs)
  }

  /** Returns false and changes nothing when an event has an outdated number. */
  apply(commit: StoreCommit): boolean {
    const next = new Map<string, readonly string[]>()
    for (const { sessionId, seq, body } of commit.events ?? []) {
      const known = next.get(sessionId) ?? this.events.get(sessionId) ?? []
      if (seq !== known.length + 1) return false
      next.set(sessionId, [...known, text(body)])
    }
    for (const [sessionId, bodies] of next) this.events.set(sessionId, bodies)
    for (const { sessionId, seq, body } of commit.replaceEvents ?? [])
      this.events.set(sessionId, this.events.get(sessionId)!.with(seq - 1, text(body)))
    for (const sessionId of commit.deleteEvents ?? []) this.events.delete(sessionId)
    for (const [key, value] of commit.put ?? []) this.records.set(key, text(value))
    for (const key of commit.del ?? []) this.records.delete(key)
    for (const hash of commit.deleteBlobs ?? []) this.blobs.delete(hash)
    for (const { hash } of commit.blobs ?? []) this.blobs.add(hash)
    return true
  }

  describe(): string {
    const lines: string[] = []
    for (const [key, value] of this.records) lines.push(`${key}=${value}`)
    for (const [sessionId, bodies] of this.events)
      for (const [index, body] of bodies.entries()) lines.push(`${sessionId} ${index + 1} ${body}`)
    for (const hash of this.blobs) lines.push(`blob ${hash}`)
    return lines.toSorted().join('\n')
  }
}

/** The text of {@link StoreModel.describe} for the contents of a store, read through every method. */
export async function describeStore(store: Store, sessionIds: Iterable<string>): Promise<string> {
  const lines: string[] = []
  for (const [key, value] of await store.scan({ gte: 'k', lt: 'm', limit: 10_000 })) {
    lines.push(`${key}=${value}`)
    if (store.getSync !== undefined && store.getSync(key) !== value) lines.push(`${key} is another when got`)
    if ((await store.get(key)) !== value) lines.push(`${key} is another when read`)
  }
  for (const sessionId of sessionIds) {
    let last: string | undefined
    for await (const page of store.events(sessionId, { from: 1, to: Number.POSITIVE_INFINITY }))
      for (const { seq, body } of page) lines.push((last = `${sessionId} ${seq} ${JSON.stringify(body)}`))
    const newest = await store.lastEvent(sessionId)
    const line = newest && `${sessionId} ${newest.seq} ${JSON.stringify(newest.body)}`
    if (line !== last) lines.push(`${sessionId} ends with ${line}`)
  }
  for (const { hash, bytes } of blobPool) {
    const found = await store.blob(hash, { offset: 0, length: bytes.length + 1 })
    if (found === undefined) continue
    const same = Buffer.compare(found, bytes) === 0
    lines.push(same ? `blob ${hash}` : `blob ${hash} has other bytes`)
  }
  if (store.listBlobs !== undefined) {
    const listed = await store.listBlobs('', 10_000)
    const held = lines.filter((line) => line.startsWith('blob ')).map((line) => line.slice(5))
    const hashes = listed.map(({ hash }) => hash)
    if (hashes.join() !== held.toSorted().join()) lines.push(`blobs are listed as ${hashes.join()}`)
  }
  return lines.toSorted().join('\n')
}

/** Blobs of various sizes, identified by their numbers. */
export const blobPool = Array.from({ length: 32 }, (_, index) => {
  const size = index === 0 ? 0 : [1, 2, 40, 300, 700, 4096, 6000, 20_000][index % 8]! + (index >> 3)
  const bytes = Buffer.alloc(size, String.fromCodePoint(65 + index))
  return { hash: createHash('sha256').update(bytes).digest('hex'), bytes }
})

/** The first lines in which two descriptions differ. */
export function differences(expected: string, found: string): string {
  const [left, right] = [expected.split('\n'), found.split('\n')]
  const show = (line: string): string => line.slice(0, 160)
  return [
    ...left
      .filter((line) => !right.includes(line))
      .slice(0, 6)
      .map((line) => `- ${show(line)}`),
    ...right
      .filter((line) => !left.includes(line))
      .slice(0, 6)
      .map((line) => `+ ${show(line)}`),
  ].join('\n')
}

function text(value: string | object): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
