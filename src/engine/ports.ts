/** The interfaces that adapters implement for the engine. Adapters import from here and from `index.ts` only. */
export type {
  Acknowledgement,
  SessionInStore,
  SessionRecords,
  ByteRange,
  CollectionEpoch,
  CollectionStage,
  HeadMove,
  ScanRange,
  SharedCapability,
  SharedStore,
  Storage,
  Store,
  StoreCapabilities,
  StoreCommit,
  NewStoredEvent,
  StoreFinding,
  StoredBlobSize,
  StoredEvent,
} from './storage/store.js'
export { currentFormat, formats } from './storage/format.js'
export { keys, prefixEnd, encodeSeq, decodeSeq } from './storage/keys.js'
export { parseEventHead, parseEventText } from './storage/event-text.js'
export { firstAtLeast, firstWhere } from './base/ascending.js'
export { abortable, onAbort as onAborted, untilAborted, withSignals } from './base/abort.js'
export { attempt } from './base/attempt.js'
export { EngineError, invalid } from './base/errors.js'
export { checkSignal } from './base/abort.js'
export { isCount, isListOf, isText, isTupleOf, isWith, type Checks, type Guard } from './base/checks.js'
export { copyBytes, given, isBytes, notInPieces, parseFlag, readBytes } from './base/input.js'
export { KeyedMutex } from './base/keyed-mutex.js'
export { limits } from './base/limits.js'
export { isOpenStore, openStores } from './base/open-stores.js'
export { itemAt, onlyItem, present } from './base/present.js'
export { Shape } from './base/shape.js'
export { gitlinkAttribute } from './base/gitlink.js'
export { isBranchName, isRefName, servedBranch } from './base/ref-names.js'
export { isUnsafeName, isUnsafeSymlinkName, unsafePart } from './base/unsafe-names.js'
export { version } from './base/version.js'
export {
  inGroup,
  nextTurn,
  runAtOnce,
  runInSlices,
  TimeSlice,
  type Clock,
  type Steps,
} from './base/cooperative.js'
export type {
  CommitDescription,
  CommitReader,
  Committer,
  CommitIdentity,
  CommitRequest,
  GitBundleRequest,
  GitObject,
  GitObjects,
  GitRemote,
  GitTreeSink,
  Importer,
  ImportContext,
  ImportRequest,
  ImportResult,
  PathChange,
  WorkTreeRequest,
} from './services/sources/git-ports.js'
export type {
  CheckpointCommit,
  OpenGitObject,
  PushContext,
  RepositoryHead,
  RepositoryObjects,
} from './services/sources/repository-ports.js'
export type {
  Archives,
  ContentIn,
  EntryAttributes,
  ReadContext,
  TreeEntry,
  TreeSink,
} from './services/sources/source-ports.js'
export type { ReportReader, TestCounts } from './services/report-ports.js'
export type {
  Host,
  HostEntry,
  HostIndex,
  HostKind,
  HostStat,
  HostTree,
  RepositoryFile,
  ScanContext,
  ScanResult,
} from './services/sources/host-ports.js'
export type { ProcessRequest, ProcessResult } from './services/checkouts/process-ports.js'
export type { BundleBlock, BundleFiles } from './services/bundles/bundle-ports.js'
