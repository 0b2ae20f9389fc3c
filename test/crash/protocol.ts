import type { DiskOperation } from './hooked-disk.js'
import type { Outcome } from '../model/run-step.js'
import type { TreeStep } from '../model/model-tree.js'
import type { CollectPhase, KillIn } from './collect-phases.js'

/** What the writer does to a session. */
export type Step =
  | TreeStep
  | { readonly op: 'checkpoint'; readonly label: string }
  | { readonly op: 'restore'; readonly label: string }
  | { readonly op: 'deleteCheckpoint'; readonly label: string }
  | { readonly op: 'fork'; readonly tag: string; readonly label?: string }

/** One line of the writer's report, written before the call, and after its promise has settled. */
export type Line =
  | { readonly kind: 'opened' }
  | { readonly kind: 'call'; readonly n: number; readonly session: string; readonly step: Step }
  | { readonly kind: 'settled'; readonly n: number; readonly outcome: Outcome; readonly forkId?: string }
  /** Of a collection; absent when none is under way. */
  | { readonly kind: 'phase'; readonly phase?: CollectPhase }
  | { readonly kind: 'broken'; readonly message: string }

/** A fork is known by this tag, also when nobody lived to hear its id. */
export const forkTag = 'fork'

/** Of sessions of which nothing is expected. */
export const probeTag = 'probe'

export const collectForms = ['called', 'automatic'] as const

export type CollectForm = (typeof collectForms)[number]

export interface WriterArguments {
  readonly directory: string
  readonly report: string
  readonly durability: 'full' | 'relaxed'
  readonly seed: number
  /** Numbers of calls start here, so that they and labels are unique within a directory. */
  readonly firstNumber: number
  /** Calls that may be pending at once. */
  readonly pending: number
  /** After how many milliseconds the writer closes its engine; absent: never. */
  readonly closeAfterMs?: number
  readonly killAt?: KillAt
  /** How collections begin beside the calls; then sessions leave memory too. */
  readonly collects?: CollectForm
  readonly killIn?: KillIn
  /** What the store fails with is expected, of reads too. */
  readonly mayFail?: boolean
}

/** At which call of the disk the writer kills itself: the first one of the kind behind `call` others. */
export interface KillAt {
  readonly operation: DiskOperation | 'change'
  readonly call: number
  readonly moment: 'before' | 'middle' | 'after'
  /** Of a write: how much of it is written in the middle. */
  readonly part: number
}
