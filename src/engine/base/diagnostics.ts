import { tracingChannel } from 'node:diagnostics_channel'

/** The message that subscribers of the channel `forkspace.operation` receive. */
export interface OperationTrace {
  readonly action: string
  readonly tenant: string
  readonly principal: string
  readonly sessionId?: string
  readonly sourceId?: string
}

/**
 * Publishes `start`, `end`, `asyncStart`, `asyncEnd` and `error` of each operation, as
 * `node:diagnostics_channel` defines them.
 */
const channel = tracingChannel<unknown, OperationTrace>('forkspace.operation')

/** Whether the channel has subscribers. */
export function observed(): boolean {
  const { start, end, asyncStart, asyncEnd, error } = channel
  return (
    start.hasSubscribers ||
    end.hasSubscribers ||
    asyncStart.hasSubscribers ||
    asyncEnd.hasSubscribers ||
    error.hasSubscribers
  )
}

/** Traces an operation. Without subscribers, this costs only the check of five flags. */
export function traced<T>(trace: () => OperationTrace, act: () => Promise<T>): Promise<T> {
  return observed() ? channel.tracePromise(act, trace()) : act()
}

export function tracedSync<T>(trace: () => OperationTrace, act: () => T): T {
  return observed() ? channel.traceSync(act, trace()) : act()
}
