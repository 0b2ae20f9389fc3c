import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { compiledAttacks } from './compiled-attacks.js'

/** A process of its own that answers each message by one message. */
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

  /** @param file name of a compiled file of this folder */
  static async start(file: string): Promise<AskedChild> {
    const child = fork(join(await compiledAttacks(), file), { stdio: 'ignore' })
    await once(child, 'spawn')
    return new AskedChild(child)
  }

  /** @throws Error when the process ends instead */
  async ask<Answer>(message: object): Promise<Answer> {
    const answered = new Promise<unknown>((resolve) => (this.#answered = resolve))
    this.#child.send(message)
    const answer = await answered
    if (answer === undefined) throw new Error('the process ended')
    return answer as Answer
  }

  end(): void {
    this.#child.kill('SIGKILL')
  }
}
