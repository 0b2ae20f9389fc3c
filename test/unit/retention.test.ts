import { describe, expect, test } from 'vitest'
import { branchingTargets } from '../../src/engine/session/history/branchings.js'
import { planHistory, type HistoryFacts } from '../../src/engine/session/history/retention.js'

const facts = (some: Partial<HistoryFacts>): HistoryFacts => ({
  last: 0,
  referenced: [],
  snapshots: [],
  prunedTo: 0,
  restores: [],
  gaps: [],
  hasBase: false,
  ...some,
})

describe('the plan of a history', () => {
  test('keeps a snapshot at exactly the spacing from the previous one', () => {
    const some = facts({ last: 30, referenced: [15, 25], snapshots: [10, 20, 30] })
    expect(planHistory(some, { keepRedo: true, spacing: 10 }).drop).toEqual([])
    expect(planHistory(some, { keepRedo: true, spacing: 11 }).drop).toEqual([20])
  })

  test('needs one snapshot if a restore leads to the oldest referenced state', () => {
    const some = facts({ last: 10, referenced: [5], restores: [[8, 5]] })
    expect(planHistory(some, { keepRedo: false, spacing: 100 })).toEqual({ write: [5], drop: [], pruneTo: 5 })
  })

  test('needs a snapshot for each restore to a state before the oldest referenced one', () => {
    const some = facts({ last: 10, referenced: [6, 9], restores: [[8, 5]] })
    expect(planHistory(some, { keepRedo: false, spacing: 100 }).write).toEqual([6, 9])
  })

  test('needs the state that a fork started from, and none for a session that is not a fork', () => {
    const options = { keepRedo: true, spacing: 100 }
    expect(planHistory(facts({ last: 3, hasBase: true }), options).write).toEqual([0])
    expect(planHistory(facts({ last: 3 }), options).write).toEqual([])
  })

  test('keeps the newest snapshot before a run of events without redo, and the first one after it', () => {
    const some = facts({ last: 30, referenced: [5, 25], snapshots: [5, 12, 25], gaps: [[13, 14]] })
    expect(planHistory(some, { keepRedo: true, spacing: 100 }).drop).toEqual([12])
  })

  test('keeps a snapshot between a run of events without redo and a state that is reached from it', () => {
    const some = facts({ last: 30, referenced: [5, 20], snapshots: [5, 15, 30] })
    const options = { keepRedo: true, spacing: 100 }
    expect(planHistory(some, options).drop).toEqual([15])
    expect(planHistory({ ...some, gaps: [[8, 9]] }, options).drop).toEqual([])
    expect(planHistory({ ...some, gaps: [[15, 15]] }, options).drop).toEqual([])
    expect(planHistory({ ...some, gaps: [[4, 5]] }, options).drop).toEqual([15])
  })

  test('keeps the snapshot after a restore that leads to redo which an interrupted collection removed', () => {
    const some = facts({
      last: 20,
      referenced: [2, 11, 13],
      snapshots: [2, 11, 13, 20],
      restores: [[12, 3]],
      gaps: [[3, 11]],
    })
    expect(planHistory(some, { keepRedo: false, spacing: 100 }).drop).not.toContain(13)
  })

  test('keeps the snapshot after a restore that leads to redo before a snapshot which was left over', () => {
    const some = facts({
      last: 15,
      referenced: [4, 12],
      snapshots: [4, 9, 10, 11, 15],
      prunedTo: 10,
      restores: [[11, 9]],
    })
    const { write, drop } = planHistory(some, { keepRedo: true, spacing: 100 })
    expect([...write, ...[4, 9, 10, 11, 15].filter((seq) => !drop.includes(seq))]).toContainEqual(12)
  })

  test('reads no state after a gap that a restore with its own snapshot leads to', () => {
    const some = facts({
      last: 22,
      snapshots: [8, 10, 22],
      referenced: [8, 22],
      prunedTo: 8,
      restores: [
        [10, 4],
        [16, 14],
      ],
      gaps: [[11, 13]],
    })
    expect(planHistory(some, { keepRedo: true, spacing: 100 }).write).toEqual([])
  })

  test('needs no state that an earlier collection left out, if a restore of it has its own snapshot', () => {
    const earlier = facts({ last: 13, referenced: [11], restores: [[12, 9]] })
    const options = { keepRedo: false, spacing: 100 }
    expect(planHistory(earlier, options)).toEqual({ write: [11, 13], drop: [], pruneTo: 11 })
    const later = facts({
      ...earlier,
      last: 19,
      snapshots: [11, 13, 14],
      prunedTo: 11,
      restores: [
        [12, 9],
        [14, 12],
      ],
    })
    expect(planHistory(later, options)).toEqual({ write: [19], drop: [13, 14], pruneTo: 11 })
  })
})

describe('the states that merges start from', () => {
  test('are the targets of restores with references on both sides', () => {
    // A fork of 5, and the newest state 9.
    expect([...branchingTargets([[8, 3]], [9, 5])]).toEqual([3])
    // Nothing refers to the changes that the restore undid.
    expect([...branchingTargets([[8, 3]], [9, 2])]).toEqual([])
    // The newest state comes from 7 again, and a fork from 8 stays.
    const restores = [
      [8, 3],
      [9, 7],
    ] as const
    expect([...branchingTargets(restores, [10, 8])]).toEqual([3])
    expect([...branchingTargets(restores, [10])]).toEqual([])
  })

  test('are those of branches on branches', () => {
    const restores = [
      [5, 2],
      [8, 6],
      [11, 2],
    ] as const
    // References at 7 and 9 on both sides of 6, and at 12 on another branch from 2.
    expect(branchingTargets(restores, [7, 9, 12])).toEqual(new Set([2, 6]))
    expect([...branchingTargets(restores, [7, 12])]).toEqual([2])
    expect([...branchingTargets(restores, [7, 9])]).toEqual([6])
    expect([...branchingTargets(restores, [12])]).toEqual([])
  })
})
