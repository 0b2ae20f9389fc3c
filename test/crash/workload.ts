import { EngineError, type Engine, type Session } from '../../src/index.js'
import type { Call } from './expected.js'
import { probeTag } from './protocol.js'
import { start } from './start.js'
import { Steps } from './steps.js'
import { openAll, type Verifier } from './verifier.js'

const maxSessions = 5

/** Makes random changes to the sessions of an engine in this process, and records them in a verifier. */
export class Workload {
  readonly #verifier: Verifier
  readonly #random: () => number
  readonly #steps: Steps
  #sessions: { session: Session; labels: string[] }[] = []
  #calls = 0

  constructor(verifier: Verifier, random: () => number) {
    this.#verifier = verifier
    this.#random = random
    this.#steps = new Steps(random)
  }

  /** Must be called first for each engine. */
  async open(engine: Engine): Promise<void> {
    this.#sessions = []
    for (const [{ tags }, session] of await openAll(engine)) {
      if (probeTag in tags) continue
      const { checkpoints } = await session.listCheckpoints({ pageSize: 10_000 })
      this.#sessions.push({
        session,
        labels: checkpoints.slice(-20).map(({ checkpointLabel }) => checkpointLabel),
      })
    }
    while (this.#sessions.length < 2) {
      const session = await engine.sessions.create()
      this.#verifier.expect(session.id)
      this.#sessions.push({ session, labels: [] })
    }
  }

  /**
   * Makes calls, up to `pending` at once, until the store fails or the number is reached; returns the errors of the
   * store.
   */
  async run(calls: number, pending: number): Promise<EngineError[]> {
    const failures: EngineError[] = []
    const open = new Set<Promise<void>>()
    for (let i = 0; i < calls && failures.length === 0; i++) {
      const { session, labels } = this.#sessions[this.#random() % this.#sessions.length]!
      const n = this.#calls++
      const step = this.#steps.next(n, labels, this.#sessions.length < maxSessions)
      const call: Call = { n, step }
      const { calls: expected } = this.#verifier.expect(session.id)
      expected.push(call)
      const settled = start(session, step)
        .then(({ outcome, fork }) => {
          call.settled = outcome
          if (outcome === 'ok') this.#verifier.acknowledged++
          if (fork !== undefined) {
            this.#verifier.expect(fork.id)
            this.#sessions.push({ session: fork, labels: [] })
          }
          if (outcome === 'ok' && step.op === 'checkpoint') labels.push(step.label)
        })
        .catch((error: unknown) => {
          failures.push(requireStoreFailure(error))
          // The outcome is unknown: the change may be stored or not.
          call.failed = true
          if (failures.at(-1)!.details['outcome'] === 'not-applied')
            expected.splice(expected.indexOf(call), 1)
        })
        .finally(() => open.delete(settled))
      open.add(settled)
      for (let turns = 0; turns < 8; turns++) await Promise.resolve()
      if (open.size >= pending) await Promise.race(open)
    }
    await Promise.all(open)
    // A call rejected after a failed one may have been checked with or without it, so its rejection proves nothing.
    if (failures.length > 0) {
      for (const { session } of this.#sessions) {
        const expected = this.#verifier.expect(session.id)
        expected.calls = expected.calls.filter(({ settled }) => settled === undefined || settled === 'ok')
      }
    }
    return failures
  }
}

function isStoreFailure(reason: string): boolean {
  return reason === 'STORE_FULL' || reason === 'STORE_FAILED' || reason === 'STORE_CLOSED'
}

/** Rethrows other errors; also reports whether the operation may be stored. */
export function requireStoreFailure(error: unknown): EngineError {
  if (!(error instanceof EngineError)) throw error
  // A restore reads an older state, and the disk may fail that.
  const isUnreadable = error.message.startsWith('stored data cannot be read (EIO)')
  if (!isUnreadable && !isStoreFailure(error.reason)) throw error
  const { outcome } = error.details
  // A read that fails within a change has no outcome: nothing was written.
  const isRead = isUnreadable || error.message.startsWith('the store could not be read')
  if (error.reason !== 'STORE_CLOSED' && !isRead && outcome !== 'unknown' && outcome !== 'not-applied')
    throw new Error(`a write failed without an outcome: ${error.reason}`, { cause: error })
  return error
}
