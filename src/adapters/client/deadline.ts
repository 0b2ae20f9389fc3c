import { EngineError, onAbort } from '../../engine/client-contract.js'
import { clientLimits } from './limits.js'

/** A signal that aborts when one of several signals aborts, or after a timeout. */
export class Deadline {
  readonly #controller = new AbortController()
  readonly #releases: (() => void)[] = []
  #timer: ReturnType<typeof setTimeout> | undefined

  /** Throws the reason of a signal that has already aborted. */
  constructor(signals: readonly (AbortSignal | undefined)[], timeoutMs?: number) {
    for (const signal of signals) signal?.throwIfAborted()
    for (const signal of signals) {
      if (signal !== undefined) this.#releases.push(onAbort(signal, () => this.abort(signal.reason)))
    }
    // A longer timer would end at once.
    if (timeoutMs !== undefined && timeoutMs <= clientLimits.longestTimerMs) {
      this.#timer = setTimeout(() => this.abort(timeout(timeoutMs)), timeoutMs)
    }
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Returns the reason of the abort if there was one, otherwise the thrown error. */
  reasonOf(thrown: unknown): unknown {
    return this.signal.aborted ? this.signal.reason : thrown
  }

  /** Removes the timeout. After that, only the signals can abort. */
  clearTimeout(): void {
    clearTimeout(this.#timer)
  }

  abort(reason: unknown): void {
    this.end()
    this.#controller.abort(reason)
  }

  end(): void {
    this.clearTimeout()
    for (const release of this.#releases.splice(0)) release()
  }
}

/** Resolves after `ms` milliseconds. Rejects with the reason of the signal if it aborts first. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted()
    const release = signal && onAbort(signal, () => end(() => reject(signal.reason as Error)))
    const timer = setTimeout(() => end(resolve), ms)
    const end = (settle: () => void): void => {
      clearTimeout(timer)
      release?.()
      settle()
    }
  })
}

function timeout(timeoutMs: number): EngineError {
  const details = { timeoutMs: String(timeoutMs) }
  return new EngineError('DEADLINE_EXCEEDED', `the server did not respond within ${timeoutMs} ms`, details)
}
