import { TimeSlice } from '../../base/cooperative.js'
import { Fault, releaseAll, whenLoadedHolding } from '../../base/fault.js'
import { limits } from '../../base/limits.js'
import type { BlobRef } from '../../cas/blob.js'
import type { Redo } from '../../records/event.js'
import { Tree } from '../../tree/tree.js'
import { apply } from '../apply.js'
import type { Core } from '../core.js'
import { encodeRedo } from '../history/chain.js'
import { checkKept, eventTime } from '../mutation-queue.js'
import type { PreparedEffects } from '../prepared-effects.js'
import type { LiveSession } from '../table/live.js'
import type { Plan, PlanStep } from './plan.js'

/** The effects of all steps, for one event. */
export interface StepEffects {
  readonly redo: readonly Redo[]
  readonly blobs: readonly BlobRef[]
  readonly prepared: PreparedEffects
}

/** Whether steps take too long for one turn of the event loop. */
export function areMany(steps: readonly PlanStep[]): boolean {
  let changes = 0
  for (const step of steps) changes += step.changes ?? 1
  return changes > limits.stepsPerTurn
}

/**
 * Many steps, planned on a copy of a session's state in many turns of the event loop. Later changes of the session wait
 * meanwhile.
 *
 * Dispose of it once the event is stored: it protects the data of the steps from collection.
 */
export class PlannedSteps implements Disposable {
  readonly #core: Core
  readonly #live: LiveSession
  readonly #held: Fault[] = []
  readonly #pins: Disposable[] = []
  #planned: (StepEffects & { readonly version: LiveSession['version'] }) | undefined

  constructor(core: Core, live: LiveSession) {
    this.#core = core
    this.#live = live
  }

  /**
   * The effects on the newest state. Throws a Fault until they are known. Undefined if another engine changed the session
   * after they were planned: then the steps are to be planned in one turn, because a fast writer would overtake them again.
   */
  effectsOf(steps: readonly PlanStep[]): StepEffects | undefined {
    if (this.#planned === undefined) throw new Fault(() => this.#plan(steps))
    return this.#planned.version === this.#live.version ? this.#planned : undefined
  }

  async #plan(steps: readonly PlanStep[]): Promise<void> {
    const [core, live] = [this.#core, this.#live]
    const { version, baseline, lastEventAt } = live
    const root = live.tree.freeze()
    this.#pins.push(core.pins.pin({ roots: [root] }))
    const state = { tree: new Tree(root, core.loader), baseline, lastEventAt }
    const at = eventTime(core, live)
    const redo: Redo[] = []
    const blobs = new Set<BlobRef>()
    const slice = new TimeSlice(core.environment)
    await slice.next()
    for (const step of steps) {
      if (slice.over) await slice.next()
      checkKept(live)
      const before = core.store.capabilities.syncReads ? undefined : state.tree.freeze()
      const take = (): Plan => {
        if (before !== undefined) state.tree.reset(before)
        const plan = step(state)
        for (const effect of plan?.redo ?? []) if (effect[0] !== 'R') apply(state.tree, effect, at, core)
        return plan
      }
      let plan: Plan
      try {
        plan = take()
      } catch (thrown) {
        if (!(thrown instanceof Fault)) throw thrown
        plan = await whenLoadedHolding(take, this.#held, thrown)
      }
      for (const effect of plan?.redo ?? []) redo.push(effect)
      for (const blob of plan?.blobs ?? []) blobs.add(blob)
    }
    const after = state.tree.freeze()
    this.#pins.push(core.pins.pin({ roots: [after] }))
    const encoded = await core.journal.kept(() => encodeRedo(redo))
    const prepared = { at, after, madeBytes: state.tree.madeBytes, encoded }
    this.#planned = { version, redo, blobs: [...blobs], prepared }
  }

  [Symbol.dispose](): void {
    releaseAll(this.#held)
    for (const pin of this.#pins.splice(0)) pin[Symbol.dispose]()
  }
}
