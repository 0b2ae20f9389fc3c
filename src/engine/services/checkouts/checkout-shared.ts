import { EngineError } from '../../base/errors.js'
import { splitPath } from '../../base/path.js'
import { Dir } from '../../tree/node.js'
import type { Host, HostTree } from '../sources/host-ports.js'
import { modified, type FrozenTree } from './checkout-disk.js'
import type { SharedDirectory } from './checkout-requests.js'

/** A shared directory whose original is open. */
export interface OpenShared {
  readonly path: string
  readonly copy: boolean
  readonly original: HostTree
}

/**
 * Opens the originals.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an original contains the checkout, or is inside it
 */
export async function openShared(
  host: Host,
  tree: HostTree,
  shared: readonly SharedDirectory[],
): Promise<OpenShared[]> {
  const opened: OpenShared[] = []
  try {
    for (const [index, { path, from, copy = false }] of shared.entries()) {
      const original = await host.open(from, { create: false })
      opened.push({ path, copy, original })
      const [one, other] = [`${original.directory}/`, `${tree.directory}/`]
      if (!one.startsWith(other) && !other.startsWith(one)) continue
      const field = `sharedDirectories[${index}].from`
      const message = `${field}: the directory and the checkout must not contain each other`
      throw new EngineError('INVALID_ARGUMENT', message, { field })
    }
    return opened
  } catch (error) {
    await closeShared(opened)
    throw error
  }
}

export async function closeShared(opened: readonly OpenShared[]): Promise<void> {
  await Promise.allSettled(opened.map(({ original }) => original.close()))
}

/**
 * Checks that the session has nothing in the places of the shared directories.
 *
 * @throws {EngineError} ALREADY_EXISTS when it does
 */
export async function checkShared(shared: readonly OpenShared[], to: FrozenTree): Promise<void> {
  for (const { path } of shared) {
    const names = splitPath(path)
    for (let depth = 1; depth <= names.length; depth++) {
      const above = `/${names.slice(0, depth).join('/')}`
      const node = await to.find(above)
      if (node === undefined) break
      if (node instanceof Dir && depth < names.length) continue
      const message = `the session has ${above} itself; remove it, or leave ${path} out of sharedDirectories`
      throw new EngineError('ALREADY_EXISTS', message, { path: above })
    }
  }
}

/** Creates the links and copies that are missing. A directory that is already in the place of one stays. */
export async function placeShared(
  shared: readonly OpenShared[],
  tree: HostTree,
  signal: AbortSignal,
): Promise<void> {
  for (const { path, copy, original } of shared) {
    signal.throwIfAborted()
    const stat = await tree.stat(path)
    if (stat?.kind === 'directory') continue
    if (stat !== undefined && stat.kind !== 'symlink')
      throw modified(path, 'is in the place of a shared directory; remove it')
    if (!copy && stat !== undefined && (await tree.readLink(path)) === original.directory) continue
    const names = splitPath(path)
    for (let depth = 1; depth < names.length; depth++) {
      const above = `/${names.slice(0, depth).join('/')}`
      if ((await tree.stat(above)) !== undefined) continue
      await tree.makeDirectory(above)
      await tree.setAttributes(above, { mode: 0o755 })
    }
    if (!copy) {
      await tree.writeSymlink(path, original.directory, { mtimeMs: (await original.stat('/'))?.mtimeMs ?? 0 })
      continue
    }
    await tree.removeTemporary(`/${names.slice(0, -1).join('/')}`)
    if (stat !== undefined) await tree.remove(path)
    await tree.copyDirectory(original, path, signal)
  }
}
