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

/** How a process ended, and its output. */
export interface ProcessResult {
  /** Null if a signal ended the process. */
  readonly exitCode: number | null
  /** The name of the signal that ended the process, such as `SIGKILL`; null if none did. */
  readonly signal: string | null
  /** The standard output, up to the bound of the request. */
  readonly stdout: Uint8Array
  /** The standard error output, up to the bound of the request. */
  readonly stderr: Uint8Array
  /** Whether an output had more bytes, which are lost. */
  readonly truncated: boolean
  /** Whether the process was ended because its time was over. */
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
