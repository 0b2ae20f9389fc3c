import { itemAt, present } from '../base/present.js'
import { formatTime } from '../base/environment.js'
import { EngineError, invalid } from '../base/errors.js'
import { Fault } from '../base/fault.js'
import { given, kindOf, parseText, shown } from '../base/input.js'
import { containsJson, noMetadata, parseJsonObject, type JsonObject } from '../base/json-object.js'
import { limits } from '../base/limits.js'
import {
  encodePageToken,
  pageNames,
  parsePageSize,
  parsePageToken,
  type PageRequest,
} from '../base/paging.js'
import { Shape } from '../base/shape.js'
import { keys, prefixEnd } from '../storage/keys.js'
import type { Dir } from '../tree/node.js'
import type { Core } from './core.js'
import { eventTypes } from '../records/event.js'
import { CheckpointIndex, type LiveSession } from './table/live.js'
import { rootAt } from './history/replay.js'
import { checkpointKind, type CheckpointRecord } from '../records/checkpoint.js'
import { withoutMerge } from './status.js'
import { mutate, record, unchanged } from './mutation-queue.js'

/** A saved state of a session. */
export interface Checkpoint {
  /** The id, unique in the session. */
  readonly id: string
  /** The id of the session that the checkpoint belongs to. */
  readonly sessionId: string
  /** The label, unique in the session; '' when the checkpoint has none. */
  readonly checkpointLabel: string
  /** The time of its creation: RFC 3339, UTC, milliseconds. */
  readonly createdAt: string
  /** The metadata of its creation, frozen; `{}` when the checkpoint has none. */
  readonly metadata: JsonObject
}

/** A checkpoint by its id or by its label: pass exactly one of them. */
export interface CheckpointReference {
  /** The `id` of a {@link Checkpoint}. */
  readonly checkpointId?: string
  /** The label of a checkpoint, as `checkpoint()` set it. */
  readonly checkpointLabel?: string
}

/** The request of `session.checkpoint`. */
export interface CheckpointCreateRequest {
  /** Unique in the session, at most 1,024 bytes; absent or '': the checkpoint has no label. */
  readonly checkpointLabel?: string
  /** An object of JSON, such as `{ turn: 3 }`: at most 4 KiB as JSON, and 8 levels. Listings return it. */
  readonly metadata?: JsonObject
}

/** A page of checkpoints, filtered by metadata. */
export interface CheckpointListRequest extends PageRequest {
  /**
   * Only checkpoints whose metadata contains these values. Nested objects may have more keys; arrays must have the
   * same length. Absent: all checkpoints.
   */
  readonly metadata?: JsonObject
}

export const checkpointFields = { checkpointId: true, checkpointLabel: true } as const

export const checkpointShape = new Shape<CheckpointReference>(checkpointFields)

const checkpointCreateShape = new Shape<CheckpointCreateRequest>({ checkpointLabel: true, metadata: true })

const checkpointListShape = new Shape<CheckpointListRequest>({ metadata: true, ...pageNames })

/** A page of checkpoints. */
export interface CheckpointPage {
  /** In order of creation. */
  readonly checkpoints: Checkpoint[]
  /** Pass it as `pageToken` for the next page. Empty when there is no further page. */
  readonly nextPageToken: string
}

/** Saves the current state; O(1) for a tree of any size. A label is unique within its session. */
export function createCheckpoint(
  core: Core,
  live: LiveSession,
  { checkpointLabel: label = '', metadata }: CheckpointCreateRequest,
): Promise<Checkpoint> {
  return mutate(core, live, () => {
    const index = loadedIndex(core, live)
    parseText('checkpointLabel', label, limits.labelBytes)
    if (index.byLabel(label) !== undefined) {
      throw new EngineError(
        'ALREADY_EXISTS',
        `the session already has a checkpoint labelled ${JSON.stringify(shown(label))}: choose another label, or delete that checkpoint`,
        {
          checkpointLabel: shown(label),
        },
      )
    }
    const seq = live.seq + 1
    const checkpoint: CheckpointRecord = {
      id: core.ids.newId(),
      seq,
      label,
      createdAt: core.environment.wallClockMs(),
      ...(metadata !== undefined && { metadata }),
    }
    index.add(checkpoint)
    pin(core, live, seq, live.tree.freeze())
    const committed = record(core, live, {
      type: eventTypes.createCheckpoint,
      details: { checkpointId: checkpoint.id, label },
      redo: [],
      put: [[keys.checkpoint(live.id, checkpoint.id), checkpoint]],
    })
    return committed.then(() => describe(live, checkpoint))
  })
}

