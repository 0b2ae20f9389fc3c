import { EngineError, messageOf } from '../base/errors.js'
import type { Environment } from '../base/environment.js'
import { sha256 } from '../base/hash.js'
import type { Log } from '../base/log.js'
import { given, shown } from '../base/input.js'
import type { IdSource } from '../base/ids.js'
import type { Fence } from '../storage/fence.js'
import type { ContentStore } from '../cas/content.js'
import { tenantKeyLength } from '../storage/keys.js'
import type { MeteredStore } from '../storage/metered-store.js'
import type { RecentWrites } from '../storage/recent-writes.js'
import type { ContentIds } from '../tree/content-id.js'
import type { Dir } from '../tree/node.js'
import type { NodeLoader } from '../tree/node-loader.js'
import type { RootStore } from '../tree/roots.js'
import type { Authorize, Caller } from './access/permissions.js'
import { endFollowers } from './history/feed.js'
import type { LiveSession } from './table/live.js'
import type { Residency } from './table/residency.js'

/** What every part of one engine shares. */
export interface Core {
  /** As the tenant uses it. */
  readonly store: MeteredStore
  readonly storeOf: (tenantKey: string) => MeteredStore
  /** Whether the store takes commits. */
  readonly fence: Fence
  readonly environment: Environment
  /** What the clocks said when the engine was opened. */
  readonly opened: { readonly wallMs: number; readonly monotonicMs: number }
  /** The last uses of sessions at which the wall clock was not what it was to be expected. */
  readonly unsureUses: Map<string, UnsureUse>
  readonly log: Log
  readonly ids: IdSource
  readonly content: ContentStore
  readonly contentIds: ContentIds
  readonly loader: NodeLoader
  readonly roots: RootStore
  readonly maxFileBytes: number
  /** To be awaited before a session that was read from the store is used. */
  readonly onOpen: ((core: Core, live: LiveSession) => Promise<void>) | undefined
  /** What the changes of a session may write; absent: as much as they like. */
  readonly sessionBytes: number | undefined
  /** Asked for each operation; without it everything is allowed. */
  readonly authorize: Authorize | undefined
  /** After how long without use sessions are deleted that do not say it themselves; absent: never. */
  readonly sessionTtlSeconds: number | undefined
  /** Deletes a session, with all that belongs to it. */
  readonly expire: (core: Core, sessionId: string) => Promise<void>
  /** Who acts by way of this core: what it finds is the tenant's, what it changes is the principal's. */
  readonly tenant: string
  readonly principal: string
  /** The tenant in keys, of fixed width. */
  readonly tenantKey: string
  /** Sessions in memory. */
  readonly live: Map<string, LiveSession>
  /** Which these are. */
  readonly residency: Residency
  /** Sessions whose deletion is not stored yet: they are gone already. */
  readonly deleting: Set<string>
  /** Sessions that were dropped while commits of theirs were queued: to be read again when these are settled. */
  readonly draining: Map<string, Promise<void>>
  /** What was dropped of sessions with held files, until they are read again: the files stay held. */
  readonly dropped: Map<string, LiveSession>
  /** Sessions of bundles of which only a part is stored: they count as deleted until they are whole. */
  readonly arriving: Set<string>
  /** What was written by those who have yet to say what leads to it. */
  readonly writes: RecentWrites
  /** Work that `close()` waits for. */
  readonly background: Set<Promise<void>>
}

/** When a session was used by both clocks, or first seen to have been used. */
export interface UnsureUse {
  readonly lastActivityAt: number
  readonly monotonicMs: number
}

/** What is the same for all who act. */
export type SharedCore = Omit<Core, keyof Caller | 'tenantKey' | 'store'>

/** The same engine for somebody else. */
export function coreFor(core: SharedCore, { tenant, principal }: Caller): Core {
  const tenantKey = sha256(tenant).slice(0, tenantKeyLength)
  return { ...core, tenant, principal, tenantKey, store: core.storeOf(tenantKey) }
}

/** A session in memory, if it is the tenant's. */
export function inMemory(core: Core, sessionId: string): LiveSession | undefined {
  const live = core.live.get(sessionId)
  return live?.tenantKey === core.tenantKey ? live : undefined
}

/** Keeps frozen trees from collection while something is read of them. */
export async function reading<T>(core: Core, roots: readonly Dir[], read: () => Promise<T>): Promise<T> {
  const { inUse } = core.loader
  if (inUse === undefined) return read()
  const released = roots.map((root) => inUse.hold(root))
  try {
    return await read()
  } finally {
    for (const release of released) release()
  }
}

/** A state that collections leave until `release` is called. */
export interface HeldState {
  /** Resolves once all of the state is stored. Rejects with the failure of a change in it. */
  readonly state: Promise<Dir>
  readonly release: () => void
}

/** The state of a session after the changes that were asked for before: it stays when memory does not. */
export function heldState(core: Core, live: LiveSession): HeldState {
  let unused: (() => void) | undefined
  let isReleased = false
  const take = async (): Promise<Dir> => {
    const root = live.tree.freeze()
    if (!isReleased) unused = core.loader.inUse?.hold(root)
    await live.acknowledged
    return root
  }
  const state = live.tail?.then(take) ?? take()
  // The caller may be waiting for its turn when the state fails.
  state.catch(() => undefined)
  const release = (): void => {
    isReleased = true
    unused?.()
  }
  return { state, release }
}

/** As {@link inMemory}, one that left but that somebody still has hold of included: it comes back. */
export function atHand(core: Core, sessionId: string): LiveSession | undefined {
  return inMemory(core, sessionId) ?? core.residency.comeBack(sessionId, core.tenantKey)
}

/** Runs something that `close()` waits for; its failure is its own to report. */
export function inBackground(core: Core, work: Promise<void>): void {
  const settled = work
    .catch((error: unknown) => {
      core.log('warn', 'work in the background failed', { error: messageOf(error) })
    })
    .then(() => {
      core.background.delete(settled)
    })
  core.background.add(settled)
}

/** After a failed commit memory may be ahead of the store, or behind it: everything is to be read again. */
export function discardAll(core: Pick<Core, 'live' | 'residency' | 'dropped' | 'draining' | 'log'>): void {
  if (core.live.size > 0)
    core.log('error', 'a write failed: all sessions are read again', { sessions: core.live.size })
  for (const live of core.live.values()) discard(core, live, 'failed')
  for (const live of core.residency.takeLeft()) live.discarded = 'failed'
}

/** Takes a session out of memory; whoever needs it reads it again from the store. */
export function discard(
  core: Pick<Core, 'live' | 'dropped' | 'draining'>,
  live: LiveSession,
  why: 'failed' | 'deleted',
): void {
  live.discarded = why
  endFollowers(
    live,
    why === 'deleted'
      ? undefined
      : new EngineError('STORE_FAILED', 'a write failed, and the session was read again'),
  )
  core.live.delete(live.id)
  if (why === 'failed' && live.held !== undefined) core.dropped.set(live.id, live)
  const settled = live.acknowledged
    .catch(() => undefined)
    .then(() => {
      if (core.draining.get(live.id) === settled) core.draining.delete(live.id)
    })
  core.draining.set(live.id, settled)
}

export function sessionNotFound(sessionId: unknown): EngineError {
  return new EngineError(
    'SESSION_NOT_FOUND',
    `there is no session ${given(sessionId)}; it may have been deleted`,
    { sessionId: shown(sessionId) },
  )
}
