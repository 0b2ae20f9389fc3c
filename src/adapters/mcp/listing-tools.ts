import { posix } from 'node:path'
import { z } from 'zod'
import type { GlobEntry, JsonObject, SessionApi } from '../../engine/index.js'
import { absolute, defineTool, type Workspace, type WorkspaceTool } from '../tools/parts.js'
import { limits } from './limits.js'

const hints = { readOnly: true, idempotent: true }
const pathOfDirectory = z.string().describe('The path of the directory, such as /src.')
const excludePatterns = z
  .array(z.string())
  .max(limits.patterns)
  .optional()
  .describe('Globs of paths to leave out, with everything below them, such as node_modules or *.log.')

/** Lists the entries of a directory. */
export function listDirectoryTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'list_directory',
    description: 'Lists the entries of a directory, each with [FILE], [DIR] or [LINK].',
    schema: z.strictObject({ path: pathOfDirectory }),
    hints,
    async run({ path: given }, { session }) {
      const path = absolute(given)
      const { entries, isTruncated } = await entriesOf(session, path)
      const lines = entries.map((entry) => `${marks[entry.kind]} ${posix.basename(entry.path)}`)
      return {
        text: listed(lines, isTruncated),
        data: { path, entries: entries.map(described), isTruncated },
      }
    },
  })
}

/** Lists the entries of a directory with the sizes of files. */
export function listSizesTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'list_directory_with_sizes',
    description: 'Lists the entries of a directory with the sizes of files in bytes, and their sum.',
    schema: z.strictObject({
      path: pathOfDirectory,
      sortBy: z.enum(['name', 'size']).optional().describe('name, the default; or size: the largest first.'),
    }),
    hints,
    async run({ path: given, sortBy = 'name' }, { session }) {
      const path = absolute(given)
      const { entries, isTruncated } = await entriesOf(session, path)
      const sorted = sortBy === 'name' ? entries : entries.toSorted((a, b) => b.sizeBytes - a.sizeBytes)
      const lines = sorted.map(
        ({ path: at, kind, sizeBytes }) =>
          `${marks[kind]} ${posix.basename(at)}${kind === 'file' ? ` ${sizeBytes}` : ''}`,
      )
      const totalBytes = entries.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
      return {
        text: `${listed(lines, isTruncated)}\nTotal: ${entries.length} entries, ${totalBytes} bytes`,
        data: { path, entries: sorted.map(described), totalBytes, isTruncated },
      }
    },
  })
}

/** Shows a directory and everything below it. */
export function directoryTreeTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'directory_tree',
    description: 'Shows everything below a directory, as JSON with name, type and children.',
    schema: z.strictObject({ path: pathOfDirectory, excludePatterns }),
    hints,
    async run({ path: given, excludePatterns: excluded = [] }, { session, signal }) {
      const path = absolute(given)
      const exclude = withinDirectory(path, excluded)
      let left: number = limits.entries
      let isTruncated = false
      const walk = async (directory: string, depth: number): Promise<JsonObject[]> => {
        signal?.throwIfAborted()
        const page = await entriesOf(session, directory, { exclude, limit: left })
        left -= page.entries.length
        isTruncated ||= page.isTruncated
        const nodes: JsonObject[] = []
        for (const { path: at, kind } of page.entries) {
          const name = posix.basename(at)
          if (kind !== 'directory') {
            nodes.push({ name, type: kind })
            continue
          }
          const isLast = left <= 0 || depth >= limits.treeDepth
          isTruncated ||= isLast
          nodes.push({ name, type: kind, children: isLast ? [] : await walk(at, depth + 1) })
        }
        return nodes
      }
      const tree = await walk(path, 1)
      const more = isTruncated ? `\n[Only ${limits.entries} entries are shown. Ask for a part.]` : ''
      return { text: JSON.stringify(tree, null, 2) + more, data: { path, tree, isTruncated } }
    },
  })
}

/** Finds paths by a glob below a directory. */
export function searchFilesTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'search_files',
    description:
      'Finds files and directories by a glob: *.ts in the directory itself, **/*.ts also below it.',
    schema: z.strictObject({
      path: z.string().describe('The directory where the search begins.'),
      pattern: z.string().describe('A glob, relative to the directory.'),
      excludePatterns,
    }),
    hints,
    async run({ path: given, pattern, excludePatterns: excluded = [] }, { session, signal }) {
      const path = absolute(given)
      const exclude = withinDirectory(path, excluded)
      const { entries, isTruncated } = await session.text.glob(
        { patterns: [pattern], path, exclude, includeDirectories: true, limit: limits.entries },
        signal === undefined ? {} : { signal },
      )
      const paths = entries.map((entry) => entry.path)
      const text = paths.length === 0 ? 'No matches found' : listed(paths, isTruncated)
      return { text, data: { paths, isTruncated } }
    },
  })
}

/** Describes a file or directory. */
export function fileInfoTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'get_file_info',
    description: 'Returns the kind, size, times and permissions of a file or directory.',
    schema: z.strictObject({ path: z.string().describe('The path, such as /src/a.ts.') }),
    hints,
    async run({ path: given }, { session }) {
      const found = await session.files.stat({ path: absolute(given) })
      const data = {
        path: found.path,
        kind: found.kind,
        sizeBytes: found.sizeBytes,
        permissions: found.mode.toString(8).padStart(3, '0'),
        created: new Date(found.birthtimeMs).toISOString(),
        modified: new Date(found.mtimeMs).toISOString(),
      }
      const lines = Object.entries(data).map(([name, value]) => `${name}: ${value}`)
      return { text: lines.join('\n'), data }
    },
  })
}

/** The root of the workspace, which contains every path. */
export function allowedDirectoriesTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'list_allowed_directories',
    description: 'Tells which directories can be used: all of the workspace.',
    schema: z.strictObject({}),
    hints,
    run: () => Promise.resolve({ text: 'Allowed directories:\n/', data: { directories: ['/'] } }),
  })
}

const marks = { file: '[FILE]', directory: '[DIR]', symlink: '[LINK]' } as const

interface Entries {
  readonly entries: readonly GlobEntry[]
  readonly isTruncated: boolean
}

/** The entries of one directory, with those whose names begin with a dot. */
function entriesOf(
  session: SessionApi,
  path: string,
  {
    exclude = [],
    limit = limits.entries,
  }: { readonly exclude?: readonly string[]; readonly limit?: number } = {},
): Promise<Entries> {
  return session.text.glob({ patterns: ['*', '.*'], path, exclude, includeDirectories: true, limit })
}

/**
 * Globs of excluded paths for calls below a directory. A name stays relative, so that it is excluded from each directory
 * that is listed, also where `**` does not lead: below a name with a leading dot.
 */
function withinDirectory(path: string, excluded: readonly string[]): string[] {
  const root = path === '/' ? '' : path.replaceAll(/[\\*?[\]{}()!+@|,]/g, '\\$&')
  return excluded.flatMap((glob) => {
    if (glob.startsWith('/')) return [glob]
    return [glob.includes('/') ? `${root}/${glob}` : glob, `${root}/**/${glob}`]
  })
}

function described({ path, kind, sizeBytes }: GlobEntry): JsonObject {
  return { name: posix.basename(path), kind, sizeBytes }
}

function listed(lines: readonly string[], isTruncated: boolean): string {
  const more = isTruncated ? `\n[Only the first ${lines.length} are listed.]` : ''
  return lines.join('\n') + more
}
