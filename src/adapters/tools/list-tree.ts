import { posix } from 'node:path'
import type { SessionApi } from '../../engine/index.js'
import { limits } from './limits.js'
import type { ToolOutput } from './tool.js'

/** Directories whose entries are seldom of interest. */
const quiet = new Set(['node_modules'])

/** The entries of a directory, and of its directories, without hidden ones. */
export async function listTree(session: SessionApi, path: string): Promise<ToolOutput> {
  const paths: string[] = [path]
  let isComplete = true
  const add = async (directory: string, depth: number): Promise<void> => {
    let pageToken = ''
    do {
      const page = await session.files.list({ path: directory, pageToken })
      for (const { name, kind } of page.entries) {
        if (name.startsWith('.') || quiet.has(name)) continue
        if (paths.length > limits.listedEntries) {
          isComplete = false
          return
        }
        const at = posix.join(directory, name)
        paths.push(kind === 'directory' ? `${at}/` : at)
        if (kind === 'directory' && depth > 1) await add(at, depth - 1)
      }
      pageToken = page.nextPageToken
    } while (pageToken !== '')
  }
  await add(path, 2)
  const title = `Here're the files and directories up to 2 levels deep in ${path}, excluding hidden items and node_modules:`
  const more = isComplete
    ? ''
    : `\n[Only the first ${limits.listedEntries} entries are listed. View a directory below.]`
  return { text: `${title}\n${paths.join('\n')}${more}`, data: { path, entries: paths.slice(1), isComplete } }
}
