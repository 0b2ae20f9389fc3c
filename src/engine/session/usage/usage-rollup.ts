import { keys } from '../../storage/keys.js'
import { scanAll } from '../../storage/scan-all.js'
import type { StoreCommit } from '../../storage/store.js'
import type { Core } from '../core.js'
import { type PastSessions, pastSessionsKind } from '../../records/past-sessions.js'

const hourMs = 3_600_000

/** What counts sessions among those that were there, to be committed with what takes their records away. */
export async function countPast(
  core: Core,
  tenantKey: string,
  sessions: Iterable<{ readonly createdAt: number; readonly deletedAt: number }>,
): Promise<NonNullable<StoreCommit['put']>> {
  const put = new Map<string, PastSessions>()
  for (const { createdAt, deletedAt } of sessions) {
    const key = keys.pastSessions(tenantKey, hourOf(createdAt), hourOf(deletedAt))
    const json = put.has(key) ? undefined : await core.store.get(key)
    const known = json === undefined ? put.get(key) : pastSessionsKind.parse(json)
    const [from, until, count] = known ?? [0, 0, 0]
    // Means, so that the sum of the times that they were there stays the same.
    put.set(key, [
      from + (createdAt - from) / (count + 1),
      until + (deletedAt - until) / (count + 1),
      count + 1,
    ])
  }
  return [...put]
}

/** Of the caller's tenant, in no order. */
export async function* pastSessions(core: Core): AsyncGenerator<PastSessions, void> {
  for await (const page of scanAll(core, keys.allPastSessions(core.tenantKey)))
    for (const [, json] of page) yield pastSessionsKind.parse(json)
}

function hourOf(time: number): number {
  return Math.max(0, Math.floor(time / hourMs))
}
