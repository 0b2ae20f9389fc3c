/**
 * The keys of all records. Ids, tenant keys and sequence numbers have fixed widths, so keys sort by tenant,
 * then by creation, then by sequence number. The id of another tenant gives a key that does not exist.
 */
import { assert } from '../base/errors.js'
import { sha256 } from '../base/hash.js'
import { idLength } from '../base/ids.js'

export const seqWidth = 8
const maxSeq = 36 ** seqWidth - 1

export function encodeSeq(seq: number): string {
  assert(Number.isInteger(seq) && seq >= 0 && seq <= maxSeq, 'sequence number out of range')
  return seq.toString(36).padStart(seqWidth, '0')
}

export function decodeSeq(text: string): number {
  return Number.parseInt(text, 36)
}

/** The length of the keys of tenants and of places on the host. */
export const tenantKeyLength = 16

/** A key that sorts after every key with this prefix. */
export function prefixEnd(prefix: string): string {
  return `${prefix}\u{10ffff}`
}

/** The first letter of the keys of each kind of record. Each kind has a file in `records/`. */
export const keyPrefixes = {
  session: 's',
  source: 'o',
  job: 'j',
  revision: 'f',
  gitTree: 'd',
  gitObject: 'g',
  hostEntries: 'm',
  node: 'n',
  unfinishedJob: 'i',
  event: 'e',
  snapshot: 'r',
  checkpoint: 'k',
  branchTip: 'v',
  fileLock: 'l',
  annotation: 'a',
  approval: 'p',
  cacheEntry: 'c',
  busMessage: 'u',
  healthReport: 'h',
  secret: 'x',
  knownCommits: 'z',
  writtenBlobs: 'y',
  egress: 'w',
  usageRollup: 'U',
  lastRead: 't',
  analytics: 'q',
  blob: 'b',
  lineage: 'L',
  merge: 'C',
  servedCommit: 'G',
} as const

