import { engineClosed, EngineError, invalid } from '../../base/errors.js'
import { capabilitiesOf, type Action } from '../../operations/index.js'
import type { Dir } from '../../tree/node.js'
import { Tree } from '../../tree/tree.js'
import type { Core } from '../core.js'
import { LiveSession } from '../table/live.js'
import type { Permissions } from './permissions.js'
import { SessionAccess } from './session-access.js'

/**
 * The access of a view to one state of a session. It gives the state to the code that reads sessions, as a session
 * that no table has and that nothing changes.
 */
export class ViewAccess extends SessionAccess {
  readonly #frozen: LiveSession
  #isDisposed = false

  constructor(core: Core, live: LiveSession, root: Dir, permissions: Permissions | undefined) {
    const frozen = new LiveSession(core.tenantKey, live.record, live.baseline, new Tree(root, core.loader), {
      seq: live.seq,
      at: live.lastEventAt,
      chain: live.chain,
      snapshotSeq: live.snapshotSeq,
    })
    super(core, frozen.slot, permissions)
    this.#frozen = frozen
  }

  /** The root of the state. */
  get root(): Dir {
    return this.#frozen.tree.freeze()
  }

  /** An object that every read of the state refers to. */
  get held(): object {
    return this.#frozen
  }

  dispose(): void {
    this.#isDisposed = true
  }

  /**
   * Checks the permission for a read.
   *
   * @throws {EngineError} READ_ONLY when the action is a change.
   * @throws {EngineError} INVALID_ARGUMENT after the view was disposed of.
   */
  override permit(action: Action): void {
    super.permit(action)
    if (this.#isDisposed) throw invalid('view', 'was disposed: call session.at() again')
    if (this.core.table.isClosed) throw engineClosed()
    if (capabilitiesOf(action).includes('files.write'))
      throw new EngineError(
        'READ_ONLY',
        `${action} cannot change a view of an earlier state: change the session, or a fork of that state`,
        { action },
      )
  }

  override live(action: Action): LiveSession {
    this.permit(action)
    return this.#frozen
  }

  override liveSync(action: Action): LiveSession {
    return this.live(action)
  }

  override changeSync(action: Action): never {
    this.permit(action)
    throw new EngineError('INTERNAL', `${action} is not a change`, { action })
  }

  /** A read of an earlier state is no use of the session. */
  protected override touched(live: LiveSession): LiveSession {
    return live
  }
}
