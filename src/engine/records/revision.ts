import { isText } from '../base/checks.js'
import { idLength } from '../base/ids.js'
import { keyPrefixes, tenantKeyLength } from '../storage/keys.js'
import { baselineChecks, baselineReferences, type Baseline, type TreeCounts } from './baseline.js'
import { RecordKind } from './record-kind.js'

/** A revision is the baseline of the sessions on it. */
export type RevisionRecord = Baseline

/** The part of a revision's record that describes its tree. */
export type CountedBaseline = Omit<RevisionRecord, 'revision' | 'counts'> & { readonly counts: TreeCounts }

export const revisionKind = new RecordKind<RevisionRecord>({
  name: 'revision',
  prefix: keyPrefixes.revision,
  scope: 'tenant',
  isKey: (key) => !isLabel(key),
  checks: baselineChecks,
  references: (baseline, _key, to) => baselineReferences(baseline, to),
})

/** A name for a revision of its source. */
export interface RevisionLabel {
  readonly revisionId: string
}

export const revisionLabelKind = new RecordKind<RevisionLabel>({
  name: 'revision label',
  prefix: keyPrefixes.revision,
  scope: 'tenant',
  isKey: isLabel,
  checks: { revisionId: isText },
  references: ({ revisionId }, key, to) => to.record(key.slice(0, sourceEnd) + revisionId),
})

/** The index at which the id of the source ends in a key. */
const sourceEnd = 1 + tenantKeyLength + idLength

function isLabel(key: string): boolean {
  return key[sourceEnd] === '='
}
