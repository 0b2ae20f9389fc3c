import type { LockWaitOptions, SessionFileLocks, SessionPosixLocks } from '../../engine/index.js'
import type { SessionCalls } from './session-calls.js'

type Posix<Name extends keyof SessionPosixLocks> = Parameters<SessionPosixLocks[Name]>[0]
type Locks<Name extends keyof SessionFileLocks> = NonNullable<Parameters<SessionFileLocks[Name]>[0]>

/** Locks in the manner of fcntl and flock. As `session.posixLocks` in process. */
export class RemotePosixLocks implements Pick<SessionPosixLocks, keyof SessionPosixLocks> {
  readonly #session: SessionCalls

  constructor(session: SessionCalls) {
    this.#session = session
  }

  get(request: Posix<'get'>): ReturnType<SessionPosixLocks['get']> {
    return this.#session.call('getPosixLock', request)
  }

  set(request: Posix<'set'>): Promise<void> {
    return this.#session.run('setPosixLock', request)
  }

  /** The request is open as long as it waits. */
  setBlocking(request: Posix<'setBlocking'>, { signal }: LockWaitOptions = {}): Promise<void> {
    return this.#session.run('setPosixLockBlocking', request, { signal, patient: true })
  }

  flock(request: Posix<'flock'>, { signal }: LockWaitOptions = {}): Promise<void> {
    return this.#session.run('flock', request, { signal, patient: request?.blocking === true })
  }

  funlock(request: Posix<'funlock'>): Promise<void> {
    return this.#session.run('funlock', request)
  }
}

/** Locks on paths with a time to live. As `session.fileLocks` in process. */
export class RemoteFileLocks implements Pick<SessionFileLocks, keyof SessionFileLocks> {
  readonly #session: SessionCalls

  constructor(session: SessionCalls) {
    this.#session = session
  }

  lock(request: Locks<'lock'>): Promise<{ lockId: string }> {
    return this.#session.call('lockFile', request)
  }

  renew(request: Locks<'renew'>): ReturnType<SessionFileLocks['renew']> {
    return this.#session.call('renewFileLock', request)
  }

  list(request: Locks<'list'> = {}): ReturnType<SessionFileLocks['list']> {
    return this.#session.call('listFileLocks', request)
  }

  unlock(request: Locks<'unlock'>): Promise<void> {
    return this.#session.run('unlockFile', request)
  }

  forceUnlock(request: Locks<'forceUnlock'>): ReturnType<SessionFileLocks['forceUnlock']> {
    return this.#session.call('forceUnlockFile', request)
  }
}
