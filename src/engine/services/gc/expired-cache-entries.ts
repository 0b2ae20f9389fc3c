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
  const { core, counts } = run
  if (run.shared !== undefined) return
  const now = likelyTime(core)
  const sessions = new Map<string, { records: number; bytes: number }>()
  for await (const page of scanAll(core, keyPrefixes.cacheEntry))
    for (const [key, json] of page) {
      await rest(run)
      const { expiresAt } = cacheEntryKind.parse(json, key)
      if (expiresAt === 0 || expiresAt > now) continue
      const sessionId = key.slice(1, 1 + idLength)
      const { records, bytes } = sessions.get(sessionId) ?? { records: 0, bytes: 0 }
      sessions.set(sessionId, { records: records + 1, bytes: bytes + key.length + json.length })
    }
  if (sessions.size === 0) return
  for await (const page of scanAll(core, keys.allSessions()))
    for (const [key] of page) {
      await rest(run)
      const sessionId = keys.sessionIdOf(key)
      const expired = sessions.get(sessionId)
      if (expired === undefined) continue
      const tenant = asTenant(core, keys.tenantOfSession(key))
      try {
        await core.trimCache(tenant, sessionId, now)
      } catch (error) {
        // It may have been deleted meanwhile.
        if (error instanceof EngineError && error.reason === 'SESSION_NOT_FOUND') continue
        throw error
      }
      counts.deletedRecords += expired.records
      counts.freedBytes += expired.bytes
    }
}

/** The time, unless the wall clock has jumped ahead since the engine was opened. */
function likelyTime({ environment, opened }: Core): number {
  return Math.min(environment.wallClockMs(), opened.wallMs + environment.monotonicMs() - opened.monotonicMs)
}
