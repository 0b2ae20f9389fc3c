import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import type { Answer, Request, Task } from './messages.js'

/** A package or program of a contender is missing. */
export class Missing extends Error {}

/** A child process with one contender. */
export class ContenderProcess {
  readonly #child: ChildProcess
  readonly #exited: Promise<unknown>

  private constructor(child: ChildProcess) {
    this.#child = child
    this.#exited = once(child, 'exit')
  }

  static async start(task: Task): Promise<ContenderProcess> {
    const script = new URL('child.js', import.meta.url)
    const child = fork(script, { execArgv: ['--expose-gc'], stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
    const started = new ContenderProcess(child)
    await started.#send(task)
    return started
  }

  /** Sends a request and returns the answer. One at a time. */
  async ask<T>(request: Request, limitMs = 120_000): Promise<T> {
    const over = new AbortController()
    const late = pause(limitMs, undefined, { signal: over.signal }).then(() => {
      throw new Error(`${request.do} took more than ${limitMs / 1000} s`)
    })
    try {
      return (await Promise.race([this.#send(request), late])) as T
    } finally {
      late.catch(() => {})
      over.abort()
    }
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#exited
  }

  async #send(message: Task | Request): Promise<unknown> {
    const errors: string[] = []
    const keep = (part: Buffer): void => void errors.push(part.toString())
    this.#child.stderr!.on('data', keep)
    try {
      const answered = once(this.#child, 'message') as Promise<[Answer]>
      const died = this.#exited.then(() => {
        throw new Error(`the process ended: ${errors.join('').trim().split('\n').at(-1)}`)
      })
      this.#child.send(message)
      const [answer] = await Promise.race([answered, died])
      if ('value' in answer || !('error' in answer)) return (answer as { value: unknown }).value
      throw answer.missing === undefined ? new Error(answer.error) : new Missing(answer.missing)
    } finally {
      this.#child.stderr!.off('data', keep)
    }
  }
}
