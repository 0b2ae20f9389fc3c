import { isCount, isOptional, isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/** The last commit that a session made on a branch; '' if there is none. */
export interface BranchTip {
  readonly commitId: string
  /** The event of the commit; 0 if the session was forked after it. Absent in records of earlier versions. */
  readonly seq?: number
}

/** The last commits of a session by branch. */
export type BranchTips = ReadonlyMap<string, BranchTip>

export const branchTipKind = new RecordKind<BranchTip>({
  name: 'branch tip',
  prefix: keyPrefixes.branchTip,
  scope: 'session',
  bundle: { absent: 'a commit is one of the repository that it was made in' },
  checks: { commitId: isText, seq: isOptional(isCount) },
})
