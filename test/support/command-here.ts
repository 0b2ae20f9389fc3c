import { EventEmitter } from 'node:events'
import { PassThrough, Readable, Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { WriteStream } from 'node:tty'
import { run } from '../../src/adapters/cli/program.js'
import type { World } from '../../src/adapters/cli/world.js'
import {
  servedOf,
  watchedOf,
  type CommandOptions,
  type Finished,
  type Served,
  type Serving,
  type Watched,
} from './command.js'

export interface HereOptions extends CommandOptions {
  /** Whether standard output reports that it is a terminal. */
  readonly isTerminal?: boolean
}

/** The color depth that a terminal derives from the environment alone. */
function colorDepth(variables: object): number {
  return WriteStream.prototype.getColorDepth(variables)
}

/** Runs the command in this process. Only one may run at a time when a directory is given. */
export async function runHere(args: readonly string[], options: HereOptions = {}): Promise<Finished> {
  const { cwd, isTerminal = false } = options
  const [out, err] = [new Gathered(), new Gathered()]
  if (isTerminal) Object.assign(out, { isTTY: true, getColorDepth: colorDepth })
  const before = process.cwd()
  if (cwd !== undefined) process.chdir(cwd)
  try {
    const code = await run(args, worldOf(out, err, options))
    const { bytes } = out
    const [stdout, stderr] = [bytes.toString('utf8'), err.bytes.toString('utf8')]
    return { code, signal: null, bytes, stdout, stderr }
  } finally {
    process.chdir(before)
  }
}

/** Runs a command that must succeed and returns its output without the final newline. */
export async function outputHere(args: readonly string[], options: HereOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await runHere(args, options)
  if (code !== 0) throw new Error(`forkspace ${args.join(' ')}: ${code}: ${stderr}`)
  return stdout.replace(/\n$/, '')
}

/**
 * Runs `forkspace serve` in this process without connecting it to the signals of the process; resolves when it listens.
 */
export async function serveHere(args: readonly string[], options: CommandOptions = {}): Promise<Served> {
  return servedOf(servingHere(['serve', ...args], options))
}

/** Runs a command that ends with a signal in this process, like {@link serveHere}. */
export function startHere(args: readonly string[], options: CommandOptions = {}): Watched {
  return watchedOf(servingHere(args, options))
}

function servingHere(args: readonly string[], options: CommandOptions): Serving {
  const [stdout, stderr, signals] = [new PassThrough(), new PassThrough(), new EventEmitter()]
  const running = run(args, worldOf(stdout, stderr, options, signals))
  const ended = running.then(async (code) => {
    for (const stream of [stdout, stderr]) stream.end()
    await Promise.all([finished(stdout), finished(stderr)])
    return { code, signal: null }
  })
  return { stdout, stderr, ended, kill: (signal) => signals.emit(signal, signal) }
}

function worldOf(
  stdout: Writable,
  stderr: Writable,
  { env = {}, input = '' }: CommandOptions,
  signals = new EventEmitter(),
): World {
  return {
    stdin: Readable.from([Buffer.from(input)]),
    stdout: stdout as NodeJS.WriteStream,
    stderr: stderr as NodeJS.WriteStream,
    env,
    on: (signal, listener) => signals.on(signal, listener),
    removeListener: (signal, listener) => signals.removeListener(signal, listener),
  }
}

class Gathered extends Writable {
  readonly #pieces: Buffer[] = []

  get bytes(): Buffer {
    return Buffer.concat(this.#pieces)
  }

  override _write(piece: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#pieces.push(Buffer.from(piece))
    done()
  }
}
