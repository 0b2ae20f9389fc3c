import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/** The sizes of blobs that a tenant wrote; the ledger of its store reads it. */
export const writtenBlobsKind = new RecordKind<unknown>({
  name: 'written blobs',
  prefix: keyPrefixes.writtenBlobs,
  scope: 'tenant',
  checks: (value) => typeof value === 'object' && value !== null,
})
