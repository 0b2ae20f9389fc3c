import type { SessionAccess } from '../session/access/session-access.js'
import { throwIfAborted, typeError } from './argument-errors.js'
import type { Context, Define } from './calls.js'
import * as changes from './change-calls.js'
import { toChunks, type Chunks } from './chunks.js'
import { constants } from './constants.js'
import { copyFile } from './copy-file.js'
import { cpForms } from './cp.js'
import * as descriptors from './descriptor-calls.js'
import {
  callbackForm,
  deliver,
  promiseForm,
  runLater,
  syncForm,
  takeCallback,
  type FsFunction,
  type Spread,
} from './drivers.js'
import { appendFile, readFile, toWriteOptions, writeFile } from './file-calls.js'
import { FileHandle } from './file-handle.js'
import { glob } from './glob.js'
import { lazyObject } from './lazy-object.js'
import { open, openCall } from './open-calls.js'
import { OpenFiles } from './open-files.js'
import { opendir, OpenDirectory } from './opendir.js'
import * as reads from './read-calls.js'
import { Dirent, StatFs, Stats } from './stats.js'
import { makeStreams, type Streams } from './streams.js'
import { mkdtempDisposable, mkdtempDisposableSync, openAsBlob, openAsBlobSync } from './temporary.js'
import type { SessionFs } from './types.js'
import { toTime } from './values.js'
import { watch } from './watch.js'
import { WatchedFiles } from './watch-file.js'
import { watchEvents } from './watch-iterator.js'

type AnyDefine = Define<unknown>

/** Functions that have the same name in all three forms. */
const paths: Readonly<Record<string, AnyDefine>> = {
  access: reads.access,
  appendFile,
  chmod: changes.chmod,
  chown: changes.chown,
  copyFile,
  lchmod: changes.lchmod,
  lchown: changes.lchown,
  link: changes.link,
  lstat: reads.lstat,
  lutimes: changes.lutimes,
  mkdir: changes.mkdir,
  mkdtemp: changes.mkdtemp,
  opendir,
  readFile,
  readdir: reads.readdir,
  readlink: reads.readlink,
  realpath: reads.realpath,
  rename: changes.rename,
  rm: changes.rm,
  rmdir: changes.rmdir,
  stat: reads.stat,
  statfs: reads.statfs,
  symlink: changes.symlink,
  truncate: changes.truncate,
  unlink: changes.unlink,
  utimes: changes.utimes,
  writeFile,
}

/**
 * Functions of the callback and synchronous forms only, most of which take the number of an open file. The
 * promise form has methods of FileHandle instead.
 */
const numbers: Readonly<Record<string, AnyDefine>> = {
  close: descriptors.close,
  fchmod: descriptors.fchmod,
  fchown: descriptors.fchown,
  fdatasync: descriptors.fdatasync,
  fstat: descriptors.fstat,
  fsync: descriptors.fsync,
  ftruncate: descriptors.ftruncate,
  futimes: descriptors.futimes,
  glob,
  open,
  read: descriptors.read,
  readv: descriptors.readv,
  write: descriptors.write,
  writev: descriptors.writev,
}

/** Functions whose callback Node checks after their other arguments. */
const callbackLast: ReadonlySet<string> = new Set([
  ...Object.keys(numbers).filter((name) => name.startsWith('f')),
  'read',
  'truncate',
])

type Counted = {
  readonly bytesRead?: number
  readonly bytesWritten?: number | undefined
  readonly buffer?: unknown
  readonly buffers?: unknown
}

/**
 * Reads and writes pass the count and the buffer to a callback. The synchronous forms return only the count.
 */
const spreads: Readonly<Record<string, Spread<unknown>>> = Object.fromEntries(
  ['read', 'readv', 'write', 'writev'].map((name) => [
    name,
    (result: unknown) => {
      const { bytesRead, bytesWritten, buffer, buffers } = result as Counted
      return [bytesRead ?? bytesWritten, buffer ?? buffers]
    },
  ]),
)

/** In Node, the result of a promisified writev has its buffers in the property `buffer`. */
function asNode({ bytesWritten, buffers }: Counted): Counted {
  return { bytesWritten, buffer: buffers }
}

/** The state that all properties of one `session.fs` share. */
interface Shared {
  readonly promise: Context
  readonly callback: Context
  readonly sync: Context
  /** Constructors of streams that call the functions of this `session.fs`. */
  readonly streams: () => Streams
  readonly watchedFiles: () => WatchedFiles
}

