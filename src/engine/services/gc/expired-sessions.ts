import { itemAt, present } from '../../base/present.js'
import { firstAtLeast } from '../../base/ascending.js'
import { EngineError } from '../../base/errors.js'
import { idLength } from '../../base/ids.js'
import { inGroups } from '../../base/in-groups.js'
import { limits } from '../../base/limits.js'
import { lastActivities } from '../../session/table/activity.js'
import { expireNow } from '../../session/table/expiry.js'
import { isExpired } from '../../session/table/unused.js'
import {
  keepLineage,
  prepareHistory,
  pruneHistory,
  type SettledHistory,
} from '../../session/history/prune.js'
import { rollUpSessions } from '../../session/usage/usage-rollup.js'
import { findSession } from '../../session/history/replay.js'
import { sessionKind, type SessionRecord } from '../../records/session.js'
import { lineageKind } from '../../records/lineage.js'
import { keyPrefixes, keys, prefixEnd } from '../../storage/keys.js'
import { scanAll } from '../../storage/scan-all.js'
import { asTenant, queued, rest, type Run } from './run.js'
import { isUnneeded, readStateReferences, StateReferences } from './state-references.js'
import { sessionRecordKinds } from '../../records/index.js'

/** A session as it is stored. */
export interface StoredSession {
  readonly key: string
  readonly tenantKey: string
  readonly record: SessionRecord
}

/** A history that loses older redo or snapshots. */
type Pruned = SettledHistory & Pick<StoredSession, 'tenantKey'>

/**
 * The sessions of every tenant with keys below `before`, in reverse order of keys. Sessions that are created meanwhile
 * are therefore not visited. It rests in between, because a caller may skip most sessions without any wait.
 */
async function* storedSessions(run: Run, before?: string): AsyncGenerator<StoredSession, void> {
  const bounds = before === undefined ? {} : { before }
  for await (const page of scanAll(run.core, keys.allSessions(), { reverse: true, ...bounds }))
    for (const [key, json] of page) {
      if (run.slice.over) await rest(run)
      yield { key, tenantKey: keys.tenantOfSession(key), record: sessionKind.parse(json) }
    }
}

/**
 * Removes unneeded history: redo before the oldest referenced state, snapshots that replay to no such
 * state, and deleted sessions. Before that, it stores the snapshots that all other sessions need in their
 * place. It holds the plans of a bounded number of sessions in memory.
 */
export async function settleSessions(run: Run): Promise<void> {
  const { core } = run
  const references = new StateReferences(run.markBytes)
  await deleteExpired(run, references)
  // On a shared store, every engine notes forks from the first epoch on.
  using _ = run.shared === undefined ? core.pins.pin({ forks: true }) : undefined
  // After this, reads see every fork that began before the pin.
  await (run.shared?.barrier('history') ?? queued(core))
  await readStateReferences(run, references)
  let done = 0
  let from: string | undefined
  let isFirst = true
  do {
    const histories: Pruned[] = []
    let next: string | undefined
    const unprepared = async function* (): AsyncGenerator<StoredSession, void> {
      for await (const session of storedSessions(run, from)) {
        if (histories.length >= limits.sessionsPerPrune) next ??= session.key
        // The first round prepares all sessions, because each may be a fork of one that this round prunes.
        if (next !== undefined && !isFirst) return
        yield session
      }
    }
    await inGroups(unprepared(), limits.collectedAtOnce, async ({ tenantKey, record }) => {
      if (references.isUnneeded(core, record)) {
        if (mustStay(references, record)) await keepLineage(asTenant(core, tenantKey), record, references)
        return
      }
      // The import of a bundle has not completed it.
      if (record.deletedAt === record.createdAt) return
      const history = await prepareHistory(asTenant(core, tenantKey), record, {
        keepRedo: run.keepRedo,
        references,
      })
      const { plan } = history
      const isPruned = plan.drop.length > 0 || plan.pruneTo > history.prunedTo
      if (isPruned && next === undefined) histories.push({ ...history, tenantKey })
      run.report('sessions', ++done)
      await rest(run)
    })
    await pruneAll(run, histories)
    from = next === undefined ? undefined : `${next}\0`
    isFirst = false
  } while (from !== undefined)
  await deleteUnneeded(run, references, done)
}

/** Whether the ancestry of a deleted session is still to be kept, apart from the rest. */
function mustStay(references: StateReferences, { id, collected }: SessionRecord): boolean {
  return collected !== true && references.isParent(id)
}

