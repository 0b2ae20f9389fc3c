/** Turns errors of PostgreSQL and of connections into errors of the engine. None contains a connection string. */
import { hostname } from 'node:os'
import { pid as ownPid } from 'node:process'
import { EngineError, invalid } from '../../engine/ports.js'

/** Whether a failed commit may have been stored after all. */
export type Outcome = 'unknown' | 'not-applied'

export function closedError(): EngineError {
  return new EngineError('STORE_CLOSED', 'the store is closed')
}

export function lockedError(details: Readonly<Record<string, string>>): EngineError {
  const { host = 'unknown', pid = 'unknown', since = 'unknown', expiresInSeconds = '0' } = details
  // A new process can have the number of an earlier one, for example in a container.
  const isOwn = host === hostname() && pid === String(ownPid)
  const advice = isOwn
    ? 'This process has that number: use the engine that it has open, or close it'
    : 'Close it there'
  return new EngineError(
    'STORE_LOCKED',
    `the store is open in process ${pid} on ${host}, since ${since}. ${advice}. ` +
      `If the process that opened it has ended, its lease expires in ${expiresInSeconds} seconds: try again then`,
    details,
  )
}

/** The error of opening a store of an earlier version that an engine of that version has open. */
export function olderEngine(version: number, row: readonly (string | null)[]): EngineError {
  const [host, pid, seconds] = row.map((value) => value ?? 'unknown')
  return new EngineError(
    'STORE_LOCKED',
    `process ${pid} on ${host} has the store open with an earlier version of forkspace (tables of version ${version}). ` +
      `Close all engines of that version first. If that process has ended, its lease expires in ${seconds} seconds: try again then`,
    {
      ...(row[0] && { host: row[0] }),
      ...(row[1] && { pid: row[1] }),
      expiresInSeconds: String(Number(seconds)),
    },
  )
}

/** The error of a collection while another engine collects. */
export function collectingError(): EngineError {
  return new EngineError(
    'STORE_LOCKED',
    'another engine collects this store at the moment. Wait for its end, then collect again if it is still needed',
  )
}

/** The error of a collection whose engine lost the right to collect, for example because its process was suspended. */
export function endedError(): EngineError {
  return new EngineError(
    'STORE_FAILED',
    'the collection ended early: its engine lost the right to collect, or tables of the store were emptied, restored or ' +
      'rewritten. Nothing in use was deleted; collect again',
    { outcome: 'not-applied' },
  )
}

/** The error of an engine whose lease expired and was taken by another one. */
export function takenError(): EngineError {
  return new EngineError(
    'STORE_TAKEN',
    'another engine took over the store after the lease of this one had expired, and this commit is not stored. ' +
      'Close this engine, and open the store again where it should be used',
    { outcome: 'not-applied' },
  )
}

/** The error of an engine whose tables are no longer in its schema. Clients may see the message, so it names no schema. */
export function movedError(cause?: unknown): EngineError {
  return new EngineError(
    'STORE_MOVED',
    'the schema of the store, or a table in it, was renamed, dropped or replaced while the store was open, for example ' +
      'by a restored backup, and the operation is not applied. Put it back, or close the engine and open the store again',
    { outcome: 'not-applied' },
    { cause },
  )
}

/** The error of an engine whose store lacks a row that each store has. */
export function emptiedError(table: string): EngineError {
  return new EngineError(
    'STORE_MOVED',
    `a table of the store was emptied while the store was open: ${table} has no row. The operation is not applied. Close ` +
      'the engine. Then restore a complete backup, or drop the schema to begin with an empty store',
    { outcome: 'not-applied' },
  )
}

/** The error of opening a store without a row that each store has. The schema is quoted. */
export function emptiedStore(schema: string, table: string): EngineError {
  return formatError(
    `the schema ${schema} has the tables of a store, but its table ${table} has no row: it was emptied, or a backup was ` +
      `restored in part. Nothing was changed. Restore a complete backup, or run DROP SCHEMA ${schema} CASCADE to begin ` +
      'with an empty store',
  )
}

