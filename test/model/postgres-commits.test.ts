/** Random commits to a schema, in groups, with the outcome and the effect that they have one after the other. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { postgresStorage } from '../../src/adapters/postgres/index.js'
import { prefixEnd, type Store, type StoreCommit } from '../../src/engine/ports.js'
import { blobOf, reasonOf } from '../support/level-world.js'
import { freshSchema, hasPostgres, sharedPostgres } from '../support/postgres.js'
import { runs, seed } from '../support/seed.js'

const sessionIds = ['a', 'b', 'c']
const session = fc.constantFrom(...sessionIds)
const key = fc.constantFrom('k1', 'k2', 'n1')
const blob = fc.nat(2)
const some = <T>(one: fc.Arbitrary<T>): fc.Arbitrary<T[]> => fc.array(one, { maxLength: 2 })
/** Most commits are the next ones of their sessions, so that they are stored, and others build on them. */
const mostly = <T>(usual: T, ...others: T[]): fc.Arbitrary<T> =>
  fc.oneof({ weight: 8, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: fc.constantFrom(...others) })

/** The head that a commit expects: that of the session, none, the newest one that a commit was to set, or another one. */
type Head = 'current' | 'none' | 'attempted' | 'unknown'

const command = fc.record({
  /** The number of the first event, from the next one of the session. */
  events: some(
    fc.record({ session, from: mostly(0, -1, 1, 2), count: fc.constantFrom(1, 1, 2), step: mostly(1, 0, 2) }),
  ),
  heads: some(fc.record({ session, from: mostly<Head>('current', 'none', 'attempted', 'unknown') })),
  put: some(key),
  del: some(key),
  /** The number of the event, from the newest one of the session. */
  replace: some(fc.record({ session, at: mostly(0, -1, 1) })),
  blobs: some(blob),
  deleteBlobs: some(blob),
  deleted: fc.oneof({ weight: 9, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: session }),
})
type Command = typeof command extends fc.Arbitrary<infer T> ? T : never

type Outcome = boolean | 'INTERNAL'

/** The contents of a store, to which commits are applied one after the other. */
class Model {
  readonly heads = new Map<string, string>()
  readonly events = new Map<string, string[]>()
  readonly records = new Map<string, string>()
  readonly blobs = new Set<number>()
  readonly #attempted = new Map<string, string>()
  #made = 0

