import type { Dir } from '../../tree/node.js'
import type { Pins } from '../../tree/pins.js'
import { present } from '../../base/present.js'
import type { BranchTips } from '../../records/branch-tip.js'
import type { BaseAtState, LiveSession } from '../table/live.js'
import type { SharedSession } from './shared-session.js'

/** Resolves when all changes of a shared session that were called are stored, or were refused. */
export async function whenStored({ shared }: LiveSession): Promise<void> {
  while (shared?.isBusy === true) {
    await shared.catchingUp?.catch(ignore)
    await settled(shared)
  }
}

/** A state of a session that no other engine can replace. */
export interface FinalState extends BaseAtState {
  readonly root: Dir
  readonly seq: number
  readonly tips: BranchTips
  /** The session has another one once another engine has changed it. */
  readonly epoch: object
}

/** The state with all changes that were called before, once they are stored. Later changes are not part of it. */
export async function finalState(pins: Pins, live: LiveSession, shared: SharedSession): Promise<FinalState> {
  for (;;) {
    // Otherwise nothing is awaited, so the state is that at the time of the call.
    if (shared.catchingUp !== undefined) await shared.catchingUp.catch(ignore)
    const { restarts } = shared
    const { seq, record, baseline, epoch } = live
    const tips = present(live.branchTips, 'the tips of a session of a shared store')
    const root = live.tree.freeze()
    using _ = pins.pin({ roots: [root, baseline] })
    await settled(shared)
    // Otherwise another engine was first, and the changes have run again on its state.
    if (shared.catchingUp === undefined && shared.restarts === restarts)
      return { root, seq, record, baseline, tips, epoch }
  }
}

async function settled(shared: SharedSession): Promise<void> {
  await Promise.allSettled([...shared.inFlight].map(({ done }) => done))
}

function ignore(): void {}
