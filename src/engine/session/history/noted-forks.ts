/**
 * The states that forks start from while a collection runs. A fork keeps its state by the history of its parent until a
 * collection that began later gives it a snapshot of its own.
 */
export class NotedForks {
  #noted: Map<string, Set<number>> | undefined

  /** Notes forks from here on, until the result is called. One caller at a time. */
  begin(): () => void {
    this.#noted = new Map()
    return () => {
      this.#noted = undefined
    }
  }

  /** To be called in the turn of the event loop in which a fork is put into the store's queue. */
  note(parentId: string, seq: number): void {
    if (this.#noted === undefined) return
    const seqs = this.#noted.get(parentId)
    if (seqs === undefined) this.#noted.set(parentId, new Set([seq]))
    else seqs.add(seq)
  }

  /** The states of a session that forks were made from since; undefined without any. */
  of(sessionId: string): ReadonlySet<number> | undefined {
    return this.#noted?.get(sessionId)
  }
}
