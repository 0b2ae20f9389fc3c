/** The trees of sessions that callers may still use, which a collection keeps. */
import { expect, test } from 'vitest'
import type { FileReference } from '../../src/engine/session/file-references.js'
import type { LiveSession } from '../../src/engine/session/table/live.js'
import { SessionTable } from '../../src/engine/session/table/session-table.js'

const sessionWith = (references: Set<FileReference> | undefined): LiveSession => {
  const fake: Partial<Record<keyof LiveSession, unknown>> = {
    id: 's',
    tree: { freeze: () => 'tree' },
    baseline: 'baseline',
    pins: new Map([[3, 'pinned']]),
    fileReferences: references,
    acknowledged: Promise.resolve(),
    followers: new Set(),
  }
  return fake as LiveSession
}

test('a session that a failed write drops keeps its trees if a file is open, until it is read again', async () => {
  const table = new SessionTable(0)
  const live = sessionWith(new Set())
  table.live.set('s', live)
  expect([...table.trees()]).toEqual(['tree', 'baseline', 'pinned'])
  table.discardAll(() => undefined)
  expect(table.live.size).toBe(0)
  expect([...table.trees()]).toEqual(['tree', 'baseline', 'pinned'])
  table.dropped.delete('s')
  expect([...table.trees()]).toEqual([])
  await table.draining.get('s')
})

test('a session without open files that a failed write drops leaves no trees, and nor does a deleted one', async () => {
  for (const why of ['failed', 'deleted'] as const) {
    const table = new SessionTable(0)
    const live = sessionWith(why === 'failed' ? undefined : new Set())
    table.live.set('s', live)
    table.discard(live, why)
    expect([...table.trees()]).toEqual([])
    await table.draining.get('s')
  }
})
