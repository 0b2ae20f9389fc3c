import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { buffer, text } from 'node:stream/consumers'

export const commandFile = resolve(import.meta.dirname, '../../dist/adapters/cli/main.js')

export interface Finished {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly bytes: Buffer
  readonly stdout: string
  readonly stderr: string
}

export interface CommandOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  readonly input?: string | Uint8Array
}

/** Starts the built command in its own process, with an environment that inherits nothing from this one. */
export function startCommand(args: readonly string[], options: CommandOptions = {}): ChildProcess {
  const { PATH = '', TMPDIR = '/tmp' } = process.env
  return spawn(process.execPath, [commandFile, ...args], {
    env: { PATH, TMPDIR, ...options.env },
    ...(options.cwd !== undefined && { cwd: options.cwd }),
    stdio: ['pipe', 'pipe', 'pipe'],
  })
}

export async function runCommand(args: readonly string[], options: CommandOptions = {}): Promise<Finished> {
  const child = startCommand(args, options)
  const closed = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>
  // The command may exit without reading its input.
  child.stdin!.on('error', () => undefined)
  child.stdin!.end(options.input ?? '')
  const [bytes, stderr, [code, signal]] = await Promise.all([
    buffer(child.stdout!),
    text(child.stderr!),
    closed,
  ])
  return { code, signal, bytes, stdout: bytes.toString('utf8'), stderr }
}

/** Runs a command that must succeed and returns its output without the final newline. */
export async function outputOf(args: readonly string[], options: CommandOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await runCommand(args, options)
  if (code !== 0) throw new Error(`forkspace ${args.join(' ')}: ${code}: ${stderr}`)
  return stdout.replace(/\n$/, '')
}

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** A command that runs until a signal ends it. */
export interface Watched {
  /** All lines of standard output so far. */
  readonly lines: readonly string[]
  stderr(): string
  /** Resolves when a matching line is printed on either stream. */
  until(pattern: RegExp): Promise<string>
  /** Sends a signal and waits for the process to end. */
  stop(signal?: NodeJS.Signals): Promise<Ended>
}

export interface Served extends Watched {
  readonly url: string
}

export interface ServedProcess extends Served {
  readonly process: ChildProcess
}

/** Starts `forkspace serve` in its own process, and resolves when it listens. */
export async function serveCommand(
  args: readonly string[],
  options: CommandOptions = {},
): Promise<ServedProcess> {
  const child = startCommand(['serve', ...args], options)
  const closed = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>
  const served = await servedOf({
    stdout: child.stdout!,
    stderr: child.stderr!,
    ended: closed.then(([code, signal]) => ({ code, signal })),
    kill: (signal) => child.kill(signal),
  })
  return { ...served, process: child }
}

export interface Serving {
  readonly stdout: NodeJS.ReadableStream
  readonly stderr: NodeJS.ReadableStream
  /** Resolves after the process and both of its streams have ended. */
  readonly ended: Promise<Ended>
  readonly kill: (signal: NodeJS.Signals) => void
}

/** Resolves when the command listens. */
export async function servedOf(serving: Serving): Promise<Served> {
  const watched = watchedOf(serving)
  const line = await watched.until(/^forkspace listening on /)
  return { ...watched, url: /^forkspace listening on (\S+)$/.exec(line)![1]! }
}

export function watchedOf({ stdout, stderr, ended, kill }: Serving): Watched {
  const lines: string[] = []
  const errors: string[] = []
  let changed: (() => void) | undefined
  let hasEnded = false
  const gather = (stream: NodeJS.ReadableStream, into: string[]): void => {
    createInterface({ input: stream }).on('line', (line) => {
      into.push(line)
      changed?.()
    })
  }
  gather(stdout, lines)
  gather(stderr, errors)
  ended.then(
    () => {
      hasEnded = true
      changed?.()
    },
    () => undefined,
  )
  const until = async (pattern: RegExp): Promise<string> => {
    for (;;) {
      const found = [...lines, ...errors].find((line) => pattern.test(line))
      if (found !== undefined) return found
      if (hasEnded) throw new Error(`the command ended: ${errors.join('\n')}`)
      await new Promise<void>((resolve) => (changed = resolve))
    }
  }
  return {
    lines,
    stderr: () => errors.join('\n'),
    until,
    stop(signal = 'SIGTERM') {
      kill(signal)
      return ended
    },
  }
}
