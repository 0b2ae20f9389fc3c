import { sourceKind } from '../../records/source.js'
import { keys } from '../../storage/keys.js'
import { scanAll } from '../../storage/scan-all.js'
import { rest, type Run } from './run.js'

/** Deletes the scans of host directories whose sources are deleted. */
export async function deleteScans(run: Run): Promise<void> {
  const { core, counts, signal } = run
  for await (const page of scanAll(core, keys.allSources())) {
    for (const [key, json] of page) {
      await rest(run)
      const { sourceId, path, deletedAt } = sourceKind.parse(json, key)
      if (path === undefined || deletedAt === undefined) continue
      const seen = keys.hostEntries(keys.tenantOfSource(key), keys.scanPlace(sourceId), '')
      for await (const entries of scanAll(core, seen)) {
        signal.throwIfAborted()
        await core.store.commit({ del: entries.map(([name]) => name) })
        counts.deletedRecords += entries.length
        for (const [name, value] of entries) counts.freedBytes += name.length + value.length
      }
    }
  }
}
