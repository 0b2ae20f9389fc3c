import type { Glob } from '../../base/glob.js'

/**
 * How a merge resolves the conflicts of a file. Without a policy, the file keeps our content, and the
 * conflict stays on the session until it is resolved.
 */
export const MergePolicy = {
  /** The merge fails with MERGE_CONFLICT, and nothing changes. */
  FAIL: 'fail',
  /** The whole file as it is in the target. */
  OURS: 'ours',
  /** The whole file as it is in the source. */
  THEIRS: 'theirs',
  /** The lines of both sides, those of the target first. Only for text; other conflicts stay. */
  UNION: 'union',
  /** The lines of both sides between markers, as git writes them. The conflict stays. */
  MARKERS: 'markers',
} as const
/** One of the values of {@link MergePolicy}. */
export type MergePolicy = (typeof MergePolicy)[keyof typeof MergePolicy]

/** The three versions of a file that both sides changed. */
export interface MergerInput {
  /** Absolute path in the session. */
  readonly path: string
  /** Undefined if both sides added the file. */
  readonly base: Uint8Array | undefined
  /** The content in the target. */
  readonly ours: Uint8Array
  /** The content in the source. */
  readonly theirs: Uint8Array
}

/** Returns the merged content, or undefined for a conflict. */
export type Merger = (
  input: MergerInput,
) => string | Uint8Array | undefined | Promise<string | Uint8Array | undefined>

/** Rules with globs. For each path, the first rule that matches applies. */
export class PathRules<T> {
  readonly #rules: readonly (readonly [Glob, T])[]

  constructor(rules: readonly (readonly [Glob, T])[]) {
    this.#rules = rules
  }

  find(path: string): T | undefined {
    for (const [glob, rule] of this.#rules)
      if (glob.matches(glob.pattern.startsWith('/') ? path : path.slice(1))) return rule
    return undefined
  }
}
