import { describe, expect, test } from 'vitest'
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
})
