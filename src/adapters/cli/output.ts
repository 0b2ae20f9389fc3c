import { paint, wantsColour, type Style } from './colour.js'
import { OutputClosed } from './failure.js'
import { cliLimits } from './limits.js'
import { asJson } from './printable.js'
import type { World } from './world.js'

/**
 * The standard output of a command. It buffers lines. If the reader closes the pipe, as `head` does, the next
 * write throws OutputClosed.
 */
export class Output {
  readonly json: boolean
  /** Whether the output goes to a terminal, which interprets control characters. */
  readonly isTerminal: boolean
  readonly #stream: NodeJS.WriteStream
  readonly #hasColour: boolean
  #text = ''
  #closed = false
  #failure: Error | undefined

  constructor({ stdout: stream, env }: Pick<World, 'stdout' | 'env'>, options: { readonly json: boolean }) {
    this.json = options.json
    this.isTerminal = stream.isTTY
    this.#stream = stream
    this.#hasColour = !options.json && wantsColour(stream, env)
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE' || error.code === 'ERR_STREAM_DESTROYED') this.#closed = true
      else this.#failure ??= error
    })
  }

  /** Returns the text in the colour of the style, if the output has colours. */
  paint(style: Style, text: string): string {
    return this.#hasColour ? paint(style, text) : text
  }

  /** Prints one line: the text or, with `--json`, the value. */
  async line(text: string | (() => string), value: unknown): Promise<void> {
    this.#text += `${this.json ? asJson(value) : typeof text === 'string' ? text : text()}\n`
    if (this.#text.length >= cliLimits.bufferedChars) await this.flush()
  }

  /** Prints rows with aligned columns or, with `--json`, one value per line. */
  async table(
    rows: readonly { readonly cells: readonly string[]; readonly value: unknown }[],
  ): Promise<void> {
    const widths: number[] = []
    for (const { cells } of rows)
      for (const [at, cell] of cells.entries()) widths[at] = Math.max(widths[at] ?? 0, cell.length)
    for (const { cells, value } of rows) {
      const text = (): string =>
        cells
          .map((cell, at) => cell.padEnd(widths[at] ?? 0))
          .join('  ')
          .trimEnd()
      await this.line(text, value)
    }
  }

  /** Prints bytes unchanged. The caller must not modify them before the promise settles. */
  async bytes(bytes: Uint8Array): Promise<void> {
    await this.flush()
    await this.#write(bytes)
  }

  async flush(): Promise<void> {
    const text = this.#text
    this.#text = ''
    if (text !== '') await this.#write(text)
  }

  async #write(chunk: string | Uint8Array): Promise<void> {
    this.#check()
    await new Promise<void>((resolve) => {
      // The callback is also called for errors. The `error` listener has recorded them by the next turn of
      // the event loop.
      this.#stream.write(chunk, () => setImmediate(resolve))
    })
    this.#check()
  }

  #check(): void {
    if (this.#closed) throw new OutputClosed()
    if (this.#failure !== undefined) throw this.#failure
  }
}
