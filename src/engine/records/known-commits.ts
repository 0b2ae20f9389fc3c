import { isListOf, isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/** Ids of the commits that were imported from one remote, the newest first. */
export const knownCommitsKind = new RecordKind<readonly string[]>({
  name: 'known commits',
  prefix: keyPrefixes.knownCommits,
  scope: 'tenant',
  checks: isListOf(isText),
  isDerived: true,
})
