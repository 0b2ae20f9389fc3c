import { createSessionFs } from '../fs/session-fs.js'
import type { SessionFs } from '../fs/types.js'
import type { DraftResult } from '../services/merge/draft-changes.js'
import type { DraftAccess } from '../session/access/draft-access.js'
import { SessionFiles } from './files.js'
import { SessionText } from './text.js'

/** The parts of its session that a draft uses. */
export interface DraftParts {
  readonly access: DraftAccess
  readonly sessionId: string
  readonly eventId: string
  readonly commit: () => Promise<DraftResult>
  readonly end: () => void
}

/**
 * A private copy of a session for several changes that belong together. `commit` makes them one event of the session;
 * without it, they never happened.
 *
 * @example
 * await using draft = await session.draft()
 * draft.fs.mkdirSync('/docs')
 * draft.fs.writeFileSync('/docs/a.md', '# A')
 * const { changes } = await draft.commit()
 */
export class SessionDraft implements AsyncDisposable {
  /** The id of the session. */
  readonly sessionId: string
  /** The `eventId` of the state that the draft started from. */
  readonly eventId: string
  readonly #parts: DraftParts
  #files: SessionFiles | undefined
  #text: SessionText | undefined
  #fs: SessionFs | undefined
  #committed: Promise<DraftResult> | undefined

  /** @internal */
  constructor(parts: DraftParts) {
    this.sessionId = parts.sessionId
    this.eventId = parts.eventId
    this.#parts = parts
  }

  /** The files of the draft, by the operations of the interface. */
  get files(): SessionFiles {
    return (this.#files ??= new SessionFiles(this.#parts.access))
  }

  /** The files of the draft as text: read lines, search, edit, and apply patches. */
  get text(): SessionText {
    return (this.#text ??= new SessionText(this.#parts.access))
  }

  /** The files of the draft in the shape of `node:fs`. */
  get fs(): SessionFs {
    return (this.#fs ??= createSessionFs(this.#parts.access))
  }

  /**
   * Applies all changes of the draft to the session, as one event of type `ApplyBatch`. Afterwards the draft can be
   * read until it is disposed of, and not changed. The session may have changed other paths meanwhile. Changes of times
   * alone are not applied.
   *
   * @throws {EngineError} MERGE_CONFLICT when the session has changed one of the paths meanwhile. Nothing is changed,
   * and `details.paths` lists the paths.
   * @throws {EngineError} MERGE_TARGET_MOVED when the session kept changing.
   *
   * @example
   * await using draft = await session.draft()
   * await draft.files.write({ path: '/b.txt', content: 'two' })
   * const { eventId, changes } = await draft.commit()
   */
  commit(): Promise<DraftResult> {
    return (this.#committed ??= this.#parts.commit())
  }

  /** Ends the draft. Changes that were not committed are lost. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#committed?.catch(() => undefined)
    this.#parts.end()
  }
}
