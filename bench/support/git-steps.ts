/** The steps that the git benchmark sends to a worker process, and the figures that the worker returns. */

export type GitSide = 'memory' | 'level' | 'git' | 'git --no-checkout' | 'isomorphic-git'

export type GitStep =
  | { readonly step: 'start'; readonly side: GitSide; readonly remoteUrl: string; readonly directory: string }
  /** Imports all files at the tip of the branch. */
  | { readonly step: 'import'; readonly files: number }
  /** Imports the changes since the last import. */
  | { readonly step: 'refresh' }
  /** Writes these paths. The benchmark ignores the figures of this step. */
  | { readonly step: 'change'; readonly paths: readonly string[]; readonly content: string }
  | { readonly step: 'push'; readonly branch: string }

export interface StepFigures {
  readonly wallMs: number
  /** CPU time of the process and its child processes. */
  readonly cpuMs: number
  /** The largest resident size since the process started, in bytes. */
  readonly peakBytes: number
  /** The resident size before the step, in bytes. */
  readonly baseBytes: number
  /** The longest delay of the event loop. */
  readonly delayMs: number
}
