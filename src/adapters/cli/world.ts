import type { Variables } from './target.js'

/** What a command has of the process that it runs in, but for its directory. */
export interface World {
  readonly stdin: AsyncIterable<Uint8Array>
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
  readonly env: Variables
  /** Of signals that end it. */
  on(signal: NodeJS.Signals, listener: (signal: NodeJS.Signals) => void): unknown
  removeListener(signal: NodeJS.Signals, listener: (signal: NodeJS.Signals) => void): unknown
}
