import { createHash } from 'node:crypto'
import { openLevelStore } from '../../src/adapters/level/open-level-store.js'
import type { OpenLevelStoreOptions } from '../../src/adapters/level/open-level-store.js'
import { EngineError, prefixEnd } from '../../src/engine/ports.js'
import type { Store, StoreCommit } from '../../src/engine/ports.js'

/** Sizes that give even a small store many segments, pages and flushes. */
export const smallSizes = { segmentBytes: 16 * 1024, flushEntries: 40, flushBytes: 6 * 1024 } as const

export function openSmall(
  directory: string,
  options: Partial<OpenLevelStoreOptions> = {},
): ReturnType<typeof openLevelStore> {
  return openLevelStore(directory, { durability: 'relaxed', ...smallSizes, ...options })
}

export interface StoredContents {
  readonly records: (readonly [string, string])[]
  readonly events: Record<string, string>
  readonly blobs: Record<string, string>
}

/** A model of a store's contents, to which the same commits are applied. */
export class PlainStore {
  readonly records = new Map<string, string>()
  readonly events = new Map<string, string[]>()
  readonly blobs = new Map<string, Uint8Array>()

  apply({ events, put, del, blobs, deleteBlobs, replaceEvents, deleteEvents }: StoreCommit): void {
    for (const { sessionId, body } of events ?? []) {
      const list = this.events.get(sessionId) ?? []
      this.events.set(sessionId, [...list, textOf(body)])
    }
    for (const [key, value] of put ?? []) this.records.set(key, textOf(value))
    for (const key of del ?? []) this.records.delete(key)
    for (const hash of deleteBlobs ?? []) this.blobs.delete(hash)
    for (const { hash, bytes } of blobs ?? []) this.blobs.set(hash, bytes)
    for (const { sessionId, seq, body } of replaceEvents ?? []) {
      this.events.get(sessionId)![seq - 1] = textOf(body)
    }
    for (const sessionId of deleteEvents ?? []) this.events.delete(sessionId)
  }

  contents(sessions: readonly string[]): StoredContents {
    const events = Object.fromEntries(sessions.map((id) => [id, (this.events.get(id) ?? []).join('\n')]))
    const records = [...this.records].sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    const blobs = Object.fromEntries([...this.blobs].map(([hash, bytes]) => [hash, digest(bytes)]))
    return { records, events, blobs }
  }
}

/** Reads the complete contents of a store, through each of its read methods. */
export async function readContents(
  store: Store,
  sessions: readonly string[],
  hashes: readonly string[],
): Promise<StoredContents> {
  const records = await store.scan({ gte: '', lt: prefixEnd(''), limit: Infinity })
  for (const [key, value] of records) {
    if (store.getSync!(key) !== value) throw new Error(`${key} is not what the scan gave`)
  }
  const events: Record<string, string> = {}
  for (const sessionId of sessions) {
    const texts: string[] = []
    for await (const page of store.events(sessionId, { from: 1, to: Infinity })) {
      for (const { body } of page) texts.push(JSON.stringify(body))
    }
    events[sessionId] = texts.join('\n')
    if (((await store.lastEvent(sessionId))?.seq ?? 0) !== texts.length)
      throw new Error('the last event differs')
  }
  const blobs: Record<string, string> = {}
  for (const hash of hashes) {
    const bytes = store.blobSync!(hash, { offset: 0, length: Infinity })
    if (bytes !== undefined) blobs[hash] = digest(bytes)
  }
  return { records: [...records], events, blobs }
}

export function blobOf(seed: number, length: number): { hash: string; bytes: Uint8Array } {
  const bytes = Uint8Array.from({ length }, (_, i) => Math.imul(i + seed, 0x9e3779b1) >>> 13)
  return { hash: digest(bytes), bytes }
}

export function sessionId(name: string | number): string {
  return String(name).padStart(36, '0')
}

/** The reason of an error; rethrows anything but an EngineError, which is a defect. */
export function reasonOf(error: unknown): string {
  if (error instanceof EngineError) return error.reason
  throw error
}

function digest(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

function textOf(value: string | object): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
