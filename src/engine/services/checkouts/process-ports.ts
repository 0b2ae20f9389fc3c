/** The port that runs processes of the host. */

export interface ProcessRequest {
  readonly command: string
  readonly args: readonly string[]
  /** The directory of the host in which the process starts. */
  readonly directory: string
  /** The whole environment of the process. */
  readonly env: Readonly<Record<string, string>>
  readonly stdin: Uint8Array
  readonly timeoutMs: number
  /** Bytes that are kept of each of the two outputs. */
  readonly maxOutputBytes: number
  readonly signal: AbortSignal
}

export interface ProcessResult {
  /** Null if a signal ended the process. */
  readonly exitCode: number | null
  readonly signal: string | null
  readonly stdout: Uint8Array
  readonly stderr: Uint8Array
  /** Whether an output had more bytes, which are lost. */
  readonly truncated: boolean
  readonly timedOut: boolean
}

/**
 * Runs a process of the host in a process group of its own. Resolves once the process has ended. It then ends all other
 * processes of the group. When the time is over or the signal aborts, it kills the whole group first.
 *
 * @throws {EngineError} HOST_FAILED when the process cannot be started
 * @throws the reason of the signal
 */
export type RunProcess = (request: ProcessRequest) => Promise<ProcessResult>
