import { isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/** The commit that a session made last on a branch. */
/** The last commit of a session on a branch ('' without one). */
export interface BranchTip {
  readonly commitId: string
}

export const branchTipKind = new RecordKind<BranchTip>({
  name: 'branch tip',
  prefix: keyPrefixes.branchTip,
  scope: 'session',
  bundle: { absent: 'a commit is one of the repository that it was made in' },
  checks: { commitId: isText },
})
