import { paint, wantsColour, type Style } from './colour.js'
import { OutputClosed } from './failure.js'
import { asJson } from './printable.js'
import type { World } from './world.js'

const bufferedChars = 64 * 1024

/**
 * What a command prints on standard output. Lines are gathered and written in pieces; a reader that went away, as
 * `head` does, ends the command by OutputClosed.
 */
export class Output {
  readonly json: boolean
  /** Whether people read it, on a terminal that acts on control characters. */
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

  /** The text in the colour of the style, where standard output has colours. */
  paint(style: Style, text: string): string {
    return this.#hasColour ? paint(style, text) : text
  }

  /** One line: the text for people, or the value for programs. */
  async line(text: string | (() => string), value: unknown): Promise<void> {
    this.#text += `${this.json ? asJson(value) : typeof text === 'string' ? text : text()}\n`
    if (this.#text.length >= bufferedChars) await this.flush()
  }

  /** Rows of columns, aligned, with the last one as long as it is; or one value a line. */
  async table(
    rows: readonly { readonly cells: readonly string[]; readonly value: unknown }[],
  ): Promise<void> {
    const widths: number[] = []
    for (const { cells } of rows)
      for (const [at, cell] of cells.entries()) widths[at] = Math.max(widths[at] ?? 0, cell.length)
    for (const { cells, value } of rows) {
      const text = (): string =>
        cells
          .map((cell, at) => cell.padEnd(widths[at]!))
          .join('  ')
          .trimEnd()
      await this.line(text, value)
    }
  }

  /** Bytes as they are. They must not be changed before the promise is settled. */
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
      // Called with an error too, which the listener has by then, or gets next.
      this.#stream.write(chunk, () => setImmediate(resolve))
    })
    this.#check()
  }

  #check(): void {
    if (this.#closed) throw new OutputClosed()
    if (this.#failure !== undefined) throw this.#failure
  }
}
