import { posix } from 'node:path'
import type { Entry } from '@openai/agents/sandbox'
import type { SessionApi } from '../../engine/index.js'
import { EngineError, invalid } from '../../engine/ports.js'
import { limits } from './limits.js'

/** The files and the empty directories of the entries of a manifest. */
interface Contents {
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
  const contents: Contents = { files: new Map(), directories: [] }
  addEntries(contents, '/', entries)
  for (const path of contents.directories) await session.files.createDirectory({ path, recursive: true })
  const writes = [...contents.files].map(([path, content]) => ({ write: { path, content } }))
  if (writes.length > 0) await session.files.batch(writes)
}

function addEntries(contents: Contents, parent: string, entries: Readonly<Record<string, Entry>>): void {
  for (const [name, entry] of Object.entries(entries)) {
    if (contents.files.size + contents.directories.length >= limits.manifestEntries)
      throw new EngineError('TOO_LARGE', `the manifest has more than ${limits.manifestEntries} entries`, {
        limit: String(limits.manifestEntries),
      })
    addEntry(contents, posix.join(parent, relative(name)), entry)
  }
}

function addEntry(contents: Contents, path: string, entry: Entry): void {
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
  if (Object.keys(children).length === 0) contents.directories.push(path)
  addEntries(contents, path, children)
}

function relative(name: string): string {
  if (posix.isAbsolute(name) || name.split('/').includes('..'))
    throw invalid('manifest', `has the entry ${JSON.stringify(name)}: paths must be relative, and without ..`)
  return name
}
