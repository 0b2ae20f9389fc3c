import { keys } from '../storage/keys.js'
import type { StoreCommit } from '../storage/store.js'
import type { Core } from './core.js'
import { scanAll } from './histories.js'

/** Sessions that were there, of one tenant, made in one hour and deleted in one: means of both times. */
export type PastSessions = readonly [createdAt: number, deletedAt: number, count: number]

const hourMs = 3_600_000

/** What counts a session among those that were there, to be committed with what takes its record away. */
export async function countPast(
  core: Core,
  tenantKey: string,
  { createdAt, deletedAt }: { readonly createdAt: number; readonly deletedAt: number },
): Promise<NonNullable<StoreCommit['put']>> {
  const key = keys.pastSessions(tenantKey, hourOf(createdAt), hourOf(deletedAt))
  const json = await core.store.get(key)
  const [from, until, count] = json === undefined ? [0, 0, 0] : (JSON.parse(json) as PastSessions)
  // Means, so that the sum of the times that they were there stays what it was.
  const next: PastSessions = [
    from + (createdAt - from) / (count + 1),
    until + (deletedAt - until) / (count + 1),
    count + 1,
  ]
  return [[key, next]]
}

/** Of the caller's tenant, in no order. */
export async function* pastSessions(core: Core): AsyncGenerator<PastSessions, void> {
  for await (const page of scanAll(core, keys.allPastSessions(core.tenantKey)))
    for (const [, json] of page) yield JSON.parse(json) as PastSessions
}

function hourOf(time: number): number {
  return Math.max(0, Math.floor(time / hourMs))
}
