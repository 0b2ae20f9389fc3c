import { Buffer } from 'node:buffer'
import { ReadableStream } from 'node:stream/web'
import type { Experimental_SandboxProcess as SandboxProcess } from 'ai'
import { untilAborted } from '../../engine/ports.js'
import type { CommandOutcome } from '../tools/index.js'

/** The exit code of a process that was killed, as shells report SIGKILL. */
const killedCode = 137

/** A running command: its whole result, and the same as a process. */
export interface StartedProcess {
  readonly result: Promise<CommandOutcome>
  readonly process: SandboxProcess
}

/** Runs a command. Its output comes when it ends. `signal` and `kill` end the wait for it, even if it goes on. */
export function startProcess(
  work: (signal: AbortSignal) => Promise<CommandOutcome>,
  signal: AbortSignal | undefined,
): StartedProcess {
  const stop = new AbortController()
  const killed = new Error('the command was killed')
  const abort = (): void => stop.abort(signal?.reason)
  signal?.addEventListener('abort', abort, { once: true })
  const result = untilAborted((async () => work(stop.signal))(), stop.signal)
    .then(({ stdout, stderr, exitCode }) => ({ stdout, stderr, exitCode }))
    .catch((error: unknown) => {
      if (stop.signal.reason !== killed) throw error
      return { stdout: '', stderr: '', exitCode: killedCode }
    })
    .finally(() => signal?.removeEventListener('abort', abort))
  // A caller need not wait: a failure is then no unhandled rejection.
  result.catch(() => undefined)
  return {
    result,
    process: {
      stdout: outputOf(result.then(({ stdout }) => stdout)),
      stderr: outputOf(result.then(({ stderr }) => stderr)),
      wait: async () => ({ exitCode: (await result).exitCode }),
      kill: async () => stop.abort(killed),
    },
  }
}

function outputOf(text: Promise<string>): ReadableStream<Uint8Array> {
  text.catch(() => undefined)
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const bytes = Buffer.from(await text)
      if (bytes.length > 0) controller.enqueue(bytes)
      controller.close()
    },
  })
}
