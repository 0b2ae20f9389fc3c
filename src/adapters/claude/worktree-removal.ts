import { Buffer, isUtf8 } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import { lstat, readdir, readFile, readlink, realpath, rename, rmdir, unlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Checkout, Session } from '../../engine/index.js'
import { EngineError } from '../../engine/ports.js'
import { limits } from './limits.js'

/** The state of each path, which changes with each write. Parents are first. */
type Listing = ReadonlyMap<string, string>

/** The fork of a checkout, and the paths of the checkout that are never part of it. */
interface Keeps {
  readonly fork: Session
  readonly apart: readonly string[]
}

/** The commit of a new repository. Undefined without one. */
export async function headOf(directory: string): Promise<string | undefined> {
  return (await ifThere(readFile(join(directory, '.git', 'HEAD'), 'utf8')))?.trim()
}

/**
 * Removes the directory of a checkout, with all changes in the session. `head` is the commit of its repository at the
 * beginning. `keeps` is set to keep a directory with files that the session does not have. A directory that is missing already counts as removed.
 *
 * 1. A sync finds no change, and starts after the paths were listed. Everything listed is then in the session, or the
 *    options of the checkout leave it out.
 * 2. The directory gets another name. Programs that use its path fail from then on.
 * 3. The paths are listed again. A difference is a late write: the directory gets its name back.
 * 4. The listed paths are removed one by one. A file that a program makes meanwhile stays, with its directory.
 *
 * @throws {EngineError} CHECKOUT_MODIFIED when changes would be lost
 */
export async function removeCheckout(
  checkout: Checkout,
  { head, keeps }: { readonly head: string | undefined; readonly keeps: Keeps | undefined },
): Promise<void> {
  const { directory } = checkout
  const found = await ifThere(realpath(directory))
  if (found === undefined) return
  if (found !== directory) throw remains(directory, 'is a symlink now, or below one: remove it yourself')
  await requireNoCommits(directory, head)
  const entries = await synced(checkout)
  if (keeps !== undefined) await requireNoOthers(directory, entries, keeps)
  const aside = join(dirname(directory), `.${basename(directory)}.${randomUUID()}`)
  await hostCall(rename(directory, aside))
  try {
    requireEqual(directory, entries, await listed(aside))
  } catch (error) {
    await hostCall(rename(aside, directory))
    throw error
  }
  await removeListed(aside, [...entries.keys()])
}

/** Syncs until nothing changes, and returns the listing of before the last sync. */
async function synced(checkout: Checkout): Promise<Listing> {
  for (let round = 0; round < limits.removalSyncs; round++) {
    const entries = await listed(checkout.directory)
    // The sync must not read a file in the clock tick of its listing: a write after the sync then has another time.
    await sleep(limits.clockTickMs)
    const { added, modified, removed } = await checkout.sync()
    if (added.length + modified.length + removed.length === 0) return entries
  }
  throw remains(checkout.directory, 'still changes: end the programs that write there, then remove it again')
}

/** @throws {EngineError} CHECKOUT_MODIFIED when a sync would skip an entry, because its name or target is not UTF-8 */
async function listed(root: string): Promise<Listing> {
  const entries = new Map<string, string>()
  const visit = async (path: string): Promise<void> => {
    for (const name of await hostCall(readdir(join(root, path), { encoding: 'buffer' }))) {
      const child = join(path, name.toString())
      if (!isUtf8(name)) throw remains(join(root, child), 'has a name that is not UTF-8: rename or delete it')
      const stat = await ifThere(lstat(join(root, child), { bigint: true }))
      if (stat === undefined) continue
      if (stat.isSymbolicLink() && !isUtf8(await linkOf(join(root, child))))
        throw remains(join(root, child), 'has a target that is not UTF-8: delete it')
      const { ino, mode, size, mtimeNs, ctimeNs } = stat
      entries.set(
        child,
        stat.isDirectory() ? `directory ${ino}` : [ino, mode, size, mtimeNs, ctimeNs].join(' '),
      )
      if (stat.isDirectory()) await visit(child)
    }
  }
  await visit('')
  return entries
}

async function linkOf(path: string): Promise<Buffer> {
  return (await ifThere(readlink(path, { encoding: 'buffer' }))) ?? Buffer.alloc(0)
}

/** @throws {EngineError} CHECKOUT_MODIFIED when there is a file that the options of the checkout leave out */
async function requireNoOthers(directory: string, entries: Listing, { fork, apart }: Keeps): Promise<void> {
  for (const [name, state] of entries) {
    const path = `/${name}`
    if (state.startsWith('directory') || apart.some((one) => path === one || path.startsWith(`${one}/`)))
      continue
    try {
      await fork.files.stat({ path, followSymlinks: false })
    } catch (error) {
      const isAbsent =
        error instanceof EngineError && ['PATH_NOT_FOUND', 'NOT_A_DIRECTORY'].includes(error.reason)
      if (!isAbsent) throw error
      throw remains(
        join(directory, name),
        'is not in the fork, because the options of the checkout leave it out: move or delete it, or pass deleteIgnored: true',
      )
    }
  }
}

function requireEqual(directory: string, before: Listing, after: Listing): void {
  for (const path of new Set([...before.keys(), ...after.keys()]))
    if (before.get(path) !== after.get(path))
      throw remains(join(directory, path), 'changed during the removal: remove the worktree again')
}

async function removeListed(root: string, paths: readonly string[]): Promise<void> {
  for (const path of [...paths.toReversed(), '']) {
    const whole = join(root, path)
    const stat = await ifThere(lstat(whole))
    if (stat === undefined) continue
    try {
      await (stat.isDirectory() ? rmdir(whole) : unlink(whole))
    } catch (error) {
      if (codeOf(error) === 'ENOTEMPTY' || codeOf(error) === 'EEXIST')
        throw remains(whole, 'has files that a program made during the removal: they stay there')
      throw hostFailed(error)
    }
  }
}

/** Commits exist only in the repository of the directory, so it stays until the program has pushed and deleted it. */
async function requireNoCommits(directory: string, head: string | undefined): Promise<void> {
  const git = join(directory, '.git')
  if (head === undefined || (await ifThere(lstat(git))) === undefined) return
  const refs = (await ifThere(readdir(join(git, 'refs'), { recursive: true, withFileTypes: true }))) ?? []
  const packed = await ifThere(lstat(join(git, 'packed-refs')))
  if ((await headOf(directory)) === head && packed === undefined && !refs.some((ref) => !ref.isDirectory()))
    return
  throw remains(
    git,
    'has commits or branches that the fork does not have: push them, delete .git, then remove it',
  )
}

function remains(path: string, why: string): EngineError {
  return new EngineError('CHECKOUT_MODIFIED', `${path} ${why}`, { path })
}

/** Undefined when the path does not exist. */
async function ifThere<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return undefined
    throw hostFailed(error)
  }
}

async function hostCall<T>(call: Promise<T>): Promise<T> {
  try {
    return await call
  } catch (error) {
    throw hostFailed(error)
  }
}

function hostFailed(cause: unknown): EngineError {
  const text = cause instanceof Error ? cause.message : String(cause)
  return new EngineError(
    'HOST_FAILED',
    `the file system of the host failed: ${text}`,
    {
      errno: codeOf(cause),
    },
    { cause },
  )
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}
