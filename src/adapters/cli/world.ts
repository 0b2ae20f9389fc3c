import type { Variables } from './target.js'

/** The parts of the process that a command uses, so that tests can replace them. */
export interface World {
  readonly stdin: AsyncIterable<Uint8Array>
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
  readonly env: Variables
  /** Listens for a signal. */
  on(signal: NodeJS.Signals, listener: (signal: NodeJS.Signals) => void): unknown
  removeListener(signal: NodeJS.Signals, listener: (signal: NodeJS.Signals) => void): unknown
}
