import { isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/** Exists as long as an import job is queued or running. The value is the key of the job. */
export const unfinishedJobKind = new RecordKind<string>({
  name: 'unfinished job',
  prefix: keyPrefixes.unfinishedJob,
  scope: 'tenant',
  isPlain: true,
  checks: isText,
  references: (jobKey, _key, to) => to.record(jobKey),
})
