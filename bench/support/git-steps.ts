/** What the git benchmark asks of a process of its own, and what that process measures of itself. */

export type GitSide = 'memory' | 'level' | 'git' | 'git --no-checkout' | 'isomorphic-git'

export type GitStep =
  | { readonly step: 'start'; readonly side: GitSide; readonly remoteUrl: string; readonly directory: string }
  /** Everything at the tip of the branch, read to its last byte. */
  | { readonly step: 'import'; readonly files: number }
  /** What changed since. */
  | { readonly step: 'refresh' }
  /** Writes these paths, not measured. */
  | { readonly step: 'change'; readonly paths: readonly string[]; readonly content: string }
  | { readonly step: 'push'; readonly branch: string }

export interface StepFigures {
  readonly wallMs: number
  /** Of the process and what it started. */
  readonly cpuMs: number
  /** The largest resident size since the process started, in bytes. */
  readonly peakBytes: number
  /** Resident before the step. */
  readonly baseBytes: number
  /** The longest time that the event loop was held. */
  readonly heldMs: number
}
