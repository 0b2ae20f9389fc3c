import type { SharedWriterArguments } from './shared-protocol.js'

export type CollectingWriterArguments = Pick<
  SharedWriterArguments,
  'postgres' | 'bucket' | 'report' | 'name' | 'seed'
>

/** The contents of the files of a session, by path. */
export type Files = Readonly<Record<string, string>>

/** A line of the report of a process that also collects. The files of a deleted session are null. */
export type CollectingLine =
  | { readonly kind: 'call' | 'state'; readonly id: string; readonly files: Files | null }
  | { readonly kind: 'collected' }
  | { readonly kind: 'error'; readonly text: string }
