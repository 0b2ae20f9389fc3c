import type { LockWaitOptions, SessionFileLocks, SessionPosixLocks, PublicOf } from '../../engine/index.js'
import { Shape } from '../../engine/client-contract.js'
import { checked } from './checked.js'
import { clientLimits } from './limits.js'
import { callsOf, remoteService } from './remote-service.js'
import type { InSession } from './session-calls.js'

type Posix<Name extends keyof SessionPosixLocks> = Parameters<SessionPosixLocks[Name]>[0]

const waitShape = new Shape<LockWaitOptions>({ signal: true })

/**
 * Locks like those of fcntl and flock. Like `session.posixLocks` of a local engine. If a wait is aborted
 * while the server grants its lock, the client releases the lock. Exception: if the owner ever got another
 * lock through this client, the client does not release it, because that would also remove the other lock.
 */
export class RemotePosixLocks
  extends remoteService('session.posixLocks', 'set', 'setBlocking', 'flock')
  implements PublicOf<SessionPosixLocks>
{
  async set(request: Posix<'set'>): Promise<void> {
    const copy = checked(request)
    await callsOf(this).run('setPosixLock', copy)
    this.#remember(copy)
  }

  /**
   * Locks a range, and waits until it is free. The request stays open during the wait.
   *
   * @throws {EngineError} DEADLOCK when owners would wait for each other
   * @throws {EngineError} QUOTA when 1,000 requests of the session wait
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist, or its file is deleted during the wait
   * @throws {EngineError} STORE_CLOSED when the engine of the server closes
   *
   * @example
   * const lock = { path: '/db', kind: 'POSIX_LOCK_KIND_SHARED', owner: { ownerId: 'agent-1' } } as const
   * await session.posixLocks.setBlocking(lock, { signal: AbortSignal.timeout(5000) })
   */
  async setBlocking(request: Posix<'setBlocking'>, options: LockWaitOptions = {}): Promise<void> {
    const { signal } = waitShape.read(options, 'options')
    const copy = checked(request)
    const { path, range, owner } = copy
    return this.#take(
      () => callsOf(this).run('setPosixLockBlocking', copy, { signal, patient: true }),
      { path, owner, ...(range !== undefined && { range }) },
      signal,
    )
  }

  async flock(request: Posix<'flock'>, options: LockWaitOptions = {}): Promise<void> {
    const { signal } = waitShape.read(options, 'options')
    const copy = checked(request)
    const { path, owner, blocking } = copy
    return this.#take(
      () => callsOf(this).run('flock', copy, { signal, patient: blocking === true }),
      { path, owner, isFlock: true },
      signal,
    )
  }

  async #take(
    wait: () => Promise<void>,
    undo: InSession<'funlock'>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    signal?.throwIfAborted()
    try {
      await wait()
      this.#remember(undo)
    } catch (error) {
      // The server may have granted the lock before it noticed the abort.
      if (signal?.aborted === true && !callsOf(this).transport.lockOwners.has(this.#keyOf(undo)))
        await this.#giveBack(undo)
      throw error
    }
  }

  async #giveBack(undo: InSession<'funlock'>): Promise<void> {
    const signal = AbortSignal.timeout(clientLimits.giveBackMs)
    await callsOf(this)
      .run('funlock', undo, { signal })
      .catch(() => undefined)
  }

  #remember(request: Pick<InSession<'funlock'>, 'owner'>): void {
    callsOf(this).transport.lockOwners.add(this.#keyOf(request))
  }

  #keyOf({ owner }: Pick<InSession<'funlock'>, 'owner'>): string {
    return JSON.stringify([callsOf(this).sessionId, owner?.clientId ?? '', owner?.ownerId])
  }
}

/** Locks on paths with a time to live. Like `session.fileLocks` of a local engine. */
export class RemoteFileLocks
  extends remoteService('session.fileLocks')
  implements PublicOf<SessionFileLocks> {}
