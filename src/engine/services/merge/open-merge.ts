import type { Core } from '../../session/core.js'
import type { LiveSession } from '../../session/table/live.js'
import { roughly, SessionIndex } from '../../session/table/session-index.js'
import { keys } from '../../storage/keys.js'
import { mergeKind, type MergeRecord } from '../../records/merge.js'
import type { MergeTrees } from './changed-paths.js'

/** A merge with unresolved conflicts, with its trees. */
export interface OpenMerge {
  readonly record: MergeRecord
  readonly trees: MergeTrees
}

interface Slot {
  merge: OpenMerge | undefined
}

/** The merges of sessions in memory that still have conflicts. */
export class OpenMerges {
  readonly #slots = new SessionIndex<Slot>(
    keys.merge,
    () => ({ merge: undefined }),
    (slot, json, { roots }, key) => {
      const record = mergeKind.parse(json, key)
      const { base, ours, theirs } = record
      const trees = { base: roots.load(base), ours: roots.load(ours), theirs: roots.load(theirs) }
      slot.merge = { record, trees }
    },
    { weigh: ({ merge }) => (merge?.record.conflicts.length ?? 0) * roughly.record },
  )

  /** The merge of a session. Throws a Fault if it must be read first. */
  get(core: Core, live: LiveSession): OpenMerge | undefined {
    // A restore ends the merge without a call of this class.
    return live.record.conflicts === undefined ? undefined : this.#slots.get(core, live).merge
  }

  /** Replaces the merge in memory; its record is part of the caller's commit. */
  set(core: Core, live: LiveSession, merge: OpenMerge | undefined): void {
    this.#slots.get(core, live).merge = merge
  }

  /** Loads what {@link set} needs. Throws a Fault if it must be read first. */
  prepare(core: Core, live: LiveSession): void {
    this.#slots.get(core, live)
  }
}
