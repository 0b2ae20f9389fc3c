import { z } from 'zod'
import { EngineError, invalid, untilAborted } from '../../engine/ports.js'
import {
  defineTool,
  type CommandOutcome,
  type Workspace,
  type WorkspaceExec,
  type WorkspaceTool,
} from '../tools/parts.js'
import { limits } from './limits.js'

const schema = z.strictObject({
  command: z.string().describe('The command.'),
  timeout: z
    .int()
    .min(1)
    .max(limits.longestCommandMs)
    .optional()
    .describe('The time of the command in milliseconds; 120,000 by default.'),
  description: z.string().optional().describe('What the command does, in a few words.'),
  run_in_background: z.boolean().optional().describe('Must be false: commands end before their call does.'),
  dangerouslyDisableSandbox: z.boolean().optional().describe('Has no effect.'),
})

/** Runs commands by a function of the program. `data.exitCode` is that of the command. */
export function bashTool(workspace: Workspace, exec: WorkspaceExec): WorkspaceTool {
  return defineTool(workspace, {
    name: 'bash',
    description: 'Runs a command in a shell on the files of the workspace. It starts in the root directory.',
    schema,
    hints: { destructive: true },
    async run({ command, timeout = limits.commandMs, run_in_background: isDetached = false }, { call }) {
      if (isDetached) throw invalid('run_in_background', 'must be false: commands end before their call does')
      const { callId, turn } = call
      const context = {
        cwd: '/',
        ...(callId !== undefined && { callId }),
        ...(turn !== undefined && { turn }),
      }
      const outcome = await within(timeout, call.signal, (signal) => exec(command, { ...context, signal }))
      checkOutcome(outcome)
      const { exitCode } = outcome
      return { text: describe(outcome), data: { exitCode } }
    },
  })
}

/** The function is one of the program, so its result can be anything. */
function checkOutcome(outcome: unknown): void {
  const { stdout, stderr, exitCode } = (outcome ?? {}) as Partial<Record<keyof CommandOutcome, unknown>>
  if (typeof stdout !== 'string' || typeof stderr !== 'string' || typeof exitCode !== 'number')
    throw invalid(
      'exec',
      'must resolve to an object with the strings stdout and stderr, and the number exitCode',
    )
}

/** Runs a command for at most a time, and until a signal aborts. */
async function within(
  timeMs: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<CommandOutcome>,
): Promise<CommandOutcome> {
  const stop = new AbortController()
  const abort = (): void => stop.abort(signal?.reason)
  signal?.addEventListener('abort', abort, { once: true })
  const tooSlow = new EngineError('DEADLINE_EXCEEDED', `the command took longer than ${timeMs} ms`, {
    timeoutMs: String(timeMs),
  })
  const timer = setTimeout(() => stop.abort(tooSlow), timeMs)
  try {
    return await untilAborted(work(stop.signal), stop.signal)
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', abort)
  }
}

/** The outputs as Claude Code shows them to models. */
function describe({ stdout, stderr, exitCode }: CommandOutcome): string {
  const parts = [exitCode === 0 ? '' : `Exit code ${exitCode}`, shortened(stdout), shortened(stderr)]
  return parts.filter((part) => part !== '').join('\n')
}

function shortened(output: string): string {
  const text = output.replace(/\n$/, '')
  if (text.length <= limits.outputLength) return text
  const rest = text.length - limits.outputLength
  return `${text.slice(0, limits.outputLength)}\n[${rest} more characters were cut off.]`
}
