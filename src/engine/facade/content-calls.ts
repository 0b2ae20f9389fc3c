import type { ContentRouteName } from '../operations/content-routes.js'
import type { ContentParameters } from '../operations/schemas/content.js'
import type { ContentStream } from '../session/reads/content-stream.js'
import type { ImportJob } from '../records/import-job.js'
import { openFor, type EngineScope } from './engine.js'

/** The results of routes that take a content. */
interface Received {
  readonly writeContent: Record<string, never>
  readonly uploadSnapshot: ImportJob
  readonly uploadGitBundle: ImportJob
}

export type ReceivingRoute = ContentRouteName & keyof Received

type Receive<Name extends ReceivingRoute> = (
  scope: EngineScope,
  parameters: ContentParameters<Name>,
  content: AsyncIterable<Uint8Array>,
  signal: AbortSignal | undefined,
) => Promise<Received[Name]>

const receives: { readonly [Name in ReceivingRoute]: Receive<Name> } = {
  writeContent: async ({ sessions }, { sessionId, ...request }, content) => {
    const session = await openFor(sessions, 'writeFile', sessionId)
    await session.files.write({ ...request, content })
    return {}
  },
  uploadSnapshot: ({ sources }, { sourceId }, content, signal) =>
    sources.startImport(sourceId, { uploadedSnapshot: { content }, ...(signal && { signal }) }),
  uploadGitBundle: ({ sources }, { sourceId, ...request }, content, signal) =>
    sources.startImport(sourceId, {
      uploadedGitBundle: { ...request, content },
      ...(signal && { signal }),
    }),
}

/**
 * Carries out the operation of a content route whose request has the content. An import may still read it afterwards,
 * and ends when the signal aborts.
 */
export function receiveContent<Name extends ReceivingRoute>(
  scope: EngineScope,
  name: Name,
  parameters: ContentParameters<Name>,
  content: AsyncIterable<Uint8Array>,
  signal?: AbortSignal,
): Promise<Received[Name]> {
  return receives[name](scope, parameters, content, signal)
}

/** Carries out the operation of the content route whose response is the content. */
export async function openContent(
  { sessions }: EngineScope,
  { sessionId, ...request }: ContentParameters<'readContent'>,
): Promise<ContentStream> {
  const session = await openFor(sessions, 'readFile', sessionId)
  return session.files.readStream(request)
}