/** The error of a commit after tables were emptied, restored from a backup or rewritten. */
export function changedError(): EngineError {
  return new EngineError(
    'STORE_FAILED',
    'the commit is not stored: tables of the store were emptied, restored or rewritten while it was open, for example by ' +
      'TRUNCATE or VACUUM FULL. Try again: the engine reads its sessions again',
    { outcome: 'not-applied' },
  )
}

/**
 * The error of a commit after the lease of this engine on a shared schema has expired, for example because its process
 * was suspended.
 */
export function expiredError(): EngineError {
  return new EngineError(
    'STORE_FAILED',
    'the lease of this engine expired before this commit, which is not stored. Try again: the engine takes a new lease by itself',
    { outcome: 'not-applied' },
  )
}

/** The error of opening a schema that other engines use. */
export function sharedError(details: Readonly<Record<string, string>>): EngineError {
  return new EngineError(
    'STORE_LOCKED',
    `${details['engines']} other engines share the store. Close them first`,
    details,
  )
}

export function formatError(message: string, details: Readonly<Record<string, string>> = {}): EngineError {
  return new EngineError('STORE_FORMAT', message, details)
}

/** The error of a statement or connection while the store is being opened. */
export function openError(cause: unknown): EngineError {
  if (cause instanceof EngineError) return cause
  return failure(cause, `the store could not be opened${codeOf(cause)}`)
}

export function writeError(cause: unknown, outcome: Outcome = outcomeOf(cause)): EngineError {
  if (cause instanceof EngineError) return cause
  if (isTableMissing(cause)) return movedError(cause)
  const stored = outcome === 'unknown' ? 'the commit may or may not be stored' : 'the commit is not stored'
  return failure(cause, `the store could not be written${codeOf(cause)}, and ${stored}`, { outcome })
}

/** The error of a commit that was not tried, because an earlier one failed. */
export function fencedError(cause: unknown): EngineError {
  if (isTaken(cause)) return takenError()
  if (cause instanceof EngineError && cause.reason === 'STORE_MOVED')
    return new EngineError('STORE_MOVED', cause.message, { outcome: 'not-applied' }, { cause })
  const earlier = cause instanceof EngineError ? `an earlier write failed${codeOf(cause)}` : messageOf(cause)
  const message = `the commit is not stored: ${earlier}. Fix the cause and try again: the engine recovers by itself`
  return new EngineError('STORE_FAILED', message, { outcome: 'not-applied' }, { cause })
}

/** The cause of a fence with relaxed durability, when the connection was lost between two commits. */
export function lostError(): Error {
  return new Error('the connection was lost, and a crash of the server may have lost the newest operations')
}

/** The error of a commit that would be the first one on another server. */
export function promotedError(): EngineError {
  const message =
    'the commit is not stored: a standby was promoted, and may lack the newest operations. Try again: the engine ' +
    'recovers by itself'
  return new EngineError('STORE_FAILED', message, { outcome: 'not-applied' })
}

/** The error of a read or commit for which a pool of the caller had no connection. */
export function noConnection(waitedMs: number): EngineError {
  return new EngineError(
    'STORE_FAILED',
    `the pool gave no connection within ${waitedMs / 1000} seconds: all of its connections are in use, or the server ` +
      'does not answer. Release connections, or make the pool larger',
    { outcome: 'not-applied' },
  )
}

/** The error of opening a store through a pooler that gives each transaction another connection. */
export function transactionPooler(): EngineError {
  return new EngineError(
    'STORE_FAILED',
    'the connections lead to a pooler in transaction mode, in which each transaction may get another connection of the ' +
      'server. Set the pooler to session mode, such as pool_mode = session in PgBouncer, or connect to the server itself',
  )
}

/** The error of opening a store through a pooler that has too few connections. */
export function crowdedPooler(cause: unknown): EngineError {
  return new EngineError(
    'STORE_FAILED',
    'the pooler gave the store no second connection of the server. In session mode, a store needs one for commits, and one ' +
      'for each of its readConnections: make the pool of the pooler larger, or readConnections smaller',
    {},
    { cause },
  )
}

