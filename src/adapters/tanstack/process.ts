import type { ProcessOptions, SandboxProcess, SpawnHandle } from '@tanstack/ai-sandbox'
import { checkSignal, EngineError, given, invalid, Shape, untilAborted } from '../../engine/ports.js'
import type { CommandOutcome } from '../tools/index.js'
import { inSession } from './paths.js'
import { checkedVariables, type SandboxState } from './sandbox-state.js'

/** The exit code of a process that was killed, as shells report SIGKILL. */
const killedCode = 137

const optionsShape = new Shape<ProcessOptions>({ cwd: true, env: true, signal: true })

/** The commands of a sandbox. Their output comes when they end. */
export function processOf(state: SandboxState): SandboxProcess {
  let started = 0
  const start = (command: unknown, given: ProcessOptions, stop?: AbortSignal): Promise<CommandOutcome> => {
    const { cwd, env, signal } = checked(command, given)
    state.requireExec()
    signal?.throwIfAborted()
    const either = AbortSignal.any([signal, stop].filter((one) => one !== undefined))
    const run = state.run(String(command), { cwd, env, signal: either })
    return untilAborted(run, either)
  }
  return {
    exec: async (command, options = {}) => {
      const { stdout, stderr, exitCode } = await start(command, options)
      return { stdout, stderr, exitCode }
    },
    spawn: async (command, options = {}) => {
      checked(command, options)
      state.requireExec()
      started += 1
      return spawned((stop) => start(command, options, stop), started)
    },
  }
}

function checked(command: unknown, options: ProcessOptions) {
  if (typeof command !== 'string') throw invalid('command', `must be a string; it is ${given(command)}`)
  const { cwd = '.', env = {}, signal } = optionsShape.read(options, 'options')
  checkSignal(signal)
  return { cwd: inSession(cwd, 'cwd'), env: checkedVariables(env), signal }
}

function spawned(work: (stop: AbortSignal) => Promise<CommandOutcome>, pid: number): SpawnHandle {
  const stop = new AbortController()
  const killed = new Error('the command was killed')
  const outcome = work(stop.signal).catch((error: unknown) => {
    if (stop.signal.reason !== killed) throw error
    return { stdout: '', stderr: '', exitCode: killedCode }
  })
  // A caller need not wait: a failure is then no unhandled rejection.
  outcome.catch(() => undefined)
  const noInput = (): never => {
    throw new EngineError(
      'NO_ADAPTER',
      'commands of this sandbox have no standard input: write it to a file, and redirect that',
    )
  }
  return {
    pid,
    stdout: output(outcome, 'stdout'),
    stderr: output(outcome, 'stderr'),
    stdin: { write: async () => noInput(), end: async () => undefined },
    wait: async () => (await outcome).exitCode,
    kill: async () => stop.abort(killed),
  }
}

async function* output(outcome: Promise<CommandOutcome>, name: 'stdout' | 'stderr'): AsyncGenerator<string> {
  const { [name]: text } = await outcome
  if (text !== '') yield text
}
