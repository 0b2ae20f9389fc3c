import { describe, expect, test } from 'vitest'
import { sha256 } from '../../src/engine/base/hash.js'
import { idLength } from '../../src/engine/base/ids.js'
import { compareUtf8 } from '../../src/engine/base/order.js'
import {
  decodeSeq,
  encodeSeq,
  keys,
  prefixEnd,
  seqWidth,
  tenantKeyLength,
} from '../../src/engine/storage/keys.js'

const tenant = 'T'.repeat(tenantKeyLength)
const place = 'P'.repeat(tenantKeyLength)
/** Ids of different objects, so that a key with the wrong id is seen. */
const [session, source, job, revision, other] = ['S', 'O', 'J', 'R', 'X'].map((one) =>
  one.repeat(idLength),
) as [string, string, string, string, string]
const seq = '0000000z'

/** Stores of earlier versions have these keys. */
const expected: { readonly [Name in keyof typeof keys]: readonly [actual: unknown, expected: unknown] } = {
  session: [keys.session(tenant, session), `s${tenant}${session}`],
  sessions: [keys.sessions(tenant), `s${tenant}`],
  source: [keys.source(tenant, source), `o${tenant}${source}`],
  sources: [keys.sources(tenant), `o${tenant}`],
  allSources: [keys.allSources(), 'o'],
  tenantOfSource: [keys.tenantOfSource(`o${tenant}${source}`), tenant],
  job: [keys.job(tenant, source, job), `j${tenant}${source}${job}`],
  jobs: [keys.jobs(tenant, source), `j${tenant}${source}`],
  jobIdOf: [keys.jobIdOf(`j${tenant}${source}${job}`), job],
  allSessions: [keys.allSessions(), 's'],
  tenantOfSession: [keys.tenantOfSession(`s${tenant}${session}`), tenant],
  sessionIdOf: [keys.sessionIdOf(`s${tenant}${session}`), session],
  allRevisions: [keys.allRevisions(), 'f'],
  allGitTrees: [keys.allGitTrees(), 'd'],
  allGitObjects: [keys.allGitObjects(), 'g'],
  allHostEntries: [keys.allHostEntries(), 'm'],
  allNodes: [keys.allNodes(), 'n'],
  unfinishedJob: [keys.unfinishedJob(tenant, source, job), `i${tenant}${source}${job}`],
  unfinishedJobs: [keys.unfinishedJobs(), 'i'],
  tenantOfUnfinishedJob: [keys.tenantOfUnfinishedJob(`i${tenant}${source}${job}`), tenant],
  revision: [keys.revision(tenant, source, revision), `f${tenant}${source}${revision}`],
  event: [keys.event(session, 35), `e${session}${seq}`],
  snapshot: [keys.snapshot(session, 35), `r${session}${seq}`],
  snapshots: [keys.snapshots(session), `r${session}`],
  checkpoint: [keys.checkpoint(session, other), `k${session}${other}`],
  checkpoints: [keys.checkpoints(session), `k${session}`],
  branchTips: [keys.branchTips(session), `v${session}`],
  branchTip: [keys.branchTip(session, 'main'), `v${session}main`],
  fileLock: [keys.fileLock(session, '/a'), `l${session}/a`],
  fileLocks: [keys.fileLocks(session), `l${session}`],
  annotation: [keys.annotation(session, other), `a${session}${other}`],
  annotations: [keys.annotations(session), `a${session}`],
  approval: [keys.approval(session, other), `p${session}${other}`],
  approvals: [keys.approvals(session), `p${session}`],
  cacheEntry: [keys.cacheEntry(session, 'key'), `c${session}:key`],
  cacheEntries: [keys.cacheEntries(session), `c${session}`],
  busMessage: [keys.busMessage(session, 35), `u${session}${seq}`],
  busMessages: [keys.busMessages(session), `u${session}`],
  healthReport: [keys.healthReport(session, 35), `h${session}${seq}`],
  healthReports: [keys.healthReports(session), `h${session}`],
  secret: [keys.secret(session, 'token'), `x${session}token`],
  secrets: [keys.secrets(session), `x${session}`],
  allSecrets: [keys.allSecrets(), 'x'],
  hostEntries: [keys.hostEntries(tenant, place, '/d'), `m${tenant}${place}/d`],
  scanPlace: [keys.scanPlace('one'), sha256('source one').slice(0, 16)],
  isCheckout: [[`m${tenant}${place}`, `m${tenant}${place}/d`].map(keys.isCheckout), [true, false]],
  gitObject: [keys.gitObject(tenant, 'a1'), `g${tenant}a1`],
  gitTree: [keys.gitTree(tenant, 'a1'), `d${tenant}a1`],
  knownCommits: [keys.knownCommits(tenant, 'remote'), `z${tenant}remote`],
  revisionLabel: [keys.revisionLabel(tenant, source, 'v1'), `f${tenant}${source}=v1`],
  writtenBlobs: [keys.writtenBlobs(tenant, other), `y${tenant}${other}`],
  everyWrittenBlobs: [keys.everyWrittenBlobs(), 'y'],
  tenantOfWrittenBlobs: [keys.tenantOfWrittenBlobs(`y${tenant}${other}`), tenant],
  allWrittenBlobs: [keys.allWrittenBlobs(tenant), `y${tenant}`],
  egress: [keys.egress(tenant, 35), `w${tenant}${seq}`],
  usageRollup: [keys.usageRollup(tenant, 35, 36), `U${tenant}${seq}00000010`],
  allUsageRollups: [keys.allUsageRollups(tenant), `U${tenant}`],
  lastRead: [keys.lastRead(session), `t${session}`],
  analytics: [keys.analytics(session), `q${session}`],
  lineage: [keys.lineage(session, 35), `L${session}${seq}`],
  lineages: [keys.lineages(session), `L${session}`],
  merge: [keys.merge(session), `C${session}`],
  servedCommit: [
    [keys.servedCommit(session), keys.servedCommit(session, other)],
    [`G${session}`, `G${session}${other}`],
  ],
  node: [keys.node('a1'), 'na1'],
  blob: [keys.blob('a1'), 'ba1'],
}

describe('the keys of records', () => {
  test.each(Object.entries(expected))('%s has its stored form', (_name, [actual, wanted]) => {
    expect(actual).toEqual(wanted)
  })

  test('are all in the table above', () => {
    expect(Object.keys(expected).sort()).toEqual(Object.keys(keys).sort())
  })

  test('sort by sequence number, at every width', () => {
    const numbers = [0, 1, 9, 10, 35, 36, 36 ** 2 - 1, 36 ** 2, 36 ** 7, 36 ** seqWidth - 1]
    const texts = numbers.map(encodeSeq)
    expect(texts.toSorted(compareUtf8)).toEqual(texts)
    expect(texts.every(({ length }) => length === seqWidth)).toBe(true)
    expect(texts.map(decodeSeq)).toEqual(numbers)
    for (const wrong of [-1, 0.5, 36 ** seqWidth, Number.NaN])
      expect(() => encodeSeq(wrong), `${wrong}`).toThrow('sequence number out of range')
  })

  test('with a prefix are below its end, and those of the next id are not', () => {
    const end = prefixEnd(keys.secrets(session))
    for (const name of ['', '0', 'zz', 'é', '😀', '\uffff'])
      expect(compareUtf8(keys.secret(session, name), end), name).toBeLessThan(0)
    const next = `${session.slice(0, -1)}T`
    expect(compareUtf8(keys.secret(next, ''), end)).toBeGreaterThan(0)
  })
})
