import { createSessionFs } from '../fs/session-fs.js'
import type { SessionFs } from '../fs/types.js'
import type { ViewAccess } from '../session/access/view-access.js'
import {
  manifestShape,
  readManifest,
  type ManifestPage,
  type ManifestRequest,
} from '../session/reads/manifest.js'
import type { Diff } from '../session/diffs/diff.js'
import { diffOf, type StateName, type StateReference } from '../session/states.js'
import { SessionFiles } from './files.js'

/** The methods of `session.files` that read. */
export type ViewFiles = Pick<
  SessionFiles,
  | 'contentHash'
  | 'getCasExtents'
  | 'getXattr'
  | 'list'
  | 'listSymlinks'
  | 'listXattrs'
  | 'read'
  | 'readStream'
  | 'readSymlink'
  | 'readWithHash'
  | 'stat'
>

/** The other side of `view.diff`: another session's handle, a state by name, or the base of the session. */
export type ViewDiffTarget =
  | {
      /** The id of a session. */
      readonly id: string
    }
  | StateReference
  | StateName
  | 'base'

/** The parts of its session that a view uses. */
export interface ViewParts {
  readonly access: ViewAccess
  readonly sessionId: string
  readonly eventId: string
  /** The other side of a diff. It checks the permission to compare with it. */
  readonly compared: (against: ViewDiffTarget) => StateReference
  readonly pin: Disposable
}

/**
 * One state of a session, for reading. Later changes of the session do not show in it. It stays readable until it is
 * disposed of: `engine.collect()` keeps its contents until then, or until JavaScript's garbage collection frees it.
 *
 * @example
 * await session.checkpoint({ checkpointLabel: 'before' })
 * using view = await session.at({ checkpointLabel: 'before' })
 * const text = view.fs.readFileSync('/src/a.ts', 'utf8')
 */
export class SessionView implements Disposable {
  /** The id of the session. */
  readonly sessionId: string
  /** The `eventId` of the newest event of the state; '' for the base. */
  readonly eventId: string
  readonly #parts: ViewParts
  #files: SessionFiles | undefined
  #fs: SessionFs | undefined

  /** @internal */
  constructor(parts: ViewParts) {
    this.sessionId = parts.sessionId
    this.eventId = parts.eventId
    this.#parts = parts
  }

  /** The files of the state, by the operations of the interface. */
  get files(): ViewFiles {
    return (this.#files ??= new SessionFiles(this.#parts.access))
  }

  /**
   * The files of the state in the shape of `node:fs`. Every change fails with EROFS, and watchers report nothing.
   */
  get fs(): SessionFs {
    return (this.#fs ??= createSessionFs(this.#parts.access))
  }

  /**
   * A page of the tree of the state. Its `manifestHash` identifies the state of the whole tree.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the page token is of another listing, or after the view was disposed
   * of.
   *
   * @example
   * await session.checkpoint({ checkpointLabel: 'before' })
   * using view = await session.at({ checkpointLabel: 'before' })
   * const { nodes } = await view.manifest({ pathPrefix: '/src/' })
   */
  async manifest(request: ManifestRequest = {}): Promise<ManifestPage> {
    const copy = manifestShape.read(request)
    const { access } = this.#parts
    return access.look('getManifest', () => readManifest(access.core, access.root, copy))
  }

  /**
   * The changes from another state to this one; by default, from the base of the session. Like `session.diff`.
   *
   * @example
   * await session.checkpoint({ checkpointLabel: 'before' })
   * using view = await session.at({ checkpointLabel: 'before' })
   * for await (const { change, path } of view.diff()) console.log(change, path)
   */
  diff(against: ViewDiffTarget = 'base'): Diff {
    const { access, compared } = this.#parts
    return diffOf(
      access.core,
      () => compared(against),
      () => {
        access.permit('diff')
        return access.root
      },
    )
  }

  /** Ends the view, so that `engine.collect()` can free its contents. Later reads fail with INVALID_ARGUMENT. */
  [Symbol.dispose](): void {
    this.#parts.access.dispose()
    this.#parts.pin[Symbol.dispose]()
  }
}
