import { inGroup } from '../base/cooperative.js'
import { EngineError, invalid, messageOf } from '../base/errors.js'
import type { Environment } from '../base/environment.js'
import { sha256 } from '../base/hash.js'
import type { KeyedMutex } from '../base/keyed-mutex.js'
import type { Log } from '../base/log.js'
import { given, shown } from '../base/input.js'
import type { IdSource } from '../base/ids.js'
import type { Fence } from '../storage/fence.js'
import type { ContentStore } from '../cas/content.js'
import { tenantKeyLength } from '../storage/keys.js'
import type { MeteredStore } from '../storage/metered-store.js'
import type { ContentIds } from '../tree/content-id.js'
import type { Dir } from '../tree/node.js'
import type { NodeLoader } from '../tree/node-loader.js'
import type { Pins } from '../tree/pins.js'
import type { RootStore } from '../tree/roots.js'
import type { Authorize, Caller } from './access/permissions.js'
import type { BranchTips } from '../records/branch-tip.js'
import type { EventMarks } from './history/event-marks.js'
import type { Journal } from './journal/journal.js'
import type { GrepCache } from './search/grep-cache.js'
import { finalState } from './sharing/when-stored.js'
import type { BaseAtState, LiveSession } from './table/live.js'
import type { ClockSpans } from './table/clock-spans.js'
import type { SessionTable } from './table/session-table.js'
import type { TagIndex } from './table/tag-index.js'

/** The part of a shared store that sessions need; see `sharing/sharing.ts`. */
export interface StoreSharing {
  /** The id of this engine in the store. It is a part of the keys of records that only this engine changes. */
  readonly engineId: string
  /** A head that no commit has had. */
  nextHead(): string
  /** Whether a head that is not '' was made by this engine. */
  isOwn(head: string): boolean
  /** Makes a session in memory shared. `head` is that of its state. */
  enter(live: LiveSession, head: string, readAt: number): void
  /** Whether the state of a session in memory is new enough to be read. */
  isFresh(core: Core, live: LiveSession): boolean
  /** Resolves when the state of a session in memory is new enough to be read. */
  freshen(core: Core, live: LiveSession): Promise<void>
  /** Brings all sessions in memory to their states in the store. */
  lookAtAll(core: Core): Promise<void>
  /** Acknowledges the newest epoch of collections. */
  acknowledge(core: Core): Promise<void>
  /** Publishes the notes of this engine for a running collection. The engine commits nothing more. */
  leave(core: Core): Promise<void>
  /** Stops looking for changes of other engines. */
  stop(): void
}

/** One engine: its clocks, store and caches, the same for every caller. */
export interface EngineContext {
  readonly storeOf: (tenantKey: string) => MeteredStore
  /** Stores the changes of sessions. */
  readonly journal: Journal
  /** Present if other engines may change the store too. */
  readonly sharing: StoreSharing | undefined
  /** Knows whether the store accepts commits. */
  readonly fence: Fence
  readonly environment: Environment
  /** The times of the clocks when the engine was opened. */
  readonly opened: { readonly wallMs: number; readonly monotonicMs: number }
  /** The jumps of the wall clock since then. */
  readonly clockSpans: ClockSpans
  /** Also notices the small jumps that matter to locks and cache entries, whose times to live may be seconds. */
  readonly fineClockSpans: ClockSpans
  readonly log: Log
  readonly ids: IdSource
  readonly content: ContentStore
  readonly contentIds: ContentIds
  readonly loader: NodeLoader
  readonly roots: RootStore
  readonly maxFileBytes: number
  /** Called for each session that was read from the store. Await it before the session is used. */
  readonly onOpen: ((core: Core, live: LiveSession) => Promise<void>) | undefined
  /** The number of bytes that the changes of a session may write. Undefined: no limit. */
  readonly sessionBytes: number | undefined
  /** Called for each operation. Undefined: everything is allowed. */
  readonly authorize: Authorize | undefined
  /**
   * The time to live of sessions that have none of their own. They are deleted after this long without use.
   * Undefined: never.
   */
  readonly sessionTtlSeconds: number | undefined
  /** Deletes an expired session and everything that belongs to it. Returns false if it was used meanwhile. */
  readonly expire: (core: Core, sessionId: string) => Promise<boolean>
  /** Deletes the entries of a session's cache that are expired at this time of the wall clock. */
  readonly trimCache: (core: Core, sessionId: string, wallMs: number) => Promise<void>
  /** Objects that collections must keep although no record in the store refers to them. */
  readonly pins: Pins
  /** Sessions by their tags. Absent if other engines may add sessions too. */
  readonly tags: TagIndex | undefined
  /** The turns in which tenants compute earlier states, and those of sessions that enter memory. */
  readonly replays: KeyedMutex
  /** Results of earlier searches. */
  readonly searches: GrepCache
  /** Work that `close()` waits for. */
  readonly background: Set<Promise<void>>
}

