import type { OperationName } from './index.js'

/**
 * A route that carries a content as `application/octet-stream`, where its operation has base64 in JSON. It needs the
 * capabilities of the operation, and may fail as it does.
 */
export interface ContentRoute {
  readonly operation: OperationName
  /** A few words, without a full stop. */
  readonly summary: string
  /** In CommonMark. */
  readonly description: string
  readonly method: 'GET' | 'POST' | 'PUT'
  /** With `{name}` for each part that is a parameter. */
  readonly path: string
  /** Parameters in the query of the URL. */
  readonly query: readonly string[]
  /** Whether the body of the request or that of the response is the content. */
  readonly content: 'request' | 'response'
}

/** All of them are extensions of the interface. */
export const contentRoutes = {
  writeContent: {
    operation: 'writeFile',
    summary: 'Write a file from a stream',
    description:
      'Writes a whole file, as `writeFile` does. The body is its content, of any size up to that of a file. It is ' +
      'stored as it arrives, and the file changes when all of it has arrived.',
    method: 'PUT',
    path: '/v1/sessions/{sessionId}/content',
    query: ['path', 'expectedHash', 'mode', 'createParents', 'exclusive'],
    content: 'request',
  },
  readContent: {
    operation: 'readFile',
    summary: 'Read a file as a stream',
    description:
      'The bytes that the file has when the response begins, of any size. The header `forkspace-size-bytes` has the ' +
      'size of the whole file. A response that ends before its `content-length` has failed.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/content',
    query: ['path', 'offset', 'length'],
    content: 'response',
  },
  uploadSnapshot: {
    operation: 'startImport',
    summary: 'Import an uploaded archive',
    description:
      'Starts an import of an uploaded snapshot, as `startImport` does. The body is the archive: a tar, gzip or not, ' +
      'or a zip. The response, the queued job, comes when the body was read or the job has failed.',
    method: 'POST',
    path: '/v1/sources/{sourceId}/uploadedSnapshot',
    query: [],
    content: 'request',
  },
  uploadGitBundle: {
    operation: 'startImport',
    summary: 'Import an uploaded git bundle',
    description:
      'Starts an import of an uploaded git bundle, as `startImport` does. The body is the bundle. The ' +
      'response, the queued job, comes when the body was read or the job has failed.',
    method: 'POST',
    path: '/v1/sources/{sourceId}/uploadedGitBundle',
    query: ['gitRef'],
    content: 'request',
  },
} as const satisfies Readonly<Record<string, ContentRoute>>

export type ContentRouteName = keyof typeof contentRoutes
