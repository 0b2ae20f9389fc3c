import { constants, promises as fs } from 'node:fs'
import { EngineError } from '../../engine/ports.js'
import type { DirectoryHandle } from './directory-handle.js'
import { hostFailed, unless } from './host-errors.js'
import { hostLimits } from './limits.js'
import { groups, listNames, statAll } from './list-names.js'
import { openFile } from './read-file.js'

/** Fails if the file exists. Shares blocks with the original where the file system can. */
const copyFlags = constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE

/** Copies everything in an open directory into another one, which is empty. Never follows a symlink. */
export async function copyDirectory(
  from: DirectoryHandle,
  to: DirectoryHandle,
  signal: AbortSignal,
): Promise<void> {
  await new DirectoryCopy(signal).run(from, to, 1)
}

class DirectoryCopy {
  readonly #signal: AbortSignal
  #entries = 0

  constructor(signal: AbortSignal) {
    this.#signal = signal
  }

  async run(from: DirectoryHandle, to: DirectoryHandle, depth: number): Promise<void> {
    if (depth > hostLimits.depth) throw tooLarge('levels of directories', hostLimits.depth)
    const { names, more } = await listNames(from, hostLimits.entries)
    this.#entries += names.length
    if (more || this.#entries > hostLimits.entries) throw tooLarge('names', hostLimits.entries)
    for (const group of groups(names, hostLimits.readsAtOnce)) {
      this.#signal.throwIfAborted()
      const directories: string[] = []
      const copies: Promise<void>[] = []
      for (const [name, stat] of await statAll(from, group)) {
        if (stat.isDirectory()) directories.push(name)
        else if (stat.isFile()) copies.push(copyFile(from, to, name))
        else if (stat.isSymbolicLink()) copies.push(copySymlink(from, to, name))
      }
      const failed = (await Promise.allSettled(copies)).find(({ status }) => status === 'rejected')
      if (failed?.status === 'rejected') throw failed.reason
      for (const name of directories) await this.#enter(from, to, name, depth)
    }
    const { mode } = await from.handle.stat()
    await to.handle.chmod(mode & 0o777)
  }

  async #enter(from: DirectoryHandle, to: DirectoryHandle, name: string, depth: number): Promise<void> {
    const source = await from.enter(name)
    if (source === undefined) return
    try {
      await to.at(name, (at) => fs.mkdir(at, 0o700))
      const target = await to.enter(name)
      if (target === undefined) throw hostFailed('ESTALE', name)
      try {
        await this.run(source, target, depth + 1)
      } finally {
        await target.close()
      }
    } finally {
      await source.close()
    }
  }
}

async function copyFile(from: DirectoryHandle, to: DirectoryHandle, name: string): Promise<void> {
  const file = await openFile(from, name)
  if (file === undefined) return
  try {
    const { fd } = file.handle
    // Through the open file, a symlink that replaced it has no effect.
    const copy = (source: string): Promise<void> => to.at(name, (at) => fs.copyFile(source, at, copyFlags))
    await (from.viaDescriptor ? copy(`/proc/self/fd/${fd}`) : from.at(name, copy))
  } finally {
    await file.handle.close()
  }
}

async function copySymlink(from: DirectoryHandle, to: DirectoryHandle, name: string): Promise<void> {
  const target = await from.at(name, (at) =>
    unless(['ENOENT', 'EINVAL'], () => fs.readlink(at, { encoding: 'buffer' })),
  )
  if (target !== undefined) await to.at(name, (at) => fs.symlink(target, at))
}

/** Removes a name of a directory, with everything below it. Never follows a symlink. */
export async function removeTree(directory: DirectoryHandle, name: string): Promise<void> {
  const child = await directory.enter(name)
  if (child === undefined) {
    await directory.at(name, (at) => unless(['ENOENT'], () => fs.unlink(at)))
    return
  }
  try {
    await child.handle.chmod(0o700)
    const { names } = await listNames(child, hostLimits.entries)
    for (const below of names) await removeTree(child, below)
  } finally {
    await child.close()
  }
  await directory.at(name, (at) => unless(['ENOENT'], () => fs.rmdir(at)))
}

function tooLarge(unit: string, limit: number): EngineError {
  return new EngineError('LIMIT_EXCEEDED', `a shared directory has over ${limit} ${unit}`, {
    limit: String(limit),
  })
}
