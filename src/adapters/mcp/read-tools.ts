import { Buffer } from 'node:buffer'
import { z } from 'zod'
import type { SessionApi } from '../../engine/index.js'
import { EngineError, invalid } from '../../engine/ports.js'
import {
  absolute,
  defineTool,
  errorResult,
  mediaTypeOf,
  toolLimits,
  type Workspace,
  type WorkspaceTool,
} from '../tools/parts.js'
import type { ContentReader } from './content-reader.js'
import { limits } from './limits.js'

const hints = { readOnly: true, idempotent: true }
const pathOfFile = z.string().describe('The path of the file, such as /src/a.ts.')
const { resultLength } = toolLimits
const lineCount = z.int().min(1).max(limits.readLines).optional()

interface ReadText {
  readonly text: string
  readonly contentHash: string
  readonly sizeBytes: number
}

/** Reads a file as text, by default the whole file. */
export function readTextTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'read_text_file',
    description: 'Reads a file as text: the whole file, or with head or tail only its first or last lines.',
    schema: z.strictObject({
      path: pathOfFile,
      head: lineCount.describe('Only this many lines from the beginning.'),
      tail: lineCount.describe('Only this many lines from the end.'),
    }),
    hints,
    async run({ path: given, head, tail }, { session }) {
      if (head !== undefined && tail !== undefined) throw invalid('tail', 'cannot be combined with head')
      const path = absolute(given)
      const { text, ...facts } =
        head === undefined && tail === undefined
          ? await readText(session, path)
          : await readEnd(session, path, { head, tail })
      workspace.see(path, facts.contentHash)
      return { text, data: { path, ...facts } }
    },
  })
}

/** Reads several files. A file that cannot be read does not fail the others. */
export function readMultipleTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'read_multiple_files',
    description: 'Reads several files as text. A file that cannot be read has its error in its place.',
    schema: z.strictObject({
      paths: z.array(z.string()).min(1).max(limits.filesAtOnce).describe('The paths of the files.'),
    }),
    hints,
    async run({ paths }, { session, signal }) {
      const texts: string[] = []
      const files = []
      let length = 0
      for (const path of paths.map(absolute)) {
        signal?.throwIfAborted()
        try {
          // The rest of a longer text would be cut off.
          if (length >= resultLength) throw resultFull(path)
          const { text, ...facts } = await readText(session, path)
          workspace.see(path, facts.contentHash)
          texts.push(`${path}:\n${text}`)
          length += text.length
          files.push({ path, ...facts })
        } catch (error) {
          const failed = errorResult(error)
          texts.push(`${path}: ${failed.text}`)
          files.push({ path, error: failed.data })
        }
      }
      return { text: texts.join('\n---\n'), data: { files } }
    },
  })
}

function resultFull(path: string): EngineError {
  return new EngineError(
    'TOO_LARGE',
    `${path} was not read, because the files before it fill the result: read it with another call`,
    { path, limit: String(resultLength) },
  )
}

/** The name of the field of `data` that has the content of a media file, before the server makes a block of it. */
export const mediaField = 'base64'

/** Reads an image, a sound, or another file of bytes. */
export function readMediaTool(workspace: Workspace, contents: ContentReader): WorkspaceTool {
  return defineTool(workspace, {
    name: 'read_media_file',
    description: 'Reads an image or a sound, or another file as bytes, in base64 with its media type.',
    schema: z.strictObject({ path: pathOfFile }),
    hints,
    async run({ path: given }, { session }) {
      const path = absolute(given)
      const { content, contentHash, sizeBytes } = await contents.read(session, path)
      workspace.see(path, contentHash)
      const mimeType = mediaTypeOf(path) ?? 'application/octet-stream'
      const base64 = Buffer.from(content).toString('base64')
      return {
        text: `${path}: ${mimeType}, ${sizeBytes} bytes.`,
        data: { path, mimeType, contentHash, sizeBytes, [mediaField]: base64 },
      }
    },
  })
}

/** Decodes UTF-8; undefined for other bytes. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    return text.includes('\0') ? undefined : text
  } catch {
    return undefined
  }
}

async function readText(session: SessionApi, path: string): Promise<ReadText> {
  const { content, contentHash, sizeBytes } = await session.files.readWithHash({
    path,
    length: limits.textBytes,
  })
  // The last character of a part may be cut, so only a whole file is checked.
  const isPart = sizeBytes > content.length
  const text = isPart ? Buffer.from(content).toString() : decodeUtf8(content)
  if (text === undefined)
    throw invalid('path', `must name a text in UTF-8; read ${path} with read_media_file`)
  const rest = isPart
    ? `\n[The file has ${sizeBytes} bytes, too many for one read: use head, tail or grep.]`
    : ''
  return { text: text + rest, contentHash, sizeBytes }
}

/** The first or the last lines. */
async function readEnd(
  session: SessionApi,
  path: string,
  { head, tail = 1 }: { readonly head: number | undefined; readonly tail: number | undefined },
): Promise<ReadText> {
  const request = { path, limit: limits.readLines, maxLineLength: limits.lineLength }
  if (head !== undefined) return toText(await session.text.readLines({ ...request, endLine: head }))
  const { totalLines } = await session.text.readLines({ path, limit: 1 })
  const startLine = Math.max(totalLines - tail + 1, 1)
  return toText(await session.text.readLines({ ...request, startLine }))
}

function toText({
  lines,
  contentHash,
  sizeBytes,
}: Awaited<ReturnType<SessionApi['text']['readLines']>>): ReadText {
  return { text: lines.map(({ text }) => text).join('\n'), contentHash, sizeBytes }
}
