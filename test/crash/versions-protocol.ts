/** The operations while a session has conflicts. */
export const openKinds = ['resolve', 'resolveAll', 'abort'] as const
/** The operations while it has none. A merge of changed files comes most often. */
export const closedKinds = [
  'edit',
  'merge',
  'merge',
  'merge',
  'undo',
  'redo',
  'rebase',
  'paths',
  'restore',
] as const

export type Kind = (typeof openKinds)[number] | (typeof closedKinds)[number]

/** The state of the session after a call. */
export interface VersionState {
  readonly eventId: string
  readonly manifestHash: string
  /** The paths of unresolved conflicts. */
  readonly conflicts: readonly string[]
}

/** A line of the writer's report, written before a call and after its promise has resolved. */
export type VersionLine =
  | { readonly session: string; readonly fork: string; readonly source: string }
  | { readonly call: number; readonly kind: Kind }
  | { readonly done: number; readonly state: VersionState }
  | { readonly failed: number; readonly message: string }

export interface VersionWriterArguments {
  readonly directory: string
  readonly report: string
  readonly durability: 'full' | 'relaxed'
  readonly seed: number
  /** Undefined to create them. */
  readonly ids?: { readonly session: string; readonly fork: string; readonly source: string }
  readonly firstNumber: number
}

/** All files of a group have equal contents in every complete state. */
export const groups = ['ours', 'theirs', 'both', 'base'] as const

export type Group = (typeof groups)[number]

export const filesPerGroup = 5

export function pathsOf(group: Group): string[] {
  return Array.from({ length: filesPerGroup }, (_, i) => `/${group}/f${i}`)
}

/** The files of a group. Some contents are larger than a block. */
export function filesOf(group: Group, n: number): Record<string, string> {
  const content = `${group} ${n}\n${'x'.repeat(n % 10 === 0 ? 70_000 : n % 100)}\n`
  return Object.fromEntries(pathsOf(group).map((path) => [path, content]))
}