async function pruneAll(run: Run, histories: readonly Pruned[]): Promise<void> {
  const { core, shared, signal, counts } = run
  if (shared !== undefined && histories.length === 0) return
  // Replays that began before the new snapshots may still read the old redo.
  let held: ReadonlySet<string> = none
  if (shared !== undefined) held = await withAncestors(run, await shared.heldSessions())
  else {
    await queued(core)
    await core.pins.readsEnded()
  }
  await inGroups(histories, limits.collectedAtOnce, async (history) => {
    signal.throwIfAborted()
    if (held.has(history.sessionId)) return
    const pruned = await pruneHistory(asTenant(core, history.tenantKey), history)
    counts.prunedEvents += pruned.events
    counts.deletedRecords += pruned.snapshots
    counts.freedBytes += pruned.bytes
  })
}

const none: ReadonlySet<string> = new Set()

/** Adds the sessions from which some sessions were forked, and so on. */
async function withAncestors(run: Run, sessionIds: ReadonlySet<string>): Promise<ReadonlySet<string>> {
  const all = new Set(sessionIds)
  for (let before = 0; before < all.size;) {
    before = all.size
    // A fork has a later key than its parent, unless the clocks of their engines differed. So one more pass finds no more.
    for await (const { record } of storedSessions(run))
      if (record.base !== undefined && all.has(record.id)) all.add(record.base[0])
  }
  return all
}

/**
 * Removes deleted sessions with all their records and events, in groups. Of a session with forks, the ancestry stays, so
 * that a merge of a fork finds the same base as before. For example, a session was forked, and its fork was forked again.
 * After the deletion of the fork, the two others still have the state in common from which it started.
 */
export async function deleteUnneeded(run: Run, references: StateReferences, done = 0): Promise<void> {
  const { core, shared, signal, report } = run
  let unneeded: StoredSession[] = []
  /** Deleted sessions that forks made meanwhile still depend on. */
  const kept = new Set<string>()
  const flush = async (): Promise<void> => {
    // After this wait, forks that were requested before the deletion have been made and noted. Replays from
    // deleted snapshots have ended too, so no reader needs their nodes any more.
    let held = none
    if (shared === undefined) await core.pins.readsEnded()
    // A session that was deleted before leaves the memory of all engines here.
    else if (unneeded.length > 0) held = await withAncestors(run, await shared.heldSessions())
    for (const sessionId of held) kept.add(sessionId)
    for (const { tenantKey, record } of unneeded) {
      if (core.pins.forksOf(record.id) === undefined) continue
      let needed: SessionRecord | undefined = record
      while (needed !== undefined && !kept.has(needed.id)) {
        kept.add(needed.id)
        needed = needed.base && (await findSession(asTenant(core, tenantKey), needed.base[0]))
      }
    }
    const sessions: StoredSession[] = []
    await inGroups(chunked(unneeded, limits.collectedAtOnce), limits.collectedAtOnce, async (chunk) => {
      signal.throwIfAborted()
      // The import of a bundle may have completed the session since the record was read.
      const stored = await Promise.all(chunk.map(async ({ key }) => core.store.get(key)))
      const gone = chunk.filter(({ record }, index) => {
        const json = stored[index]
        return (
          json !== undefined && !kept.has(record.id) && references.isUnneeded(core, sessionKind.parse(json))
        )
      })
      const isEmptied = (session: StoredSession): boolean => mustStay(references, session.record)
      await deleteRecords(run, gone, new Set(gone.filter(isEmptied).map(({ record }) => record.id)))
      sessions.push(...gone)
    })
    unneeded = []
    // Sessions are deleted in order of creation.
    sessions.sort((a, b) => (a.key < b.key ? -1 : 1))
    for (const chunk of chunked(sessions, limits.collectedAtOnce)) {
      signal.throwIfAborted()
      await deleteSessions(run, chunk, references)
      report('sessions', (done += chunk.length))
    }
  }
  for await (const session of storedSessions(run)) {
    const { record } = session
    if (!references.isUnneeded(core, record) || core.pins.isArriving(record.id)) continue
    if (record.collected === true && references.isParent(record.id)) continue
    if (unneeded.push(session) === limits.sessionsPerPrune) await flush()
  }
  await flush()
  // Replays that began before the deletion may still start from its trees.
  await core.pins.readsEnded()
}

