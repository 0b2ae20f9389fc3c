/** Compares the request and response types of the schemas with those of the engine's methods. */
import { expectTypeOf, test } from 'vitest'
import type {
  CallableOperation,
  OperationName,
  OperationRequest,
  OperationResponse,
} from '../../src/engine/contract.js'
import type { MethodOf } from '../../src/engine/facade/call.js'
import type { OperationMethods } from '../../src/engine/operations/index.js'
import type {
  Change,
  ChangedFile,
  Checkpoint,
  CheckpointPage,
  DiffFilesOptions,
  EventPage,
  Secret,
  Session,
  SessionEvent,
  SessionFiles,
  Preview,
  RestoreRequest,
  SessionInfo,
  Sessions,
  SessionView,
  Sources,
  StateName,
  StateReference,
} from '../../src/index.js'

/** A checkpoint with the field name that the interface has for `checkpointLabel`. */
type Labelled = Omit<Checkpoint, 'checkpointLabel'> & { label: string }

/** The operations with a method, without options that exist only in process. */
type OfTable = { [Name in keyof OperationMethods]: MethodOf<Name>[0] }

/** The method of each operation, with a request that lacks the session's id. */
interface Methods extends Omit<OfTable, keyof Special>, Special {}

/** A method of a view, with a request that has the state too. */
type AtState<Method extends (request: never) => Promise<unknown>> = (
  request: { at: StateName } & Parameters<Method>[0],
) => ReturnType<Method>

interface Special {
  commit: (request: Omit<Parameters<Session['commit']>[0], 'signal'>) => ReturnType<Session['commit']>
  createSource: (
    request: Omit<Parameters<Sources['create']>[0], 'gitRepository'>,
  ) => ReturnType<Sources['create']>
  getSecret: (...request: Parameters<Session['secrets']['get']>) => Promise<
    Omit<Awaited<ReturnType<Session['secrets']['get']>>, 'secretValue'> & {
      secretValue: Pick<Secret, 'reveal'>
    }
  >

  createSession: (
    request: Omit<
      NonNullable<Parameters<Sessions['create']>[0]>,
      'files' | 'gitRepository' | 'ttlSeconds'
    > & {
      empty?: object
      files?: { path: string; content: Uint8Array }[]
    },
  ) => ReturnType<Session['get']>
  getSession: (request: object) => ReturnType<Session['get']>
  deleteSession: (request: object) => ReturnType<Session['delete']>
  forkSession: (
    request: { sourceSessionId: string; sourceCheckpointLabel?: string } & Omit<
      NonNullable<Parameters<Session['fork']>[0]>,
      'checkpointLabel'
    >,
  ) => ReturnType<Session['get']>
  createCheckpoint: (
    request: { label?: string } & Omit<NonNullable<Parameters<Session['checkpoint']>[0]>, 'checkpointLabel'>,
  ) => Promise<Labelled>
  listCheckpoints: (
    ...request: Parameters<Session['listCheckpoints']>
  ) => Promise<Omit<CheckpointPage, 'checkpoints'> & { checkpoints: Labelled[] }>
  resolveState: (request: NonNullable<Parameters<Session['at']>[0]>) => Promise<Pick<SessionView, 'eventId'>>
  restoreCheckpoint: (
    request: Pick<RestoreRequest, 'checkpointId' | 'checkpointLabel'>,
  ) => ReturnType<Session['get']>
  restoreState: (
    request: { from: StateName } & Pick<RestoreRequest, 'paths' | 'dryRun' | 'listChanges'>,
  ) => Promise<{ session: SessionInfo } & Preview>
  readFileAt: AtState<SessionFiles['readWithHash']>
  statPathAt: AtState<SessionFiles['stat']>
  listDirectoryAt: AtState<SessionFiles['list']>
  getManifestAt: (
    request: { at: StateName } & NonNullable<Parameters<SessionView['manifest']>[0]>,
  ) => ReturnType<SessionView['manifest']>
  mergeSession: (
    request: { source: StateReference } & Omit<NonNullable<Parameters<Session['merge']>[1]>, 'mergers'>,
  ) => ReturnType<Session['merge']>
  rebaseSession: (
    request: Omit<NonNullable<Parameters<Session['rebase']>[0]>, 'mergers'>,
  ) => ReturnType<Session['rebase']>
  diff: (request: {
    from: Partial<StateReference>
    to?: Omit<StateReference, 'sessionId'>
    pageSize?: number
    pageToken?: string
  }) => Promise<{ changes: Change[]; nextPageToken: string }>
  diffFiles: (
    request: Omit<DiffFilesOptions, 'renames'> & {
      from: Partial<StateReference>
      to?: Omit<StateReference, 'sessionId'>
      renames?: 'exact' | 'none'
      similarity?: number
      patch?: boolean
      pageSize?: number
      pageToken?: string
    },
  ) => Promise<{ files: (ChangedFile & { patch?: Uint8Array })[]; nextPageToken: string }>
  listEvents: (...request: Parameters<Session['events']['list']>) => Promise<
    Omit<EventPage, 'events'> & {
      events: (Omit<SessionEvent, 'principal' | 'eventType'> & { eventType: string })[]
    }
  >

