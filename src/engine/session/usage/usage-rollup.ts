import { keys } from '../../storage/keys.js'
import { scanAll } from '../../storage/scan-all.js'
import type { StoreCommit } from '../../storage/store.js'
import type { Core } from '../core.js'
import { type UsageRollup, usageRollupKind } from '../../records/usage-rollup.js'

const hourMs = 3_600_000

/**
 * Adds deleted sessions to the sums for usage. The caller commits the result together with their deletion.
 */
export async function rollUpSessions(
  core: Core,
  tenantKey: string,
  sessions: Iterable<{ readonly createdAt: number; readonly deletedAt: number }>,
): Promise<NonNullable<StoreCommit['put']>> {
  const put = new Map<string, UsageRollup>()
  for (const { createdAt, deletedAt } of sessions) {
    const key = keys.usageRollup(tenantKey, hourOf(createdAt), hourOf(deletedAt))
    const json = put.has(key) ? undefined : await core.store.get(key)
    const known = json === undefined ? put.get(key) : usageRollupKind.parse(json)
    const [from, until, count] = known ?? [0, 0, 0]
    // Means keep the sum of the lifetimes exact.
    put.set(key, [
      from + (createdAt - from) / (count + 1),
      until + (deletedAt - until) / (count + 1),
      count + 1,
    ])
  }
  return [...put]
}

/** The sums of the caller's tenant, in no particular order. */
export async function* usageRollups(core: Core): AsyncGenerator<UsageRollup, void> {
  for await (const page of scanAll(core, keys.allUsageRollups(core.tenantKey)))
    for (const [, json] of page) yield usageRollupKind.parse(json)
}

function hourOf(time: number): number {
  return Math.max(0, Math.floor(time / hourMs))
}