/** Deletes sessions that were not used for longer than their time to live. Notes all sessions that are not needed then. */
export async function deleteExpired(run: Run, references: StateReferences): Promise<void> {
  const { core } = run
  await inGroups(storedSessions(run), limits.collectedAtOnce, async ({ tenantKey, record }) => {
    if (isUnneeded(core, record)) references.addUnneeded(record.id)
    if (record.deletedAt !== undefined || (record.ttlSeconds ?? core.sessionTtlSeconds) === undefined) return
    const tenant = asTenant(core, tenantKey)
    const [lastActivityAt] = await lastActivities(tenant, [record])
    if (!isExpired(core, { record, lastActivityAt: present(lastActivityAt, 'the activity of a session') }))
      return
    const isDeleted = await expireNow(tenant, record.id).then(
      () => false,
      (error: unknown) => {
        if (error instanceof EngineError && error.reason === 'SESSION_NOT_FOUND') return true
        throw error
      },
    )
    if (isDeleted) references.addUnneeded(record.id)
  })
}

function* chunked<T>(items: readonly T[], size: number): Generator<readonly T[], void> {
  for (let from = 0; from < items.length; from += size) yield items.slice(from, from + size)
}

/**
 * Deletes the records of deleted sessions, such as checkpoints and locks. Most sessions have records of few kinds, so one
 * read per kind finds the next session that has any. A read per session and kind takes many times as long.
 */
async function deleteRecords(
  run: Run,
  sessions: readonly StoredSession[],
  emptied: ReadonlySet<string>,
): Promise<void> {
  const ids = sessions.map(({ record }) => record.id).sort()
  await inGroups(sessionRecordKinds, sessionRecordKinds.length, async ({ prefix }) => {
    const isLineage = prefix === keyPrefixes.lineage
    await deleteRecordsOfKind(run, prefix, isLineage ? ids.filter((id) => !emptied.has(id)) : ids)
  })
  for (const id of emptied) await deleteMerges(run, id)
}

/** Deletes the steps of a session's ancestry that are merges. They hold all files of the merged states. */
async function deleteMerges({ core, counts }: Run, sessionId: string): Promise<void> {
  for await (const page of scanAll(core, keys.lineages(sessionId))) {
    const merges = page.filter(([key, json]) => {
      const { merged, rebased } = lineageKind.parse(json, key)
      return merged !== undefined && rebased === undefined
    })
    if (merges.length === 0) continue
    await core.store.commit({ del: merges.map(([key]) => key) })
    counts.deletedRecords += merges.length
    for (const [key, value] of merges) counts.freedBytes += key.length + value.length
  }
}

/** `ids` must be in ascending order. */
async function deleteRecordsOfKind(
  { core, counts, signal }: Run,
  prefix: string,
  ids: readonly string[],
): Promise<void> {
  for (let index = 0; index < ids.length;) {
    signal.throwIfAborted()
    const [next] = await core.store.scan({
      gte: prefix + itemAt(ids, index),
      lt: prefixEnd(prefix + itemAt(ids, -1)),
      limit: 1,
    })
    if (next === undefined) return
    const found = next[0].slice(prefix.length, prefix.length + idLength)
    index = firstAtLeast(ids, found)
    // The record belongs to a session that is kept.
    if (ids[index] !== found) continue
    for await (const page of scanAll(core, prefix + found)) {
      signal.throwIfAborted()
      await core.store.commit({ del: page.map(([key]) => key) })
      counts.deletedRecords += page.length
      for (const [key, value] of page) counts.freedBytes += key.length + value.length
    }
    index++
  }
}

/**
 * Deletes the sessions and their events. Adds the times of their creation and deletion to the sums for usage. The record of
 * a session whose ancestry stays is kept, and so are its times in it.
 */
async function deleteSessions(
  { core, counts }: Run,
  sessions: readonly StoredSession[],
  references: StateReferences,
): Promise<void> {
  const put: (readonly [string, string | object])[] = []
  const emptied = sessions.filter(({ record }) => mustStay(references, record))
  for (const { key, record } of emptied) {
    const { metadata: _, setBacks: _setBacks, ...rest } = record
    put.push([key, { ...rest, tags: {}, collected: true } satisfies SessionRecord])
  }
  const ended = sessions.filter((session) => !emptied.includes(session))
  for (const tenantKey of new Set(ended.map((session) => session.tenantKey))) {
    const all = ended.filter((session) => session.tenantKey === tenantKey)
    // An import that never completed did not exist as a session.
    const deleted = all.flatMap(({ record: { createdAt, deletedAt = createdAt } }) =>
      deletedAt === createdAt ? [] : [{ createdAt, deletedAt }],
    )
    put.push(...(await rollUpSessions(core, tenantKey, deleted)))
  }
  const del = ended.map(({ key }) => key)
  await core.store.commit({ put, del, deleteEvents: sessions.map(({ record }) => record.id) })
  // An emptied session counted when its history was deleted.
  counts.deletedSessions += sessions.filter(({ record }) => record.collected !== true).length
}
