import type { Repositories } from '../services/sources/repositories.js'
import type {
  CheckpointCommit,
  RepositoryHead,
  RepositoryObjects,
  RepositoryPush,
} from '../services/sources/repository-ports.js'
import type { SessionAccess } from '../session/access/session-access.js'

/** A session as a git repository, for the adapter that serves it. */
export class SessionRepository {
  readonly #access: SessionAccess
  readonly #service: Repositories

  constructor(access: SessionAccess, service: Repositories) {
    this.#access = access
    this.#service = service
  }

  /** The objects of the tenant's repositories. A commit and its files stay readable after the session has changed. */
  get objects(): RepositoryObjects {
    return this.#service.objects(this.#access.core)
  }

  /** The commit of the newest state. */
  head(signal?: AbortSignal): Promise<RepositoryHead> {
    return this.#access.look('fetchRepository', (live) =>
      this.#access.whileUsed(this.#service.head(this.#access.core, live, signal)),
    )
  }

  /** The commit that was served last, or else that of the newest state. */
  served(signal?: AbortSignal): Promise<RepositoryHead> {
    return this.#access.look('fetchRepository', (live) =>
      this.#access.whileUsed(this.#service.served(this.#access.core, live, signal)),
    )
  }

  /** The commits of the newest checkpoints, in order of creation. */
  checkpoints(signal?: AbortSignal): Promise<CheckpointCommit[]> {
    return this.#access.look('fetchRepository', (live) =>
      this.#access.whileUsed(this.#service.checkpoints(this.#access.core, live, signal)),
    )
  }

  /**
   * Checks the right to push, before anything is read.
   *
   * @throws {EngineError} PERMISSION_DENIED
   */
  checkPush(signal?: AbortSignal): Promise<RepositoryHead> {
    return this.#access.look('pushRepository', (live) =>
      this.#access.whileUsed(this.#service.head(this.#access.core, live, signal)),
    )
  }

  /**
   * Applies the commits of a client as one event.
   *
   * @throws {EngineError} BRANCH_MOVED when the client has not seen the newest state.
   */
  push(push: RepositoryPush): Promise<void> {
    return this.#access.run('pushRepository', (live) =>
      this.#access.whileUsed(this.#service.push(this.#access.core, live, push)),
    )
  }
}
