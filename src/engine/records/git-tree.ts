import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'
import { baselineChecks, baselineReferences, type Baseline } from './baseline.js'

/** A git tree that was imported completely. */
export const gitTreeKind = new RecordKind<Baseline>({
  name: 'git tree',
  prefix: keyPrefixes.gitTree,
  scope: 'tenant',
  checks: baselineChecks,
  references: (baseline, _key, to) => baselineReferences(baseline, to),
})
