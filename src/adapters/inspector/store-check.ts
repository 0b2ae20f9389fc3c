import { EngineError, type CheckOptions, type Engine } from '../../engine/index.js'
import { errorResponse, HttpError } from '../http/parts.js'
import { inspectorLimits } from './limits.js'

interface StoreCheckOptions {
  readonly check: Engine['check']
  /** Receives the error of a check. */
  readonly onError: (error: unknown) => void
}

/** Checks the store of an engine of this process, one check at a time. */
export class StoreCheck {
  readonly #options: StoreCheckOptions
  #isRunning = false

  constructor(options: StoreCheckOptions) {
    this.#options = options
  }

  /**
   * Answers with JSON lines: `{ looked }` now and then, and at the end `{ report }` or `{ error }`. The end of the
   * request ends the check, and then the answer without either of them.
   */
  respond(request: Request, readData: boolean): Response {
    if (this.#isRunning)
      throw new HttpError('QUOTA', 'another check of the store is running: wait for its end')
    this.#isRunning = true
    const gone = new AbortController()
    const signal = AbortSignal.any([request.signal, gone.signal])
    const body = new ReadableStream<Uint8Array>({
      start: (lines) => {
        // It sends its errors, and never rejects.
        this.#run({ readData, signal }, lines)
          .then(() => {
            // A cancelled stream is closed already.
            if (!gone.signal.aborted) lines.close()
          })
          .catch(this.#options.onError)
      },
      cancel: () => gone.abort(),
    })
    return new Response(body, { headers: { 'content-type': 'application/x-ndjson' } })
  }

  async #run(options: CheckOptions, lines: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    const { signal } = options
    const send = (line: unknown): void => {
      if (signal?.aborted !== true) lines.enqueue(Buffer.from(`${JSON.stringify(line)}\n`))
    }
    try {
      send({ looked: 0 })
      // A slow reader misses steps.
      const onProgress = (looked: number): void => {
        if ((lines.desiredSize ?? 0) > 0) send({ looked })
      }
      const { findings, ...counts } = await this.#options.check({ ...options, onProgress })
      send({ report: { ...counts, findings: findings.slice(0, inspectorLimits.checkFindings) } })
    } catch (error) {
      if (signal?.aborted !== true) {
        this.#options.onError(error)
        send({ error: JSON.parse(errorResponse(error).body as string) as unknown })
      }
    } finally {
      this.#isRunning = false
    }
  }
}

/** @throws EngineError `INVALID_ARGUMENT` */
export function parseReadData(query: URLSearchParams): boolean {
  const readData = query.get('readData') ?? 'false'
  if (readData !== 'true' && readData !== 'false')
    throw new EngineError('INVALID_ARGUMENT', 'readData: must be true or false')
  return readData === 'true'
}
