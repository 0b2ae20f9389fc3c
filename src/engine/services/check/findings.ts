import { limits } from '../../base/limits.js'

/** Something that is not as it was stored. */
export interface Finding {
  readonly problem: 'missing' | 'damaged'
  /** Its kind: `session`, `event`, `record`, `node`, `blob` or `file`, followed by its id, key, hash or name. */
  readonly object: string
  /** A session that refers to it. */
  readonly sessionId?: string
  /** Where it is in that session, or in a state of it. */
  readonly path?: string
  readonly message: string
}

/** Keeps the first findings and counts all. An object found twice, by an event and in a tree, counts as one. */
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
