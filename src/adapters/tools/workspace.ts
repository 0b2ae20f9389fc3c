import { posix } from 'node:path'
import type { ForkRequest, JsonObject, SessionApi } from '../../engine/index.js'
import { EngineError, invalid } from '../../engine/ports.js'
import { limits } from './limits.js'
import type { ToolCall } from './tool-types.js'

/** Options of a set of tools. */
export interface WorkspaceOptions {
  /** Facts for the metadata of every event that the tools cause, such as the name of the agent. */
  readonly metadata?: JsonObject
  /**
   * false: writes do not check whether a file changed since the tools last read it. true, the default: such a stale
   * write fails with HASH_MISMATCH, and changes nothing.
   */
  readonly guards?: boolean
}

/** The state that the tools of one agent share: the current session, its forks, and the versions that it has read. */
export class Workspace {
  readonly #options: WorkspaceOptions
  readonly #main: SessionApi
  readonly #forks = new Map<string, SessionApi>()
  /** Forks that are being created. */
  #newForks = 0
  /** The content hashes that the agent read or wrote last, by path. The path that was used last is the last one. */
  readonly #seen = new Map<string, string>()
  #current: SessionApi
  #turn?: { readonly turn: string; readonly session: SessionApi } | undefined

  constructor(session: SessionApi, options: WorkspaceOptions) {
    this.#main = session
    this.#current = session
    this.#options = options
  }

  /** The session that calls work on. */
  get current(): SessionApi {
    return this.#current
  }

  get main(): SessionApi {
    return this.#main
  }

  get forks(): ReadonlyMap<string, SessionApi> {
    return this.#forks
  }

  /** The current session, with the marks of a call for its events. */
  sessionFor({ callId, turn }: ToolCall): SessionApi {
    const session = turn === undefined ? this.#current : this.#ofTurn(turn)
    const { metadata } = this.#options
    if (callId !== undefined) return session.withMetadata({ ...metadata, callId })
    return metadata === undefined ? session : session.withMetadata(metadata)
  }

  /** The handle of a turn. The last one is kept, because a turn has many calls and a new handle costs more than a read. */
  #ofTurn(turn: string): SessionApi {
    if (this.#turn?.turn !== turn) this.#turn = { turn, session: this.#current.group(turn) }
    return this.#turn.session
  }

  /**
   * Forks the current session. The handle has no marks of a call: later calls have their own.
   *
   * @throws {EngineError} TOO_LARGE when the tools have created as many forks as they may.
   */
  async fork(request: ForkRequest): Promise<SessionApi> {
    if (this.#forks.size + this.#newForks >= limits.forks)
      throw new EngineError(
        'TOO_LARGE',
        `there are ${limits.forks} forks already: delete one that is not needed`,
        { limit: String(limits.forks) },
      )
    this.#newForks++
    try {
      const fork = await this.#current.fork(request)
      this.#forks.set(fork.id, fork)
      return fork
    } finally {
      this.#newForks--
    }
  }

  /** The session or fork with an id. `main` is the session that the tools were made for. */
  find(id: string): SessionApi {
    const found = id === 'main' || id === this.#main.id ? this.#main : this.#forks.get(id)
    if (found !== undefined) return found
    const known = ['main', ...this.#forks.keys()].join(', ')
    throw new EngineError(
      'SESSION_NOT_FOUND',
      `${JSON.stringify(id)} is no workspace of these tools. There are: ${known}`,
      {
        sessionId: id,
      },
    )
  }

  switchTo(session: SessionApi): void {
    this.#current = session
    this.#turn = undefined
  }

  async deleteFork(id: string): Promise<void> {
    const fork = this.find(id)
    if (fork === this.#main)
      throw invalid('workspace', 'must name a fork; the main workspace cannot be deleted')
    await fork.delete()
    this.#forks.delete(id)
    if (this.#current === fork) this.switchTo(this.#main)
  }

  /** Remembers the version of a file that the agent knows now. */
  see(path: string, contentHash: string): void {
    this.#seen.delete(path)
    this.#seen.set(path, contentHash)
    if (this.#seen.size <= limits.seenFiles) return
    for (const oldest of this.#seen.keys()) {
      this.#seen.delete(oldest)
      return
    }
  }

  /** Forgets the version of a file that is gone. */
  forgetFile(path: string): void {
    this.#seen.delete(path)
  }

  /** Forgets the versions of a path that is gone, and of everything below it. Its cost depends on all known versions. */
  forget(path: string): void {
    for (const seen of this.seenBelow(path)) this.#seen.delete(seen)
  }

  /** The files at and below a path whose versions are remembered. */
  seenBelow(path: string): string[] {
    const below = `${path}/`
    return [...this.#seen.keys()].filter((seen) => seen === path || seen.startsWith(below))
  }

  /** After a call that found nothing at a path, the agent knows that the file is gone, and may write it anew. */
  noteMissing(error: unknown): void {
    if (!(error instanceof EngineError) || error.reason !== 'PATH_NOT_FOUND') return
    const path = error.details['path']
    if (path !== undefined) this.forget(path)
  }

  /** The condition of a write: the version that the agent has read, if it has read one. */
  guard(path: string): { readonly expectedHash?: string } {
    if (this.#options.guards === false) return {}
    const expectedHash = this.#seen.get(path)
    return expectedHash === undefined ? {} : { expectedHash }
  }
}

/** An absolute path of the workspace. A relative path begins at the root, as models write it. */
export function absolute(path: string): string {
  return posix.resolve('/', path)
}
