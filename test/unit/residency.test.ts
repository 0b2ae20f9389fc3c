/** Which sessions stay in memory, and which need a snapshot. */
import { describe, expect, test } from 'vitest'
import { limits } from '../../src/engine/base/limits.js'
import type { Core } from '../../src/engine/session/core.js'
import { SharedSession } from '../../src/engine/session/sharing/shared-session.js'
import { Sharing } from '../../src/engine/session/sharing/sharing.js'
import { evictWhenDue } from '../../src/engine/session/table/eviction.js'
import type { LiveSession } from '../../src/engine/session/table/live.js'
import { CheckpointIndex } from '../../src/engine/session/table/live.js'
import { Residency } from '../../src/engine/session/table/residency.js'
import type { CheckpointRecord } from '../../src/engine/records/checkpoint.js'

interface Fields {
  readonly bytes?: number
  readonly idle?: boolean
  readonly seq?: number
  readonly snapshotSeq?: number
  readonly snapshotSize?: number
  readonly unstoredBytes?: number
  readonly pins?: ReadonlyMap<number, object>
  readonly pinnedBytes?: number
  readonly tenantKey?: string
  readonly unsnapshotted?: number
  readonly lastActivityAt?: number
  readonly activityStoredAt?: number
}

function sessionOf(id: string, fields: Fields = {}): LiveSession {
  const session = {
    id,
    tenantKey: 'tenant',
    idle: true,
    bytes: 0,
    seq: 0,
    snapshotSeq: 0,
    snapshotSize: 0,
    unstoredBytes: 0,
    pinnedBytes: 0,
    slot: { synchronous: false, live: undefined },
    ...fields,
  }
  return session as unknown as LiveSession
}

function residencyOf(budget: number, ...sessions: LiveSession[]): Residency {
  const residency = new Residency(new Map(), budget)
  for (const session of sessions) residency.enter(session)
  return residency
}

const ids = (sessions: readonly LiveSession[]): string[] => sessions.map(({ id }) => id)

describe('sessions that are over the budget together', () => {
  const sessions = (bytes: number): LiveSession[] =>
    ['a', 'b', 'c', 'd'].map((id) => sessionOf(id, { bytes }))

  test('are evicted only above it', () => {
    expect(residencyOf(100, ...sessions(25)).toEvict()).toEqual([])
    expect(residencyOf(99, ...sessions(25)).toEvict()).not.toEqual([])
  })

  test('are evicted from the least recently used on, until a quarter of the budget is free', () => {
    const all = sessions(25)
    const residency = residencyOf(80, ...all)
    residency.used(all[0]!)
    expect(ids(residency.toEvict())).toEqual(['b', 'c'])
    // Exactly three quarters are left.
    expect(ids(residencyOf(100, ...sessions(25), sessionOf('e', { bytes: 1 })).toEvict())).toEqual(['a', 'b'])
    expect(ids(residencyOf(100, sessionOf('e', { bytes: 1 }), ...sessions(25)).toEvict())).toEqual(['e', 'a'])
  })

  test('do not include those in use, which also do not count', () => {
    const busy = sessionOf('busy', { bytes: 1000, idle: false })
    expect(residencyOf(100, busy, ...sessions(25)).toEvict()).toEqual([])
    expect(ids(residencyOf(99, busy, ...sessions(25)).toEvict())).toEqual(['a', 'b'])
  })

  test('count with the records of services', () => {
    const residency = residencyOf(100, ...sessions(25))
    residency.weigh(({ id }) => (id === 'b' ? 1 : 0))
    residency.weigh(() => 0)
    expect(ids(residency.toEvict())).toEqual(['a', 'b'])
  })
})

describe('the eviction of idle sessions', () => {
  /** Evicts one session, while its last read is being stored. */
  async function evicted(
    meanwhile: (live: LiveSession, table: Map<string, LiveSession>) => void,
  ): Promise<boolean> {
    const live = sessionOf('a', { bytes: 200, unsnapshotted: 0, lastActivityAt: 2, activityStoredAt: 1 })
    const table = new Map([[live.id, live]])
    const residency = new Residency(table, 100)
    Object.defineProperty(residency, 'due', { value: true })
    const background = new Set<Promise<unknown>>()
    const core = {
      fence: { closed: false },
      table: { residency, live: table },
      log: (_level: string, message: string, details: object) =>
        expect.unreachable(`${message} ${JSON.stringify(details)}`),
      store: {
        commit: async () => {
          meanwhile(live, table)
          return true
        },
      },
      background,
    }
    evictWhenDue(core as unknown as Core)
    await Promise.all(background)
    return residency.evicted.length > 0
  }

  test('does not happen to one that is used, or replaced, meanwhile', async () => {
    expect(await evicted(() => undefined)).toBe(true)
    expect(await evicted((live) => (live.usedAt += 1))).toBe(false)
    expect(await evicted((live) => Object.assign(live, { idle: false }))).toBe(false)
    expect(await evicted((live, table) => table.set(live.id, sessionOf('a')))).toBe(false)
  })
})

