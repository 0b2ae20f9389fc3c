import type {
  BatchOperation,
  ContentStream,
  FileContent,
  SegmentChunk,
  SegmentWriteRequest,
  SessionFiles,
  PublicOf,
} from '../../engine/index.js'
import { EngineError, Shape } from '../../engine/client-contract.js'
import { concat, toBytes } from './bytes.js'
import { checked, copyOf } from './checked.js'
import { clientLimits } from './limits.js'
import { callsOf, remoteService } from './remote-service.js'
import type { InSession } from './session-calls.js'

type Request<Name extends keyof SessionFiles> = Parameters<SessionFiles[Name]>[0]

const readShape = new Shape<Request<'read'>>({ path: true, offset: true, length: true })

const modeShape = new Shape<Request<'setMode'>>({ path: true, mode: true })

/**
 * The files of a session. Like `session.files` of a local engine, with the differences below. Each method
 * also throws the errors of {@link connect}, and `SESSION_NOT_FOUND` when the session was deleted.
 */
export class RemoteFiles
  extends remoteService('session.files', 'write', 'append', 'readWithHash', 'setXattr', 'patchSegments')
  implements PublicOf<SessionFiles>
{
  /**
   * Writes a whole file. Sends an async iterable, or more than 8 MiB of bytes, as a stream.
   *
   * @throws {EngineError} HASH_MISMATCH when the file does not have `expectedHash`
   * @throws {EngineError} ALREADY_EXISTS when the file exists and `exclusive` is true
   * @throws {EngineError} IS_A_DIRECTORY, NOT_A_DIRECTORY when the path, or a part of it, has another kind
   * @throws {EngineError} PATH_NOT_FOUND when a parent is missing and `createParents` is false
   * @throws {EngineError} FILE_TOO_LARGE when the content is larger than the engine allows
   *
   * @example
   * await session.files.write({ path: '/src/a.ts', content: 'export const a = 1' })
   */
  async write(request: Request<'write'>): Promise<void> {
    const { content, ...rest } = checked(request)
    if (isPieces(content)) return callsOf(this).send(rest, content)
    const bytes = toBytes(content, 'content')
    if (bytes.byteLength > clientLimits.pieceBytes) return callsOf(this).send(rest, bytes.slice())
    await callsOf(this).run('writeFile', { ...rest, content: bytes })
  }

  /**
   * Appends to a file, which is created if it does not exist. Sends the content in one request.
   *
   * @throws {EngineError} LIMIT_EXCEEDED when the content is larger than a request of the server may be,
   * about 12 MiB
   * @throws {EngineError} HASH_MISMATCH when the file does not have `expectedHash`
   * @throws {EngineError} IS_A_DIRECTORY, NOT_A_DIRECTORY when the path, or a part of it, has another kind
   * @throws {EngineError} PATH_NOT_FOUND when a parent is missing and `createParents` is false
   *
   * @example
   * await session.files.append({ path: '/log.txt', content: 'done' })
   */
  async append(request: Request<'append'>): Promise<void> {
    await callsOf(this).run('appendFile', withContent(request))
  }

  /**
   * Reads a file, or a part of it. Reads a large file with several requests, and returns one consistent
   * content.
   *
   * @throws {EngineError} HASH_MISMATCH when the file changed during each of five attempts
   * @throws {EngineError} PATH_NOT_FOUND when the file does not exist
   * @throws {EngineError} IS_A_DIRECTORY when the path is a directory
   *
   * @example
   * const content = await session.files.read({ path: '/a.txt', offset: 0, length: 1024 })
   */
  async read(request: Request<'read'>): Promise<Uint8Array> {
    return (await this.readWithHash(request)).content
  }

  /**
   * Reads a file in pieces. Leaving the loop over the stream ends the request.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the file does not exist
   * @throws {EngineError} IS_A_DIRECTORY when the path is a directory
   *
   * @example
   * for await (const piece of await session.files.readStream({ path: '/large.bin' })) console.log(piece.byteLength)
   */
  async readStream(request: Request<'readStream'>): Promise<ContentStream> {
    const { content, length, sizeBytes } = await callsOf(this).receive(readShape.read(request))
    return { length, sizeBytes, [Symbol.asyncIterator]: () => content }
  }

  async readWithHash(request: Request<'readWithHash'>): ReturnType<SessionFiles['readWithHash']> {
    const { path, offset = 0, length = Number.MAX_SAFE_INTEGER } = readShape.read(request)
    for (let reading = 0; reading < clientLimits.readings; reading++) {
      const pieces: Uint8Array[] = []
      let read = 0
      let hash: string | undefined
      for (;;) {
        const part = { path, offset: offset + read, length: Math.min(length - read, clientLimits.pieceBytes) }
        const { content, contentHash, sizeBytes } = await callsOf(this).call('readFile', part)
        hash ??= contentHash
        if (contentHash !== hash) break
        pieces.push(content)
        read += content.byteLength
        if (content.byteLength < clientLimits.pieceBytes || read >= length || offset + read >= sizeBytes)
          return { content: concat(pieces), contentHash, sizeBytes }
      }
    }
    throw new EngineError('HASH_MISMATCH', 'the file changed while it was read', { path })
  }

  async contentHash(path: string): Promise<string> {
    const { kind, contentHash } = await this.stat({ path, includeContentHash: true })
    if (kind === 'file') return contentHash
    throw new EngineError('IS_A_DIRECTORY', `${path} is a directory`, { path })
  }

  async setMode(request: Request<'setMode'>): Promise<void> {
    const { path, mode } = modeShape.read(request)
    return callsOf(this).run('setAttributes', { path, mode })
  }

  readSymlink(path: string): ReturnType<SessionFiles['readSymlink']> {
    return callsOf(this).call('readSymlink', { path })
  }

  async batch(operations: readonly BatchOperation[]): Promise<void> {
    const copy = copyOf(operations, 'operations')
    const wire = Array.isArray(copy) ? Array.from(copy, toOperation) : copy
    await callsOf(this).run('applyBatch', { operations: wire as InSession<'applyBatch'>['operations'] })
  }

  async patchSegments(request: Request<'patchSegments'>): ReturnType<SessionFiles['patchSegments']> {
    const copy = checked(request)
    const { mutations } = copy
    return callsOf(this).call('patchSegments', {
      ...copy,
      mutations: Array.isArray(mutations)
        ? Array.from(mutations as readonly SegmentWriteRequest[], (one, index) =>
            toSegmentWrite(one, `mutations[${index}]`),
          )
        : mutations,
    } as InSession<'patchSegments'>)
  }

  async setXattr(request: Request<'setXattr'>): Promise<void> {
    const copy = checked(request)
    await callsOf(this).run('setXattr', { ...copy, value: toBytes(copy.value, 'value') })
  }
}

