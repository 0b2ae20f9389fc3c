import { limits } from '../../base/limits.js'

/** A problem that a check found: an object that is missing, or differs from its stored form. */
export interface Finding {
  /** Whether the object is missing or damaged. */
  readonly problem: 'missing' | 'damaged'
  /**
   * The kind of object: `session`, `event`, `record`, `node`, `blob` or `file`, followed by its id, key, hash or name.
   */
  readonly object: string
  /** A session that refers to the object, if one is known. */
  readonly sessionId?: string
  /** The object's path in that session or in one of its states, if it is known. */
  readonly path?: string
  /** What is wrong with the object, as the end of a sentence that starts with `object`. */
  readonly message: string
}

/**
 * Keeps the first findings, and counts all. An object found twice, through an event and in a tree, counts
 * once.
 */
export class Findings {
  readonly list: Finding[] = []
  count = 0
  readonly #kept = new Set<string>()

  add(finding: Finding): void {
    const text = JSON.stringify(finding)
    if (this.#kept.has(text)) return
    this.count++
    if (this.list.length >= limits.checkFindings) return
    this.#kept.add(text)
    this.list.push(finding)
  }
}

/** The origin of the reference under check. */
export interface Place {
  readonly sessionId?: string
  readonly path?: string
}

export function withPlace(finding: Omit<Finding, keyof Place>, { sessionId, path }: Place): Finding {
  return {
    ...finding,
    ...(sessionId !== undefined && { sessionId }),
    ...(path !== undefined && { path }),
  }
}
