import { HttpError } from '../http-error.js'

/** Whether the request waits for a lock. */
export function waitsForLock(name: string, request: object): boolean {
  return (
    name === 'setPosixLockBlocking' ||
    (name === 'flock' && 'blocking' in request && request.blocking === true)
  )
}

export interface LockWait {
  readonly signal: AbortSignal
  release(): void
}

/**
 * Starts a wait that ends when the client disconnects, or with LOCK_TIMEOUT after `maxMs`. 0 means no
 * timeout.
 */
export function startLockWait(gone: AbortSignal, maxMs: number): LockWait {
  if (maxMs === 0) return { signal: gone, release: () => undefined }
  const abort = new AbortController()
  const onGone = (): void => abort.abort(gone.reason)
  if (gone.aborted) onGone()
  else gone.addEventListener('abort', onGone, { once: true })
  const timer = setTimeout(() => {
    abort.abort(
      new HttpError('LOCK_TIMEOUT', `the lock was not released within ${maxMs} ms`, { limit: String(maxMs) }),
    )
  }, maxMs)
  return {
    signal: abort.signal,
    release: () => {
      clearTimeout(timer)
      gone.removeEventListener('abort', onGone)
    },
  }
}
