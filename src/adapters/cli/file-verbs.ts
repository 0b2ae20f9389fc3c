import type { SessionApi } from '../../engine/index.js'
import { parseDestination, parseFileReference, parseMode, parsePlace } from './arguments.js'
import type { Context } from './context.js'
import { Failure, reasonOf, UsageError } from './failure.js'
import { openInput } from './input.js'
import { cliLimits } from './limits.js'
import { printableName } from './printable.js'
import { startProgress } from './progress.js'

const letters = { directory: 'd', file: '-', symlink: 'l' } as const

/** One path of a session to print. The optional fields are set only with `--long`. */
interface Entry {
  readonly path: string
  readonly kind: 'directory' | 'file' | 'symlink'
  readonly sizeBytes?: number
  readonly mode?: number
  readonly mtime?: string
  /** The target of a symlink. */
  readonly target?: string
}

/**
 * Lists the entries of a directory, or one file. A symlink is followed only if the path ends with a slash.
 */
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
    for (let first = 0; first < page.entries.length; first += cliLimits.statsAtOnce) {
      const some = page.entries.slice(first, first + cliLimits.statsAtOnce)
      const entries = await Promise.all(
        some.map(async ({ name, kind }) => ({
          name,
          entry: await describe({ path: `${at.path === '/' ? '' : at.path}/${name}`, kind }),
        })),
      )
      for (const { name, entry } of entries) await printEntry(context, entry, name)
    }
    pageToken = page.nextPageToken
    if (pageToken === '') return
  }
}

async function describeEntry(
  files: SessionApi['files'],
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

/** Prints a file. The output is one consistent content, even if the file changes during the command. */
export async function printFile(context: Context, [reference]: [string]): Promise<void> {
  const { session: prefix, path } = parseFileReference(reference)
  const { files } = await context.session(prefix)
  for await (const bytes of await files.readStream({ path })) await context.out.bytes(bytes)
}

/** Writes a file of any size in one change. `--expect` is checked at the end, when the change is applied. */
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
    const { files } = await context.session(prefix)
    const totalBytes = input.size
    const progress = await startProgress(context.stderr, `writing ${printableName(path)}`, { totalBytes })
    let sizeBytes = 0
    async function* content(): AsyncGenerator<Uint8Array> {
      for await (const bytes of input.read()) {
        sizeBytes += bytes.length
        progress.update({ bytes: sizeBytes })
        yield bytes
      }
    }
    try {
      await files.write({ path, content: content(), ...mode, ...guard })
    } finally {
      progress.stop()
    }
    if (context.out.json) await context.out.line('', { path, sizeBytes })
  } finally {
    await input.close()
  }
}

/** Moves a path like `mv`: into an existing directory, or otherwise to the new path. */
export async function movePath(context: Context, [reference, destination]: [string, string]): Promise<void> {
  const { session: prefix, path: sourcePath } = parseFileReference(reference)
  const { files, id } = await context.session(prefix)
  const to = parseDestination(destination)
  if (to.session !== undefined && (await context.sessionId(to.session)) !== id)
    throw new UsageError(`mv works within one session, but '${destination}' is in another one`)
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

/** Removes paths in the given order. Stops at the first path that cannot be removed. */
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
        throw new Failure(`${printableName(path)} is a directory: pass -r to remove it with its contents`)
      if (kind === 'directory') await files.removeDirectory({ path, recursive })
      else await files.delete({ path })
    } catch (error) {
      if (!force || reasonOf(error) !== 'PATH_NOT_FOUND') throw error
      continue
    }
    if (context.out.json) await context.out.line('', { path })
  }
}

/** The permissions in the form of `ls -l`, including the special bits. */
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
