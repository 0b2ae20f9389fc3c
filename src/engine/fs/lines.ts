import { EventEmitter } from 'node:events'
import type { ReadStream } from './streams.js'

/**
 * The lines of a stream, without their ends (`\n`, `\r\n` or `\r`): as an async iterable, or by the events
 * 'line' and 'close' from the first listener for lines on.
 */
export class FileLines extends EventEmitter {
  readonly #stream: ReadStream
  #lines: AsyncGenerator<string, void, void> | undefined

  constructor(stream: ReadStream) {
    super()
    this.#stream = stream
    stream.setEncoding('utf8')
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
      // What a listener throws is its own: it must not end the reading.
      for await (const line of this) queueMicrotask(() => this.emit('line', line))
    }
    pump().catch((error: unknown) => {
      queueMicrotask(() => this.emit('error', error))
    })
  }

  async *#read(): AsyncGenerator<string, void, void> {
    let rest = ''
    try {
      for await (const chunk of this.#stream) {
        rest += chunk as string
        // A carriage return at the end may be half of a line's end.
        const whole = rest.endsWith('\r') ? rest.slice(0, -1) : rest
        const lines = whole.split(/\r\n|\n|\r/)
        rest = lines.pop()! + rest.slice(whole.length)
        yield* lines
      }
      if (rest !== '') yield rest.replace(/\r$/, '')
    } finally {
      this.#stream.destroy()
      queueMicrotask(() => this.emit('close'))
    }
  }
}
