import { Buffer } from 'node:buffer'
import { EngineError, invalid } from '../../engine/ports.js'
import {
  absolute,
  errorResult,
  mediaTypeOf,
  readTool,
  type ToolResult,
  type Workspace,
  type WorkspaceTool,
} from '../tools/parts.js'
import { limits } from './limits.js'

/** The images that models can look at. */
const shownImages = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp'])

/** Text that has a media type of its own. */
const isText = /^text\/|^application\/json$|^image\/svg\+xml$/

/** The field of a result with the base64 of an image, for the content of the message. */
export const imageField = 'image'

/** Reads a text file, or an image. The extension of the path decides. */
export function readFileTool(workspace: Workspace): WorkspaceTool {
  const text = readTool(workspace)
  return {
    ...text,
    description: `${text.description} Also reads images: PNG, JPEG, GIF and WebP.`,
    call: async (input, call = {}) => {
      const parsed = text.schema.safeParse(input)
      const given: unknown = parsed.data?.['file_path']
      const path = typeof given === 'string' ? absolute(given) : ''
      const mimeType = mediaTypeOf(path)
      if (mimeType === undefined || isText.test(mimeType)) return text.call(input, call)
      call.signal?.throwIfAborted()
      try {
        return await readImage(workspace, path, mimeType)
      } catch (error) {
        workspace.noteMissing(error)
        return errorResult(error)
      }
    },
  }
}

async function readImage(workspace: Workspace, path: string, mimeType: string): Promise<ToolResult> {
  const { files } = workspace.current
  const { content, contentHash, sizeBytes } = await files.readWithHash({ path, length: limits.imageBytes })
  if (!shownImages.has(mimeType))
    throw invalid(
      'file_path',
      `must be a text, or an image of the types PNG, JPEG, GIF or WebP; ${path} is ${mimeType}, which cannot be shown`,
    )
  if (sizeBytes > limits.imageBytes)
    throw new EngineError('TOO_LARGE', `${path} has ${sizeBytes} bytes, too many for an image`, {
      limit: String(limits.imageBytes),
    })
  workspace.see(path, contentHash)
  const image = Buffer.from(content).toString('base64')
  return {
    text: `${path}: ${mimeType}, ${sizeBytes} bytes.`,
    isError: false,
    data: { path, mimeType, contentHash, sizeBytes, [imageField]: image },
  }
}
