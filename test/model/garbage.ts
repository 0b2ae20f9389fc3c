import { createHash } from 'node:crypto'
import { keys, prefixEnd, type Store } from '../../src/engine/ports.js'
import type { Session } from '../../src/index.js'
import { bytesOf, takeApart } from '../support/bundle-file.js'

/** Unreferenced data in a store, and missing data. */
export interface Garbage {
  readonly missingContents: readonly string[]
  readonly contents: readonly string[]
  readonly nodes: readonly string[]
  /** Keys of records that belong to missing sessions. */
  readonly records: readonly string[]
}

/**
 * Compares the contents of a store with the data that sessions reference, computed independently of the engine's own
 * marking: contents from bundles, which have every referenced state, and from the redo of events; nodes from the hashes
 * in records. `sessions` must list all sessions. With redo kept, the unreferenced state that it starts from is kept too.
 */
export async function findGarbage(
  store: Store,
  sessions: readonly Session[],
  { keepRedo = false }: { readonly keepRedo?: boolean } = {},
): Promise<Garbage> {
  const contents = new Set<string>()
  const mentioned = new Set<string>()
  for (const session of sessions) {
    const { trees } = await takeApart(await bytesOf(session.exportBundle()))
    for (const tree of trees)
      if (typeof tree !== 'string') contents.add(createHash('sha256').update(tree).digest('hex'))
    for await (const page of store.events(session.id, { from: 1, to: Number.POSITIVE_INFINITY }))
      for (const { body } of page)
        for (const hash of hashesIn(JSON.stringify(body[5]), 64)) mentioned.add(hash)
  }
  const nodes = new Map<string, string>()
  // Of deleted sessions with forks, the record and the lineage stay.
  const known = (await all(store, keys.allSessions())).map(([key, json]) => ({
    ...(JSON.parse(json) as { id: string; base?: [string, number]; collected?: true }),
    key,
    json,
  }))
  const gone = known.filter(({ collected }) => collected === true)
  const ancestors = new Set<string>()
  for (const { id } of sessions)
    for (let at = known.find((one) => one.id === id); at?.base !== undefined;) {
      const [parentId] = at.base
      ancestors.add(parentId)
      at = known.find((one) => one.id === parentId)
    }
  for (const { json } of gone) for (const hash of hashesIn(json, 64)) mentioned.add(hash)
  for (const [key, json] of await all(store, keys.node(''))) nodes.set(key.slice(1), json)
  const reachedBelow = (texts: readonly string[]): Set<string> => {
    const reached = new Set<string>()
    const visit = (json: string): void => {
      for (const address of hashesIn(json, 40)) {
        if (reached.has(address) || !nodes.has(address)) continue
        reached.add(address)
        visit(nodes.get(address)!)
      }
    }
    for (const json of texts) visit(json)
    return reached
  }
  const reachedFrom = async (prefixes: readonly string[]): Promise<Set<string>> => {
    const texts: string[] = []
    for (const prefix of prefixes) for (const [, json] of await all(store, prefix)) texts.push(json)
    return reachedBelow(texts)
  }
  if (keepRedo) {
    for (const address of await reachedFrom(['r']))
      for (const hash of hashesIn(nodes.get(address), 64)) mentioned.add(hash)
    for (const [, json] of await all(store, 'r')) for (const hash of hashesIn(json, 64)) mentioned.add(hash)
  }
  // The states that forks started from and that were merged, and the trees of merges with conflicts.
  for (const address of [...(await reachedFrom(['L', 'C'])), ...reachedBelow(gone.map(({ json }) => json))])
    for (const hash of hashesIn(nodes.get(address), 64)) mentioned.add(hash)
  for (const prefix of ['L', 'C'])
    for (const [, json] of await all(store, prefix))
      for (const hash of hashesIn(json, 64)) mentioned.add(hash)
  const blobs = new Set((await store.listBlobs!('', Number.MAX_SAFE_INTEGER)).map(({ hash }) => hash))
  const reached = await reachedFrom(['r', 's', 'L', 'C'])
  const ids = new Set(sessions.map(({ id }) => id))
  const records = gone.filter(({ id }) => !ancestors.has(id)).map(({ key }) => key)
  for (const prefix of ['r', 'k', 'c', 'a', 'p', 'u', 'h', 'x', 't', 'q', 'l', 'v', 'L', 'C'])
    for (const [key] of await all(store, prefix)) {
      const id = key.slice(1, 37)
      if (!ids.has(id) && !(prefix === 'L' && ancestors.has(id))) records.push(key)
    }
  return {
    missingContents: [...contents].filter((hash) => !blobs.has(hash)),
    contents: [...blobs].filter((hash) => !contents.has(hash) && !mentioned.has(hash)),
    nodes: [...nodes.keys()].filter((address) => !reached.has(address)),
    records,
  }
}

function hashesIn(json: string | undefined, digits: number): string[] {
  return (json?.match(/"[0-9a-f]+"/g) ?? [])
    .map((text) => text.slice(1, -1))
    .filter(({ length }) => length === digits)
}

function all(store: Store, prefix: string): ReturnType<Store['scan']> {
  return store.scan({ gte: prefix, lt: prefixEnd(prefix), limit: Number.MAX_SAFE_INTEGER })
}
