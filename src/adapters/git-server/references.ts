import type { RepositoryObjects, TimeSlice } from '../../engine/ports.js'
import { gitLimits, newObjects, type ObjectFormat } from '../git/parts.js'
import type { CommitGraph } from './fetch-plan.js'

/** The commits that a session serves, the newest first, with the means to read them. */
export interface ServedHistory {
  readonly commits: ReadonlySet<string>
  readonly graph: CommitGraph
  readonly objects: RepositoryObjects
  readonly slice: TimeSlice
  readonly format: ObjectFormat
}

/**
 * The objects that a push uses without sending them. The session must have them. The same store has the objects of other
 * sessions of the tenant, and a client that knows the id of one could otherwise read it.
 *
 * Most of them are entries of trees that the push changes, so {@link before} finds them. Only the others cost a walk
 * through the trees of the session.
 */
export class References {
  /** The objects of the push. The value is true if no delta on an object from elsewhere is part of them. */
  readonly #pushed = new Map<string, boolean>()
  readonly #found = new Set<string>()
  /** Objects that are not found yet, each with the error for its absence. */
  readonly #open = new Map<string, () => Error>()

  /** Adds an object that the push sends, as a whole or as a delta. */
  push(oid: string, baseOid?: string): void {
    const isWhole = baseOid === undefined || this.#pushed.get(baseOid) === true
    if (isWhole) this.#open.delete(oid)
    if (isWhole || !this.#pushed.has(oid)) this.#pushed.set(oid, isWhole)
  }

  isPushed(oid: string): boolean {
    return this.#pushed.has(oid)
  }

  /** Requires an object, unless the push has sent it. */
  need(oid: string, absent: () => Error): void {
    if (!this.#pushed.has(oid) && !this.#found.has(oid)) this.#open.set(oid, absent)
  }

  /**
   * Adds an entry of the tree before a new one. It is of the session, unless the push has sent it, or it is one of those
   * that are not found yet.
   */
  before(oid: string): void {
    if (!this.#pushed.has(oid) && !this.#open.has(oid) && this.#found.size < gitLimits.objects)
      this.#found.add(oid)
  }

  /** Looks for the objects that are not found yet in the history of a session. Throws the error of one that is absent. */
  async check({ commits, graph, objects, slice, format }: ServedHistory): Promise<void> {
    const walked = new Set<string>()
    for (const oid of this.#open.keys()) if (this.#found.has(oid) || commits.has(oid)) this.#open.delete(oid)
    for (const commit of commits) {
      if (this.#open.size === 0) return
      const { treeId } = await graph.get(commit)
      const isSkipped = (tree: string): boolean => walked.has(tree)
      for await (const { oid, type } of newObjects({ objects, slice, format }, treeId, { isSkipped })) {
        if (type === 'tree') walked.add(oid)
        if (this.#open.delete(oid) && this.#open.size === 0) return
      }
    }
    for (const absent of this.#open.values()) throw absent()
  }
}
