import { EventEmitter } from 'node:events'
import { itemAt } from '../base/present.js'
import type { ReadStream } from './streams.js'

/**
 * The lines of a stream, without their ends (`\n`, `\r\n` or `\r`). Read them as an async iterable, or by the
 * events 'line' and 'close', which start with the first listener for 'line'.
 */
export class FileLines extends EventEmitter {
  readonly #stream: ReadStream
  #lines: AsyncGenerator<string, void, void> | undefined

  constructor(stream: ReadStream) {
    super()
    this.#stream = stream
    if (stream.readableEncoding === null) stream.setEncoding('utf8')
    this.on('newListener', (name) => {
      if (name === 'line' && this.#lines === undefined) queueMicrotask(() => this.#pump())
    })
  }

  [Symbol.asyncIterator](): AsyncGenerator<string, void, void> {
    return (this.#lines ??= this.#read())
  }

  close(): void {
    this.#stream.destroy()
  }

  #pump(): void {
    const pump = async (): Promise<void> => {
      // An error of a listener must not stop the reading.
      for await (const line of this) queueMicrotask(() => this.emit('line', line))
    }
    pump().catch((error: unknown) => {
      queueMicrotask(() => this.emit('error', error))
    })
  }

  async *#read(): AsyncGenerator<string, void, void> {
    const { autoClose } = this.#stream
    let rest = ''
    let returned = false
    try {
      for await (const read of this.#stream.iterator({ destroyOnReturn: autoClose })) {
        const chunk = read as string
        // `\r\n` may be split between two chunks. Drop the second half.
        const text: string = returned && chunk.startsWith('\n') ? chunk.slice(1) : chunk
        returned = text.endsWith('\r')
        const lines = text.split(/\r\n|\n|\r/)
        lines[0] = rest + itemAt(lines, 0)
        rest = lines.pop() ?? ''
        yield* lines
      }
      if (rest !== '') yield rest
    } finally {
      if (autoClose) this.#stream.destroy()
      queueMicrotask(() => this.emit('close'))
    }
  }
}
