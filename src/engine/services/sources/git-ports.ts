/** The ports through which git sources are read and commits are written. */
import type { ContentIn, EntryAttributes, ReadContext } from './source-ports.js'

/** Where a git source lives: exactly one of the three. */
export interface GitRemote {
  /** http or https, without credentials in it. */
  readonly remoteUrl?: string
  /** A repository directory on this host, bare or not. */
  readonly repositoryPath?: string
  /** A bundle file's content; only read from. */
  readonly bundle?: ContentIn
  /** Which credentials the embedder's hook is asked for; '' or absent: none in particular. */
  readonly credentialsSecretId?: string
}

export interface ImportRequest {
  readonly remote: GitRemote
  /** Branch, tag, full ref or commit id; empty for the default branch. */
  readonly gitRef: string
}

export interface ImportContext extends ReadContext {
  readonly objects: GitObjects
  /** Commits that were imported whole from this remote, newest first: their trees are in `objects`. */
  readonly knownCommits: readonly string[]
  /** Call this when the ref is resolved: until then a second request for the same ref may share this import. */
  onResolved(): void
}

/** Takes the tree of a commit. Paths as in TreeSink; a promise is to be awaited before the next call. */
export interface GitTreeSink {
  /**
   * Starts from a tree that an earlier import completed: entries not given again stay unchanged. False, with
   * nothing changed, when the tree is unknown. Call this before anything else.
   */
  startFrom(treeId: string): Promise<boolean>
  directory(path: string, attributes: EntryAttributes): void | Promise<void>
  /** Its content is a blob that `objects` has, or was just given. */
  file(path: string, blobId: string, attributes: EntryAttributes): void | Promise<void>
  symlink(path: string, target: string, attributes: { readonly mtimeMs: number }): void | Promise<void>
  /** Removes the entry at a path, with everything below it. */
  remove(path: string): void | Promise<void>
}

export interface ImportResult {
  /** The commit id, hex; '' for an empty repository or a tag of a tree. */
  readonly commitId: string
  /** The id of the tree, hex. */
  readonly treeId: string
}

/** Reads one revision of a git source into a sink. */
export interface Importer {
  import(request: ImportRequest, sink: GitTreeSink, context: ImportContext): Promise<ImportResult>
}

export interface GitObject {
  /** 40 hex digits, or 64 in a repository of SHA-256 ids. */
  readonly oid: string
  readonly type: 'commit' | 'tree' | 'blob' | 'tag'
  /** The content without git's header. */
  readonly body: Uint8Array
}

/** The engine's own store of git objects, shared by the sources of a tenant. Blobs are stored as file contents are. */
export interface GitObjects {
  /** Whole; undefined for an unknown object, or one above `maxBytes`. It finds newly added objects too. */
  get(oid: string, maxBytes?: number): Promise<GitObject | undefined>
  has(oid: string): Promise<boolean>
  /**
   * Takes over the body, which the caller must no longer change. Objects are stored in groups; await a returned promise
   * before the next call. Adding a known object costs little and changes nothing.
   */
  add(object: GitObject): void | Promise<void>
  /** Adds a blob in pieces of any size. Calls `oid` after the last piece. */
  addBlob(chunks: AsyncIterable<Uint8Array>, oid: () => string): Promise<void>
  /** Resolves when everything that was added is stored. */
  flush(): Promise<void>
}

/** The author of a commit. At least one of its fields is not empty. */
export interface CommitIdentity {
  /** The name, at most 1,024 bytes. */
  readonly name: string
  /** The email address, at most 1,024 bytes. */
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
  /**
   * The commit that the branch has already. It is the result, with nothing made or sent, when it has the same tree
   * and, with `push`, the remote has the branch there. Absent: each commit is a new one.
   */
  readonly existing?: string
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
   * Rewrites only the trees along changed paths, stores the new objects, then pushes.
   *
   * @throws {EngineError} BRANCH_MOVED when the remote has the branch at another tip than `expectedTip`; nothing is
   *   sent
   */
  commit(request: CommitRequest): Promise<{ readonly commitId: string; readonly treeId: string }>
}
