import { EngineError, messageOf } from '../base/errors.js'
import type { Environment } from '../base/environment.js'
import { sha256 } from '../base/hash.js'
import type { Log } from '../base/log.js'
import { shown } from '../base/input.js'
import type { IdSource } from '../base/ids.js'
import type { ContentStore } from '../cas/content.js'
import type { MeteredStore } from '../storage/metered-store.js'
import type { ContentIds } from '../tree/content-id.js'
import type { NodeLoader } from '../tree/node.js'
import type { RootStore } from '../tree/roots.js'
import type { Authorize } from './permissions.js'
import { endFollowers } from './feed.js'
import type { LiveSession } from './live.js'

/** What every part of one engine shares. */
export interface Core {
  /** As the tenant uses it. */
  readonly store: MeteredStore
  readonly storeOf: (tenantKey: string) => MeteredStore
  readonly environment: Environment
  readonly log: Log
  readonly ids: IdSource
  readonly content: ContentStore
  readonly contentIds: ContentIds
  readonly loader: NodeLoader
  readonly roots: RootStore
  readonly maxFileBytes: number
  /** Asked for each operation; without it everything is allowed. */
  readonly authorize: Authorize | undefined
  /** Who acts by way of this core: what it finds is the tenant's, what it changes is the principal's. */
  readonly tenant: string
  readonly principal: string
  /** The tenant in keys, of fixed width. */
  readonly tenantKey: string
  /** Sessions in memory. */
  readonly live: Map<string, LiveSession>
  /** Sessions whose deletion is not stored yet: they are gone already. */
  readonly deleting: Set<string>
  /** Sessions that were dropped while commits of theirs were queued: to be read again when these are settled. */
  readonly draining: Map<string, Promise<void>>
  /** What was dropped of sessions with held files, until they are read again: the files stay held. */
  readonly dropped: Map<string, LiveSession>
  /** Work that `close()` waits for. */
  readonly background: Set<Promise<void>>
}

/** Who acts. */
export interface Caller {
  readonly tenant: string
  readonly principal: string
}

/** Who acts where nobody is named. */
export const localCaller: Caller = { tenant: 'local', principal: 'local' }

const tenantKeyLength = 16

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

/** Takes a session out of memory; whoever needs it reads it again from the store. */
export function discard(core: Core, live: LiveSession, why: 'failed' | 'deleted'): void {
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
  return new EngineError('SESSION_NOT_FOUND', 'no such session', { sessionId: shown(sessionId) })
}
