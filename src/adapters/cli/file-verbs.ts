import { randomBytes } from 'node:crypto'
import { parseDestination, parseFileReference, parseMode, parsePlace } from './arguments.js'
import type { Context } from './context.js'
import { Failure, reasonOf, UsageError } from './failure.js'
import { openInput } from './input.js'
import { printableName } from './printable.js'
import { startProgress } from './progress.js'
import type { Workspace } from './workspaces.js'

const readBytes = 2 ** 22
/** Up to this a file is written in one step; a larger one is written beside its place first, in pieces. */
const wholeBytes = 2 ** 25
const pieceBytes = 2 ** 24
const statsAtOnce = 32

const letters = { directory: 'd', file: '-', symlink: 'l' } as const

/** One path of a session as the command shows it; with `long` all of it. */
interface Entry {
  readonly path: string
  readonly kind: 'directory' | 'file' | 'symlink'
  readonly sizeBytes?: number
  readonly mode?: number
  readonly mtime?: string
  /** Of a symlink. */
  readonly target?: string
}

/** What is in a directory, or a file alone; a symlink is shown itself, unless a slash stands behind it. */
export async function listFiles(
  context: Context,
  [reference]: [string],
  options: { readonly long?: boolean; readonly recursive?: boolean },
): Promise<void> {
  const { session: prefix, path: given } = parsePlace(reference)
  const { files } = await context.session(prefix)
  const path = given.replace(/\/+$/, '') || '/'
  const at = await files.stat({ path, followSymlinks: given.endsWith('/') })
  const { long = false, recursive = false } = options
  const describe = (entry: Pick<Entry, 'path' | 'kind'>): Promise<Entry> =>
    long ? describeEntry(files, entry) : Promise.resolve(entry)
  if (at.kind !== 'directory') {
    await printEntry(context, await describe({ path, kind: at.kind }), path)
    return
  }
  for (let pageToken = ''; ;) {
    const page = await files.list({ path: at.path, recursive, pageToken })
    for (let first = 0; first < page.entries.length; first += statsAtOnce) {
      const some = page.entries.slice(first, first + statsAtOnce)
      const entries = await Promise.all(
        some.map(({ name, kind }) => describe({ path: `${at.path === '/' ? '' : at.path}/${name}`, kind })),
      )
      for (const [index, entry] of entries.entries()) await printEntry(context, entry, some[index]!.name)
    }
    pageToken = page.nextPageToken
    if (pageToken === '') return
  }
}

async function describeEntry(
  files: Workspace['files'],
  { path, kind }: Pick<Entry, 'path' | 'kind'>,
): Promise<Entry> {
  const { sizeBytes, mode, mtimeMs } = await files.stat({ path, followSymlinks: false })
  const entry = { path, kind, sizeBytes, mode, mtime: new Date(mtimeMs).toISOString() }
  return kind === 'symlink' ? { ...entry, target: (await files.readSymlink(path)).target } : entry
}

async function printEntry(context: Context, entry: Entry, name: string): Promise<void> {
  const { out } = context
  await out.line(() => {
    const { kind, sizeBytes, mode, mtime, target } = entry
    const printable = printableName(kind === 'directory' ? `${name}/` : name)
    const shown = kind === 'file' ? printable : out.paint(kind, printable)
    if (sizeBytes === undefined || mode === undefined || mtime === undefined) return shown
    const arrow = target === undefined ? '' : ` -> ${printableName(target)}`
    return `${letters[kind]}${permissions(mode)} ${String(sizeBytes).padStart(11)}  ${mtime}  ${shown}${arrow}`
  }, entry)
}

/** The bytes of one content, even when the file changes meanwhile. */
export async function printFile(context: Context, [reference]: [string]): Promise<void> {
  const { session: prefix, path } = parseFileReference(reference)
  const { files } = await context.session(prefix)
  let hash: string | undefined
  for (let offset = 0; ;) {
    const part = await files.readWithHash({ path, offset, length: readBytes })
    if (hash !== undefined && part.contentHash !== hash)
      throw new Failure(`${path} was changed while it was read: what was printed is not whole`)
    hash = part.contentHash
    await context.out.bytes(part.content)
    offset += part.content.length
    if (offset >= part.sizeBytes || part.content.length === 0) return
  }
}

export async function putFile(
  context: Context,
  [name, reference]: [string, string],
  options: { readonly mode?: string; readonly expect?: string },
): Promise<void> {
  const { session: prefix, path } = parseFileReference(reference)
  const mode = options.mode === undefined ? {} : { mode: parseMode(options.mode) }
  const guard = options.expect === undefined ? {} : { expectedHash: options.expect }
  const input = await openInput(name, context.world)
  try {
    const session = await context.session(prefix)
    if (input.size <= wholeBytes) {
      const content = await input.at(0, input.size)
      await session.files.write({ path, content, ...mode, ...guard })
    } else {
      await putPieces(context, session, path, input, { mode, guard })
    }
    if (context.out.json) await context.out.line('', { path, sizeBytes: input.size })
  } finally {
    await input.close()
  }
}

