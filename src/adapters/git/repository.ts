import type { GitObjects } from '../../engine/ports.js'
import type { BuiltPack } from './pack/build-pack.js'
import type { ObjectFormat } from './objects/object-id.js'
import type { RevisionSource } from './objects/revision-objects.js'

export interface RemoteRefs {
  /** Full ref name to object id; HEAD included when it resolves. */
  readonly refs: ReadonlyMap<string, string>
  /** Symbolic refs, for example HEAD to refs/heads/main. */
  readonly symrefs: ReadonlyMap<string, string>
  /** Annotated tags to the object they peel to, as far as the remote says. */
  readonly peeled: ReadonlyMap<string, string>
}

export interface RevisionRequest {
  /** A commit, tag or tree; without the history of a commit, where the repository can leave it out. */
  readonly want: string
  /** The engine's objects, which a remote repository writes into. */
  readonly objects: GitObjects
  /** Commits that are in `objects`, each with its whole tree; what they hold need not be sent. */
  readonly haves: readonly string[]
  readonly signal: AbortSignal
  onBytes(count: number): void
}

export interface PushRequest {
  readonly ref: string
  /** What the ref must hold, unless it does not exist: then it is made. null: it must not exist. */
  readonly expectedOid: string | null
  readonly newOid: string
  /** A pack with every object the remote may lack. */
  readonly pack: BuiltPack
  readonly signal: AbortSignal
}

/** What importer and committer need of a repository, wherever it lives. */
export interface Repository {
  /** Throws CREDENTIALS_NOT_FOUND when the remote names credentials that the embedder does not know. */
  authenticate?(signal: AbortSignal): Promise<void>
  format(signal: AbortSignal): Promise<ObjectFormat>
  /** The refs that start with any of the prefixes; all when there are none. */
  listRefs(options: {
    readonly prefixes: readonly string[]
    readonly signal: AbortSignal
  }): Promise<RemoteRefs>
  /** The objects of one revision that `objects` lacks. Throws GIT_REF_NOT_FOUND when there is no `want`. */
  openObjects(request: RevisionRequest): Promise<RevisionSource>
  /** Throws BRANCH_MOVED before anything is sent when the ref is at another id than `expectedOid`, or GIT_PUSH_REJECTED. */
  push(request: PushRequest): Promise<void>
  close(): Promise<void>
}