/** Whether the server, a pooler or a connection did not answer in time. */
export function isTimeout(error: unknown): boolean {
  return /timeout/i.test(messageOf(error))
}

export function readError(cause: unknown): EngineError {
  if (cause instanceof EngineError) return cause
  if (isTableMissing(cause)) return movedError(cause)
  const code = stateOf(cause)
  if (code === 'XX001' || code === 'XX002') {
    const message = `stored data cannot be read (${code}): a file of the PostgreSQL server is damaged. Restore a backup`
    return new EngineError('DATA_LOSS', message, {}, { cause })
  }
  return failure(cause, `the store could not be read${codeOf(cause)}`)
}

export function recoveryError(cause: unknown): EngineError {
  if (cause instanceof EngineError) return cause
  if (isTableMissing(cause)) return movedError(cause)
  return failure(cause, `the store could not recover${codeOf(cause)}`, { outcome: 'not-applied' })
}

/** The error for the body of an event that is not a JSON array. */
export function damagedEvent(sessionId: string, seq: number, options?: ErrorOptions): EngineError {
  const message = `event ${seq} of session ${sessionId} is damaged. Restore a backup of the database`
  return new EngineError('DATA_LOSS', message, { sessionId, seq: String(seq) }, options)
}

export function lostEvent(sessionId: string, seq: number): EngineError {
  const message = `event ${seq} of session ${sessionId} is missing. Restore a backup of the database`
  return new EngineError('DATA_LOSS', message, { sessionId, seq: String(seq) })
}

/** The error of opening a store, without `blobs`, that has contents in a bucket. */
export function noBlobsError(location: string | null | undefined): EngineError {
  return invalid(
    'blobs',
    `must be given: large contents of this store are in ${location}. Pass blobs: s3Blobs({ … }) with that bucket and prefix`,
  )
}

/** The error of opening a store with another bucket than before. */
export function otherBucket(given: string, location: string | null | undefined): EngineError {
  return invalid(
    'blobs',
    `is ${given}, but large contents of this store are in ${location}. Pass that bucket and prefix. If you have moved the ` +
      'objects, see "Moving the bucket" in docs/postgres.md',
  )
}

/** The error of opening a store with a bucket that lacks the mark of the store. */
export function unmarkedBucket(location: string, key: string): EngineError {
  return invalid(
    'blobs',
    `is ${location}, which has no object "${key}", so it is not the bucket with the contents of this store. Check the ` +
      'endpoint and the region of the client',
  )
}

/** The error of opening a store with the bucket of another one. */
export function foreignBucket(location: string): EngineError {
  return formatError(`another store uses ${location}. Nothing was changed. Choose another bucket or prefix`)
}

/** The error of opening a copy of a store. */
export function copiedError(location: string, schema: string): EngineError {
  return formatError(
    `the store was copied from another database, and a store there may still use ${location}. Nothing was changed. ` +
      'If the copy replaces that store, or has a copy of its bucket, run this statement, and open the store again: ' +
      `UPDATE ${schema}.buckets SET database = NULL`,
  )
}

/** The error of a read of a content whose object does not exist. */
export function lostObject(hash: string): EngineError {
  return new EngineError(
    'DATA_LOSS',
    `the content ${hash} is missing: its object is not in the bucket. Restore it from a backup of the bucket`,
    { hash },
  )
}

/** The error of a read of a content whose object has other bytes. */
export function damagedBlob(hash: string): EngineError {
  return new EngineError(
    'DATA_LOSS',
    `the content ${hash} is damaged: its object in the bucket has other bytes. Restore it from a backup of the bucket`,
    { hash },
  )
}

/** The error of an upload whose key was taken by something else. */
export function collidingObject(): EngineError {
  return new EngineError(
    'STORE_FAILED',
    'a content could not be stored: the bucket has another object with its key. Only the store may write to its prefix',
    { outcome: 'not-applied' },
  )
}

/** The error of a commit whose contents were stored so long ago that a collection has given them up. */
export function sweptError(cause: unknown): EngineError {
  const message =
    'the commit is not stored: its contents were stored too long ago, because this process was suspended. Try again'
  return new EngineError('STORE_FAILED', message, { outcome: 'not-applied' }, { cause })
}