describe('an evicted session', () => {
  test('comes back when an operation that still uses it compares it with a shared store', async () => {
    const seen = { head: 'head', stored: {} as SharedSession['stored'], readAt: 0, nextHead: () => '' }
    const shared = new SharedSession('a', seen)
    const live = Object.assign(sessionOf('a'), { shared })
    const table = new Map<string, LiveSession>()
    const residency = new Residency(table, 100)
    residency.enter(live)
    residency.evict(live)
    let looks = 0
    const values = (): Iterable<LiveSession> => {
      if (++looks > 10) throw new Error('the looks do not end')
      return table.values()
    }
    const core = {
      environment: { monotonicMs: () => 10 },
      table: { live: { values }, inUse: new Map(), residency },
      store: { shared: { heads: () => Promise.resolve(new Map([['a', 'head']])) } },
    } as unknown as Core
    const [store, parts] = [{ engineId: 'e' }, {}] as unknown as [
      ConstructorParameters<typeof Sharing>[1],
      ConstructorParameters<typeof Sharing>[2],
    ]
    await new Sharing({ freshnessMs: 1 }, store, parts).freshen(core, live)
    expect([looks, shared.readAt, table.get('a')]).toEqual([1, 10, live])
  })

  test('comes back as the same object for its tenant', () => {
    const live = sessionOf('a')
    const residency = residencyOf(100, live)
    residency.evict(live)
    expect(live.slot.live).toBeUndefined()
    expect(ids(residency.evicted)).toEqual(['a'])
    expect(residency.revive('a', 'other')).toBeUndefined()
    expect(residency.revive('b', 'tenant')).toBeUndefined()
    expect(residency.revive('a', 'tenant')).toBe(live)
    expect([residency.evicted, live.slot.live, live.revive]).toEqual([[], live, undefined])
    residency.evict(live)
    expect(residency.takeEvicted()).toEqual([live])
    expect(residency.evicted).toEqual([])
  })

  test('keeps nothing that can be read again', () => {
    const live = sessionOf('a', { pins: new Map([[1, {}]]), pinnedBytes: 7 })
    live.checkpoints = new CheckpointIndex()
    live.lineage = []
    live.branchTips = new Map()
    residencyOf(100, live).evict(live)
    const { pins, pinnedBytes, checkpoints, lineage, branchTips } = live
    expect([pins, pinnedBytes, checkpoints, lineage, branchTips]).toEqual([
      undefined,
      0,
      undefined,
      undefined,
      undefined,
    ])
  })

  test('does not come back once it was discarded', () => {
    const live = sessionOf('a')
    const residency = residencyOf(100, live)
    residency.evict(live)
    live.discarded = 'deleted'
    live.revive?.()
    expect(live.slot.live).toBeUndefined()
  })

  test('stays in its slot if it was used synchronously', () => {
    const live = sessionOf('a')
    live.slot.synchronous = true
    const residency = residencyOf(100, live)
    const { epoch } = live
    residency.evict(live)
    expect(live.slot.live).toBe(live)
    expect(live.epoch).not.toBe(epoch)
  })
})