/**
 * Creates `session.fs`: a session's files in the shape of `node:fs`. Each function is created from the one
 * definition of its call, on first use.
 */
export function createSessionFs(access: SessionAccess): SessionFs {
  const base = { access, core: access.core, files: new OpenFiles() }
  const shared: Shared = {
    promise: { ...base, form: 'promise' },
    callback: { ...base, form: 'callback' },
    sync: { ...base, form: 'sync' },
    streams: once(() => makeStreams(fs as never, access.core.environment)),
    watchedFiles: once(() => new WatchedFiles(shared.promise)),
  }
  const fs = lazyObject(fsMakers, shared) as SessionFs
  // As in Node, this is the only property that cannot be replaced.
  Object.defineProperty(fs, 'constants', { value: constants, enumerable: true })
  return fs
}

function once<T>(make: () => T): () => T {
  let made: T | undefined
  return () => (made ??= make())
}

type MakerTable = Record<string, (shared: Shared) => unknown>

const promiseMakers: MakerTable = {}
const fsMakers: MakerTable = {}

for (const [name, define] of Object.entries({ ...paths, ...numbers })) {
  const spread = spreads[name]
  fsMakers[name] = ({ callback }) => {
    const call = callbackForm(callback, define, { spread, callbackLast: callbackLast.has(name) })
    if (spread === undefined) return call
    // Promisified, these resolve with an object of the count and the buffer, as in Node.
    const promised = promiseForm(callback, define) as (...given: unknown[]) => Promise<Counted>
    return withPromised(call, name === 'writev' ? (...given) => promised(...given).then(asNode) : promised)
  }
  fsMakers[`${name}Sync`] = ({ sync }) =>
    spread === undefined ? syncForm(sync, define) : counted(sync, name, define)
}
for (const [name, define] of Object.entries(paths))
  promiseMakers[name] = ({ promise }) => promiseForm(promise, define)

const cp = ({ promise, callback, sync }: Shared): ReturnType<typeof cpForms> =>
  cpForms((form) => ({ promise, callback, sync })[form])

Object.assign<MakerTable, MakerTable>(promiseMakers, {
  readFile: ({ promise }) => {
    const whole = promiseForm(promise, readFile)
    return (path: unknown, options: unknown) =>
      path instanceof FileHandle ? path.readFile(options) : whole(path, options)
  },
  writeFile: (shared) => orHandle(shared, { define: writeFile, name: 'writeFile', flag: 'w' }),
  appendFile: (shared) => orHandle(shared, { define: appendFile, name: 'appendFile', flag: 'a' }),
  mkdtempDisposable:
    ({ promise }) =>
    (prefix: unknown, options: unknown) =>
      mkdtempDisposable(promise, prefix, options),
  open: (shared) => (path: unknown, flags: unknown, mode: unknown) => openHandle(shared, path, flags, mode),
  realpath: ({ promise }) => promiseForm(promise, reads.realpathNative),
  watch:
    ({ promise }) =>
    (filename: unknown, options: unknown) =>
      watchEvents(promise, filename, options),
  glob: ({ promise }) =>
    async function* (pattern: unknown, options: unknown) {
      yield* await runLater(promise, glob(promise, pattern, options))
    },
  cp: (shared) => cp(shared).promise,
  constants: () => constants,
})