/** The error for a commit that breaks the contract of a store. */
export function defectError(what: string): EngineError {
  return new EngineError('INTERNAL', `${what}. Please report this defect`)
}

/** The error of a commit that builds on an event which the database does not have. */
export function missingEvent(what: string): EngineError {
  return new EngineError(
    'INTERNAL',
    `${what}, and the commit is not stored. If another program deleted rows of the table events, restore a backup. ` +
      'Otherwise please report this defect',
    { outcome: 'not-applied' },
  )
}

export function isTaken(error: unknown): boolean {
  return error instanceof EngineError && error.reason === 'STORE_TAKEN'
}

/** Whether a schema or table does not exist. */
function isTableMissing(error: unknown): boolean {
  const state = stateOf(error)
  return state === '42P01' || state === '3F000'
}

/** Whether another engine has stored an event with the same number, or the first head of the same session. */
export function isEventTaken(error: unknown): boolean {
  if (stateOf(error) !== '23505' || !(error instanceof Error)) return false
  const table: unknown = Reflect.get(error, 'table')
  return table === 'events' || table === 'heads'
}

/** Whether a sweep has given up an object of a commit. */
export function isSwept(error: unknown): boolean {
  return stateOf(error) === '23505' && error instanceof Error && Reflect.get(error, 'table') === 'objects'
}

/** Whether the server ended a statement because two statements waited for each other. */
export function isDeadlock(error: unknown): boolean {
  return stateOf(error) === '40P01'
}

export function isLockTimeout(error: unknown): boolean {
  return stateOf(error) === '55P03'
}

/**
 * Whether the connection may still be used after the error: the server has rejected a single statement. After `DISCARD
 * ALL`, by the owner of a pool or by a pooler, the connection has lost its prepared statements and its settings.
 */
export function keepsConnection(error: unknown): boolean {
  return isRejected(error) && stateOf(error) !== '26000'
}

/** Whether the server has rejected a single statement, which it has rolled back. */
function isRejected(error: unknown): boolean {
  return stateOf(error) !== undefined && severityOf(error) === 'ERROR'
}

/**
 * A statement that ends with an ERROR is rolled back. After any other failure the server may have committed
 * it: the answer was lost, or the server ended the connection while it waited for a standby.
 */
function outcomeOf(error: unknown): Outcome {
  return isRejected(error) ? 'not-applied' : 'unknown'
}

function failure(cause: unknown, what: string, details: Readonly<Record<string, string>> = {}): EngineError {
  const code = stateOf(cause)
  if (code === '53100')
    return new EngineError(
      'STORE_FULL',
      `${what}: the disk of the server is full. Free space and try again`,
      details,
      {
        cause,
      },
    )
  if (code !== undefined && refusals.has(code))
    return new EngineError('PERMISSION_DENIED', `${what}: ${messageOf(cause)}`, details, { cause })
  const reason = code === undefined ? unreachable(cause) : messageOf(cause)
  return new EngineError('STORE_FAILED', `${what}: ${reason}. Fix the cause and try again`, details, {
    cause,
  })
}

/** Refused logins and missing rights. */
const refusals: ReadonlySet<string> = new Set(['28000', '28P01', '42501', '25006'])

/** Clients may see the message, so it contains neither addresses nor paths. */
function unreachable(cause: unknown): string {
  return errorCode(cause) === undefined && isTimeout(cause)
    ? 'the server did not answer in time'
    : 'there is no connection to the server'
}

function codeOf(cause: unknown): string {
  const code = errorCode(cause)
  return code === undefined ? '' : ` (${code})`
}

/** The SQLSTATE of an error of the server; undefined for other errors. */
export function stateOf(error: unknown): string | undefined {
  const code = errorCode(error)
  return code !== undefined && severityOf(error) !== undefined ? code : undefined
}

function severityOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('severity' in error)) return undefined
  return typeof error.severity === 'string' ? error.severity : undefined
}

function errorCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
