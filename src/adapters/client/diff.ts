import type { Change, Diff, PublicOf } from '../../engine/index.js'
import { parseAtCall, type OperationRequest } from '../../engine/client-contract.js'
import { pages } from './pages.js'
import type { Given, Transport } from './transport.js'

type DiffRequest = Given<OperationRequest<'diff'>>

/** The changes from one state to another. Each page compares the states at the time of its request. */
export class RemoteDiff implements PublicOf<Diff> {
  readonly #transport: Transport
  readonly #request: () => DiffRequest

  /**
   * An error that `request` throws is rethrown when the diff is read.
   *
   * @internal
   */
  constructor(transport: Transport, request: () => DiffRequest) {
    this.#transport = transport
    this.#request = parseAtCall(request)
  }

  /**
   * The changes, in manifest order. It requests one page after the other.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the request is invalid
   * @throws {EngineError} SESSION_NOT_FOUND, CHECKPOINT_NOT_FOUND when a state does not exist
   *
   * @example
   * for await (const { change, path } of fork.diff(session)) console.log(change, path)
   */
  [Symbol.asyncIterator](): AsyncGenerator<Change, void, undefined> {
    return pages(async (page) => {
      const { changes, nextPageToken } = await this.#transport.call('diff', { ...this.#request(), ...page })
      return [changes, nextPageToken]
    })
  }

  async paths(): ReturnType<Diff['paths']> {
    const paths = { added: [] as string[], removed: [] as string[], modified: [] as string[] }
    for await (const { path, change } of this) paths[change].push(path)
    return paths
  }

  /**
   * Does nothing, because the server holds the states only during each request.
   *
   * @example
   * using diff = fork.diff(session)
   */
  [Symbol.dispose](): void {}
}