Object.assign<MakerTable, MakerTable>(fsMakers, {
  promises: (shared) => lazyObject(promiseMakers, shared),
  cp: (shared) => cp(shared).callback,
  cpSync: (shared) => cp(shared).sync,
  realpath: ({ callback }) =>
    Object.assign(callbackForm(callback, reads.realpath), {
      native: callbackForm(callback, reads.realpathNative),
    }),
  realpathSync: ({ sync }) =>
    Object.assign(syncForm(sync, reads.realpath), { native: syncForm(sync, reads.realpathNative) }),
  existsSync: ({ sync }) => syncForm(sync, reads.exists),
  exists: ({ callback }) => {
    const exists = (path: unknown): Promise<boolean> =>
      runLater(callback, reads.exists(callback, path)).catch(() => false)
    return withPromised((...parameters: unknown[]) => {
      const done = takeCallback(parameters) as (exists: boolean) => void
      deliver(exists(parameters[0]), (_error, found) => done(found === true))
    }, exists)
  },
  close: ({ callback }) => {
    const close = callbackForm(callback, descriptors.close)
    // As in Node, `close` is the one function whose callback is optional.
    return (fd: unknown, done: unknown = ignore) => close(fd, done)
  },
  watch:
    ({ callback }) =>
    (filename: unknown, options: unknown, listener: unknown) =>
      watch(callback, filename, options, listener),
  watchFile:
    ({ watchedFiles }) =>
    (filename: unknown, options: unknown, listener: unknown) =>
      watchedFiles().watch(filename, options, listener),
  unwatchFile:
    ({ watchedFiles }) =>
    (filename: unknown, listener: unknown) =>
      watchedFiles().unwatch(filename, listener),
  createReadStream: ({ streams }) => {
    const { ReadStream } = streams()
    return function createReadStream(path: unknown, options: unknown) {
      return new ReadStream(path, options)
    }
  },
  createWriteStream: ({ streams }) => {
    const { WriteStream } = streams()
    return function createWriteStream(path: unknown, options: unknown) {
      return new WriteStream(path, options)
    }
  },
  ReadStream: ({ streams }) => streams().ReadStream,
  WriteStream: ({ streams }) => streams().WriteStream,
  FileReadStream: ({ streams }) => streams().ReadStream,
  FileWriteStream: ({ streams }) => streams().WriteStream,
  mkdtempDisposableSync:
    ({ sync }) =>
    (prefix: unknown, options: unknown) =>
      mkdtempDisposableSync(sync, prefix, options),
  openAsBlob:
    ({ promise }) =>
    (path: unknown, options: unknown) =>
      openAsBlob(promise, path, options),
  openAsBlobSync:
    ({ sync }) =>
    (path: unknown, options: unknown) =>
      openAsBlobSync(sync, path, options),
  constants: () => constants,
  F_OK: () => constants.F_OK,
  R_OK: () => constants.R_OK,
  W_OK: () => constants.W_OK,
  X_OK: () => constants.X_OK,
  _toUnixTimestamp:
    ({ sync: { core } }) =>
    (time: unknown, name?: string) =>
      toTime(time, () => core.environment.wallClockMs(), name) / 1000,
  Stats: () => Stats,
  StatFs: () => StatFs,
  Dir: () => OpenDirectory,
  Dirent: () => Dirent,
})

/** `util.promisify.custom`, which is a registered symbol. */
const promisifyCustom = Symbol.for('nodejs.util.promisify.custom')

/** Sets the function that `util.promisify(call)` returns. */
function withPromised(call: FsFunction, promised: (...parameters: never[]) => unknown): FsFunction {
  return Object.defineProperty(call, promisifyCustom, { value: promised })
}

function counted(context: Context, name: string, define: AnyDefine): FsFunction {
  const call = syncForm(context, define)
  return (...parameters) => {
    // If there are three arguments, the third one is an object of options.
    if (name === 'read' && parameters.length === 3) checkReadOptions(parameters[2])
    const { bytesRead, bytesWritten } = call(...parameters) as Counted
    return bytesRead ?? bytesWritten
  }
}

function checkReadOptions(options: unknown): void {
  if (options === undefined || options === null) return
  if (typeof options !== 'object' || Array.isArray(options))
    throw typeError('options', 'of type object', options)
}

async function openHandle(
  { promise, streams }: Shared,
  path: unknown,
  flags: unknown,
  mode: unknown,
): Promise<FileHandle> {
  const file = await runLater(promise, openCall(promise, path, flags, mode))
  return new FileHandle(promise, file, streams)
}

/** Writes to a path or to an open file. Content in pieces is written piece by piece. */
function orHandle(
  shared: Shared,
  { define, name, flag }: { define: AnyDefine; name: 'writeFile' | 'appendFile'; flag: string },
): FsFunction {
  const whole = promiseForm(shared.promise, define)
  return (path, data, options) => {
    if (path instanceof FileHandle) return path[name](data, options)
    let chunks: Chunks | undefined
    try {
      chunks = toChunks(data)
    } catch (thrown) {
      return Promise.reject(thrown)
    }
    return chunks === undefined
      ? whole(path, data, options)
      : writeChunks(shared, path, chunks, options, flag)
  }
}

async function writeChunks(
  shared: Shared,
  path: unknown,
  data: Chunks,
  options: unknown,
  flag: string,
): Promise<void> {
  const given = toWriteOptions(shared.promise, options)
  // If the signal has already aborted, no file is opened, and so none is truncated.
  throwIfAborted(given.signal)
  const handle = await openHandle(shared, path, given.flag || flag, given.mode)
  try {
    await handle.writeFile(data, given)
  } finally {
    await handle.close()
  }
}

function ignore(): void {}
