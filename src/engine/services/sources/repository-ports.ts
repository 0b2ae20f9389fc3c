/** The ports that serve a session to git clients. */
import type { GitObject, GitObjects, GitTreeSink } from './git-ports.js'

/** The newest commit of a session, and the start of its history. */
export interface RepositoryHead {
  /** Null for a session without files and commits. */
  readonly commitId: string | null
  /**
   * The imported commit that the history starts from; null if there is none. The engine has its files, and not its
   * parents.
   */
  readonly base: string | null
}

/** A commit with the state of a checkpoint. */
export interface CheckpointCommit {
  readonly checkpointId: string
  /** '' if the checkpoint has no label. */
  readonly label: string
  readonly commitId: string
}

/** An object that is read in pieces. */
export interface OpenGitObject {
  readonly type: GitObject['type']
  readonly size: number
  pieces(): AsyncIterable<Uint8Array>
}

/** The git objects of the engine, for reading. */
export interface RepositoryObjects extends Pick<GitObjects, 'get' | 'has'> {
  /** Undefined if the object is unknown. */
  open(oid: string): Promise<OpenGitObject | undefined>
}

/** What an adapter gets to read a push. */
export interface PushContext {
  readonly head: RepositoryHead
  /** Takes the objects of the push. */
  readonly objects: GitObjects & RepositoryObjects
  /** Takes the differences between the files of the head and those of the new commit. */
  readonly sink: Omit<GitTreeSink, 'startFrom'>
  readonly signal: AbortSignal
}

export interface RepositoryPush {
  /** The commit that the client saw as the newest; null if it saw none. */
  readonly expected: string | null
  readonly commitId: string
  /** Reads and checks the objects of the push, and gives the sink the changes of its files. */
  readonly read: (context: PushContext) => Promise<void>
  readonly signal: AbortSignal
}