  /** Makes a commit, applies it, and returns it with its outcome. */
  next(command: Command): { readonly commit: StoreCommit; readonly outcome: Outcome } {
    const value = `v${++this.#made}`
    const events = this.#distinct(command.events).flatMap(({ session, from, count, step }) => {
      const first = Math.max(1, (this.events.get(session)?.length ?? 0) + 1 + from)
      return Array.from({ length: count }, (_, n) => ({
        sessionId: session,
        seq: first + n * step,
        body: [value],
      }))
    })
    const heads = this.#distinct(command.heads).map(({ session, from }) => {
      const to = `${value}-${session}`
      const expected = {
        current: this.heads.get(session) ?? '',
        none: '',
        attempted: this.#attempted.get(session) ?? '',
        unknown: 'unknown',
      }[from]
      this.#attempted.set(session, to)
      return { id: session, from: expected, to }
    })
    const replaceEvents = this.#distinct(command.replace).map(({ session, at }) => ({
      sessionId: session,
      seq: Math.max(1, (this.events.get(session)?.length ?? 0) + at),
      body: [`${value} again`],
    }))
    const { deleted } = command
    // A collection deletes the events of sessions, and does nothing else.
    const commit: StoreCommit =
      deleted === undefined
        ? {
            events,
            heads,
            replaceEvents,
            put: [...new Set(command.put)].map((key) => [key, value] as const),
            del: [...new Set(command.del)].filter((key) => !command.put.includes(key)),
            blobs: command.blobs.map((one) => blobOf(one, 9)),
            deleteBlobs: command.deleteBlobs.map((one) => blobOf(one, 9).hash),
          }
        : { deleteEvents: [deleted], del: command.del }
    const outcome = this.#outcomeOf(commit)
    if (outcome === true) this.#apply(commit, command)
    return { commit, outcome }
  }

  #distinct<T extends { readonly session: string }>(ofSessions: readonly T[]): T[] {
    return ofSessions.filter((one, n) => ofSessions.findIndex(({ session }) => session === one.session) === n)
  }

  #outcomeOf({ events = [], heads = [], replaceEvents = [] }: StoreCommit): Outcome {
    const added = new Map<string, typeof events>()
    for (const event of events) added.set(event.sessionId, [...(added.get(event.sessionId) ?? []), event])
    for (const ofSession of added.values())
      for (const [n, { seq }] of ofSession.entries()) {
        const before = ofSession[n - 1]?.seq ?? seq - 1
        if (seq <= before) return false
        if (seq > before + 1) return 'INTERNAL'
      }
    if (heads.some(({ id, from }) => (this.heads.get(id) ?? '') !== from)) return false
    const starts = [...added].map(([id, ofSession]) => (ofSession[0]?.seq ?? 0) - this.#last(id))
    if (starts.some((start) => start < 1)) return false
    if (starts.some((start) => start > 1)) return 'INTERNAL'
    const isKnown = (id: string, seq: number): boolean =>
      seq <= this.#last(id) || added.get(id)?.some((event) => event.seq === seq) === true
    return replaceEvents.every(({ sessionId, seq }) => isKnown(sessionId, seq)) || 'INTERNAL'
  }

  #last(sessionId: string): number {
    return this.events.get(sessionId)?.length ?? 0
  }

  #apply(commit: StoreCommit, command: Command): void {
    for (const { sessionId, body } of commit.events ?? [])
      this.events.set(sessionId, [...(this.events.get(sessionId) ?? []), JSON.stringify(body)])
    for (const { sessionId, seq, body } of commit.replaceEvents ?? []) {
      const bodies = this.events.get(sessionId)
      if (bodies !== undefined) bodies[seq - 1] = JSON.stringify(body)
    }
    for (const { id, to } of commit.heads ?? []) this.heads.set(id, to)
    for (const [key] of commit.put ?? []) this.records.set(key, `v${this.#made}`)
    for (const key of commit.del ?? []) this.records.delete(key)
    for (const id of commit.deleteEvents ?? []) {
      this.events.delete(id)
      this.heads.delete(id)
      return
    }
    for (const one of command.deleteBlobs) this.blobs.delete(one)
    for (const one of command.blobs) this.blobs.add(one)
  }

  get contents(): object {
    return {
      heads: Object.fromEntries(this.heads),
      events: Object.fromEntries(sessionIds.map((id) => [id, this.events.get(id) ?? []])),
      records: Object.fromEntries(this.records),
      blobs: [...this.blobs].map((one) => blobOf(one, 9).hash).sort(),
    }
  }
}

async function contentsOf(store: Store, heads: ReadonlyMap<string, string>): Promise<object> {
  const events: Record<string, string[]> = {}
  for (const id of sessionIds) {
    events[id] = []
    for await (const page of store.events(id, { from: 1, to: Infinity }))
      for (const { body } of page) events[id].push(JSON.stringify(body))
  }
  return {
    heads: Object.fromEntries(heads),
    events,
    records: Object.fromEntries(await store.scan({ gte: '', lt: prefixEnd(''), limit: 99 })),
    blobs: ((await store.listBlobs?.('', 99)) ?? []).map(({ hash }) => hash),
  }
}

test.skipIf(!hasPostgres).each([true, false])(
  `commits have the effect of one after the other (FORKSPACE_SEED=${seed}), shared: %s`,
  { timeout: 600_000 },
  async (shared) => {
    const server = await sharedPostgres()
    const { connectionString } = server
    const schema = freshSchema()
    const storage = postgresStorage({ connectionString, schema, shared, durability: 'relaxed' })
    const store = await storage.open()
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(command, { minLength: 1, maxLength: 6 }), { minLength: 1 }),
        async (groups) => {
          const tables = ['heads', 'events', 'records', 'nodes', 'blobs']
          await server.sql(tables.map((table) => `DELETE FROM ${schema}.${table}`).join(';'))
          const model = new Model()
          for (const group of groups) {
            const expected: Outcome[] = []
            const outcomes: Promise<unknown>[] = []
            for (const command of group) {
              const { commit, outcome } = model.next(command)
              expected.push(outcome)
              outcomes.push(store.commit(commit).catch(reasonOf))
            }
            expect(await Promise.all(outcomes)).toEqual(expected)
          }
          const rows = await server.sql(
            `SELECT encode(session_id, 'escape') AS id, head FROM ${schema}.heads`,
          )
          const heads = new Map(rows.map(({ id, head }) => [String(id), String(head)] as const))
          expect(await contentsOf(store, heads)).toEqual(model.contents)
        },
      ),
      { seed, numRuns: runs(350) },
    )
    await store.close()
  },
)
