import { isNumber } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/** The time of the last read of a session, in milliseconds since the epoch. */
export const lastReadKind = new RecordKind<number>({
  name: 'last read',
  prefix: keyPrefixes.lastRead,
  scope: 'session',
  bundle: { absent: 'a session is first read where it is imported', madeAnew: true },
  checks: isNumber,
})
