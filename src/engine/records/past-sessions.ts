import { isCount, isNumber, isTupleOf } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/** Sessions that were there, of one tenant, made in one hour and deleted in one: means of both times. */
export type PastSessions = readonly [createdAt: number, deletedAt: number, count: number]

export const pastSessionsKind = new RecordKind<PastSessions>({
  name: 'past sessions',
  prefix: keyPrefixes.pastSessions,
  scope: 'tenant',
  checks: isTupleOf(isNumber, isNumber, isCount),
})
