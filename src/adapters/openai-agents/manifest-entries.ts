import { posix } from 'node:path'
import type { Entry } from '@openai/agents/sandbox'
import type { SessionApi } from '../../engine/index.js'
import { EngineError, invalid } from '../../engine/ports.js'
import { limits } from './limits.js'

/** The files and the empty directories of the entries of a manifest. */
export interface Contents {
  readonly files: Map<string, string | Uint8Array>
  readonly directories: string[]
}

/**
 * Writes the entries of a manifest into a session. All files are one event.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an entry comes from outside of the workspace, or has an unsafe path.
 * @throws {EngineError} TOO_LARGE when there are more than 10,000 entries.
 */
export async function writeEntries(
  session: SessionApi,
  entries: Readonly<Record<string, Entry>>,
): Promise<void> {
  const { files, directories } = contentsOf(entries)
  const writes = [...files].map(([path, content]) => ({ write: { path, content } }))
  // The files first: a refused batch leaves no directories.
  if (writes.length > 0) await session.files.batch(writes)
  for (const path of directories) await session.files.createDirectory({ path, recursive: true })
}

/** Checks the entries of a manifest, and collects their files and empty directories. Errors are those of {@link writeEntries}. */
export function contentsOf(entries: Readonly<Record<string, Entry>>): Contents {
  const contents: Contents = { files: new Map(), directories: [] }
  addEntries(contents, '/', entries, 1)
  return contents
}

function addEntries(
  contents: Contents,
  parent: string,
  entries: Readonly<Record<string, Entry>>,
  depth: number,
): void {
  if (typeof entries !== 'object' || entries === null)
    throw invalid('manifest', `must have an object of entries at ${JSON.stringify(parent)}`)
  if (depth > limits.manifestDepth)
    throw new EngineError(
      'TOO_LARGE',
      `the manifest has directories of more than ${limits.manifestDepth} levels`,
      {
        limit: String(limits.manifestDepth),
      },
    )
  for (const [name, entry] of Object.entries(entries)) {
    if (contents.files.size + contents.directories.length >= limits.manifestEntries)
      throw new EngineError('TOO_LARGE', `the manifest has more than ${limits.manifestEntries} entries`, {
        limit: String(limits.manifestEntries),
      })
    addEntry(contents, posix.join(parent, relative(name)), entry, depth)
  }
}

function addEntry(contents: Contents, path: string, entry: Entry, depth: number): void {
  if (typeof entry !== 'object' || entry === null)
    throw invalid('manifest', `must have an entry with a type at ${JSON.stringify(path)}`)
  if (entry.type === 'file') {
    contents.files.set(path, (entry as { readonly content: string | Uint8Array }).content)
    return
  }
  if (entry.type !== 'dir')
    throw invalid(
      'manifest',
      `has the entry ${JSON.stringify(path)} of the type ${JSON.stringify(entry.type)}. A workspace takes the types file ` +
        'and dir: import a repository or a directory of the host into the session before the run',
    )
  const { children = {} } = entry as { readonly children?: Readonly<Record<string, Entry>> }
  addEntries(contents, path, children, depth + 1)
  if (Object.keys(children).length === 0) contents.directories.push(path)
}

function relative(name: string): string {
  if (posix.isAbsolute(name) || name.split('/').includes('..'))
    throw invalid('manifest', `has the entry ${JSON.stringify(name)}: paths must be relative, and without ..`)
  return name
}
