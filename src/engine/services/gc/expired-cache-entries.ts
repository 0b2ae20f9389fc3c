import { EngineError } from '../../base/errors.js'
import { idLength } from '../../base/ids.js'
import { cacheEntryKind } from '../../records/cache-entry.js'
import type { Core } from '../../session/core.js'
import { keyPrefixes, keys } from '../../storage/keys.js'
import { scanAll } from '../../storage/scan-all.js'
import { asTenant, rest, type Run } from './run.js'

/**
 * Deletes expired entries of caches. A cache deletes its own with its next write, but there may be none. On a shared store
 * this is left to that write, because another engine may use the cache.
 */
export async function deleteExpiredEntries(run: Run): Promise<void> {
  const { core } = run
  if (run.shared !== undefined) return
  const now = likelyTime(core)
  const sessions = new Set<string>()
  for await (const page of scanAll(core, keyPrefixes.cacheEntry))
    for (const [key, json] of page) {
      await rest(run)
      const { expiresAt } = cacheEntryKind.parse(json, key)
      if (expiresAt !== 0 && expiresAt <= now) sessions.add(key.slice(1, 1 + idLength))
    }
  if (sessions.size === 0) return
  for await (const page of scanAll(core, keys.allSessions()))
    for (const [key] of page) {
      await rest(run)
      const sessionId = keys.sessionIdOf(key)
      if (!sessions.has(sessionId)) continue
      // It may have been deleted meanwhile.
      const tenant = asTenant(core, keys.tenantOfSession(key))
      await core.trimCache(tenant, sessionId, now).catch((error: unknown) => {
        if (!(error instanceof EngineError) || error.reason !== 'SESSION_NOT_FOUND') throw error
      })
    }
}

/** The time, unless the wall clock has jumped ahead since the engine was opened. */
function likelyTime({ environment, opened }: Core): number {
  return Math.min(environment.wallClockMs(), opened.wallMs + environment.monotonicMs() - opened.monotonicMs)
}
