import { createHash } from 'node:crypto'

/** A hash of entries that does not depend on their order. */
export function digestOf(entries: Readonly<Record<string, string>>): string {
  const sorted = Object.entries(entries).sort(([a], [b]) => (a < b ? -1 : 1))
  return createHash('sha256').update(JSON.stringify(sorted)).digest('hex')
}