/**
 * The caller. Operations find only the sessions and sources of the tenant. Events record the principal as the
 * author of changes.
 */
export interface TenantScope extends Caller {
  /** The form of the tenant in keys. It has a fixed width. */
  readonly tenantKey: string
  /** What the events of the caller's handle have besides their own details. */
  readonly marks?: EventMarks
  /** Whether the caller's handle on a session may read its files now. Absent: yes. */
  readonly mayReadFiles?: () => boolean
  /** The store as the tenant uses it. */
  readonly store: MeteredStore
}

/** An engine with its sessions in memory, as one caller uses it. */
export interface Core extends EngineContext, TenantScope {
  readonly table: SessionTable
}

/** The part of {@link Core} that is the same for every caller. */
export type SharedCore = Omit<Core, keyof TenantScope>

/** The same engine for another caller. */
export function coreFor(core: SharedCore, { tenant, principal }: Caller): Core {
  const tenantKey = sha256(tenant).slice(0, tenantKeyLength)
  const environment = environmentOf(core.environment, tenantKey)
  return { ...core, tenant, principal, tenantKey, environment, store: core.storeOf(tenantKey) }
}

/** The environment with the turns of a tenant: its long work does not wait for all that of other tenants. */
function environmentOf(origin: Environment, tenantKey: string): Environment {
  const environment: Environment = {
    wallClockMs: () => origin.wallClockMs(),
    monotonicMs: () => origin.monotonicMs(),
    randomFill: (bytes) => origin.randomFill(bytes),
  }
  return inGroup(environment, { name: tenantKey, origin })
}

/** Protects frozen trees from collection while `read` runs. */
export async function reading<T>(core: Core, roots: readonly Dir[], read: () => Promise<T>): Promise<T> {
  using _ = core.pins.pin({ roots })
  return await read()
}

/** A state that collections keep until it is disposed of. */
export interface PinnedState extends Disposable {
  /** Resolves once all of the state is stored. Rejects with the failure of a change in it. */
  readonly state: Promise<NumberedState>
}

interface NumberedState extends BaseAtState {
  readonly root: Dir
  readonly seq: number
  /** On a shared store: see `FinalState`. */
  readonly tips?: BranchTips
  readonly epoch?: object
}

/** Pins the state of a session after the changes called before, and its base at that time. */
export function pinState(core: Core, live: LiveSession): PinnedState {
  let pin: Disposable | undefined
  let isReleased = false
  const take = async (): Promise<NumberedState> => {
    const state: NumberedState =
      live.shared === undefined
        ? { record: live.record, baseline: live.baseline, root: live.tree.freeze(), seq: live.seq }
        : await finalState(core.pins, live, live.shared)
    if (!isReleased) pin = core.pins.pin({ roots: [state.root, state.baseline] })
    await live.acknowledged
    return state
  }
  const state = live.tail?.then(take) ?? take()
  // The state may fail before the caller awaits it, which must not be an unhandled rejection.
  state.catch(() => undefined)
  return {
    state,
    [Symbol.dispose]: () => {
      isReleased = true
      pin?.[Symbol.dispose]()
    },
  }
}

/** Runs work that `close()` waits for. If it fails, the error is only logged. */
export function inBackground(core: Core, work: Promise<unknown>): void {
  const logged = work.catch((error: unknown) => {
    core.log('warn', 'a background task failed', { error: messageOf(error) })
  })
  beforeClose(core, logged)
}

/** Makes `close()` wait for work whose error its caller handles. */
export function beforeClose(core: Core, work: Promise<unknown>): void {
  const ended = (): void => {
    core.background.delete(settled)
  }
  const settled = work.then(ended, ended)
  core.background.add(settled)
}

/** The error SESSION_NOT_FOUND, or INVALID_ARGUMENT if the id is not a string. */
export function sessionNotFound(sessionId: unknown): EngineError {
  if (typeof sessionId !== 'string')
    return invalid('sessionId', `must be a string; it is ${given(sessionId)}`)
  return new EngineError(
    'SESSION_NOT_FOUND',
    `there is no session ${given(sessionId)}; it may have been deleted`,
    { sessionId: shown(sessionId) },
  )
}
