import {
  abortError,
  checkBoolean,
  givenPath,
  onAbort,
  plainPath,
  slashed,
  systemError,
  throwIfAborted,
  toFlags,
  toLength,
  toMode,
  valueError,
  EngineError,
  type Flags,
} from '../../../engine/client-contract.js'
import type { RemoteFiles } from '../files.js'
import { asCall, hasReason, locate, refuseFileName } from './context.js'
import { decodeBytes, toData, toOptions, type Options } from './encodings.js'

interface ReadOptions extends Options {
  readonly flag?: string | number
}

interface WriteOptions extends ReadOptions {
  readonly mode?: number | string
  readonly flush?: boolean
}

interface Write {
  readonly path: string
  readonly content: Uint8Array
  readonly flags: Flags
  /** The mode of a new file. */
  readonly mode: number | undefined
}

/** Calls that read and write whole files. */
export function contentsOf(files: RemoteFiles) {
  const writeBy =
    (defaultFlag: 'w' | 'a') =>
    async (path: unknown, data: unknown, options?: unknown): Promise<void> => {
      const {
        encoding,
        signal,
        flush,
        flag,
        mode: givenMode,
      } = toOptions<WriteOptions>(options, ['flag', 'flush', 'mode'])
      if (flush !== undefined && flush !== null) checkBoolean('options.flush', flush)
      const content = toData(data, encoding)
      const given = givenPath(path)
      const flags = toFlags(flag || defaultFlag)
      const mode = givenMode === undefined ? undefined : toMode(givenMode, 0o644)
      throwIfAborted(signal)
      await asCall({ syscall: 'open', path: given }, async () => {
        const at = await (replaces(flags) ? wholeAt(files, given) : openedAt(files, given, flags))
        if (!flags.write) throw systemError('EBADF', { syscall: 'write' })
        await endedBy(signal, write(files, { path: at, content, flags, mode }))
      })
    }
  return {
    writeFile: writeBy('w'),
    appendFile: writeBy('a'),
    async readFile(path: unknown, options?: unknown): Promise<string | Uint8Array> {
      const { encoding, flag, signal } = toOptions<ReadOptions>(options, ['flag'])
      const given = givenPath(path)
      const flags = toFlags(flag)
      throwIfAborted(signal)
      return asCall({ syscall: 'open', path: given }, async () => {
        const plain = flag === undefined || flag === 'r'
        const at = await (plain ? locate(files, given) : openedAt(files, given, flags))
        if (flags.create || flags.truncate)
          await write(files, { path: at, content: new Uint8Array(), flags, mode: 0o644 })
        if (!flags.read) throw systemError('EBADF', { syscall: 'read' })
        try {
          return decodeBytes(await endedBy(signal, files.read({ path: at })), encoding)
        } catch (thrown) {
          // Node can open a directory, but reading it fails, with an error that has no path.
          throw hasReason(thrown, 'IS_A_DIRECTORY') ? systemError('EISDIR', { syscall: 'read' }) : thrown
        }
      })
    },
    async truncate(path: unknown, length?: unknown): Promise<void> {
      const given = givenPath(path)
      const logicalSize = toLength(length)
      await asCall({ syscall: 'open', path: given }, async () => {
        const at = await locate(files, given)
        await mustBeFile(files, at)
        try {
          await files.patchSegments({ mutations: [{ path: at, segments: [], logicalSize }] })
        } catch (thrown) {
          if (!hasReason(thrown, 'FILE_TOO_LARGE')) throw thrown
          throw systemError('EFBIG', { syscall: 'ftruncate' }, thrown)
        }
      })
    },
  }
}

async function write(files: RemoteFiles, { path, content, flags, mode }: Write): Promise<void> {
  const request = { path, content, createParents: false }
  if (flags.exclusive) {
    await files.write({ ...request, exclusive: true, ...(mode !== undefined && { mode }) })
  } else if (replaces(flags)) {
    if (mode !== undefined && (await create(files, { ...request, mode }))) return
    await (flags.truncate ? files.write(request) : files.append(request))
  } else if (flags.create) throw valueError('flag', 'is not supported by a server', '')
  else if (flags.truncate) await files.write(request)
  else if (flags.append) await files.append(request)
  else if (content.byteLength > 0)
    await files.patchSegments({ mutations: [{ path, segments: [{ data: { offset: 0, content } }] }] })
}

/** Whether the flags create a missing file, and write an existing one without checking it first. */
function replaces({ write, create, truncate, append, directory, noFollow }: Flags): boolean {
  return write && create && (truncate || append) && !directory && !noFollow
}

/** Returns the path for writing a whole file. The write itself reports most errors. */
async function wholeAt(files: RemoteFiles, given: string): Promise<string> {
  const path = plainPath(given)
  if (slashed(given)) await refuseFileName(files, path)
  return path
}

/** Returns the path for opening a file with these flags. Throws the errors of open(2). */
async function openedAt(files: RemoteFiles, given: string, flags: Flags): Promise<string> {
  const path = plainPath(given)
  if (flags.create) {
    if (slashed(given)) await refuseFileName(files, path)
    return path
  }
  const { kind } = await files.stat({ path, followSymlinks: !flags.noFollow || slashed(given) })
  if (kind === 'symlink' && !flags.directory)
    throw new EngineError('SYMLINK_LOOP', `${path} is a symlink`, { path })
  if (kind === 'directory' && (flags.write || flags.truncate))
    throw new EngineError('IS_A_DIRECTORY', `${path} is a directory`, { path })
  if (kind !== 'directory' && (flags.directory || slashed(given)))
    throw new EngineError('NOT_A_DIRECTORY', `${path} is not a directory`, { path })
  return path
}

/**
 * Creates a file with a mode. Returns false if the file exists, because open(2) sets the mode of new files
 * only. A symlink to a missing file is followed, as by open(2) without O_EXCL.
 */
async function create(
  files: RemoteFiles,
  request: { path: string; content: Uint8Array; mode: number; createParents: boolean },
): Promise<boolean> {
  try {
    await files.write({ ...request, expectedHash: '' })
    return true
  } catch (thrown) {
    if (hasReason(thrown, 'HASH_MISMATCH')) return false
    throw thrown
  }
}

async function mustBeFile(files: RemoteFiles, path: string): Promise<void> {
  const { kind } = await files.stat({ path })
  if (kind !== 'file') throw new EngineError('IS_A_DIRECTORY', `${path} is a directory`, { path })
}

/** Rejects when the signal aborts. The work may still complete. */
async function endedBy<T>(signal: AbortSignal | undefined, work: Promise<T>): Promise<T> {
  if (signal === undefined) return work
  let release: (() => void) | undefined
  const ended = new Promise<never>((_, reject) => {
    release = onAbort(signal, () => reject(abortError(signal)))
  })
  try {
    return await Promise.race([work, ended])
  } finally {
    release?.()
  }
}
