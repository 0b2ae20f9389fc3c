import type { SessionAccess } from '../session/access.js'
import type { Context, Define, Form } from './calls.js'
import * as changes from './change-calls.js'
import { isChunks } from './chunks.js'
import { constants } from './constants.js'
import { copyFile } from './copy-file.js'
import { cpForms } from './cp.js'
import * as descriptors from './descriptor-calls.js'
import {
  callbackForm,
  promiseForm,
  runLater,
  syncForm,
  takeCallback,
  type FsFunction,
  type Spread,
} from './drivers.js'
import { appendFile, readFile, writeFile } from './file-calls.js'
import { FileHandle } from './file-handle.js'
import { glob } from './glob.js'
import { open, openCall } from './open-calls.js'
import { OpenFiles } from './open-files.js'
import { opendir } from './opendir.js'
import * as reads from './read-calls.js'
import { Dirent, Stats } from './stats.js'
import { ReadStream, WriteStream } from './streams.js'
import type { SessionFs } from './types.js'
import { watch } from './watch.js'
import { watchEvents } from './watch-iterator.js'

type AnyDefine = Define<unknown>

/** What all three forms have under the same name. */
const paths: Readonly<Record<string, AnyDefine>> = {
  access: reads.access,
  appendFile,
  chmod: changes.chmod,
  chown: changes.chown,
  copyFile,
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
  symlink: changes.symlink,
  truncate: changes.truncate,
  unlink: changes.unlink,
  utimes: changes.utimes,
  writeFile,
}

/** What takes numbers of open files: the promise form has methods of FileHandle for it. */
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

type Counted = {
  readonly bytesRead?: number
  readonly bytesWritten?: number
  readonly buffer?: unknown
  readonly buffers?: unknown
}

/** Reads and writes give their callback the count and the buffer, and return the count alone. */
const spreads: Readonly<Record<string, Spread<unknown>>> = Object.fromEntries(
  ['read', 'readv', 'write', 'writev'].map((name) => [
    name,
    (result: unknown) => {
      const { bytesRead, bytesWritten, buffer, buffers } = result as Counted
      return [bytesRead ?? bytesWritten, buffer ?? buffers]
    },
  ]),
)

/** Makes the three forms of everything from its one definition. */
export function createSessionFs(access: SessionAccess): SessionFs {
  const shared = { access, core: access.core, files: new OpenFiles() }
  const contexts: Record<Form, Context> = {
    promise: { ...shared, form: 'promise' },
    callback: { ...shared, form: 'callback' },
    sync: { ...shared, form: 'sync' },
  }
  const fs: Record<string, unknown> = {}
  const promises: Record<string, unknown> = {}
  for (const [name, define] of Object.entries(paths)) promises[name] = promiseForm(contexts.promise, define)
  for (const [name, define] of [...Object.entries(paths), ...Object.entries(numbers)]) {
    const spread = spreads[name]
    fs[name] = callbackForm(contexts.callback, define, spread)
    fs[`${name}Sync`] =
      spread === undefined ? syncForm(contexts.sync, define) : counted(contexts.sync, define)
  }
  addPromises(promises, contexts.promise)
  addOthers(fs, contexts)
  const cp = cpForms((form) => contexts[form])
  return Object.assign(fs, {
    cp: cp.callback,
    cpSync: cp.sync,
    constants,
    ...{ F_OK: constants.F_OK, R_OK: constants.R_OK, W_OK: constants.W_OK, X_OK: constants.X_OK },
    Stats,
    Dirent,
    promises: Object.assign(promises, { cp: cp.promise, constants }),
  }) as unknown as SessionFs
}

function counted(context: Context, define: AnyDefine): FsFunction {
  const call = syncForm(context, define)
  return (...parameters) => {
    const { bytesRead, bytesWritten } = call(...parameters) as Counted
    return bytesRead ?? bytesWritten
  }
}

function addPromises(promises: Record<string, unknown>, context: Context): void {
  const { readFile: read, writeFile: write, appendFile: append } = promises as Record<string, FsFunction>
  const openHandle = async (path: unknown, flags: unknown, mode: unknown): Promise<FileHandle> =>
    new FileHandle(context, await runLater(context, openCall(context, path, flags, mode)))
  const writeAll = async (path: unknown, data: unknown, options: unknown, flag: string): Promise<void> => {
    const given = {
      flag,
      ...(typeof options === 'string' ? { encoding: options } : (options as { flag?: string })),
    }
    const handle = await openHandle(path, given.flag, (given as { mode?: unknown }).mode)
    try {
      await handle.writeFile(data, options)
    } finally {
      await handle.close()
    }
  }
  const orHandle =
    (whole: FsFunction, name: 'writeFile' | 'appendFile', flag: string): FsFunction =>
    (path, data, options) => {
      if (path instanceof FileHandle) return path[name](data, options)
      return isChunks(data) ? writeAll(path, data, options, flag) : whole(path, data, options)
    }
  promises['readFile'] = (path: unknown, options: unknown) =>
    path instanceof FileHandle ? path.readFile(options) : read!(path, options)
  promises['writeFile'] = orHandle(write!, 'writeFile', 'w')
  promises['appendFile'] = orHandle(append!, 'appendFile', 'a')
  promises['open'] = openHandle
  promises['realpath'] = promiseForm(context, reads.realpathNative)
  promises['watch'] = (filename: unknown, options: unknown) => watchEvents(context, filename, options)
  promises['glob'] = async function* (pattern: unknown, options: unknown) {
    yield* await runLater(context, glob(context, pattern, options))
  }
}

function addOthers(fs: Record<string, unknown>, contexts: Record<Form, Context>): void {
  const { callback, sync } = contexts
  const realpath = fs as { realpath: FsFunction; realpathSync: FsFunction }
  Object.assign(realpath.realpath, { native: callbackForm(callback, reads.realpathNative) })
  Object.assign(realpath.realpathSync, { native: syncForm(sync, reads.realpathNative) })
  fs['existsSync'] = syncForm(sync, reads.exists)
  fs['exists'] = (...parameters: unknown[]) => {
    const done = takeCallback(parameters) as (exists: boolean) => void
    runLater(callback, reads.exists(callback, parameters[0])).then(
      (exists) => queueMicrotask(() => done(exists)),
      () => queueMicrotask(() => done(false)),
    )
  }
  // Without a callback, as Node has it for this one.
  const close = fs['close'] as FsFunction
  fs['close'] = (fd: unknown, done: unknown = ignore) => close(fd, done)
  fs['watch'] = (filename: unknown, options: unknown, listener: unknown) =>
    watch(callback, filename, options, listener)
  fs['createReadStream'] = (path: unknown, options: unknown) => new ReadStream(callback, path, options)
  fs['createWriteStream'] = (path: unknown, options: unknown) => new WriteStream(callback, path, options)
}

function ignore(): void {}
