/** Requests and responses of the schemas and those of the engine's methods are the same types. */
import { expectTypeOf, test } from 'vitest'
import type {
  CallableOperation,
  OperationName,
  OperationRequest,
  OperationResponse,
} from '../../src/engine/contract.js'
import type {
  Change,
  Checkpoint,
  CheckpointPage,
  Engine,
  EventPage,
  Secret,
  Session,
  SessionEvent,
  SessionFiles,
  Sessions,
  Sources,
  StateReference,
} from '../../src/index.js'

/** A checkpoint under the name that the interface has for `checkpointLabel`. */
type Labelled = Omit<Checkpoint, 'checkpointLabel'> & { label: string }

/**
 * The method behind each operation, as taking the request without the session's id; with what is there natively
 * only left out.
 */
interface Methods {
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
  listSessions: Sessions['list']
  deleteSession: (request: object) => ReturnType<Session['delete']>
  getManifest: Session['manifest']
  forkSession: (
    request: { sourceSessionId: string; sourceCheckpointLabel?: string } & Omit<
      NonNullable<Parameters<Session['fork']>[0]>,
      'checkpointLabel'
    >,
  ) => ReturnType<Session['get']>
  createCheckpoint: (
    request: { label?: string } & Omit<NonNullable<Parameters<Session['checkpoint']>[0]>, 'checkpointLabel'>,
  ) => Promise<Labelled>
  restoreCheckpoint: Session['restore']
  listCheckpoints: (
    ...request: Parameters<Session['listCheckpoints']>
  ) => Promise<Omit<CheckpointPage, 'checkpoints'> & { checkpoints: Labelled[] }>
  deleteCheckpoint: Session['deleteCheckpoint']
  diff: (request: {
    from: Partial<StateReference>
    to?: Omit<StateReference, 'sessionId'>
    pageSize?: number
    pageToken?: string
  }) => Promise<{ changes: Change[]; nextPageToken: string }>
  listEvents: (...request: Parameters<Session['events']['list']>) => Promise<
    Omit<EventPage, 'events'> & {
      events: (Omit<SessionEvent, 'principal' | 'eventType'> & { eventType: string })[]
    }
  >

  createDirectory: SessionFiles['createDirectory']
  removeDirectory: SessionFiles['removeDirectory']
  rename: SessionFiles['rename']
  deleteFile: SessionFiles['delete']
  applyBatch: (request: { operations: Parameters<SessionFiles['batch']>[0] }) => Promise<void>
  patchSegments: SessionFiles['patchSegments']
  createSymlink: SessionFiles['createSymlink']
  listSymlinks: SessionFiles['listSymlinks']
  readSymlink: (request: {
    path: Parameters<SessionFiles['readSymlink']>[0]
  }) => ReturnType<SessionFiles['readSymlink']>
  createHardLink: SessionFiles['link']
  unlink: SessionFiles['unlink']
  getCasExtents: SessionFiles['getCasExtents']
  readFile: SessionFiles['readWithHash']
  writeFile: SessionFiles['write']
  appendFile: SessionFiles['append']
  copyFile: SessionFiles['copy']
  setAttributes: SessionFiles['setAttributes']
  statPath: SessionFiles['stat']
  listDirectory: SessionFiles['list']
  setXattr: SessionFiles['setXattr']
  getXattr: SessionFiles['getXattr']
  listXattrs: SessionFiles['listXattrs']
  removeXattr: SessionFiles['removeXattr']

  getPosixLock: Session['posixLocks']['get']
  setPosixLock: Session['posixLocks']['set']
  setPosixLockBlocking: Session['posixLocks']['setBlocking']
  flock: Session['posixLocks']['flock']
  funlock: Session['posixLocks']['funlock']
  lockFile: Session['fileLocks']['lock']
  renewFileLock: Session['fileLocks']['renew']
  listFileLocks: Session['fileLocks']['list']
  unlockFile: Session['fileLocks']['unlock']
  forceUnlockFile: Session['fileLocks']['forceUnlock']

  addAnnotation: Session['annotations']['add']
  listAnnotations: Session['annotations']['list']
  updateAnnotationStatus: Session['annotations']['setStatus']
  requestApproval: Session['approvals']['request']
  listApprovals: (request: object) => ReturnType<Session['approvals']['list']>
  grantApproval: Session['approvals']['grant']
  denyApproval: Session['approvals']['deny']
  commit: (request: Omit<Parameters<Session['commit']>[0], 'signal'>) => ReturnType<Session['commit']>
  generateCommitSummary: (request: object) => ReturnType<Session['generateCommitSummary']>

