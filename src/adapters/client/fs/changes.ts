import {
  ancestor,
  checkBoolean,
  codedError,
  constants,
  EngineError,
  givenPath,
  plainPath,
  resolvePath,
  rmOfDirectory,
  slashed,
  systemError,
  toMode,
  toModeBits,
  toRemoveOptions,
  toTime,
} from '../../../engine/client-contract.js'
import type { RemoteFiles } from '../files.js'
import {
  asCall,
  freeName,
  hasReason,
  locate,
  refuseFileName,
  removable,
  requireParent,
  unless,
} from './context.js'
import { encodeName, toOptions } from './encodings.js'

interface MkdirOptions {
  readonly recursive?: boolean
  readonly mode?: number | string
}

/** Calls that change names and attributes. */
export function changesOf(files: RemoteFiles) {
  const utimesBy =
    (syscall: 'utime' | 'lutime') =>
    async (path: unknown, atime: unknown, mtime: unknown): Promise<void> => {
      const given = givenPath(path)
      const now = (): number => Date.now()
      toTime(atime, now)
      const mtimeMs = toTime(mtime, now)
      await asCall({ syscall, path: given }, async () => {
        const followSymlinks = syscall === 'utime' || slashed(given)
        await files.setAttributes({ path: await locate(files, given), mtimeMs, followSymlinks })
      })
    }
  return {
    utimes: utimesBy('utime'),
    lutimes: utimesBy('lutime'),
    /** With `recursive`, it returns the first directory that it created, if any. */
    async mkdir(path: unknown, options?: unknown): Promise<string | undefined> {
      const { recursive: givenRecursive, mode: givenMode } = (
        typeof options === 'object' && options !== null ? options : { mode: options }
      ) as MkdirOptions
      const recursive = checkBoolean('options.recursive', givenRecursive ?? false)
      const given = givenPath(path)
      const mode = toMode(typeof givenMode === 'function' ? undefined : givenMode, 0o755)
      return asCall({ syscall: 'mkdir', path: given }, async () => {
        const at = recursive ? await locate(files, given) : plainPath(given)
        const missing = recursive ? await missingLevels(files, at) : 1
        if (missing > 0) await files.createDirectory({ path: at, mode, recursive })
        return recursive && missing > 0 ? ancestor(given, missing - 1) : undefined
      })
    },
    async rmdir(path: unknown, options?: unknown): Promise<void> {
      const given = givenPath(path)
      const { recursive } = toRemoveOptions(options)
      await asCall({ syscall: recursive ? 'stat' : 'rmdir', path: given }, async () => {
        const names = { syscall: 'rmdir', path: given }
        if (plainPath(given) === '/') throw systemError('EBUSY', names)
        const at = plainPath(given)
        if (/(?:^|\/)\.\/*$/.test(given)) throw systemError('EINVAL', names)
        try {
          await files.removeDirectory({ path: at, recursive })
        } catch (thrown) {
          const own = hasReason(thrown, 'NOT_A_DIRECTORY') && thrown.details['path'] === at
          throw own ? systemError('ENOTDIR', names, thrown) : thrown
        }
      })
    },
    async rm(path: unknown, options?: unknown): Promise<void> {
      const given = givenPath(path)
      const { recursive, force } = toRemoveOptions(options)
      await asCall({ syscall: 'lstat', path: given }, async () => {
        const at = await locate(files, given)
        try {
          // With a trailing slash, this is a directory, or a symlink to one.
          if (slashed(given)) {
            await files.stat({ path: at })
            if (!recursive) throw rmOfDirectory(given)
            await files.removeDirectory({ path: at, recursive })
            return
          }
          await files.delete({ path: at })
        } catch (thrown) {
          if (force && hasReason(thrown, 'PATH_NOT_FOUND')) return
          if (!hasReason(thrown, 'IS_A_DIRECTORY')) throw thrown
          if (!recursive) throw rmOfDirectory(given)
          await files.removeDirectory({ path: at, recursive })
        }
      })
    },
    async unlink(path: unknown): Promise<void> {
      const given = givenPath(path)
      await asCall({ syscall: 'unlink', path: given }, async () =>
        files.delete({ path: await removable(files, given) }),
      )
    },
    async rename(oldPath: unknown, newPath: unknown): Promise<void> {
      const path = givenPath(oldPath, 'oldPath')
      const dest = givenPath(newPath, 'newPath')
      await asCall({ syscall: 'rename', path, dest }, async () => {
        const sourcePath = plainPath(path)
        const destinationPath = plainPath(dest)
        if (slashed(path) || slashed(dest)) await refuseSlash(files, sourcePath, destinationPath)
        await files.rename({ sourcePath, destinationPath })
      })
    },
    async link(existingPath: unknown, newPath: unknown): Promise<void> {
      const path = givenPath(existingPath, 'existingPath')
      const dest = givenPath(newPath, 'newPath')
      await asCall({ syscall: 'link', path, dest }, async () => {
        const srcPath = await locate(files, path)
        const dstPath = await freeName(files, dest)
        // The server does not follow a symlink, so it would give this one a second name.
        if (
          slashed(path) &&
          (await files.stat({ path: srcPath, followSymlinks: false })).kind === 'symlink'
        ) {
          const taken = await files
            .stat({ path: dstPath, followSymlinks: false })
            .catch(unless('PATH_NOT_FOUND'))
          if (taken === undefined) {
            await requireParent(files, dstPath)
            throw systemError('EPERM', { syscall: 'link', path, dest })
          }
        }
        await files.link({ srcPath, dstPath })
      })
    },
    /** The target is stored unchanged. `type`, which matters only on Windows, is ignored. */
    async symlink(target: unknown, path: unknown, type?: unknown): Promise<void> {
      const text = givenPath(target, 'target')
      const given = givenPath(path)
      if (typeof type === 'string' && !['dir', 'file', 'junction'].includes(type)) {
        const message = `Symlink type must be one of "dir", "file", or "junction". Received "${type}"`
        throw codedError('ERR_FS_INVALID_SYMLINK_TYPE', message)
      }
      await asCall({ syscall: 'symlink', path: text, dest: given }, async () => {
        if (text === '') throw new EngineError('PATH_NOT_FOUND', 'the target is empty', { path: '' })
        await files.createSymlink({ linkPath: await freeName(files, given), target: text })
      })
    },
    async chmod(path: unknown, mode: unknown): Promise<void> {
      const given = givenPath(path)
      const bits = toMode(mode)
      await asCall({ syscall: 'chmod', path: given }, async () =>
        files.setMode({ path: await locate(files, given), mode: bits }),
      )
    },
    /** The copy shares the content of its source, so it stores only a new entry. */
    async copyFile(src: unknown, dest: unknown, mode?: unknown): Promise<void> {
      const path = givenPath(src, 'src')
      const target = givenPath(dest, 'dest')
      const exclusive = (toModeBits(mode) & constants.COPYFILE_EXCL) !== 0
      await asCall({ syscall: 'copyfile', path, dest: target }, async () => {
        const sourcePath = await locate(files, path)
        const destinationPath = plainPath(target)
        if (slashed(target)) {
          await files.stat({ path: sourcePath })
          await refuseFileName(files, destinationPath)
        }
        try {
          await files.copy({ sourcePath, destinationPath, exclusive })
        } catch (thrown) {
          if (hasReason(thrown, 'IS_A_DIRECTORY')) await checkDestination(files, destinationPath, exclusive)
          throw thrown
        }
      })
    },
    async mkdtemp(prefix: unknown, options?: unknown): Promise<string | Uint8Array> {
      const { encoding } = toOptions(options)
      const given = givenPath(prefix, 'prefix')
      return asCall({ syscall: 'mkdtemp', path: `${given}XXXXXX` }, async () => {
        for (;;) {
          const made = `${given}${randomLetters()}`
          const request = { path: plainPath(made), mode: 0o700 }
          const done = await files
            .createDirectory(request)
            .then(() => true)
            .catch(unless('ALREADY_EXISTS'))
          if (done === true) return encodeName(made, encoding)
        }
      })
    },
  }
}

/**
 * As on a disk, the source is opened before its kind is checked. So errors of the destination take
 * precedence.
 */
async function checkDestination(files: RemoteFiles, path: string, exclusive: boolean): Promise<void> {
  const request = { path, followSymlinks: !exclusive }
  const found = await files.stat(request).catch(unless('PATH_NOT_FOUND'))
  if (found === undefined) {
    const link = await files.readSymlink(path).catch(() => undefined)
    const parent = resolvePath(path, '..')
    await files.stat({ path: resolvePath(resolvePath(parent, link?.target ?? '.'), link ? '..' : '.') })
  } else if (exclusive) throw new EngineError('ALREADY_EXISTS', `${path} already exists`, { path })
}

/** Only a directory can be renamed from, or to, a path with a trailing slash. Missing paths fail before that. */
async function refuseSlash(files: RemoteFiles, from: string, to: string): Promise<void> {
  const source = await files.stat({ path: from, followSymlinks: false }).catch(unless('PATH_NOT_FOUND'))
  if (source === undefined || source.kind === 'directory') return
  const parent = await files.stat({ path: resolvePath(to, '..') }).catch(unless('PATH_NOT_FOUND'))
  if (parent?.kind === 'directory')
    throw new EngineError('NOT_A_DIRECTORY', `${from} is not a directory`, { path: from })
}

/**
 * Returns the number of directories that a recursive mkdir must create. It creates nothing through a dangling
 * symlink.
 */
async function missingLevels(files: RemoteFiles, path: string): Promise<number> {
  // The server rejects a relative path.
  if (!path.startsWith('/')) return 1
  const names = path.split('/').slice(1)
  for (let depth = names.length; depth > 0; depth--) {
    const part = `/${names.slice(0, depth).join('/')}`
    const entry = await files.stat({ path: part, followSymlinks: false }).catch(unless('PATH_NOT_FOUND'))
    if (entry === undefined) continue
    const own = depth === names.length
    const found =
      entry.kind === 'symlink'
        ? await files.stat({ path: part }).catch((thrown: unknown) => {
            if (own || !hasReason(thrown, 'PATH_NOT_FOUND')) throw thrown
            throw systemError('ENOTDIR', { syscall: 'mkdir', path: part }, thrown)
          })
        : entry
    if (found.kind === 'directory') return names.length - depth
    throw own
      ? new EngineError('ALREADY_EXISTS', `${path} already exists`, { path })
      : new EngineError('NOT_A_DIRECTORY', `${part} is not a directory`, { path: part })
  }
  return path === '/' ? 0 : names.length
}

const letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'

function randomLetters(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(6))
  return Array.from(bytes, (byte) => letters[byte % letters.length]).join('')
}
