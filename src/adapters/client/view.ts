import type { SessionFiles, SessionView } from '../../engine/index.js'
import { EngineError, Shape } from '../../engine/client-contract.js'
import { concat } from './bytes.js'
import { checked } from './checked.js'
import { clientLimits } from './limits.js'
import type { SessionCalls } from './session-calls.js'

type Request<Name extends keyof SessionFiles> = Parameters<SessionFiles[Name]>[0]

const readShape = new Shape<Request<'read'>>({ path: true, offset: true, length: true })

type At = { readonly at: { readonly base: true } | { readonly eventId: string } }

/** One state of a session on a server, for reading. */
export class RemoteView implements Disposable {
  /** The id of the session. */
  readonly sessionId: string
  /** The `eventId` of the newest event of the state; '' for the base. */
  readonly eventId: string
  /** The files of the state. */
  readonly files: RemoteViewFiles
  readonly #calls: SessionCalls
  readonly #at: At

  /** @internal */
  constructor(calls: SessionCalls, eventId: string) {
    this.sessionId = calls.sessionId
    this.eventId = eventId
    this.#calls = calls
    this.#at = { at: eventId === '' ? { base: true } : { eventId } }
    this.files = new RemoteViewFiles(calls, this.#at)
  }

  /**
   * A page of the tree of the state.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the page token is of another listing
   *
   * @example
   * await session.checkpoint({ checkpointLabel: 'before' })
   * using view = await session.at({ checkpointLabel: 'before' })
   * const { nodes, manifestHash } = await view.manifest({ pathPrefix: '/src/' })
   */
  manifest(request: Parameters<SessionView['manifest']>[0] = {}): ReturnType<SessionView['manifest']> {
    return this.#calls.call('getManifestAt', { ...checked(request), ...this.#at })
  }

  /** Does nothing: the server keeps nothing for a view. */
  [Symbol.dispose](): void {}
}

/** The files of one state of a session on a server. */
export class RemoteViewFiles {
  readonly #calls: SessionCalls
  readonly #at: At

  /** @internal */
  constructor(calls: SessionCalls, at: At) {
    this.#calls = calls
    this.#at = at
  }

  /**
   * Reads a file, or a part of it. Reads a large file with several requests.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the file does not exist
   * @throws {EngineError} IS_A_DIRECTORY when the path is a directory
   *
   * @example
   * await session.checkpoint({ checkpointLabel: 'before' })
   * using view = await session.at({ checkpointLabel: 'before' })
   * const content = await view.files.read({ path: '/src/a.ts' })
   */
  async read(request: Request<'read'>): Promise<Uint8Array> {
    return (await this.readWithHash(request)).content
  }

  /**
   * Reads like {@link read}, and returns hash and size of the whole content too.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the file does not exist
   * @throws {EngineError} IS_A_DIRECTORY when the path is a directory
   *
   * @example
   * await session.checkpoint({ checkpointLabel: 'before' })
   * using view = await session.at({ checkpointLabel: 'before' })
   * const { contentHash } = await view.files.readWithHash({ path: '/src/a.ts', length: 0 })
   */
  async readWithHash(request: Request<'readWithHash'>): ReturnType<SessionFiles['readWithHash']> {
    const { path, offset = 0, length = Number.MAX_SAFE_INTEGER } = readShape.read(request)
    const pieces: Uint8Array[] = []
    for (let read = 0; ;) {
      const part = { path, offset: offset + read, length: Math.min(length - read, clientLimits.pieceBytes) }
      const { content, contentHash, sizeBytes } = await this.#calls.call('readFileAt', {
        ...part,
        ...this.#at,
      })
      pieces.push(content)
      read += content.byteLength
      if (content.byteLength < clientLimits.pieceBytes || read >= length || offset + read >= sizeBytes)
        return { content: concat(pieces), contentHash, sizeBytes }
    }
  }

  /**
   * The attributes of the file, directory or symlink at a path.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist
   *
   * @example
   * await session.checkpoint({ checkpointLabel: 'before' })
   * using view = await session.at({ checkpointLabel: 'before' })
   * const { sizeBytes } = await view.files.stat({ path: '/src/a.ts' })
   */
  stat(request: Request<'stat'>): ReturnType<SessionFiles['stat']> {
    return this.#calls.call('statPathAt', { ...checked(request), ...this.#at })
  }

  /**
   * A page of the entries of a directory.
   *
   * @throws {EngineError} NOT_A_DIRECTORY when the path is not a directory
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist
   *
   * @example
   * await session.checkpoint({ checkpointLabel: 'before' })
   * using view = await session.at({ checkpointLabel: 'before' })
   * const { entries } = await view.files.list({ path: '/src' })
   */
  list(request: Request<'list'>): ReturnType<SessionFiles['list']> {
    return this.#calls.call('listDirectoryAt', { ...checked(request), ...this.#at })
  }

  /**
   * `sha256:<hex>` of the whole content of a file.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist
   * @throws {EngineError} IS_A_DIRECTORY when the path is a directory
   *
   * @example
   * await session.checkpoint({ checkpointLabel: 'before' })
   * using view = await session.at({ checkpointLabel: 'before' })
   * const hash = await view.files.contentHash('/src/a.ts')
   */
  async contentHash(path: string): Promise<string> {
    const { kind, contentHash } = await this.stat({ path, includeContentHash: true })
    if (kind === 'file') return contentHash
    throw new EngineError('IS_A_DIRECTORY', `${path} is a directory`, { path })
  }
}
