import type { Capability } from './contender.js'
import type { Plan } from './scenarios/scenario.js'

/** What a process is for. Its first message says it. */
export interface Task {
  readonly contender: string
  /** A module with further contenders. */
  readonly module?: string
  /** The directory of the store. */
  readonly directory: string
  readonly plan: Plan
}

export type Request =
  /** Lists what the contender can do. */
  | { readonly do: 'describe' }
  /** Fills a store for a scenario, closes it and returns the name of the workspace. */
  | { readonly do: 'fill'; readonly scenario: string }
  | { readonly do: 'start'; readonly scenario: string; readonly filled?: string }
  /** Measures rounds, from this number on, for about so many milliseconds. */
  | { readonly do: 'rounds'; readonly from: number; readonly leastMs: number }
  /** Runs rounds that are not measured, from this number on, and answers with the number of the next round. */
  | { readonly do: 'warm-up'; readonly from: number }
  | { readonly do: 'check' }
  /** Writes files and answers after the last acknowledgement. The other side then kills the process. */
  | { readonly do: 'acknowledge' }
  /** Counts the files of `acknowledge` that are missing. */
  | { readonly do: 'recover'; readonly written: Acknowledged }
  | { readonly do: 'close' }

export interface Description {
  readonly capabilities: readonly Capability[]
}

/** Milliseconds per operation, or bytes per file. */
export interface Round {
  readonly operations: number
  readonly wall: number
  /** All threads of the process, and its child processes. */
  readonly cpu: number
  readonly bytes?: number
  readonly rssBytes: number
  readonly heapBytes: number
}

export interface Measured extends Round {
  /** The number of the next round. */
  readonly next: number
}

export interface Acknowledged {
  readonly workspace: string
  readonly files: number
}

export type Answer = { readonly value: unknown } | { readonly error: string; readonly missing?: string }
