import type { Disk, DiskFile } from '../../src/adapters/level/directory/disk.js'

export type DiskOperation =
  | 'list'
  | 'makeDirectory'
  | 'create'
  | 'open'
  | 'rename'
  | 'remove'
  | 'syncDirectory'
  | 'size'
  | 'read'
  | 'write'
  | 'truncate'
  | 'sync'

export interface DiskCall {
  readonly operation: DiskOperation
  readonly path: string
}

/** An action at a disk call. In the middle of a write, part of it has been written; other calls are atomic. */
export interface DiskEvent {
  readonly moment: 'before' | 'middle' | 'after'
  /** From 0 to 1: the share of a write that is written before the action. */
  readonly part: number
  /** Throws the error of the call, ends the process, or never returns. */
  act(): void | Promise<void>
}

/** A file that can lose unsynced data, as on disks whose sync fails. */
interface FailingFile extends DiskFile {
  failSync?(): void
}

/**
 * A disk that performs the actions that `choose` returns for its calls. Synchronous reads and closing are passed
 * through.
 */
export function hookedDisk(inner: Disk, choose: (call: DiskCall) => DiskEvent | undefined): Disk {
  const around = async <Result>(
    call: DiskCall,
    run: () => Promise<Result>,
    runPart: (part: number) => Promise<unknown> = () => Promise.resolve(),
  ): Promise<Result> => {
    const event = choose(call)
    if (event === undefined) return run()
    if (event.moment === 'before') await event.act()
    if (event.moment === 'middle') {
      await runPart(event.part)
      await event.act()
    }
    const result = await run()
    if (event.moment === 'after') await event.act()
    return result
  }
  const hookedFile = (file: FailingFile, path: string): DiskFile => ({
    size: () => around({ operation: 'size', path }, () => file.size()),
    read: (position, length) => around({ operation: 'read', path }, () => file.read(position, length)),
    readSync: (position, length) => file.readSync(position, length),
    write: (position, pieces) =>
      around(
        { operation: 'write', path },
        () => file.write(position, pieces),
        (part) => {
          const bytes = Buffer.concat(pieces)
          return file.write(position, [bytes.subarray(0, Math.floor(bytes.length * part))])
        },
      ),
    truncate: (size) => around({ operation: 'truncate', path }, () => file.truncate(size)),
    sync: (where) =>
      around(
        { operation: 'sync', path },
        () => file.sync(where),
        () => Promise.resolve(file.failSync?.()),
      ),
    close: () => file.close(),
  })
  return {
    list: (path) => around({ operation: 'list', path }, () => inner.list(path)),
    makeDirectory: (path) => around({ operation: 'makeDirectory', path }, () => inner.makeDirectory(path)),
    open: async (path, mode) => {
      let opened: FailingFile | undefined
      const operation = mode === 'create' ? 'create' : 'open'
      try {
        const file = await around({ operation, path }, async () => (opened = await inner.open(path, mode)))
        return hookedFile(file, path)
      } catch (error) {
        // The caller never receives a file whose opening then failed.
        await opened?.close()
        throw error
      }
    },
    rename: (from, to) => around({ operation: 'rename', path: to }, () => inner.rename(from, to)),
    remove: (path) => around({ operation: 'remove', path }, () => inner.remove(path)),
    syncDirectory: (path) => around({ operation: 'syncDirectory', path }, () => inner.syncDirectory(path)),
  }
}

/** The error that node:fs would throw. */
export function systemFailure(code: 'EIO' | 'ENOSPC' | 'ENOENT' | 'EEXIST' | 'EBADF', call: string): Error {
  return Object.assign(new Error(`${code}: ${call}`), { code, syscall: call })
}

/** The operations that change the disk. */
export const diskChanges: readonly DiskOperation[] = [
  'create',
  'write',
  'sync',
  'truncate',
  'rename',
  'remove',
  'syncDirectory',
]
