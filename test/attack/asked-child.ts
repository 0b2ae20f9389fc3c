import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { compiledAttacks } from './compiled-attacks.js'

/** A child process that answers each message with one message. */
export class AskedChild {
  readonly #child: ChildProcess
  #answered: ((answer: unknown) => void) | undefined
  hasEnded = false

  private constructor(child: ChildProcess) {
    this.#child = child
    child.on('message', (answer) => this.#answered?.(answer))
    child.once('exit', () => {
      this.hasEnded = true
      this.#answered?.(undefined)
    })
  }

  /** @param file name of a compiled file in this directory */
  static async start(file: string): Promise<AskedChild> {
    const child = fork(join(await compiledAttacks(), file), { stdio: 'ignore' })
    await once(child, 'spawn')
    return new AskedChild(child)
  }

  /** @throws Error if the process ends first */
  async ask<Response>(message: object): Promise<Response> {
    const answered = new Promise<unknown>((resolve) => (this.#answered = resolve))
    this.#child.send(message)
    const answer = await answered
    if (answer === undefined) throw new Error('the process ended')
    return answer as Response
  }

  end(): void {
    this.#child.kill('SIGKILL')
  }
}
