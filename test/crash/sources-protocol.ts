/** The writer's operations on sources, in turn. */
export const kinds = ['push', 'refresh', 'upload', 'promote', 'scan'] as const

export type Kind = (typeof kinds)[number]

/** A line of the writer's report, written before a call, when its job is known, and after it has succeeded. */
export type SourceLine =
  | { readonly sources: SourceIds }
  | { readonly call: number; readonly kind: Kind }
  | { readonly call: number; readonly jobId: string }
  /** The result: a revision, or the commit of a push. */
  | { readonly done: number; readonly kind: Kind; readonly result: string; readonly jobId: string }

export interface SourceIds {
  readonly git: string
  readonly upload: string
  readonly host: string
}

export interface SourceWriterArguments {
  readonly directory: string
  readonly report: string
  readonly durability: 'full' | 'relaxed'
  readonly seed: number
  readonly firstNumber: number
  readonly remoteUrl: string
  readonly hostDirectory: string
  /** Undefined to create them. */
  readonly sources?: SourceIds
}

const filesPerUpload = 40

/** The files of an upload; some are larger than a block. */
export function uploadOf(n: number): Record<string, string> {
  const files: Record<string, string> = {}
  for (let i = 0; i < filesPerUpload; i++) {
    const size = i === n % filesPerUpload ? 1_200_000 : 100 * i
    files[`/d${i % 5}/f${i}`] = `${n} ${i} ${'x'.repeat(size)}`
  }
  return files
}

/** The contents of the promoted state with this number. */
export function promotedFile(n: number): string {
  return `promoted ${n}\n`
}

export function labelOf(n: number): string {
  return `p${n}`
}
