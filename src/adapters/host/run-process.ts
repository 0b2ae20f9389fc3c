import { Buffer } from 'node:buffer'
import { spawn, type ChildProcess } from 'node:child_process'
import { promises as fs } from 'node:fs'
import process from 'node:process'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { EngineError, onAborted, type ProcessRequest, type ProcessResult } from '../../engine/ports.js'
import { errnoOf } from './host-errors.js'
import { hostLimits } from './limits.js'

/** Implements the port {@link ProcessRequest}. On Windows, only the process itself is killed, not its children. */
export async function runProcess(request: ProcessRequest): Promise<ProcessResult> {
  const { command, args, directory, env, stdin, timeoutMs, maxOutputBytes, signal } = request
  if ((await fs.stat(directory).catch(() => undefined))?.isDirectory() !== true)
    throw new EngineError('PATH_NOT_FOUND', 'cwd is no directory of the session')
  signal.throwIfAborted()
  const child = spawn(command, args, { cwd: directory, env: { ...env }, detached: true, stdio: 'pipe' })
  let timedOut = false
  const timer = setTimeout(() => {
    timedOut = true
    killGroup(child)
  }, timeoutMs)
  const release = onAborted(signal, () => killGroup(child))
  try {
    const outputs = [
      new Output(child.stdout, maxOutputBytes),
      new Output(child.stderr, maxOutputBytes),
    ] as const
    // The process may end before it has read everything.
    child.stdin.on('error', () => undefined)
    child.stdin.end(stdin)
    const closed = new Promise<void>((resolve) => void child.once('close', resolve))
    const [exitCode, killedBy] = await ended(child, command)
    // Children that outlive the command must not change its files during the sync.
    await endGroup(child)
    // A process that left the group may keep the outputs open.
    await Promise.race([closed, sleep(hostLimits.outputGraceMs, undefined, { ref: false })])
    for (const output of outputs) output.stop()
    signal.throwIfAborted()
    const [stdout, stderr] = outputs
    return {
      exitCode,
      signal: killedBy,
      stdout: stdout.bytes,
      stderr: stderr.bytes,
      truncated: stdout.truncated || stderr.truncated,
      timedOut,
    }
  } finally {
    release()
    clearTimeout(timer)
  }
}

function ended(
  child: ChildProcess,
  command: string,
): Promise<[exitCode: number | null, signal: NodeJS.Signals | null]> {
  return new Promise((resolve, reject) => {
    child.once('exit', (exitCode, signal) => resolve([exitCode, signal]))
    child.once('error', (error) => {
      const errno = errnoOf(error) ?? 'UNKNOWN'
      const message = `the host could not start the command ${JSON.stringify(command)}: ${errno}`
      reject(new EngineError('HOST_FAILED', message + adviceFor(command, errno), { errno }))
    })
  })
}

/** What to do about a program that does not exist. A newcomer may pass a whole command line, as to a shell. */
function adviceFor(command: string, errno: string): string {
  if (errno !== 'ENOENT') return ''
  const [program = '', ...args] = command.trim().split(/\s+/)
  if (args.length === 0) return '. Check its name and the option exec.path'
  const [separate, line] = [JSON.stringify(args), JSON.stringify(['-c', command])]
  return `. Pass the arguments separately: command ${JSON.stringify(program)} with args ${separate}; or run a shell: command "sh" with args ${line}`
}

/** Kills all processes of the group. Returns false if there are none. */
function killGroup({ pid }: ChildProcess, signal: NodeJS.Signals | 0 = 'SIGKILL'): boolean {
  if (pid === undefined) return false
  try {
    return process.kill(process.platform === 'win32' ? pid : -pid, signal)
  } catch {
    return false
  }
}

/** Kills what is left of the group, and waits until it has ended. */
async function endGroup(child: ChildProcess): Promise<void> {
  if (!killGroup(child)) return
  for (
    let waited = 0;
    waited < hostLimits.groupGraceMs && killGroup(child, 0);
    waited += hostLimits.groupStepMs
  )
    await sleep(hostLimits.groupStepMs)
}

/** The first bytes of a stream. */
class Output {
  truncated = false
  readonly #stream: Readable
  readonly #pieces: Uint8Array[] = []
  #free: number

  constructor(stream: Readable, maxBytes: number) {
    this.#stream = stream
    this.#free = maxBytes
    stream.on('error', () => undefined)
    stream.on('data', (piece: Buffer) => {
      if (piece.length > this.#free) this.truncated = true
      const kept = piece.subarray(0, this.#free)
      this.#free -= kept.length
      if (kept.length > 0) this.#pieces.push(kept)
    })
  }

  get bytes(): Uint8Array {
    return Buffer.concat(this.#pieces)
  }

  stop(): void {
    this.#stream.destroy()
  }
}
