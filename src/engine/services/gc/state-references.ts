import { DigestSet } from '../../base/digest-set.js'
import { sha256 } from '../../base/hash.js'
import { lineageKind } from '../../records/lineage.js'
import { keyPrefixes } from '../../storage/keys.js'
import { scanAll } from '../../storage/scan-all.js'
import { sessionKind, type SessionRecord } from '../../records/session.js'
import type { Core } from '../../session/core.js'
import { filterBytesFor } from './mark.js'
import { rest, type Run } from './run.js'

/**
 * The states of other sessions that sessions refer to: those that forks started from, and those that were merged. In
 * bounded memory: in a very large store, `has` is true for a few other states too.
 */
export class StateReferences {
  readonly #states: DigestSet

  constructor(memoryBytes: number) {
    this.#states = new DigestSet({ filterBytes: filterBytesFor(memoryBytes) })
  }

  /** The number of references. */
  get size(): number {
    return this.#states.size
  }

  add([sessionId, seq]: readonly [sessionId: string, seq: number]): void {
    this.#states.add(sha256(sessionId))
    this.#states.add(sha256(`${sessionId} ${seq}`))
  }

  /** Adds the state from which a fork started. */
  addFork(base: readonly [sessionId: string, seq: number]): void {
    this.add(base)
    this.#states.add(sha256(`parent ${base[0]}`))
  }

  /** Adds a deleted session without readers. Add all of them before the first fork. */
  addUnneeded(sessionId: string): void {
    this.#states.add(sha256(`unneeded ${sessionId}`))
  }

  /**
   * Whether the collection may delete a session. One that was deleted later may have forks that are not known here, so the
   * next collection deletes it.
   */
  isUnneeded(core: Core, record: SessionRecord): boolean {
    return isUnneeded(core, record) && this.#states.has(sha256(`unneeded ${record.id}`))
  }

  /** Whether a session has forks that are kept, or forks that have such forks. */
  isParent(sessionId: string): boolean {
    return this.#states.has(sha256(`parent ${sessionId}`))
  }

  /** Whether another session refers to a state of the session, or to the state `seq`. */
  has(sessionId: string, seq?: number): boolean {
    return this.#states.has(sha256(seq === undefined ? sessionId : `${sessionId} ${seq}`))
  }
}

/**
 * Reads the references of all sessions that the collection keeps. Forks that are made meanwhile are pinned, and start from
 * states that are kept.
 */
export async function readStateReferences(run: Run, references: StateReferences): Promise<void> {
  const { core } = run
  let before: number
  let isInOrder: boolean
  do {
    before = references.size
    isInOrder = true
    // The scan does not reach records that are added meanwhile.
    for await (const page of scanAll(core, keyPrefixes.session, { reverse: true })) {
      for (const [key, json] of page) {
        const record = sessionKind.parse(json, key)
        const { id, base } = record
        if (base !== undefined && (!references.isUnneeded(core, record) || references.isParent(id))) {
          references.addFork(base)
          // Forks come before their parents, unless the clock was set back. Another pass then finds the bases of the parents.
          if (id < base[0]) isInOrder = false
        }
        await rest(run)
      }
    }
  } while (!isInOrder && references.size > before)
  for await (const page of scanAll(core, keyPrefixes.lineage, { reverse: true })) {
    for (const [key, json] of page) {
      const { merged } = lineageKind.parse(json, key)
      if (merged !== undefined) references.add(merged)
      await rest(run)
    }
  }
}

/** Whether a session is deleted and has no readers left. That is final, because no new reader can begin. */
export function isUnneeded(core: Core, { id, deletedAt }: SessionRecord): boolean {
  return deletedAt !== undefined && core.pins.statesOf(id) === undefined
}
