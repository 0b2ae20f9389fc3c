import { createHash } from 'node:crypto'
import { EngineError } from '../../engine/ports.js'
import type { PathStat, SessionApi } from '../../engine/index.js'
import { webdavLimits } from './limits.js'
import { joined, nameOf, parentOf } from './place.js'

/** The operations of the files of a session. */
export type Files = SessionApi['files']

/** The file or directory at a path. */
export interface Found {
  /** The path of the request. */
  readonly path: string
  /** The path with symlinks resolved. */
  readonly realPath: string
  readonly isDirectory: boolean
  readonly stat: PathStat
}

const absent: ReadonlySet<string> = new Set(['PATH_NOT_FOUND', 'NOT_A_DIRECTORY', 'SYMLINK_LOOP'])

/**
 * The file or directory at a path. Symlinks are followed, inside the session. Undefined if there is none, or if the
 * path is a symlink that leads to nothing.
 */
export async function find(files: Files, path: string): Promise<Found | undefined> {
  try {
    const stat = await files.stat({ path })
    return { path, realPath: stat.path, isDirectory: isDirectory(stat), stat }
  } catch (error) {
    if (error instanceof EngineError && absent.has(error.reason)) return undefined
    throw error
  }
}

/** Like {@link find}, for the entry itself if it is a symlink. */
export async function findEntry(files: Files, path: string): Promise<PathStat | undefined> {
  try {
    return await files.stat({ path, followSymlinks: false })
  } catch (error) {
    if (error instanceof EngineError && absent.has(error.reason)) return undefined
    throw error
  }
}

/** The path without symlinks that a new entry would get, if its parent exists. */
export async function realPathOfNew(files: Files, path: string): Promise<string> {
  const parent = await find(files, parentOf(path))
  return parent === undefined ? path : joined(parent.realPath, nameOf(path))
}

export function isDirectory({ kind }: Pick<PathStat, 'kind'>): boolean {
  return kind === 'directory'
}

/**
 * The ETag of a file, which is that of its content. Directories have none. That of a large file comes from the places of
 * its bytes, so that the file is not read for it. Times cannot be part of it instead: two writes may have the same ones.
 */
export async function etagOf(files: Files, { isDirectory: no, stat }: Found): Promise<string | undefined> {
  if (no) return undefined
  if (stat.sizeBytes <= webdavLimits.hashedBytes) return etagOfHash(await files.contentHash(stat.path))
  const { extents } = await files.getCasExtents({ path: stat.path })
  const digest = createHash('sha256').update(`${stat.sizeBytes}`)
  for (const { offset, length, hash, casOffset } of extents)
    digest.update(`\n${offset} ${length} ${hash} ${casOffset}`)
  return `"extents:${digest.digest('base64url')}"`
}

export function etagOfHash(contentHash: string): string {
  return `"${contentHash}"`
}

/** The hash in an ETag of {@link etagOfHash}. */
export function hashOfEtag(etag: string | undefined): string | undefined {
  return /^"(sha256:[\da-f]{64})"$/.exec(etag ?? '')?.[1]
}

/** A time that a user set may be outside of the range of a date. It then counts as 1970. */
export function dateOf(ms: number): Date {
  const date = new Date(ms)
  return Number.isNaN(date.getTime()) ? new Date(0) : date
}
