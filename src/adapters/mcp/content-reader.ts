import type { SessionApi } from '../../engine/index.js'
import { EngineError } from '../../engine/ports.js'
import { limits } from './limits.js'

export interface Content {
  readonly content: Uint8Array
  readonly contentHash: string
  readonly sizeBytes: number
}

/**
 * Reads whole files for the answers of one server, which hold at most `maxBytes` of them. It reads one file at a time, because
 * the contents of many files that it then refuses would be in memory together.
 */
export class ContentReader {
  #left: number
  readonly #maxBytes: number
  #last: Promise<unknown> = Promise.resolve()

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
    this.#left = maxBytes
  }

  /**
   * The content of a file.
   *
   * @throws {EngineError} TOO_LARGE when a message cannot hold it, or not together with the contents before it.
   */
  read(session: SessionApi, path: string): Promise<Content> {
    const content = this.#last.catch(() => undefined).then(() => this.#readNow(session, path))
    this.#last = content
    return content
  }

  async #readNow(session: SessionApi, path: string): Promise<Content> {
    const read = await session.files.readWithHash({ path, length: limits.contentBytes })
    if (read.sizeBytes > limits.contentBytes)
      throw new EngineError('TOO_LARGE', `${path} has ${read.sizeBytes} bytes, too many for one message`, {
        limit: String(limits.contentBytes),
      })
    if (read.sizeBytes > this.#left)
      throw new EngineError(
        'TOO_LARGE',
        `${path} was not read, because the files before it fill the answer: read it with another request`,
        { path, limit: String(this.#maxBytes) },
      )
    this.#left -= read.sizeBytes
    return read
  }
}
