import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { execPath } from 'node:process'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

export const leaseSeconds = 1
/** Longer than a lease. */
const suspendedMs = 1500

/** Starts a program of this directory that prints `ready`, and ends when its input does. */
export async function startWriter(program: string, settings: object): Promise<ChildProcess> {
  const file = fileURLToPath(new URL(program, import.meta.url))
  const child = spawn(execPath, ['--enable-source-maps', file, JSON.stringify(settings)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  if (child.stdout !== null)
    for await (const line of createInterface({ input: child.stdout })) if (line === 'ready') break
  return child
}

export async function endWriter(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit')
  child.stdin?.end()
  const [code] = (await exited) as [number | null]
  if (code !== 0) throw new Error(`a writer ended with ${code}`)
}

/** Suspends a writer until its lease has expired. */
export async function suspendWriter(child: ChildProcess): Promise<void> {
  child.kill('SIGSTOP')
  await sleep(suspendedMs)
  child.kill('SIGCONT')
}
