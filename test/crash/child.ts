import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { execPath } from 'node:process'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

/**
 * Runs a script of this directory and kills it some time after it has printed a line. Resolves with whether the kill
 * came before the script ended.
 */
export async function runUntilKilled(
  script: string,
  settings: object,
  { line, delayMs }: { readonly line: string; readonly delayMs: number },
  { beforeKill }: { readonly beforeKill?: (pid: number) => Promise<void> } = {},
): Promise<boolean> {
  const file = fileURLToPath(new URL(script, import.meta.url))
  const child = spawn(execPath, ['--enable-source-maps', file, JSON.stringify(settings)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  await printed(child, line)
  await Promise.race([sleep(delayMs), exited])
  if (child.exitCode === null && child.pid !== undefined) await beforeKill?.(child.pid)
  child.kill('SIGKILL')
  const [, signal] = (await exited) as [number | null, string | null]
  return signal === 'SIGKILL'
}

/** Resolves when the child has printed the line, or has ended. */
async function printed(child: ChildProcess, wanted: string): Promise<void> {
  for await (const line of createInterface({ input: child.stdout! })) if (line === wanted) return
}
