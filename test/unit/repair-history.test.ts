/** The parts of a damaged session's history that a repair can keep. */
import { expect, test } from 'vitest'
import { reachOf, type LeftHistory } from '../../src/engine/services/repair/history.js'

const whole: LeftHistory = {
  last: 10,
  newest: 10,
  gaps: [],
  restores: [],
  snapshots: [],
  referenced: [],
}

test.each<readonly [string, Partial<LeftHistory>, { whole: boolean; fromStart: boolean }]>([
  ['all of its events', {}, { whole: true, fromStart: true }],
  ['a snapshot of the newest state', { snapshots: [10] }, { whole: true, fromStart: false }],
  ['a snapshot before the newest state', { snapshots: [9] }, { whole: true, fromStart: false }],
  ['an event less than the newest', { newest: 11 }, { whole: false, fromStart: true }],
  ['a gap at its first event', { gaps: [1] }, { whole: false, fromStart: true }],
  ['a gap at its newest event', { gaps: [10], snapshots: [9] }, { whole: false, fromStart: false }],
  ['a gap at a snapshot', { gaps: [9], snapshots: [9] }, { whole: true, fromStart: false }],
  ['a gap after a snapshot', { gaps: [9], snapshots: [8] }, { whole: false, fromStart: false }],
  [
    'a checkpoint of a state before its snapshots',
    { snapshots: [5], referenced: [4] },
    { whole: true, fromStart: true },
  ],
  [
    'a checkpoint of a state at a snapshot',
    { snapshots: [5], referenced: [5] },
    { whole: true, fromStart: false },
  ],
  [
    'a checkpoint of a state at a gap',
    { gaps: [4], snapshots: [5], referenced: [4] },
    { whole: false, fromStart: true },
  ],
  ['a checkpoint of a state that is lost', { referenced: [11] }, { whole: false, fromStart: true }],
  [
    'a restore of a state before its snapshots',
    { snapshots: [5], restores: [[8, 3]] },
    { whole: true, fromStart: true },
  ],
  [
    'a restore that a snapshot of the restored state covers',
    { gaps: [2], snapshots: [8], restores: [[8, 3]] },
    { whole: true, fromStart: false },
  ],
  [
    'a restore of a state at a gap',
    { gaps: [3], snapshots: [5], restores: [[8, 3]] },
    { whole: false, fromStart: true },
  ],
  [
    'a restore of a state that was reached through another restore',
    {
      gaps: [2],
      snapshots: [4],
      restores: [
        [6, 2],
        [9, 7],
      ],
    },
    { whole: false, fromStart: true },
  ],
])('the reach of a history with %s', (_name, some, reach) => {
  expect(reachOf({ ...whole, ...some })).toEqual(reach)
})
