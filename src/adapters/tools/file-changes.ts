/** The changes of single files that several tools make. */
import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import type { EditHunk, JsonObject, SessionApi, TextEditRequest } from '../../engine/index.js'
import { EngineError, invalid } from '../../engine/ports.js'
import { limits } from './limits.js'
import { numberHunks, shownHunks } from './hunks.js'
import type { ToolOutput, ToolScope } from './tool.js'
import type { Workspace } from './workspace.js'

/** Edits a file that the agent has read in its present version. With `dryRun`, it only says what would change. */
export async function editFile(
  workspace: Workspace,
  { session }: Pick<ToolScope, 'session'>,
  request: TextEditRequest,
): Promise<ToolOutput> {
  const { path, dryRun = false } = request
  const { contentHash, hunks, replacementCount } = await session.text.edit({
    ...request,
    context: limits.contextLines,
    ...workspace.guard(path),
  })
  const shown = shownHunks(hunks)
  const data = { path, replacementCount, contentHash, hunks: shown }
  if (dryRun)
    return { text: `Nothing was changed. The edit would change ${path} to:\n${numberHunks(shown)}`, data }
  workspace.see(path, contentHash)
  return { text: editedText(path, shown), data }
}

function editedText(path: string, hunks: readonly EditHunk[]): string {
  return `The file ${path} has been edited. The changed lines are now:\n${numberHunks(hunks)}`
}

/** Writes a whole file. `exclusive`: the path must not exist. */
export async function writeFile(
  workspace: Workspace,
  { session }: Pick<ToolScope, 'session'>,
  {
    path,
    text,
    exclusive = false,
  }: { readonly path: string; readonly text: string | Uint8Array; readonly exclusive?: boolean },
): Promise<JsonObject> {
  const guard = exclusive ? {} : workspace.guard(path)
  const content = Buffer.from(text)
  await session.files.write({ path, content, exclusive, ...guard })
  const contentHash = hashOf(content)
  workspace.see(path, contentHash)
  return { path, contentHash, sizeBytes: content.length }
}

/** The hash of a content that was just written. The file itself may have another one by now. */
export function hashOf(content: Uint8Array): string {
  return `sha256:${createHash('sha256').update(content).digest('hex')}`
}

/**
 * Inserts text after a line of a file; 0 inserts at its beginning. Line ends of the file that are CRLF stay so, and the
 * inserted text gets them.
 */
export async function insertLines(
  workspace: Workspace,
  { session }: Pick<ToolScope, 'session'>,
  { path, line, text }: { readonly path: string; readonly line: number; readonly text: string },
): Promise<ToolOutput> {
  const about = await session.text.readLines({ path, limit: 1 })
  if (about.sizeBytes > limits.insertFileBytes)
    throw new EngineError('TOO_LARGE', `${path} has ${about.sizeBytes} bytes, too many to insert lines`, {
      limit: String(limits.insertFileBytes),
    })
  if (line > about.totalLines)
    throw invalid(
      'insert_line',
      `must be from 0 to ${about.totalLines}, the number of lines of ${path}; it is ${line}`,
    )
  const ending = about.lineEnding === 'CRLF' ? '\r\n' : '\n'
  const added = text.replace(/\r\n/g, '\n').replace(/\n$/, '').replaceAll('\n', ending)
  const bytes = Buffer.from(await session.files.read({ path }))
  const start = line === 0 && about.hasBom ? 3 : 0
  const at = lineStart(bytes, line, start)
  const isAfterOpenLine = at === bytes.length && at > start && bytes[at - 1] !== 0x0a
  const content = Buffer.concat([
    bytes.subarray(0, at),
    Buffer.from(isAfterOpenLine ? ending + added : added + ending),
    bytes.subarray(at),
  ])
  const { expectedHash = about.contentHash } = workspace.guard(path)
  await session.files.write({ path, content, expectedHash })
  const contentHash = hashOf(content)
  workspace.see(path, contentHash)
  const startLine = Math.max(line + 1 - limits.contextLines, 1)
  const endLine = line + added.split('\n').length + limits.contextLines
  const shown = await session.text.readLines({ path, startLine, endLine })
  const hunks = shownHunks([{ startLine, lines: shown.lines.map((read) => read.text) }])
  return { text: editedText(path, hunks), data: { path, contentHash, hunks } }
}

/** The offset after a number of line ends. */
function lineStart(bytes: Uint8Array, line: number, start: number): number {
  let at = start
  for (let i = 0; i < line; i++) {
    const end = bytes.indexOf(0x0a, at)
    if (end === -1) return bytes.length
    at = end + 1
  }
  return at
}

/** Moves a file or directory to a path at which nothing exists. Missing parents of that path are created first. */
export async function movePath(
  workspace: Workspace,
  session: SessionApi,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<void> {
  await session.files.rename({ sourcePath: from, destinationPath: to, exclusive: true, createParents: true })
  workspace.forget(from)
}
