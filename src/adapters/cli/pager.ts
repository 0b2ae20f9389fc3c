import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Writable } from 'node:stream'
import type { World } from './world.js'

/** Characters that only a shell understands. */
const shellCharacters = /[\s"'$`\\|&;<>(){}*?[\]#~]/

/** A running program that shows text page by page. */
export interface Pager {
  readonly input: Writable
  /** Resolves when the program has ended. Close `input` first. */
  readonly ended: Promise<unknown>
}

/**
 * Starts the pager of a terminal: `FORKSPACE_PAGER`, else `PAGER`, else `less`, as git does. It shows colours, and ends at
 * once if the text fits on the screen. Undefined if the variable is empty or `cat`, if the output is no terminal, or if the
 * program does not exist.
 */
export async function startPager({ stdout, env }: Pick<World, 'stdout' | 'env'>): Promise<Pager | undefined> {
  const command = env['FORKSPACE_PAGER'] ?? env['PAGER'] ?? 'less'
  // A pager inherits the standard output of this process.
  if (!stdout.isTTY || stdout !== process.stdout || command === '' || command === 'cat') return undefined
  const child = spawn(command, {
    shell: shellCharacters.test(command),
    stdio: ['pipe', 'inherit', 'inherit'],
    env: { LESS: 'FRX', LV: '-c', ...env },
  })
  return (await hasStarted(child)) ? { input: child.stdin, ended: once(child, 'exit') } : undefined
}

async function hasStarted(child: ChildProcess): Promise<boolean> {
  try {
    await once(child, 'spawn')
    return true
  } catch {
    return false
  }
}
