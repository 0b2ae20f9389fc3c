import { posix } from 'node:path'
import type { FileEntry, ListOptions, WalkEntry, WalkOptions } from '@mastra/core/workspace'
import type { GlobEntry, SessionApi } from '../../engine/index.js'
import { EngineError, given, invalid } from '../../engine/ports.js'
import { isReason } from './errors.js'
import { limits } from './limits.js'

/** The entries of a directory, or of all directories below it. Symlinks below it are not followed. */
export async function listEntries(
  session: SessionApi,
  path: string,
  options: ListOptions,
  signal: AbortSignal | undefined,
): Promise<FileEntry[]> {
  const extensions = extensionsOf(options.extension)
  // Mastra counts the levels below the first one.
  const maxDepth = options.recursive === true ? levels('maxDepth', options.maxDepth, 0) + 1 : 1
  const entries = await entriesBelow(session, path, { maxDepth, includeHidden: true }, signal)
  return entries
    .filter((entry) => entry.type === 'directory' || hasExtension(entry.name, extensions))
    .map(({ path: name, ...entry }) => ({ ...entry, name }))
}

/** All entries below a directory. */
export async function walk(
  session: SessionApi,
  path: string,
  { maxDepth, includeHidden = false }: WalkOptions,
  signal: AbortSignal | undefined,
): Promise<WalkEntry[]> {
  return entriesBelow(session, path, { maxDepth: levels('maxDepth', maxDepth, 1), includeHidden }, signal)
}

async function entriesBelow(
  session: SessionApi,
  root: string,
  { maxDepth, includeHidden }: { readonly maxDepth: number; readonly includeHidden: boolean },
  signal: AbortSignal | undefined,
): Promise<WalkEntry[]> {
  const found: WalkEntry[] = []
  const patterns = includeHidden ? ['*', '.*'] : ['*']
  const visit = async (directory: string, prefix: string, depth: number): Promise<void> => {
    const request = { patterns, path: directory, includeDirectories: true, limit: limits.directoryEntries }
    const { entries, isTruncated } = await session.text.glob(request, signal === undefined ? {} : { signal })
    if (isTruncated) throw tooMany(directory, limits.directoryEntries)
    for (const entry of entries) {
      const name = posix.basename(entry.path)
      if (found.push(await describe(session, entry, prefix + name)) > limits.walkedEntries)
        throw tooMany(root, limits.walkedEntries)
      if (entry.kind === 'directory' && depth < maxDepth)
        await visit(entry.path, `${prefix}${name}/`, depth + 1)
    }
  }
  await visit(root, '', 1)
  return found
}

async function describe(session: SessionApi, entry: GlobEntry, path: string): Promise<WalkEntry> {
  const name = posix.basename(path)
  if (entry.kind === 'symlink') return { path, name, ...(await describeLink(session, entry.path)) }
  return entry.kind === 'directory'
    ? { path, name, type: 'directory' }
    : { path, name, type: 'file', size: entry.sizeBytes }
}

/** A symlink has the type of its target. One without a target is a file. */
async function describeLink(session: SessionApi, path: string): Promise<Omit<FileEntry, 'name'>> {
  const { target } = await session.files.readSymlink(path)
  const link = { isSymlink: true, symlinkTarget: target }
  try {
    const { kind } = await session.files.stat({ path })
    return { type: kind === 'directory' ? 'directory' : 'file', ...link }
  } catch (error) {
    if (isReason(error, 'PATH_NOT_FOUND', 'NOT_A_DIRECTORY', 'SYMLINK_LOOP')) return { type: 'file', ...link }
    throw error
  }
}

function levels(field: string, value: unknown, least: number): number {
  if (value === undefined) return limits.walkedLevels
  if (typeof value !== 'number' || Number.isNaN(value) || value < least)
    throw invalid(field, `must be a number from ${least}; it is ${given(value)}`)
  return Math.min(Math.floor(value), limits.walkedLevels)
}

function extensionsOf(extension: unknown): readonly string[] {
  if (extension === undefined) return []
  const list: unknown[] = Array.isArray(extension) ? extension : [extension]
  return list.map((one) => {
    if (typeof one !== 'string') throw invalid('extension', `must be a text such as .ts; it is ${given(one)}`)
    return one.startsWith('.') ? one : `.${one}`
  })
}

function hasExtension(name: string, extensions: readonly string[]): boolean {
  return extensions.length === 0 || extensions.includes(posix.extname(name))
}

function tooMany(path: string, limit: number): EngineError {
  return new EngineError('TOO_LARGE', `${path} has over ${limit} entries: list a directory below it`, {
    limit: String(limit),
  })
}
