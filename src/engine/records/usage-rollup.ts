import { isCount, isNumber, isTupleOf } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/** Sums up a tenant's deleted sessions by hours of creation and deletion. Both times are means. */
export type UsageRollup = readonly [createdAt: number, deletedAt: number, count: number]

export const usageRollupKind = new RecordKind<UsageRollup>({
  name: 'usage rollup',
  prefix: keyPrefixes.usageRollup,
  scope: 'tenant',
  checks: isTupleOf(isNumber, isNumber, isCount),
})
