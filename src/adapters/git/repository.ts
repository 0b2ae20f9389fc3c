import type { GitObjects } from '../../engine/ports.js'
import type { BuiltPack } from './pack/build-pack.js'
import type { ObjectFormat } from './objects/object-id.js'
import type { RevisionSource } from './objects/revision-objects.js'

export interface RemoteRefs {
  /** Maps the full name of a ref to its object id. Includes HEAD if it resolves. */
  readonly refs: ReadonlyMap<string, string>
  /** Maps a symbolic ref to its target, for example HEAD to refs/heads/main. */
  readonly symrefs: ReadonlyMap<string, string>
  /** Maps the full name of an annotated tag to the id that it peels to. Not every remote lists these ids. */
  readonly peeled: ReadonlyMap<string, string>
}

export interface RevisionRequest {
  /** The id of a commit, tag or tree. The repository omits the history of a commit, if it can. */
  readonly want: string
  /** The engine's objects. A remote repository adds the fetched objects to them. */
  readonly objects: GitObjects
  /** Commits in `objects`, each with its whole tree. The objects of these trees need not be sent. */
  readonly haves: readonly string[]
  readonly signal: AbortSignal
  onBytes(count: number): void
}

export interface PushRequest {
  readonly ref: string
  /** The id that the ref must point to. A missing ref is created. If null, the ref must not exist. */
  readonly expectedOid: string | null
  readonly newOid: string
  /** A pack with all objects that the remote may lack. */
  readonly pack: BuiltPack
  readonly signal: AbortSignal
}

/**
 * The interface that the importer and the committer use. The repository is remote, on this host, or in a
 * bundle.
 */
export interface Repository {
  /**
   * Throws CREDENTIALS_NOT_FOUND if the remote has a `credentialsSecretId` that the `credentials` hook does
   * not know.
   */
  authenticate?(signal: AbortSignal): Promise<void>
  format(signal: AbortSignal): Promise<ObjectFormat>
  /** Lists the refs whose names start with one of the prefixes, or all refs if there are no prefixes. */
  listRefs(options: {
    readonly prefixes: readonly string[]
    readonly signal: AbortSignal
  }): Promise<RemoteRefs>
  /**
   * Opens the objects of one revision that `objects` lacks. Throws GIT_REF_NOT_FOUND if the repository has no
   * `want`.
   */
  openObjects(request: RevisionRequest): Promise<RevisionSource>
  /**
   * Sets the ref. Throws BRANCH_MOVED if it does not point to `expectedOid`. This is checked before anything
   * is sent, and again when the ref is set. Throws GIT_PUSH_REJECTED if the repository refuses the push.
   */
  push(request: PushRequest): Promise<void>
  close(): Promise<void>
}
