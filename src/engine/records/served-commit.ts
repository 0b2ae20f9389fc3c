import { isCount, isOptional, isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import type { EncodedNode } from '../tree/encoded.js'
import { RecordKind } from './record-kind.js'
import { isRoot } from './tree-root.js'

/**
 * A commit that a session serves to git clients. The id of a commit that a client has fetched must never change, so it
 * is stored.
 */
export interface ServedCommit {
  readonly commitId: string
  /** The event of the state that the commit has. */
  readonly seq: number
  /** The imported commit that the served history starts from; '' if there is none. */
  readonly base: string
  /** The tree of the state. Later changes are compared with it. Absent for a checkpoint, which has its own state. */
  readonly root?: EncodedNode
}

export const servedCommitKind = new RecordKind<ServedCommit>({
  name: 'served commit',
  prefix: keyPrefixes.servedCommit,
  scope: 'session',
  // After a repair that lost events, its number may mean another state.
  isDerived: true,
  bundle: { absent: 'a commit is one of the repository that it was made in' },
  checks: { commitId: isText, seq: isCount, base: isText, root: isOptional(isRoot) },
  references: ({ root }, _key, to) => {
    if (root !== undefined) to.root(root)
  },
})
