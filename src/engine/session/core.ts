import { EngineError, invalid, messageOf } from '../base/errors.js'
import type { Environment } from '../base/environment.js'
import { sha256 } from '../base/hash.js'
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
import type { Journal } from './journal/journal.js'
import type { LiveSession } from './table/live.js'
import type { SessionTable } from './table/session-table.js'

/** One engine: its clocks, store and caches, the same for every caller. */
export interface EngineContext {
  readonly storeOf: (tenantKey: string) => MeteredStore
  /** The store's record of changes. */
  readonly journal: Journal
  /** Whether the store takes commits. */
  readonly fence: Fence
  readonly environment: Environment
  /** The times of the clocks when the engine was opened. */
  readonly opened: { readonly wallMs: number; readonly monotonicMs: number }
  readonly log: Log
  readonly ids: IdSource
  readonly content: ContentStore
  readonly contentIds: ContentIds
  readonly loader: NodeLoader
  readonly roots: RootStore
  readonly maxFileBytes: number
  /** To be awaited before a session that was read from the store is used. */
  readonly onOpen: ((core: Core, live: LiveSession) => Promise<void>) | undefined
  /** Bytes that the changes of a session may write; absent: without limit. */
  readonly sessionBytes: number | undefined
  /** Asked for each operation; without it everything is allowed. */
  readonly authorize: Authorize | undefined
  /** Sessions without a lifetime of their own are deleted after this long without use; absent: never. */
  readonly sessionTtlSeconds: number | undefined
  /** Deletes a session, with all that belongs to it. */
  readonly expire: (core: Core, sessionId: string) => Promise<void>
  /** What collections leave although no record in the store leads to it. */
  readonly pins: Pins
  /** Work that `close()` waits for. */
  readonly background: Set<Promise<void>>
}

/** A caller: an operation finds the tenant's sessions and sources, and its changes are the principal's. */
export interface TenantScope extends Caller {
  /** The tenant in keys, of fixed width. */
  readonly tenantKey: string
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
  return { ...core, tenant, principal, tenantKey, store: core.storeOf(tenantKey) }
}

/** Keeps frozen trees from collection while something is read of them. */
export async function reading<T>(core: Core, roots: readonly Dir[], read: () => Promise<T>): Promise<T> {
  using _ = core.pins.pin({ roots })
  return await read()
}

/** A state that collections leave until it is disposed of. */
export interface HeldState extends Disposable {
  /** Resolves once all of the state is stored. Rejects with the failure of a change in it. */
  readonly state: Promise<Dir>
}

/** The state of a session after the changes called before: it stays when memory does not. */
export function heldState(core: Core, live: LiveSession): HeldState {
  let pin: Disposable | undefined
  let isReleased = false
  const take = async (): Promise<Dir> => {
    const root = live.tree.freeze()
    if (!isReleased) pin = core.pins.pin({ roots: [root] })
    await live.acknowledged
    return root
  }
  const state = live.tail?.then(take) ?? take()
  // The caller may be waiting for its turn when the state fails.
  state.catch(() => undefined)
  return {
    state,
    [Symbol.dispose]: () => {
      isReleased = true
      pin?.[Symbol.dispose]()
    },
  }
}

/** Runs something that `close()` waits for; its failure is its own to report. */
export function inBackground(core: Core, work: Promise<void>): void {
  const settled = work
    .catch((error: unknown) => {
      core.log('warn', 'a background task failed', { error: messageOf(error) })
    })
    .then(() => {
      core.background.delete(settled)
    })
  core.background.add(settled)
}

/** SESSION_NOT_FOUND; INVALID_ARGUMENT for an invalid id. */
export function sessionNotFound(sessionId: unknown): EngineError {
  if (typeof sessionId !== 'string')
    return invalid('sessionId', `must be a string; it is ${given(sessionId)}`)
  return new EngineError(
    'SESSION_NOT_FOUND',
    `there is no session ${given(sessionId)}; it may have been deleted`,
    { sessionId: shown(sessionId) },
  )
}
