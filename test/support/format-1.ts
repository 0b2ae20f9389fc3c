import { join } from 'node:path'
import { ClassicLevel } from 'classic-level'
import type { Store } from '../../src/engine/ports.js'

/** Relative to the working directory, because compiled files have no fixtures next to them. */
export const formatOneFixture = join(process.cwd(), 'test/fixtures/format/v1')

/** All entries in the database of a format 1 store: base64 values by key. */
export async function oldEntries(directory: string): Promise<Record<string, string>> {
  const db = new ClassicLevel<string, Uint8Array>(join(directory, 'index'), {
    valueEncoding: 'view',
    createIfMissing: false,
  })
  const entries: Record<string, string> = {}
  for await (const [key, value] of db.iterator()) entries[key] = Buffer.from(value).toString('base64')
  await db.close()
  return entries
}

/**
 * The same entries of a store after its migration: all records and blobs, and the events of the sessions in `wanted`.
 */
export async function newEntries(
  store: Store,
  wanted: Readonly<Record<string, string>>,
): Promise<Record<string, string>> {
  const entries: Record<string, string> = {}
  for (const [key, value] of await store.scan({ gte: '', lt: '\u{10ffff}', limit: Infinity })) {
    entries[key] = Buffer.from(value).toString('base64')
  }
  for (const { hash } of await store.listBlobs!('', Infinity)) {
    const bytes = await store.blob(hash, { offset: 0, length: Infinity })
    entries[`b${hash}`] = Buffer.from(bytes!).toString('base64')
  }
  const sessions = new Set(Object.keys(wanted).flatMap((key) => (key[0] === 'e' ? [key.slice(1, -8)] : [])))
  for (const sessionId of sessions) {
    for await (const page of store.events(sessionId, { from: 1, to: Infinity })) {
      for (const { seq, body } of page) {
        const key = `e${sessionId}${seq.toString(36).padStart(8, '0')}`
        entries[key] = Buffer.from(JSON.stringify(body)).toString('base64')
      }
    }
  }
  return entries
}