/** Copies a request. The label is checked later. */
export function parseCheckpointCreate(request: CheckpointCreateRequest): CheckpointCreateRequest {
  const copy = checkpointCreateShape.read(request)
  if (copy.metadata !== undefined) copy.metadata = parseJsonObject('metadata', copy.metadata)
  return copy
}

/** Copies a request. The page is checked later. */
export function parseCheckpointList(request: CheckpointListRequest): CheckpointListRequest {
  const copy = checkpointListShape.read(request)
  if (copy.metadata !== undefined) copy.metadata = parseJsonObject('metadata', copy.metadata)
  return copy
}

/** A page of the checkpoints, oldest first. The request is already a copy. */
export async function listCheckpoints(
  core: Core,
  live: LiveSession,
  request: CheckpointListRequest,
): Promise<CheckpointPage> {
  const pageSize = parsePageSize(request.pageSize)
  const after = parsePageToken(`checkpoints ${live.id}`, request.pageToken)
  const index = await loadIndex(core, live)
  const page: Checkpoint[] = []
  let last = 0
  for (const checkpoint of index.values()) {
    if (after !== undefined && checkpoint.seq <= Number(after)) continue
    if (!containsJson(checkpoint.metadata ?? noMetadata, request.metadata ?? noMetadata)) continue
    if (page.length === pageSize) {
      return { checkpoints: page, nextPageToken: encodePageToken(`checkpoints ${live.id}`, String(last)) }
    }
    page.push(describe(live, checkpoint))
    last = checkpoint.seq
  }
  return { checkpoints: page, nextPageToken: '' }
}

/** All checkpoints in order of creation. Throws a Fault if they must be read first. */
export function allCheckpoints(core: Core, live: LiveSession): CheckpointRecord[] {
  return [...loadedIndex(core, live).values()]
}

export async function findCheckpoint(
  core: Core,
  live: LiveSession,
  reference: CheckpointReference,
): Promise<CheckpointRecord> {
  return mustFind(await loadIndex(core, live), reference)
}

/**
 * Restores the tree to its state at the checkpoint. The history continues, so another restore can undo this
 * one.
 */
export function restoreCheckpoint(
  core: Core,
  live: LiveSession,
  reference: CheckpointReference,
): Promise<void> {
  return mutate(core, live, () => {
    const { id, label, seq } = mustFind(loadedIndex(core, live), reference)
    if (live.pins?.get(seq) === undefined) {
      throw new Fault(async () => {
        pin(core, live, seq, await rootAt(core, live, seq))
      })
    }
    return record(core, live, {
      type: eventTypes.restoreCheckpoint,
      details: { checkpointId: id, label },
      redo: [['R', seq]],
      ...withoutMerge(live),
    })
  })
}

/** Deletes the checkpoint and frees its label. The history of the session does not change. */
export function deleteCheckpoint(
  core: Core,
  live: LiveSession,
  reference: CheckpointReference,
): Promise<void> {
  return mutate(core, live, () => removeCheckpoint(core, live, mustFind(loadedIndex(core, live), reference)))
}

/**
 * Deletes all but the newest `keepLast` checkpoints, with or without a label. Each deletion is an event of
 * its own.
 */
export function pruneCheckpoints(
  core: Core,
  live: LiveSession,
  keepLast: number,
): Promise<{ deletedCount: number }> {
  return mutate(core, live, () => {
    const index = loadedIndex(core, live)
    const old = [...index.values()].slice(0, Math.max(0, index.size - keepLast))
    let committed = unchanged(core, live)
    for (const checkpoint of old) committed = removeCheckpoint(core, live, checkpoint)
    // Commits form one queue, so the newest one settles last.
    return committed.then(() => ({ deletedCount: old.length }))
  })
}

/** The request of `session.pruneCheckpoints`. */
export interface PruneRequest {
  /** The number of the newest checkpoints to keep, from 0. */
  readonly keepLast: number
}

const pruneShape = new Shape<PruneRequest>({ keepLast: true })