export const keys = {
  session: (tenantKey: string, sessionId: string): string => `${keyPrefixes.session}${tenantKey}${sessionId}`,
  sessions: (tenantKey: string): string => `${keyPrefixes.session}${tenantKey}`,
  source: (tenantKey: string, sourceId: string): string => `${keyPrefixes.source}${tenantKey}${sourceId}`,
  sources: (tenantKey: string): string => `${keyPrefixes.source}${tenantKey}`,
  /** The prefix of the sources of all tenants. */
  allSources: (): string => keyPrefixes.source,
  tenantOfSource: (key: string): string => key.slice(1, -idLength),
  job: (tenantKey: string, sourceId: string, jobId: string): string =>
    `${keyPrefixes.job}${tenantKey}${sourceId}${jobId}`,
  jobs: (tenantKey: string, sourceId: string): string => `${keyPrefixes.job}${tenantKey}${sourceId}`,
  jobIdOf: (key: string): string => key.slice(-idLength),
  /** The prefix of the sessions of all tenants. */
  allSessions: (): string => keyPrefixes.session,
  tenantOfSession: (key: string): string => key.slice(1, -idLength),
  sessionIdOf: (key: string): string => key.slice(-idLength),
  allRevisions: (): string => keyPrefixes.revision,
  allGitTrees: (): string => keyPrefixes.gitTree,
  allGitObjects: (): string => keyPrefixes.gitObject,
  allHostEntries: (): string => keyPrefixes.hostEntries,
  allNodes: (): string => keyPrefixes.node,
  /** Exists as long as the job is queued or running. */
  unfinishedJob: (tenantKey: string, sourceId: string, jobId: string): string =>
    `${keyPrefixes.unfinishedJob}${tenantKey}${sourceId}${jobId}`,
  unfinishedJobs: (): string => keyPrefixes.unfinishedJob,
  tenantOfUnfinishedJob: (key: string): string => key.slice(1, -2 * idLength),
  revision: (tenantKey: string, sourceId: string, revisionId: string): string =>
    `${keyPrefixes.revision}${tenantKey}${sourceId}${revisionId}`,
  event: (sessionId: string, seq: number): string => `${keyPrefixes.event}${sessionId}${encodeSeq(seq)}`,
  snapshot: (sessionId: string, seq: number): string =>
    `${keyPrefixes.snapshot}${sessionId}${encodeSeq(seq)}`,
  snapshots: (sessionId: string): string => `${keyPrefixes.snapshot}${sessionId}`,
  checkpoint: (sessionId: string, checkpointId: string): string =>
    `${keyPrefixes.checkpoint}${sessionId}${checkpointId}`,
  checkpoints: (sessionId: string): string => `${keyPrefixes.checkpoint}${sessionId}`,
  branchTips: (sessionId: string): string => `${keyPrefixes.branchTip}${sessionId}`,
  branchTip: (sessionId: string, branchName: string): string =>
    `${keyPrefixes.branchTip}${sessionId}${branchName}`,
  fileLock: (sessionId: string, path: string): string => `${keyPrefixes.fileLock}${sessionId}${path}`,
  fileLocks: (sessionId: string): string => `${keyPrefixes.fileLock}${sessionId}`,
  annotation: (sessionId: string, annotationId: string): string =>
    `${keyPrefixes.annotation}${sessionId}${annotationId}`,
  annotations: (sessionId: string): string => `${keyPrefixes.annotation}${sessionId}`,
  approval: (sessionId: string, approvalId: string): string =>
    `${keyPrefixes.approval}${sessionId}${approvalId}`,
  approvals: (sessionId: string): string => `${keyPrefixes.approval}${sessionId}`,
  /** The `:` before the key keeps every key below the end of the session's range. */
  cacheEntry: (sessionId: string, key: string): string => `${keyPrefixes.cacheEntry}${sessionId}:${key}`,
  cacheEntries: (sessionId: string): string => `${keyPrefixes.cacheEntry}${sessionId}`,
  busMessage: (sessionId: string, seq: number): string =>
    `${keyPrefixes.busMessage}${sessionId}${encodeSeq(seq)}`,
  busMessages: (sessionId: string): string => `${keyPrefixes.busMessage}${sessionId}`,
  healthReport: (sessionId: string, seq: number): string =>
    `${keyPrefixes.healthReport}${sessionId}${encodeSeq(seq)}`,
  healthReports: (sessionId: string): string => `${keyPrefixes.healthReport}${sessionId}`,
  secret: (sessionId: string, secretName: string): string => `${keyPrefixes.secret}${sessionId}${secretName}`,
  secrets: (sessionId: string): string => `${keyPrefixes.secret}${sessionId}`,
  /** The prefix of the secrets of all sessions. */
  allSecrets: (): string => keyPrefixes.secret,
  /** The last scan of a directory of the host, or another record of the place. */
  hostEntries: (tenantKey: string, place: string, directoryPath: string): string =>
    `${keyPrefixes.hostEntries}${tenantKey}${place}${directoryPath}`,
  /** The place that a source scans. */
  scanPlace: (sourceId: string): string => sha256(`source ${sourceId}`).slice(0, tenantKeyLength),
  /** Whether a key is that of a checkout as a whole, which has no directory path. */
  isCheckout: (key: string): boolean => key.length === 1 + 2 * tenantKeyLength,
  gitObject: (tenantKey: string, oid: string): string => `${keyPrefixes.gitObject}${tenantKey}${oid}`,
  /** A completely imported git tree. */
  gitTree: (tenantKey: string, treeId: string): string => `${keyPrefixes.gitTree}${tenantKey}${treeId}`,
  /** The commits that were imported from one remote. */
  knownCommits: (tenantKey: string, remote: string): string =>
    `${keyPrefixes.knownCommits}${tenantKey}${remote}`,
  /** The `=` distinguishes labels from ids. */
  revisionLabel: (tenantKey: string, sourceId: string, label: string): string =>
    `${keyPrefixes.revision}${tenantKey}${sourceId}=${label}`,
  /** Blobs that a tenant wrote in one commit. */
  writtenBlobs: (tenantKey: string, id: string): string => `${keyPrefixes.writtenBlobs}${tenantKey}${id}`,
  everyWrittenBlobs: (): string => keyPrefixes.writtenBlobs,
  tenantOfWrittenBlobs: (key: string): string => key.slice(1, 1 + tenantKeyLength),
  allWrittenBlobs: (tenantKey: string): string => `${keyPrefixes.writtenBlobs}${tenantKey}`,
  /** Bytes that were sent to a tenant's clients in one minute. */
  egress: (tenantKey: string, minute: number): string =>
    `${keyPrefixes.egress}${tenantKey}${encodeSeq(minute)}`,
  /** Sums over deleted sessions, by the hours of their creation and deletion. */
  usageRollup: (tenantKey: string, from: number, until: number): string =>
    `${keyPrefixes.usageRollup}${tenantKey}${encodeSeq(from)}${encodeSeq(until)}`,
  allUsageRollups: (tenantKey: string): string => `${keyPrefixes.usageRollup}${tenantKey}`,
  /** When a session was last read. */
  lastRead: (sessionId: string): string => `${keyPrefixes.lastRead}${sessionId}`,
  /** The counts of a session's events. */
  analytics: (sessionId: string): string => `${keyPrefixes.analytics}${sessionId}`,
  /** A step of a session's ancestry, by the event that made it; 0 for the state that a fork started from. */
  lineage: (sessionId: string, seq: number): string => `${keyPrefixes.lineage}${sessionId}${encodeSeq(seq)}`,
  lineages: (sessionId: string): string => `${keyPrefixes.lineage}${sessionId}`,
  /** The merge of a session that has unresolved conflicts. */
  merge: (sessionId: string): string => `${keyPrefixes.merge}${sessionId}`,
  /** A commit that a session serves to git clients: of a checkpoint, or without one, of the newest state. */
  servedCommit: (sessionId: string, checkpointId = ''): string =>
    `${keyPrefixes.servedCommit}${sessionId}${checkpointId}`,
  node: (address: string): string => `${keyPrefixes.node}${address}`,
  blob: (hash: string): string => `${keyPrefixes.blob}${hash}`,
} as const
