import type { OperationName } from './index.js'

/**
 * A route that carries content as `application/octet-stream` instead of base64 in JSON. It needs the
 * capabilities of its operation and fails with the same errors.
 */
export interface ContentRoute {
  readonly operation: OperationName
  /** A few words, without a full stop. */
  readonly summary: string
  /** The description, in CommonMark. */
  readonly description: string
  readonly method: 'GET' | 'POST' | 'PUT'
  /** Parameters are written as `{name}`. */
  readonly path: string
  /** Parameters in the query of the URL. */
  readonly query: readonly string[]
  /** The body that contains the content. */
  readonly content: 'request' | 'response'
}

/** All content routes. Each is an extension of the interface. */
export const contentRoutes = {
  writeContent: {
    operation: 'writeFile',
    summary: 'Write a file from a stream',
    description:
      'Writes a whole file, as `writeFile` does. The request body is the content, up to the largest file ' +
      'size. The service stores the body as it arrives, and changes the file once all of it has arrived.',
    method: 'PUT',
    path: '/v1/sessions/{sessionId}/content',
    query: ['path', 'expectedHash', 'mode', 'createParents', 'exclusive'],
    content: 'request',
  },
  readContent: {
    operation: 'readFile',
    summary: 'Read a file as a stream',
    description:
      'Returns the content that the file has when the response begins. The file may be of any size. The ' +
      'header `forkspace-size-bytes` gives the size of the whole file. A response that ends before its ' +
      '`content-length` has failed.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/content',
    query: ['path', 'offset', 'length'],
    content: 'response',
  },
  uploadSnapshot: {
    operation: 'startImport',
    summary: 'Import an uploaded archive',
    description:
      'Starts an import of an uploaded snapshot, as `startImport` does. The request body is the archive: ' +
      'a tar, optionally with gzip, or a zip. The response has the queued job, and comes once the body ' +
      'was read or the job has failed.',
    method: 'POST',
    path: '/v1/sources/{sourceId}/uploadedSnapshot',
    query: [],
    content: 'request',
  },
  uploadGitBundle: {
    operation: 'startImport',
    summary: 'Import an uploaded git bundle',
    description:
      'Starts an import of an uploaded git bundle, as `startImport` does. The request body is the bundle. ' +
      'The response has the queued job, and comes once the body was read or the job has failed.',
    method: 'POST',
    path: '/v1/sources/{sourceId}/uploadedGitBundle',
    query: ['gitRef'],
    content: 'request',
  },
} as const satisfies Readonly<Record<string, ContentRoute>>

export type ContentRouteName = keyof typeof contentRoutes
