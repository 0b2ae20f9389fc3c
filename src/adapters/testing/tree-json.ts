import { given, invalid, readEntries, type Session } from '../../engine/index.js'

/** Files in the shape of `node:fs`: a session, or a view of one. */
export interface WithFs {
  /** The promises of `node:fs`. */
  readonly fs: Pick<Session['fs'], 'promises'>
}

/**
 * Writes files into a session, in the format of memfs. Keys are paths. Relative paths start at `cwd`, `/` by
 * default. Values are contents, and null creates a directory. Missing parents are created, and existing files
 * are replaced. The call is not atomic. For an atomic write, use `session.files.batch`, or
 * `engine.sessions.create` for the first files of a session. Other errors are those of `session.fs.promises`.
 *
 * @throws {EngineError} INVALID_ARGUMENT if an argument has the wrong type.
 *
 * @example
 * await fromJSON(session, { 'package.json': '{}', 'src/a.ts': 'export const a = 1', empty: null }, '/app')
 */
export async function fromJSON(
  session: Session,
  files: Readonly<Record<string, string | Uint8Array | null>>,
  cwd = '/',
): Promise<void> {
  const { promises } = viewOf(session)
  if (typeof files !== 'object' || files === null)
    throw invalid('files', `must be an object of contents by their paths; it is ${given(files)}`)
  if (typeof cwd !== 'string') throw invalid('cwd', `must be a string; it is ${given(cwd)}`)
  const entries = readEntries('files', files, 'must be an object of contents by their paths')
  for (const [name, content] of entries as [string, string | Uint8Array | null][]) {
    const path = name.startsWith('/') ? name : `${cwd}/${name}`
    await promises.mkdir(content === null ? path : `${path}/..`, { recursive: true })
    if (content !== null) await promises.writeFile(path, content)
  }
}

/**
 * Reads the files at and below a path. The result maps absolute paths to contents as UTF-8 text, sorted by
 * path within each directory. Tests can compare it or pass it to {@link fromJSON}. Empty directories are
 * null. As in memfs, symlinks in `path` itself are followed, and symlinks below it are omitted. A missing
 * path gives an empty object.
 *
 * @returns an object without a prototype.
 * @throws {EngineError} INVALID_ARGUMENT if `session` is not a session.
 *
 * @example
 * const files = await toJSON(session, '/app/src') // { '/app/src/a.ts': 'export const a = 1' }
 */
export async function toJSON(session: Session, path = '/'): Promise<Record<string, string | null>> {
  const found = Object.create(null) as Record<string, string | null>
  const { files } = await readTree(session, path)
  for (const [name, content] of files) found[name] = content?.toString('utf8') ?? null
  return found
}

/** The files at and below a path, as {@link toJSON} selects them. */
export interface ReadTree {
  /** The path without symlinks. */
  readonly start: string
  /** Contents by absolute path; null for an empty directory. */
  readonly files: ReadonlyMap<string, Buffer | null>
}

export async function readTree(session: WithFs, path: string): Promise<ReadTree> {
  const { promises } = viewOf(session)
  const found = new Map<string, Buffer | null>()
  const start = await promises.realpath(path).catch(nothingThere)
  if (start === undefined) return { start: path, files: found }
  if ((await promises.stat(start)).isFile()) {
    found.set(start, await promises.readFile(start))
    return { start, files: found }
  }
  const addDirectory = async (directory: string): Promise<void> => {
    const entries = await promises.readdir(directory === '' ? '/' : directory, { withFileTypes: true })
    if (entries.length === 0 && directory !== '') found.set(directory, null)
    for (const entry of entries) {
      const child = `${directory}/${entry.name}`
      if (entry.isDirectory()) await addDirectory(child)
      else if (entry.isFile()) found.set(child, await promises.readFile(child))
    }
  }
  await addDirectory(start === '/' ? '' : start)
  return { start, files: found }
}

function nothingThere(error: unknown): undefined {
  if ((error as { code?: string }).code !== 'ENOENT') throw error
}

export function viewOf(session: WithFs): WithFs['fs'] {
  if (typeof session?.fs !== 'object') throw invalid('session', `must be a session; it is ${given(session)}`)
  return session.fs
}
