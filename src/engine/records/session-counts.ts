import { isCount, isNumber } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/** Counts of the events of a session up to event `seq`. Stored as JSON. */
export interface Counted {
  readonly seq: number
  readonly mutations: number
  readonly checkpoints: number
  readonly restores: number
  /** 0: never. */
  readonly firstWriteAt: number
  readonly completedAt: number
}

export const sessionCountsKind = new RecordKind<Counted>({
  name: 'session counts',
  prefix: keyPrefixes.analytics,
  scope: 'session',
  bundle: { absent: 'the events are counted again' },
  checks: {
    seq: isCount,
    mutations: isCount,
    checkpoints: isCount,
    restores: isCount,
    firstWriteAt: isNumber,
    completedAt: isNumber,
  },
  isDerived: true,
})
