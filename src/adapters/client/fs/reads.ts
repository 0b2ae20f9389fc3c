import type { DirectoryEntry } from '../../../engine/index.js'
import {
  constants,
  Dirent,
  givenPath,
  newStats,
  slashed,
  systemError,
  toModeBits,
  toOwner,
  type BigIntStats,
  type Stats,
} from '../../../engine/client-contract.js'
import type { RemoteFiles } from '../files.js'
import { clientLimits } from '../limits.js'
import { pages } from '../pages.js'
import { asCall, locate } from './context.js'
import { encodeName, toOptions, type Encoding } from './encodings.js'

interface ReaddirOptions {
  readonly encoding?: Encoding
  readonly recursive?: boolean
  readonly withFileTypes?: boolean
}

/** Calls that change nothing. */
export function readsOf(files: RemoteFiles) {
  const statBy =
    (syscall: 'stat' | 'lstat') =>
    async (path: unknown, options?: unknown): Promise<Stats | BigIntStats> => {
      const given = givenPath(path)
      const { bigint } = (options ?? {}) as { readonly bigint?: boolean }
      return asCall({ syscall, path: given }, async () => {
        const followSymlinks = syscall === 'stat' || slashed(given)
        return newStats(await files.stat({ path: await locate(files, given), followSymlinks }), bigint)
      })
    }
  const chownBy =
    (syscall: 'chown' | 'lchown') =>
    async (path: unknown, uid: unknown, gid: unknown): Promise<void> => {
      const given = givenPath(path)
      toOwner('uid', uid)
      toOwner('gid', gid)
      await asCall({ syscall, path: given }, async () => {
        const followSymlinks = syscall === 'chown' || slashed(given)
        await files.stat({ path: await locate(files, given), followSymlinks })
      })
    }
  return {
    stat: statBy('stat'),
    lstat: statBy('lstat'),
    /** Owners are not stored. The call checks its arguments and changes nothing. */
    chown: chownBy('chown'),
    lchown: chownBy('lchown'),
    async access(path: unknown, mode?: unknown): Promise<void> {
      const given = givenPath(path)
      const executable = (toModeBits(mode) & constants.X_OK) !== 0
      await asCall({ syscall: 'access', path: given }, async () => {
        const found = await files.stat({ path: await locate(files, given) })
        if (executable && found.kind === 'file' && (found.mode & 0o111) === 0)
          throw systemError('EACCES', { syscall: 'access', path: given })
      })
    },
    async readlink(path: unknown, options?: unknown): Promise<string | Uint8Array> {
      const { encoding } = toOptions(options)
      const given = givenPath(path, 'oldPath')
      return asCall({ syscall: 'readlink', path: given }, async () => {
        const name = await locate(files, given)
        const path = slashed(given) ? (await files.stat({ path: name })).path : name
        const { target } = await files.readSymlink(path)
        return encodeName(target, encoding)
      })
    },
    async realpath(path: unknown, options?: unknown): Promise<string | Uint8Array> {
      const { encoding } = toOptions(options)
      const given = givenPath(path)
      return asCall({ syscall: 'realpath', path: given }, async () => {
        const found = await files.stat({ path: await locate(files, given) })
        return encodeName(found.path, encoding)
      })
    },
    async readdir(path: unknown, options?: unknown): Promise<(string | Uint8Array | Dirent)[]> {
      const {
        encoding,
        recursive = false,
        withFileTypes = false,
      } = toOptions<ReaddirOptions>(options, ['recursive', 'withFileTypes'])
      const given = givenPath(path)
      return asCall({ syscall: 'scandir', path: given }, async () => {
        const at = await locate(files, given)
        const listed: DirectoryEntry[] = []
        const list = pages(async (page) => {
          const request = {
            ...page,
            path: at,
            pageSize: clientLimits.pageSize,
            recursive: Boolean(recursive),
          }
          const { entries, nextPageToken } = await files.list(request)
          return [entries, nextPageToken]
        })
        for await (const entry of list) listed.push(entry)
        return (recursive ? breadthFirst(listed) : listed).map(({ name, kind }) => {
          if (!withFileTypes) return encodeName(name, encoding)
          const cut = name.lastIndexOf('/')
          const own = encodeName(name.slice(cut + 1), encoding) as string | Buffer
          return new Dirent(own, cut < 0 ? given : joinTo(given, name.slice(0, cut)), kind)
        })
      })
    },
  }
}

/** Sorts breadth-first, as Node does: the entries of a directory come before those of its subdirectories. */
function breadthFirst(entries: readonly DirectoryEntry[]): DirectoryEntry[] {
  const below = new Map<string, DirectoryEntry[]>()
  for (const entry of entries) {
    const parent = entry.name.slice(0, Math.max(0, entry.name.lastIndexOf('/')))
    const siblings = below.get(parent)
    if (siblings === undefined) below.set(parent, [entry])
    else siblings.push(entry)
  }
  const ordered = [...(below.get('') ?? [])]
  // The loop appends to the array that it iterates.
  for (const { name } of ordered) for (const child of below.get(name) ?? []) ordered.push(child)
  return ordered
}

function joinTo(base: string, parent: string): string {
  return base.endsWith('/') ? `${base}${parent}` : `${base}/${parent}`
}
