import { memoryStorage, openEngine, type Storage, type Store } from '../../src/index.js'

/** Sizes in bytes. */
export interface LongHistory {
  /** The distinct contents of all states that still have a name. */
  readonly live: number
  /** The stored size of the events that `events.list()` returns and `events.verify()` needs. */
  readonly publicEvents: number
  readonly before: number
  /** The size after a collection. */
  readonly stored: number
}

const files = 100
const kept = 10

/** Makes a session with this many edits and a checkpoint after each, then collects all but the last ten checkpoints. */
export async function longHistory(
  edits: number,
  storage: Storage = memoryStorage({ durable: true }),
): Promise<LongHistory> {
  let store: Store | undefined
  const engine = await openEngine({ storage: { open: async () => (store = await storage.open()) } })
  const session = await engine.sessions.create()
  for (let i = 0; i < edits; i++) {
    const content = `content ${i} `.repeat(400)
    await session.files.write({ path: `/src/${i % files}.ts`, content })
    await session.checkpoint()
  }
  const before = await store!.size!()
  await session.pruneCheckpoints({ keepLast: kept })
  await engine.collect()
  const contents = new Set<number>()
  for (let i = Math.max(0, edits - files - kept); i < edits; i++) contents.add(i)
  let live = 0
  for (const i of contents) live += `content ${i} `.length * 400
  let publicEvents = 0
  for await (const page of store!.events(session.id, { from: 1, to: Number.POSITIVE_INFINITY }))
    for (const { body } of page)
      publicEvents += JSON.stringify(typeof body[5] === 'string' ? body : body.slice(0, 5)).length
  const stored = await store!.size!()
  await engine.close()
  return { live, publicEvents, before, stored }
}
