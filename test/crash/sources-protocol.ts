/** What the writer does to sources, one after the other. */
export const kinds = ['push', 'refresh', 'upload', 'promote', 'scan'] as const

export type Kind = (typeof kinds)[number]

/** One line of the writer's report, written before a call, when its job is known, and when it has succeeded. */
export type SourceLine =
  | { readonly sources: SourceIds }
  | { readonly call: number; readonly kind: Kind }
  | { readonly call: number; readonly jobId: string }
  /** What came of it: a revision, or of a push a commit. */
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
  /** Undefined: they are to be made. */
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

/** What a promoted state of this number holds. */
export function promotedFile(n: number): string {
  return `promoted ${n}\n`
}

export function labelOf(n: number): string {
  return `p${n}`
}
