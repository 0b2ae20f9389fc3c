import { isListOf, isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/**
 * Ids of commits, the newest first: those that were imported from a remote, those that sessions pushed to it, or those of
 * them that an imported commit builds on. After a space, a pushed one has the session and the event of its state.
 */
export const knownCommitsKind = new RecordKind<readonly string[]>({
  name: 'known commits',
  prefix: keyPrefixes.knownCommits,
  scope: 'tenant',
  checks: isListOf(isText),
  isDerived: true,
})
