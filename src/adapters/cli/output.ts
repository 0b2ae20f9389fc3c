import type { Writable } from 'node:stream'
import { paint, wantsColour, type Style } from './colour.js'
import { OutputClosed } from './failure.js'
import { cliLimits } from './limits.js'
import { startPager, type Pager } from './pager.js'
import { asJson } from './printable.js'
import type { World } from './world.js'

function ignore(): void {}

/**
 * The standard output of a command. It buffers lines. If the reader closes the pipe, as `head` does, the next
 * write throws OutputClosed.
 */
export class Output {
  readonly json: boolean
  /** Whether the output goes to a terminal, which interprets control characters. */
  readonly isTerminal: boolean
  readonly #world: Pick<World, 'stdout' | 'env' | 'on' | 'removeListener'>
  #stream: Writable
  #pager: Pager | undefined
  readonly #hasColour: boolean
  #text = ''
  #closed = false
  #failure: Error | undefined

  constructor(
    world: Pick<World, 'stdout' | 'env' | 'on' | 'removeListener'>,
    options: { readonly json: boolean },
  ) {
    const { stdout, env } = world
    this.json = options.json
    this.isTerminal = stdout.isTTY
    this.#world = world
    this.#stream = stdout
    this.#hasColour = !options.json && wantsColour(stdout, env)
    this.#watch(stdout)
  }

  #watch(stream: Writable): void {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE' || error.code === 'ERR_STREAM_DESTROYED') this.#closed = true
      else this.#failure ??= error
    })
  }

  /** Shows the output that follows in a pager, if there is a terminal. Call {@link end} after the last line. */
  async page(): Promise<void> {
    if (this.json) return
    this.#pager = await startPager(this.#world)
    if (this.#pager === undefined) return
    // An interrupt is for the pager, which runs in the foreground.
    this.#world.on('SIGINT', ignore)
    this.#stream = this.#pager.input
    this.#watch(this.#stream)
  }

  /** Ends the output: waits until the reader of a pager has left it. */
  async end(): Promise<void> {
    const pager = this.#pager
    if (pager === undefined) return
    this.#pager = undefined
    pager.input.end()
    await pager.ended
    this.#world.removeListener('SIGINT', ignore)
    this.#stream = this.#world.stdout
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
