import { EngineError, onAbort } from '../../engine/client-contract.js'

/** Ends what belongs to it when any of the signals aborts, or when the time is over. */
export class Deadline {
  readonly #controller = new AbortController()
  readonly #releases: (() => void)[] = []
  #timer: ReturnType<typeof setTimeout> | undefined

  /** Throws the reason of a signal that is aborted. */
  constructor(signals: readonly (AbortSignal | undefined)[], timeoutMs?: number) {
    for (const signal of signals) signal?.throwIfAborted()
    for (const signal of signals) {
      if (signal !== undefined) this.#releases.push(onAbort(signal, () => this.abort(signal.reason)))
    }
    if (timeoutMs !== undefined) {
      this.#timer = setTimeout(() => this.abort(timeout(timeoutMs)), timeoutMs)
    }
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** What was thrown; the reason of the abort, where that was it. */
  reasonOf(thrown: unknown): unknown {
    return this.signal.aborted ? this.signal.reason : thrown
  }

  /** From here on only the signals count. */
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

/** Resolves after some time; rejects with the reason of the signal. */
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
  return new EngineError('DEADLINE_EXCEEDED', 'there was no answer in time', details)
}