function isPieces(content: Request<'write'>['content']): content is AsyncIterable<Uint8Array> {
  return typeof content === 'object' && content !== null && Symbol.asyncIterator in content
}

function withContent<T extends { readonly content: FileContent }>(
  request: T,
  field = 'content',
  within = 'request',
): Omit<T, 'content'> & { readonly content: Uint8Array } {
  const copy = checked(request, within)
  return { ...copy, content: toBytes(copy.content, field) }
}

/** Encodes an operation. An invalid one stays unchanged, and the encoder of the request rejects it. */
function toOperation(operation: BatchOperation, index: number): unknown {
  const { write, segmentWrite } = operation ?? {}
  const field = `operations[${index}]`
  if (write !== undefined)
    return { ...operation, write: withContent(write, `${field}.write.content`, `${field}.write`) }
  if (segmentWrite === undefined) return operation
  return { ...operation, segmentWrite: toSegmentWrite(segmentWrite, `${field}.segmentWrite`) }
}

function toSegmentWrite(request: SegmentWriteRequest, field: string): unknown {
  const { segments } = request ?? {}
  if (!Array.isArray(segments)) return request
  return {
    ...request,
    segments: Array.from(segments as readonly SegmentChunk[], (chunk, index) =>
      chunk?.data === undefined
        ? chunk
        : { ...chunk, data: withContent(chunk.data, `${field}.segments[${index}].data.content`) },
    ),
  }
}