/** The file appears whole, by a rename. */
async function putPieces(
  context: Context,
  session: Workspace,
  path: string,
  input: { readonly size: number; at(offset: number, length: number): Promise<Uint8Array> },
  { mode, guard }: { mode: { mode?: number }; guard: { expectedHash?: string } },
): Promise<void> {
  if (guard.expectedHash !== undefined)
    throw new Failure(`--expect is for files of up to ${wholeBytes / 2 ** 20} MiB`)
  const { files } = session
  // What the path leads to, as a write of the whole would find it; a file that is not there yet has no place.
  const found = await files.stat({ path }).catch((error: unknown) => {
    if (reasonOf(error) !== 'PATH_NOT_FOUND') throw error
    return { path, kind: 'file', mode: 0o644 }
  })
  if (found.kind === 'directory') throw new Failure(`${path} is a directory`)
  const kept = mode.mode ?? found.mode
  const part = `${found.path.slice(0, found.path.lastIndexOf('/') + 1)}.forkspace-${randomBytes(8).toString('hex')}`
  const progress = await startProgress(context.stderr, `writing ${printableName(path)}`, {
    totalBytes: input.size,
  })
  try {
    for (let offset = 0; offset < input.size; offset += pieceBytes) {
      const content = await input.at(offset, Math.min(pieceBytes, input.size - offset))
      const segments = [{ data: { offset, content } }]
      await files.patchSegments({ mutations: [{ path: part, segments, mode: kept }] })
      progress.update({ bytes: offset + content.length })
    }
    await files.rename({ sourcePath: part, destinationPath: found.path })
  } catch (error) {
    await files.delete({ path: part }).catch(() => undefined)
    throw error
  } finally {
    progress.stop()
  }
}

/** As `mv` does: into an existing directory, or else to the new path. */
export async function movePath(context: Context, [reference, destination]: [string, string]): Promise<void> {
  const { session: prefix, path: sourcePath } = parseFileReference(reference)
  const { files, id } = await context.session(prefix)
  const to = parseDestination(destination)
  if (to.session !== undefined && (await context.sessionId(to.session)) !== id)
    throw new UsageError(`mv works within one session; '${destination}' is in another one`)
  const asDirectory = to.path.endsWith('/')
  const path = to.path.replace(/\/+$/, '') || '/'
  const found = await files.stat({ path }).catch((error: unknown) => {
    if (reasonOf(error) !== 'PATH_NOT_FOUND') throw error
    return undefined
  })
  if (asDirectory && found === undefined)
    throw new Failure(`there is no directory ${printableName(path)} to move into`)
  const name = sourcePath.replace(/\/+$/, '').replace(/^.*\//, '')
  const into = asDirectory || found?.kind === 'directory'
  const destinationPath = into ? `${path === '/' ? '' : path}/${name}` : path
  await files.rename({ sourcePath, destinationPath })
  if (context.out.json) await context.out.line('', { sourcePath, destinationPath })
}

/** In the order given; a path that cannot be removed ends it. */
export async function removePaths(
  context: Context,
  [references]: [string[]],
  options: { readonly recursive?: boolean; readonly force?: boolean },
): Promise<void> {
  const { recursive = false, force = false } = options
  const places = references.map(parseFileReference)
  for (const { session: prefix, path } of places) {
    const { files } = await context.session(prefix)
    try {
      const { kind } = await files.stat({ path, followSymlinks: false })
      if (kind === 'directory' && !recursive)
        throw new Failure(`${printableName(path)} is a directory; -r removes it with everything in it`)
      if (kind === 'directory') await files.removeDirectory({ path, recursive })
      else await files.delete({ path })
    } catch (error) {
      if (!force || reasonOf(error) !== 'PATH_NOT_FOUND') throw error
      continue
    }
    if (context.out.json) await context.out.line('', { path })
  }
}

/** As `ls -l` shows them, with the special bits. */
function permissions(mode: number): string {
  const three = (shift: number, special: number, letter: string): string => {
    const bits = mode >> shift
    const runs = (bits & 1) === 0 ? '-' : 'x'
    const marked = runs === 'x' ? letter : letter.toUpperCase()
    const last = (mode & special) === 0 ? runs : marked
    return `${(bits & 4) === 0 ? '-' : 'r'}${(bits & 2) === 0 ? '-' : 'w'}${last}`
  }
  return three(6, 0o4000, 's') + three(3, 0o2000, 's') + three(0, 0o1000, 't')
}