export function parsePrune(request: PruneRequest): number {
  const { keepLast } = pruneShape.read(request)
  if (!Number.isSafeInteger(keepLast) || keepLast < 0)
    throw invalid('keepLast', `must be a whole number from 0; it is ${given(keepLast)}`)
  return keepLast
}

function removeCheckpoint(core: Core, live: LiveSession, checkpoint: CheckpointRecord): Promise<void> {
  const { id, label, seq } = checkpoint
  present(live.checkpoints, 'the index of checkpoints').delete(checkpoint)
  live.pins?.delete(seq)
  return record(core, live, {
    type: eventTypes.deleteCheckpoint,
    details: { checkpointId: id, label },
    redo: [],
    del: [keys.checkpoint(live.id, id), keys.servedCommit(live.id, id)],
  })
}

/** Keeps the root of an earlier state in memory. */
export function pin(core: Core, live: LiveSession, seq: number, root: Dir): void {
  const pins = (live.pins ??= new Map())
  pins.set(seq, root)
  live.pinnedBytes += Math.max(0, live.tree.madeBytes - live.pinnedAt) + rootBytes
  live.pinnedAt = live.tree.madeBytes
  if (!core.table.residency.hasTooManyPins(live)) return
  // Drops the older half, because the newest root is needed now.
  let surplus = pins.size >> 1
  for (const oldest of pins.keys()) if (surplus-- > 0) pins.delete(oldest)
  live.pinnedBytes /= 2
}

/** The approximate memory of a root itself, in bytes. */
const rootBytes = 500

function mustFind(index: CheckpointIndex, reference: CheckpointReference): CheckpointRecord {
  const { checkpointId, checkpointLabel } = reference
  if ((checkpointId === undefined) === (checkpointLabel === undefined)) {
    throw invalid(
      'checkpointId',
      'pass one of checkpointId and checkpointLabel, such as { checkpointLabel: "before" }',
    )
  }
  for (const [field, value] of Object.entries({ checkpointId, checkpointLabel }))
    if (value !== undefined && typeof value !== 'string')
      throw invalid(field, `must be a string; it is ${kindOf(value)}`)
  // No checkpoint has an empty label.
  const found = checkpointId === undefined ? index.byLabel(checkpointLabel ?? '') : index.byId(checkpointId)
  if (found !== undefined) return found
  const details =
    checkpointId === undefined
      ? { checkpointLabel: shown(checkpointLabel) }
      : { checkpointId: shown(checkpointId) }
  throw new EngineError(
    'CHECKPOINT_NOT_FOUND',
    `the session has no checkpoint with the ${
      checkpointId === undefined ? 'label' : 'id'
    } ${given(checkpointId ?? checkpointLabel)}; listCheckpoints() lists them`,
    details,
  )
}

function loadedIndex(core: Core, live: LiveSession): CheckpointIndex {
  if (live.checkpoints === undefined) {
    throw new Fault(async () => {
      await loadIndex(core, live)
    })
  }
  return live.checkpoints
}

async function loadIndex(core: Core, live: LiveSession): Promise<CheckpointIndex> {
  while (live.checkpoints === undefined) {
    const { epoch } = live
    const records = await storedCheckpoints(core, live)
    // Another engine may have changed the session meanwhile. Another call may have loaded the index first.
    if (epoch !== live.epoch || live.checkpoints !== undefined) continue
    live.checkpoints = new CheckpointIndex()
    for (const record of records) live.checkpoints.add(record)
  }
  return live.checkpoints
}

async function storedCheckpoints(core: Core, live: LiveSession): Promise<CheckpointRecord[]> {
  const records: CheckpointRecord[] = []
  const prefix = keys.checkpoints(live.id)
  for (let gte = prefix; ;) {
    const found = await core.store.scan({ gte, lt: prefixEnd(prefix), limit: limits.pageSizeMax })
    for (const [, json] of found) {
      records.push(checkpointKind.parse(json))
    }
    if (found.length < limits.pageSizeMax) break
    gte = `${itemAt(found, -1)[0]}\0`
  }
  // By seq, because ids increase only within one process.
  return records.sort((a, b) => a.seq - b.seq)
}

function describe(live: LiveSession, checkpoint: CheckpointRecord): Checkpoint {
  const { id, label, createdAt, metadata = noMetadata } = checkpoint
  return { id, sessionId: live.id, checkpointLabel: label, createdAt: formatTime(createdAt), metadata }
}