  putCacheEntry: Session['cache']['put']
  getCacheEntry: Session['cache']['get']
  deleteCacheEntry: Session['cache']['delete']
  cacheEntryExists: Session['cache']['exists']
  getCacheMetadata: Session['cache']['metadata']
  compareAndSetCacheEntry: Session['cache']['compareAndSet']
  listCacheKeys: Session['cache']['keys']
  getCacheStats: (request: object) => ReturnType<Session['cache']['stats']>
  batchGetCache: Session['cache']['batchGet']
  batchSetCache: Session['cache']['batchSet']
  batchDeleteCache: Session['cache']['batchDelete']
  deleteCacheByPrefix: Session['cache']['deleteByPrefix']

  publishMessage: (...request: Parameters<Session['bus']['publish']>) => Promise<void>
  listSecrets: Session['secrets']['list']
  putSecret: Session['secrets']['put']
  getSecret: (...request: Parameters<Session['secrets']['get']>) => Promise<
    Omit<Awaited<ReturnType<Session['secrets']['get']>>, 'secretValue'> & {
      secretValue: Pick<Secret, 'reveal'>
    }
  >
  deleteSecret: Session['secrets']['delete']

  getHealth: (request: object) => ReturnType<Session['health']['get']>
  reportHealth: Session['health']['report']
  listHealthReports: Session['health']['history']
  getAnalytics: (request: object) => ReturnType<Session['analytics']>
  getUsage: Engine['usage']['get']
  getCasMetrics: (request: object) => ReturnType<Engine['usage']['metrics']>

  createSource: (
    request: Omit<Parameters<Sources['create']>[0], 'gitRepository'>,
  ) => ReturnType<Sources['create']>
  listSources: Sources['list']
  getSource: (request: { sourceId: Parameters<Sources['get']>[0] }) => ReturnType<Sources['get']>
  deleteSource: (request: { sourceId: Parameters<Sources['delete']>[0] }) => ReturnType<Sources['delete']>
  startImport: (
    request: { sourceId: string } & Omit<NonNullable<Parameters<Sources['startImport']>[1]>, 'signal'>,
  ) => ReturnType<Sources['startImport']>
  refreshSource: (
    request: { sourceId: string } & Omit<NonNullable<Parameters<Sources['refresh']>[1]>, 'signal'>,
  ) => ReturnType<Sources['refresh']>
  promoteSession: (
    // The session is none of the caller's handles, but named in the request: it is left out on both sides.
    request: { sourceId: string } & Omit<Parameters<Sources['promoteSession']>[1], 'signal' | 'sessionId'>,
  ) => ReturnType<Sources['promoteSession']>
  getJob: Sources['getJob']
  abortJob: Sources['abortJob']
}

type RequestOf<Method> = Method extends (...request: infer Request) => unknown
  ? Plain<NonNullable<Request[0]>>
  : never
type ResponseOf<Method> = Method extends (...request: never) => Promise<infer Response>
  ? Plain<Response extends void ? object : Response>
  : never

/** Without readonly; a string where bytes may stand too is left out. */
type Plain<T> = [Extract<T, Uint8Array>] extends [never] ? PlainParts<T> : Uint8Array
type PlainParts<T> = T extends readonly (infer Element)[]
  ? Plain<Element>[]
  : T extends Readonly<Record<string, never>>
    ? object
    : T extends object
      ? { -readonly [Key in keyof T]: Plain<T[Key]> }
      : T

// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- Only so does the compiler compare both exactly.
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

test('they differ only for an import, which may take an object of files in process', () => {
  expectTypeOf<Differing<'request'>>().toEqualTypeOf<'startImport'>()
  expectTypeOf<Differing<'response'>>().toEqualTypeOf<never>()
})

test('what differs is seen', () => {
  interface Wide {
    readonly path: string
    readonly mode?: number
  }
  expectTypeOf<Same<Plain<Wide>, { path: string; mode?: number }>>().toEqualTypeOf<true>()
  expectTypeOf<Same<Plain<Wide>, { path: string }>>().toEqualTypeOf<false>()
  expectTypeOf<Same<Plain<Wide>, { path: string; mode: number }>>().toEqualTypeOf<false>()
  expectTypeOf<Same<Plain<readonly Wide[]>, { path: string }[]>>().toEqualTypeOf<false>()
})
