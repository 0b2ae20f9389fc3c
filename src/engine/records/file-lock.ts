import { isNumber, isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/** A lock as stored, as JSON. */
export interface FileLockRecord {
  readonly path: string
  readonly lockId: string
  readonly ownerId: string
  /** By the wall clock, in milliseconds since the epoch. */
  readonly expiresAt: number
  readonly ttlSeconds: number
}

export const fileLockKind = new RecordKind<FileLockRecord>({
  name: 'file lock',
  prefix: keyPrefixes.fileLock,
  scope: 'session',
  bundle: { absent: 'the holders of locks are not where the bundle goes' },
  checks: { path: isText, lockId: isText, ownerId: isText, expiresAt: isNumber, ttlSeconds: isNumber },
})
