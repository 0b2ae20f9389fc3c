/** States of one session that a caller reads for longer than an operation, such as the writer of a bundle. */
interface Hold {
  readonly seqs: readonly number[]
  /** It counts for as long as the owner is in memory. */
  readonly owner: WeakRef<object>
}

/** States of sessions that collections must leave, though nothing may name them any more. */
export class HeldStates {
  readonly #holds = new Map<string, Set<Hold>>()

  /**
   * The state that a session has now, and its states after these events, stay for collections that begin from here on,
   * also when the session is deleted: until the result is called, or the owner is not in memory any more. To be called
   * while the session is there and the states can be named.
   */
  hold(
    sessionId: string,
    { seqs, owner }: { readonly seqs: readonly number[]; readonly owner: object },
  ): () => void {
    let held = this.#holds.get(sessionId)
    if (held === undefined) this.#holds.set(sessionId, (held = new Set()))
    const hold: Hold = { seqs, owner: new WeakRef(owner) }
    held.add(hold)
    return () => this.#release(sessionId, hold)
  }

  /** The states of a session that are held; undefined without any. */
  of(sessionId: string): readonly number[] | undefined {
    const held = this.#holds.get(sessionId)
    if (held === undefined) return undefined
    for (const hold of held) if (hold.owner.deref() === undefined) this.#release(sessionId, hold)
    return held.size === 0 ? undefined : [...held].flatMap(({ seqs }) => seqs)
  }

  #release(sessionId: string, hold: Hold): void {
    const held = this.#holds.get(sessionId)
    if (held?.delete(hold) === true && held.size === 0) this.#holds.delete(sessionId)
  }
}
