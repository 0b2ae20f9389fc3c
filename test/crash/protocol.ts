import type { DiskOperation } from './hooked-disk.js'
import type { Outcome } from '../model/run-step.js'
import type { TreeStep } from '../model/model-tree.js'
import type { CollectPhase, KillIn } from './collect-phases.js'

/** An operation of the writer on a session. */
export type Step =
  | TreeStep
  | { readonly op: 'checkpoint'; readonly label: string }
  | { readonly op: 'restore'; readonly label: string }
  | { readonly op: 'deleteCheckpoint'; readonly label: string }
  | { readonly op: 'fork'; readonly tag: string; readonly label?: string }

/** A line of the writer's report, written before a call and after its promise has settled. */
export type Line =
  | { readonly kind: 'opened' }
  | { readonly kind: 'call'; readonly n: number; readonly session: string; readonly step: Step }
  | { readonly kind: 'settled'; readonly n: number; readonly outcome: Outcome; readonly forkId?: string }
  /** The phase of a collection; absent when none is running. */
  | { readonly kind: 'phase'; readonly phase?: CollectPhase }
  | { readonly kind: 'broken'; readonly message: string }

/** Tags every fork, so that it is found even if the writer was killed before it got the id. */
export const forkTag = 'fork'

/** Tags sessions with no expected contents. */
export const probeTag = 'probe'

export const collectForms = ['called', 'automatic'] as const

export type CollectForm = (typeof collectForms)[number]

/** A part of the bucket on a server of this machine. */
export interface BucketArguments {
  readonly port: number
  readonly prefix: string
}

export interface WriterArguments {
  readonly directory: string
  /** The server and the schema of a store on PostgreSQL, which is used instead of the directory. */
  readonly postgres?: { readonly connectionString: string; readonly schema: string }
  /** Where that store has its large contents. */
  readonly bucket?: BucketArguments
  readonly report: string
  readonly durability: 'full' | 'relaxed'
  readonly seed: number
  /** The number of the first call, so that calls and labels are unique within a directory. */
  readonly firstNumber: number
  /** The maximum number of pending calls. */
  readonly pending: number
  /** The milliseconds after which the writer closes its engine; absent: never. */
  readonly closeAfterMs?: number
  readonly killAt?: KillAt
  /** How collections start alongside the calls; if set, sessions are also evicted from memory. */
  readonly collects?: CollectForm
  readonly killIn?: KillIn
  /** Errors from the store are expected, including those of reads. */
  readonly mayFail?: boolean
  /** The ids of sessions that are not changed. */
  readonly unchanged?: readonly string[]
}

/** The disk call at which the writer kills itself: the first of its kind after `call` others. */
export interface KillAt {
  readonly operation: DiskOperation | 'change'
  readonly call: number
  readonly moment: 'before' | 'middle' | 'after'
  /** For a write: the share that is written before the kill. */
  readonly part: number
}
