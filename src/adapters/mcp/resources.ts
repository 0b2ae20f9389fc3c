import { Buffer } from 'node:buffer'
import {
  ProtocolError,
  ProtocolErrorCode,
  ResourceTemplate,
  type ListResourcesResult,
  type McpServer,
  type ReadResourceResult,
} from '@modelcontextprotocol/server'
import { FileType } from '../../engine/index.js'
import { EngineError } from '../../engine/ports.js'
import { mediaTypeOf, type Workspace } from '../tools/parts.js'
import type { ContentReader } from './content-reader.js'
import { limits } from './limits.js'
import { decodeUtf8 } from './read-tools.js'

const scheme = 'forkspace://'

/** The files of the workspace as resources: `forkspace:///src/a.ts`. */
export function addResources(server: McpServer, workspace: Workspace, contents: ContentReader): void {
  server.registerResource(
    'files',
    new ResourceTemplate(`${scheme}/{+path}`, { list: undefined }),
    { title: 'Files', description: 'The files of the current workspace, by their paths.' },
    (uri) => asProtocolErrors(() => readResource(workspace, uri, contents)),
  )
  // The handler of the package has no pages.
  server.server.setRequestHandler('resources/list', ({ params }) =>
    asProtocolErrors(() => listResources(workspace, params?.cursor)),
  )
}

/** One page of all files. */
async function listResources(workspace: Workspace, cursor = ''): Promise<ListResourcesResult> {
  const page = await workspace.current.manifest({ pageSize: limits.resources, pageToken: cursor })
  const resources = page.nodes
    .filter(({ fileType }) => fileType === FileType.FILE)
    .map(({ path, sizeBytes: size }) => {
      const mimeType = mediaTypeOf(path)
      return { uri: uriOf(path), name: path, size, ...(mimeType !== undefined && { mimeType }) }
    })
  return { resources, ...(page.nextPageToken !== '' && { nextCursor: page.nextPageToken }) }
}

async function readResource(
  workspace: Workspace,
  uri: URL,
  contents: ContentReader,
): Promise<ReadResourceResult> {
  const path = pathOf(uri)
  const { content, contentHash } = await contents.read(workspace.current, path)
  workspace.see(path, contentHash)
  const text = decodeUtf8(content)
  const type = mediaTypeOf(path)
  const about = { uri: uri.href, ...(type !== undefined && { mimeType: type }) }
  if (text !== undefined) return { contents: [{ mimeType: 'text/plain', ...about, text }] }
  return {
    contents: [
      { mimeType: 'application/octet-stream', ...about, blob: Buffer.from(content).toString('base64') },
    ],
  }
}

/** The URI of a file. */
export function uriOf(path: string): string {
  return scheme + path.split('/').map(encodeURIComponent).join('/')
}

function pathOf(uri: URL): string {
  const refuse = (): never => {
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `${uri.href} names no file of the workspace`, {
      reason: 'INVALID_ARGUMENT',
    })
  }
  if (!uri.href.startsWith(`${scheme}/`) || uri.search !== '' || uri.hash !== '') return refuse()
  try {
    return decodeURIComponent(uri.pathname)
  } catch {
    return refuse()
  }
}

/** Errors of the engine as errors of the protocol, which have the same reason and details. */
async function asProtocolErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    const { reason, message, details } = error
    const data = { reason, details: { ...details } }
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `${reason}: ${message}`, data)
  }
}
