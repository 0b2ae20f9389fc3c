/** The ports through which sources are read and commits are written. */

/** Where a git source lives: exactly one of the two. */
export interface GitRemote {
  /** http or https, without credentials in it. */
  readonly remoteUrl?: string
  /** A repository directory on this host, bare or not. */
  readonly repositoryPath?: string
}

export interface ImportRequest {
  readonly remote: GitRemote
  /** Branch, tag, full ref or commit id; empty for the default branch. */
  readonly gitRef: string
}

export interface ImportContext {
  readonly signal: AbortSignal
  readonly objects: GitObjects
  /** Called as the counters grow. */
  onProgress(progress: { bytesProcessed: number; filesProcessed: number }): void
}

/** Takes the tree of a revision, parents before children. Each call may be awaited for backpressure. */
export interface TreeSink {
  directory(path: string, attributes: { mode: number; mtimeMs: number }): void | Promise<void>
  file(path: string, content: Uint8Array, attributes: { mode: number; mtimeMs: number }): void | Promise<void>
  symlink(path: string, target: string, attributes: { mtimeMs: number }): void | Promise<void>
}

export interface ImportResult {
  /** The commit id, hex. */
  readonly revisionId: string
  /** The id of the commit's tree, hex. */
  readonly treeId: string
}

/** Reads one revision of a source into a sink. */
export interface Importer {
  import(request: ImportRequest, sink: TreeSink, context: ImportContext): Promise<ImportResult>
}

export interface GitObject {
  readonly oid: string
  readonly type: 'commit' | 'tree' | 'blob' | 'tag'
  /** The content without git's header. */
  readonly body: Uint8Array
}

/** The engine's own store of raw git objects (commits and trees), shared by the sources of a tenant. */
export interface GitObjects {
  get(oid: string): Promise<GitObject | undefined>
  /** Atomic; resolves when the objects are stored. */
  put(objects: readonly GitObject[]): Promise<void>
}

export interface CommitIdentity {
  readonly name: string
  readonly email: string
}

/** One path that differs from the base; `parts` are the names from the root down. */
export type PathChange =
  | { readonly parts: readonly string[]; readonly kind: 'removed' }
  | {
      readonly parts: readonly string[]
      readonly kind: 'file'
      readonly executable: boolean
      read(): Promise<Uint8Array>
    }
  | { readonly parts: readonly string[]; readonly kind: 'symlink'; readonly target: string }

export interface CommitRequest {
  /** Where to push; absent keeps the commit in the engine's own objects only. A missing branch is made. */
  readonly push?: {
    readonly remote: GitRemote
    readonly branchName: string
    readonly expectedTip: string | null
  }
  /** The new commit's parent; null for a root commit. */
  readonly parent: string | null
  /** The tree that `changes` are applied to; null for an empty one. */
  readonly baseTree: string | null
  readonly changes: AsyncIterable<PathChange>
  readonly message: string
  readonly author: CommitIdentity
  readonly timestampSeconds: number
  readonly objects: GitObjects
  readonly signal: AbortSignal
}

/** Writes commits. */
export interface Committer {
  /**
   * Rewrites only the trees along changed paths, stores the new objects, then pushes. Throws BRANCH_MOVED,
   * with nothing sent, when the remote has the branch at another tip than `expectedTip`.
   */
  commit(request: CommitRequest): Promise<{ readonly commitId: string; readonly treeId: string }>
}

export interface RemoteRefs {
  /** Full ref name to object id; HEAD included when it resolves. */
  readonly refs: ReadonlyMap<string, string>
  /** Symbolic refs, for example HEAD to refs/heads/main. */
  readonly symrefs: ReadonlyMap<string, string>
  /** Annotated tags to the object they peel to, as far as the remote says. */
  readonly peeled: ReadonlyMap<string, string>
}

export interface PushRequest {
  readonly ref: string
  /** What the ref must hold, unless it does not exist: then it is made. null: it must not exist. */
  readonly expectedOid: string | null
  readonly newOid: string
  /** A pack with every object the remote may lack. */
  readonly pack: Uint8Array
  readonly signal: AbortSignal
}

/** The wire to one repository: refs in, packs in, packs out. */
export interface GitTransport {
  listRefs(options: { prefixes: readonly string[]; signal: AbortSignal }): Promise<RemoteRefs>
  /** The pack of one commit (or tag, or tree) without its history. */
  fetchPack(options: { want: string; signal: AbortSignal; onBytes(count: number): void }): Promise<Uint8Array>
  /** Throws BRANCH_MOVED before sending when the ref is at another id than `expectedOid`, or GIT_PUSH_REJECTED. */
  push(request: PushRequest): Promise<void>
}