describe('a snapshot', () => {
  const { eventsPerSnapshot, eventsPerSnapshotMax, snapshotSizePerEvent } = limits
  const budget = 1000
  const wants = (fields: Fields): boolean => residencyOf(budget).wantsSnapshot(sessionOf('a', fields))

  test('is due after some events, if the one before was not large', () => {
    expect(wants({ seq: eventsPerSnapshot + 4, snapshotSeq: 5 })).toBe(false)
    expect(wants({ seq: eventsPerSnapshot + 5, snapshotSeq: 5 })).toBe(true)
    const seq = eventsPerSnapshot + 10
    expect(wants({ seq, snapshotSize: seq * snapshotSizePerEvent })).toBe(true)
    expect(wants({ seq, snapshotSize: seq * snapshotSizePerEvent + 1 })).toBe(false)
    expect(wants({ seq: eventsPerSnapshotMax - 1, snapshotSize: 1e12 })).toBe(false)
    expect(wants({ seq: eventsPerSnapshotMax, snapshotSize: 1e12 })).toBe(true)
  })

  test('is due when too much is not stored', () => {
    expect([wants({ unstoredBytes: budget }), wants({ unstoredBytes: budget + 1 })]).toEqual([false, true])
    const large = { seq: eventsPerSnapshot, snapshotSize: 1e12 }
    expect(wants({ ...large, unstoredBytes: budget })).toBe(false)
    expect(wants({ ...large, unstoredBytes: budget + 1 })).toBe(true)
    const residency = residencyOf(budget)
    expect(residency.isOverdue(sessionOf('a', { unstoredBytes: 2 * budget }))).toBe(false)
    expect(residency.isOverdue(sessionOf('a', { unstoredBytes: 2 * budget + 1 }))).toBe(true)
  })

  test('is made of idle sessions with a share of the budget', () => {
    const share = 800 / limits.sessionShare
    const sessions = [
      sessionOf('at', { unstoredBytes: share }),
      sessionOf('above', { unstoredBytes: share + 1 }),
      sessionOf('busy', { unstoredBytes: share + 1, idle: false }),
    ]
    expect(ids(residencyOf(800, ...sessions).toSnapshot())).toEqual(['above'])
  })

  test('is never made in memory that is not durable', () => {
    const residency = residencyOf(Number.POSITIVE_INFINITY)
    const session = sessionOf('a', { seq: 1e9, unstoredBytes: 1e12, pins: new Map(), pinnedBytes: 1e12 })
    expect([residency.wantsSnapshot(session), residency.hasTooManyPins(session), residency.due]).toEqual([
      false,
      false,
      false,
    ])
  })
})

test('a session may hold a number of earlier states, and a share of the budget', () => {
  const residency = residencyOf(800)
  const pins = (count: number): ReadonlyMap<number, object> =>
    new Map(Array.from({ length: count }, (_, index) => [index, {}]))
  expect(residency.hasTooManyPins(sessionOf('a'))).toBe(false)
  expect(residency.hasTooManyPins(sessionOf('a', { pins: pins(limits.pinnedRoots) }))).toBe(false)
  expect(residency.hasTooManyPins(sessionOf('a', { pins: pins(limits.pinnedRoots + 1) }))).toBe(true)
  const share = 800 / limits.sessionShare
  expect(residency.hasTooManyPins(sessionOf('a', { pins: pins(1), pinnedBytes: share }))).toBe(false)
  expect(residency.hasTooManyPins(sessionOf('a', { pins: pins(1), pinnedBytes: share + 1 }))).toBe(true)
})

test('a look at the budget is due once in a number of uses', () => {
  const residency = residencyOf(100)
  const dues = Array.from({ length: 2 * limits.sessionsLookedAt }, () => residency.due)
  expect(dues.flatMap((due, index) => (due ? [index + 1] : []))).toEqual([
    limits.sessionsLookedAt,
    2 * limits.sessionsLookedAt,
  ])
})

test('checkpoints are found by id and label, until they are deleted', () => {
  const index = new CheckpointIndex()
  const checkpoint = (id: string, label: string, metadata?: object): CheckpointRecord =>
    ({ id, label, seq: 1, ...(metadata && { metadata }) }) as CheckpointRecord
  expect([index.size, index.bytes, index.byId('a'), index.byLabel(''), [...index.values()]]).toEqual([
    0,
    0,
    undefined,
    undefined,
    [],
  ])
  const plain = checkpoint('a', '')
  const labelled = checkpoint('b', 'label', { key: 'value' })
  index.add(plain)
  const { bytes } = index
  index.add(labelled)
  expect(index.bytes).toBeGreaterThan(2 * bytes)
  expect([index.size, index.byId('a'), index.byLabel('label'), index.byLabel('')]).toEqual([
    2,
    plain,
    labelled,
    undefined,
  ])
  index.delete(labelled)
  index.delete(labelled)
  expect([index.size, index.bytes, index.byId('b'), index.byLabel('label')]).toEqual([
    1,
    bytes,
    undefined,
    undefined,
  ])
})
