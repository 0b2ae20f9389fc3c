/** The ports that read git sources and write commits. */
import type { RepositoryFile } from './host-ports.js'
import type { ContentIn, EntryAttributes, ReadContext } from './source-ports.js'

/** The location of a git source. Exactly one of the first three fields is set. */
export interface GitRemote {
  /** An http or https URL, without credentials. */
  readonly remoteUrl?: string
  /** A repository directory on this host, bare or not. */
  readonly repositoryPath?: string
  /** The content of a bundle file. It can only be read. */
  readonly bundle?: ContentIn
  /** The id of the credentials to request from the embedder's hook. '' or absent: no particular ones. */
  readonly credentialsSecretId?: string
}

export interface ImportRequest {
  readonly remote: GitRemote
  /** Branch, tag, full ref or commit id; empty for the default branch. */
  readonly gitRef: string
}

export interface ImportContext extends ReadContext {
  readonly objects: GitObjects
  /** Commits that were completely imported from this remote, newest first. `objects` has their trees. */
  readonly knownCommits: readonly string[]
  /** Commits that the engine pushed to this remote, newest first. `objects` has them. Call this once the ref is resolved. */
  readonly pushedCommits?: () => Promise<readonly string[]>
  /**
   * Call this once the ref is resolved. Until then, another request for the same ref may share this import.
   */
  onResolved(): void
}

/**
 * Receives the tree of a commit. Paths are as in TreeSink. If a method returns a promise, await it before the
 * next call.
 */
export interface GitTreeSink {
  /**
   * Starts from a tree that an earlier import completed. Entries that are not given again stay unchanged. If
   * the tree is unknown, returns false and changes nothing. Call this before anything else.
   */
  startFrom(treeId: string): Promise<boolean>
  directory(path: string, attributes: EntryAttributes): void | Promise<void>
  /** Adds a file. `objects` must already have its blob. */
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
  /** Those of the pushed commits that the commit is known to build on, and itself if it is one. Absent if there are none. */
  readonly contains?: readonly string[]
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

/**
 * The engine's store of git objects, which the sources of a tenant share. Blobs are stored like contents of
 * files.
 */
export interface GitObjects {
  /**
   * A complete object; undefined if it is unknown or larger than `maxBytes`. Also finds objects that were
   * just added.
   */
  get(oid: string, maxBytes?: number): Promise<GitObject | undefined>
  has(oid: string): Promise<boolean>
  /**
   * Adds an object. It keeps the body, which the caller must no longer change. Objects are stored in groups.
   * If this returns a promise, await it before the next call. Adding a known object costs little and changes
   * nothing.
   */
  add(object: GitObject): void | Promise<void>
  /** Adds a blob in pieces of any size. Calls `oid` after the last piece. */
  addBlob(chunks: AsyncIterable<Uint8Array>, oid: () => string): Promise<void>
  /** Resolves when all added objects are stored. */
  flush(): Promise<void>
}

/** The author of a commit. At least one of its fields is not empty. */
export interface CommitIdentity {
  /** The name, at most 1,024 bytes. */
  readonly name: string
  /** The email address, at most 1,024 bytes. */
  readonly email: string
}

/** One path that differs from the base. `parts` are the names from the root to the entry. */
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
  /**
   * The branch to push to. If absent, the commit stays in the engine's own objects. A missing branch is
   * created.
   */
  readonly push?: {
    readonly remote: GitRemote
    readonly branchName: string
    readonly expectedTip: string | null
    /** Called with the id of the new commit before it is sent. */
    onCreated?(commitId: string): Promise<void>
  }
  /** The parent of the new commit; null for a root commit. */
  readonly parent: string | null
  /** Another parent, of a commit that joins two histories. */
  readonly otherParent?: string
  /** True: the commit is not signed. */
  readonly unsigned?: true
  /**
   * The commit that the branch already has. It is the result if it has the same tree and, with `push`, the
   * remote's branch is at this commit. Nothing is then created or sent. If absent, every call creates a
   * commit.
   */
  readonly existing?: string
  /** The tree to which `changes` are applied; null for an empty tree. */
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
   * @throws {EngineError} BRANCH_MOVED when the tip of the remote's branch is not `expectedTip`; nothing is
   * then sent
   */
  commit(request: CommitRequest): Promise<{ readonly commitId: string; readonly treeId: string }>
}

/** A commit without its files. */
export interface CommitDescription {
  readonly commitId: string
  readonly treeId: string
  readonly parentIds: readonly string[]
  readonly author: CommitIdentity
  /** The committer's time. */
  readonly timestampSeconds: number
  readonly message: string
}

export interface GitBundleRequest {
  /** The newest commit. */
  readonly commitId: string
  /** The name of the ref in the bundle, such as `refs/heads/main`. */
  readonly ref: string
  /** The commit that the bundle does not contain, even if it builds on it; null for none. */
  readonly base: string | null
  readonly objects: GitObjects
  readonly signal?: AbortSignal
}

export interface WorkTreeRequest {
  readonly commitId: string
  /** The lines of the file `info/exclude`. */
  readonly exclude: readonly string[]
  readonly objects: GitObjects
  readonly signal?: AbortSignal
}

export interface TreeReadRequest {
  readonly treeId: string
  /** The tree that the sink started from; undefined for an empty one. */
  readonly baseTreeId: string | undefined
  readonly sink: Omit<GitTreeSink, 'startFrom'>
  readonly objects: GitObjects
  readonly mtimeMs: number
}

/** Reads commits from the engine's git objects. */
export interface CommitReader {
  /** Undefined if the commit is unknown. */
  describe(commitId: string, objects: Pick<GitObjects, 'get'>): Promise<CommitDescription | undefined>
  /** The blob at a path of a tree. Undefined if the path does not exist, or is no file. */
  findFile(treeId: string, parts: readonly string[], objects: GitObjects): Promise<GitObject | undefined>
  /** Passes the sink the differences of a tree from its base. */
  readTree(request: TreeReadRequest): Promise<void>
  /** A git bundle with the objects that the base lacks. */
  bundle(request: GitBundleRequest): AsyncIterable<Uint8Array>
  /** The files of a directory `.git`, in which HEAD and the index have the commit. HEAD is the last file. */
  workTree(request: WorkTreeRequest): Promise<readonly RepositoryFile[]>
}