  applyBatch: (request: { operations: Parameters<SessionFiles['batch']>[0] }) => Promise<void>
  readSymlink: (request: {
    path: Parameters<SessionFiles['readSymlink']>[0]
  }) => ReturnType<SessionFiles['readSymlink']>
  publishMessage: (...request: Parameters<Session['bus']['publish']>) => Promise<void>
  getSource: (request: { sourceId: Parameters<Sources['get']>[0] }) => ReturnType<Sources['get']>
  deleteSource: (request: { sourceId: Parameters<Sources['delete']>[0] }) => ReturnType<Sources['delete']>
  startImport: (
    request: { sourceId: string } & Omit<NonNullable<Parameters<Sources['startImport']>[1]>, 'signal'>,
  ) => ReturnType<Sources['startImport']>
  refreshSource: (
    request: { sourceId: string } & Omit<NonNullable<Parameters<Sources['refresh']>[1]>, 'signal'>,
  ) => ReturnType<Sources['refresh']>
  promoteSession: (
    // The request names the session instead of a handle, so it is omitted on both sides.
    request: { sourceId: string } & Omit<Parameters<Sources['promoteSession']>[1], 'signal' | 'sessionId'>,
  ) => ReturnType<Sources['promoteSession']>
}

/** A method without parameters takes the empty request. */
type RequestOf<Method> = Method extends (...request: infer Request) => unknown
  ? Request extends []
    ? object
    : Plain<NonNullable<Request[0]>>
  : never
type ResponseOf<Method> = Method extends (...request: never) => Promise<infer Response>
  ? Plain<Response extends void ? object : Response>
  : never

/** Without readonly; omits strings where bytes are also allowed. */
type Plain<T> = [Extract<T, Uint8Array>] extends [never] ? PlainParts<T> : Uint8Array
type PlainParts<T> = T extends readonly (infer Element)[]
  ? Plain<Element>[]
  : T extends Readonly<Record<string, never>>
    ? object
    : T extends object
      ? { -readonly [Key in keyof T]: Plain<T[Key]> }
      : T

// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- Without it the compiler does not compare both exactly.
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false

type WithoutSession<Name extends OperationName> = Omit<OperationRequest<Name>, 'sessionId'>

type Differing<What extends 'request' | 'response'> = {
  [Name in keyof Methods & OperationName]: (
    What extends 'request'
      ? Same<Plain<WithoutSession<Name>>, RequestOf<Methods[Name]>>
      : Same<Plain<OperationResponse<Name>>, ResponseOf<Methods[Name]>>
  ) extends true
    ? never
    : Name
}[keyof Methods & OperationName]

test('every operation is compared', () => {
  expectTypeOf<keyof Methods>().toEqualTypeOf<CallableOperation>()
})

test('only startImport differs, which accepts an object of files in process', () => {
  expectTypeOf<Differing<'request'>>().toEqualTypeOf<'startImport'>()
  expectTypeOf<Differing<'response'>>().toEqualTypeOf<never>()
})

test('detects a difference', () => {
  interface Wide {
    readonly path: string
    readonly mode?: number
  }
  expectTypeOf<Same<Plain<Wide>, { path: string; mode?: number }>>().toEqualTypeOf<true>()
  expectTypeOf<Same<Plain<Wide>, { path: string }>>().toEqualTypeOf<false>()
  expectTypeOf<Same<Plain<Wide>, { path: string; mode: number }>>().toEqualTypeOf<false>()
  expectTypeOf<Same<Plain<readonly Wide[]>, { path: string }[]>>().toEqualTypeOf<false>()
})
