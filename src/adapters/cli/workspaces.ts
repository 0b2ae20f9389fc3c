import type {
  Checkpoint,
  CheckpointCreateRequest,
  CheckpointPage,
  CheckpointReference,
  Change,
  EngineScope,
  ForkRequest,
  SessionCommitRequest,
  SessionCreateRequest,
  SessionEvent,
  SessionFiles,
  SessionInfo,
  SessionListRequest,
  SessionPage,
  Sources,
  StateReference,
} from '../../engine/index.js'

interface PageRequest {
  readonly pageToken?: string
}

/** What the command uses of a session: a handle of the engine has it, and so has one of a server's client. */
export interface Workspace {
  readonly id: string
  readonly files: Pick<
    SessionFiles,
    | 'delete'
    | 'list'
    | 'read'
    | 'readStream'
    | 'readSymlink'
    | 'removeDirectory'
    | 'rename'
    | 'stat'
    | 'write'
  >
  /** Events of a server have no principal. */
  readonly events: {
    list(request?: PageRequest): Promise<{
      readonly events: readonly (Omit<SessionEvent, 'principal'> & Partial<Pick<SessionEvent, 'principal'>>)[]
      readonly nextPageToken: string
    }>
  }
  get(): Promise<SessionInfo>
  manifest(request: { readonly pageSize: number }): Promise<{ readonly manifestHash: string }>
  fork(request?: ForkRequest): Promise<Workspace>
  checkpoint(request: CheckpointCreateRequest): Promise<Checkpoint>
  listCheckpoints(request: PageRequest): Promise<CheckpointPage>
  restore(request: CheckpointReference): Promise<SessionInfo>
  commit(request: SessionCommitRequest): Promise<{ commitId: string }>
}

/** What the command uses of an engine of its own, and of a server. */
export interface Workspaces {
  readonly sessions: {
    create(request: SessionCreateRequest): Promise<Workspace>
    open(sessionId: string): Promise<Workspace>
    list(request?: SessionListRequest): Promise<SessionPage>
    delete(sessionId: string): Promise<void>
  }
  readonly sources: Pick<
    Sources,
    'create' | 'delete' | 'get' | 'list' | 'startImport' | 'refresh' | 'waitForJob'
  >
  diff(request: { readonly from: StateReference; readonly to: StateReference }): AsyncIterable<Change>
}

/** Where the verbs work. */
export interface Target {
  readonly workspaces: Workspaces
  /** The engine, in process; undefined on a server. */
  readonly engine: EngineScope | undefined
  close(): Promise<void>
}
