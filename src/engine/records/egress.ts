import { isNumber } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/** Bytes that were sent to a tenant's clients in one minute. */
export const egressKind = new RecordKind<number>({
  name: 'egress',
  prefix: keyPrefixes.egress,
  scope: 'tenant',
  checks: isNumber,
})
