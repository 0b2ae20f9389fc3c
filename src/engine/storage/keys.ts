/**
 * The key spaces. Ids, tenant keys and sequence numbers have fixed widths, so that key order is tenant,
 * creation order, sequence order; a foreign tenant's id is a key that does not exist.
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

/** Tenants and places of the host have keys of one width. */
export const tenantKeyLength = 16

/** Sorts after every key that starts with the same prefix. */
export function prefixEnd(prefix: string): string {
  return `${prefix}\u{10ffff}`
}

export const keys = {
  session: (tenantKey: string, sessionId: string): string => `s${tenantKey}${sessionId}`,
  sessions: (tenantKey: string): string => `s${tenantKey}`,
  source: (tenantKey: string, sourceId: string): string => `o${tenantKey}${sourceId}`,
  sources: (tenantKey: string): string => `o${tenantKey}`,
  /** Of every tenant. */
  allSources: (): string => 'o',
  tenantOfSource: (key: string): string => key.slice(1, -idLength),
  job: (tenantKey: string, sourceId: string, jobId: string): string => `j${tenantKey}${sourceId}${jobId}`,
  /** Of every tenant. */
  allSessions: (): string => 's',
  tenantOfSession: (key: string): string => key.slice(1, -idLength),
  allRevisions: (): string => 'f',
  allGitTrees: (): string => 'd',
  allGitObjects: (): string => 'g',
  allHostEntries: (): string => 'm',
  allNodes: (): string => 'n',
  /** Stands as long as the job is queued or running. */
  unfinishedJob: (tenantKey: string, sourceId: string, jobId: string): string =>
    `i${tenantKey}${sourceId}${jobId}`,
  unfinishedJobs: (): string => 'i',
  tenantOfUnfinishedJob: (key: string): string => key.slice(1, -2 * idLength),
  revision: (tenantKey: string, sourceId: string, revisionId: string): string =>
    `f${tenantKey}${sourceId}${revisionId}`,
  event: (sessionId: string, seq: number): string => `e${sessionId}${encodeSeq(seq)}`,
  snapshot: (sessionId: string, seq: number): string => `r${sessionId}${encodeSeq(seq)}`,
  snapshots: (sessionId: string): string => `r${sessionId}`,
  checkpoint: (sessionId: string, checkpointId: string): string => `k${sessionId}${checkpointId}`,
  checkpoints: (sessionId: string): string => `k${sessionId}`,
  branchTips: (sessionId: string): string => `v${sessionId}`,
  branchTip: (sessionId: string, branchName: string): string => `v${sessionId}${branchName}`,
  fileLock: (sessionId: string, path: string): string => `l${sessionId}${path}`,
  fileLocks: (sessionId: string): string => `l${sessionId}`,
  annotation: (sessionId: string, annotationId: string): string => `a${sessionId}${annotationId}`,
  annotations: (sessionId: string): string => `a${sessionId}`,
  approval: (sessionId: string, approvalId: string): string => `p${sessionId}${approvalId}`,
  approvals: (sessionId: string): string => `p${sessionId}`,
  /** The sign before the key keeps whatever it starts with below the end of the session's range. */
  cacheEntry: (sessionId: string, key: string): string => `c${sessionId}:${key}`,
  cacheEntries: (sessionId: string): string => `c${sessionId}`,
  busMessage: (sessionId: string, seq: number): string => `u${sessionId}${encodeSeq(seq)}`,
  busMessages: (sessionId: string): string => `u${sessionId}`,
  healthReport: (sessionId: string, seq: number): string => `h${sessionId}${encodeSeq(seq)}`,
  healthReports: (sessionId: string): string => `h${sessionId}`,
  secret: (sessionId: string, secretName: string): string => `x${sessionId}${secretName}`,
  secrets: (sessionId: string): string => `x${sessionId}`,
  /** Of every session. */
  allSecrets: (): string => 'x',
  /** What was last seen of a directory of the host, and what else is kept of the place. */
  hostEntries: (tenantKey: string, place: string, directoryPath: string): string =>
    `m${tenantKey}${place}${directoryPath}`,
  /** The place of what a source scans. */
  scanPlace: (sourceId: string): string => sha256(`source ${sourceId}`).slice(0, tenantKeyLength),
  /** Whether it is of a checkout as a whole: without a directory. */
  isCheckout: (key: string): boolean => key.length === 1 + 2 * tenantKeyLength,
  gitObject: (tenantKey: string, oid: string): string => `g${tenantKey}${oid}`,
  /** A git tree that was imported whole. */
  gitTree: (tenantKey: string, treeId: string): string => `d${tenantKey}${treeId}`,
  /** The commits that were imported from one remote. */
  knownCommits: (tenantKey: string, remote: string): string => `z${tenantKey}${remote}`,
  /** The sign keeps labels apart from ids. */
  revisionLabel: (tenantKey: string, sourceId: string, label: string): string =>
    `f${tenantKey}${sourceId}=${label}`,
  /** Blobs that a tenant wrote in one commit. */
  writtenBlobs: (tenantKey: string, id: string): string => `y${tenantKey}${id}`,
  everyWrittenBlobs: (): string => 'y',
  tenantOfWrittenBlobs: (key: string): string => key.slice(1, 1 + tenantKeyLength),
  allWrittenBlobs: (tenantKey: string): string => `y${tenantKey}`,
  /** Bytes that were sent to a tenant's clients in one minute. */
  egress: (tenantKey: string, minute: number): string => `w${tenantKey}${encodeSeq(minute)}`,
  /** Sessions that were there, by the hours in which they were made and deleted. */
  pastSessions: (tenantKey: string, from: number, until: number): string =>
    `U${tenantKey}${encodeSeq(from)}${encodeSeq(until)}`,
  allPastSessions: (tenantKey: string): string => `U${tenantKey}`,
  /** When a session was last read. */
  lastRead: (sessionId: string): string => `t${sessionId}`,
  /** What a session's events were counted to be. */
  analytics: (sessionId: string): string => `q${sessionId}`,
  node: (address: string): string => `n${address}`,
  blob: (hash: string): string => `b${hash}`,
} as const
