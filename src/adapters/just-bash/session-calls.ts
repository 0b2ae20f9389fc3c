import { DefenseInDepthBox } from 'just-bash'
import type { Session } from '../../engine/index.js'
import { justBashLimits } from './limits.js'

type SessionFs = Session['fs']

const reads = ['lstat', 'readFile', 'readdir', 'readlink', 'realpath', 'stat'] as const
const changes = [
  'appendFile',
  'chmod',
  'cp',
  'link',
  'mkdir',
  'rename',
  'rm',
  'rmdir',
  'symlink',
  'utimes',
  'writeFile',
] as const

/** The calls of `session.fs.promises` that the file system makes. */
export type SessionCalls = Pick<SessionFs['promises'], (typeof reads | typeof changes)[number]>

/** Whether a change waits until the store has it, or the commit of a draft waits for all of them. */
export type Acknowledgement = 'each change' | 'the draft'

// While a script runs, just-bash replaces these globals.
const { setImmediate: later } = globalThis
const now = performance.now.bind(performance)

/** A command whose file system makes the calls. */
export interface Running {
  /** Whether the command has ended. */
  readonly hasEnded: boolean
}

/**
 * The calls, outside of the restrictions that just-bash puts on its scripts. They are synchronous where possible, which saves
 * the turns of the event loop that a promise takes, and give way to timers and signals from time to time.
 *
 * just-bash may end a command before all of its calls have settled. Their errors would then have no handler, and Node ends
 * the process for such an error. So after the end of the command, its calls never settle.
 */
export function sessionCalls(
  current: () => SessionFs,
  acknowledgement: Acknowledgement,
  running: Running = { hasEnded: false },
): SessionCalls {
  let turnAt = now()
  const made: Record<string, Call> = {}
  const atOnce = new Set<string>(acknowledgement === 'the draft' ? [...reads, ...changes] : reads)
  for (const name of [...reads, ...changes]) {
    const call: Call = async (...args) => {
      if (now() - turnAt > justBashLimits.sliceMs) {
        await new Promise<void>((resolve) => void later(resolve))
        turnAt = now()
      }
      if (running.hasEnded) throw new Error('the command has ended')
      const fs = current()
      const promises = fs.promises as unknown as Record<string, Call>
      if (!atOnce.has(name)) return promises[name]?.(...args)
      try {
        return (fs as unknown as Record<string, Call>)[`${name}Sync`]?.(...args)
      } catch (error) {
        if ((error as { code?: unknown }).code !== 'EAGAIN') throw error
        return promises[name]?.(...args)
      }
    }
    // After the end, just-bash blocks its own handlers of promises too, so an error must not leave this function.
    const settled = async (args: readonly unknown[]): Promise<Settled> => {
      try {
        return { value: await call(...args) }
      } catch (error) {
        return { error }
      }
    }
    made[name] = async (...args) => {
      const result = await DefenseInDepthBox.runTrustedAsync(async () => settled(args))
      if (running.hasEnded) await new Promise(() => undefined)
      if ('error' in result) throw result.error
      return result.value
    }
  }
  return made as unknown as SessionCalls
}

type Call = (...args: unknown[]) => unknown

type Settled = { readonly value: unknown } | { readonly error: unknown }
