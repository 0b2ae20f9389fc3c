import { tracingChannel } from 'node:diagnostics_channel'

/** What subscribers of the channel `forkspace.operation` get. */
export interface OperationTrace {
  readonly action: string
  readonly tenant: string
  readonly principal: string
  readonly sessionId?: string
  readonly sourceId?: string
}

/** `start`, `end`, `asyncStart`, `asyncEnd` and `error` of each operation, as `node:diagnostics_channel` has them. */
const channel = tracingChannel<unknown, OperationTrace>('forkspace.operation')

/** Whether anybody listens. */
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

/** Costs five flags where there are no listeners. */
export function traced<T>(trace: () => OperationTrace, act: () => Promise<T>): Promise<T> {
  return observed() ? channel.tracePromise(act, trace()) : act()
}

export function tracedSync<T>(trace: () => OperationTrace, act: () => T): T {
  return observed() ? channel.traceSync(act, trace()) : act()
}
