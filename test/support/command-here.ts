import { Readable, Writable } from 'node:stream'
import { run } from '../../src/adapters/cli/program.js'
import type { CommandOptions, Finished } from './command.js'

/** Runs the command in this process, one at a time. */
export async function runHere(args: readonly string[], options: CommandOptions = {}): Promise<Finished> {
  const { env = {}, cwd, input = '' } = options
  const [out, err] = [new Gathered(), new Gathered()]
  const before = process.cwd()
  if (cwd !== undefined) process.chdir(cwd)
  try {
    const code = await run(args, {
      stdin: Readable.from([Buffer.from(input)]),
      stdout: out as unknown as NodeJS.WriteStream,
      stderr: err as unknown as NodeJS.WriteStream,
      env,
    })
    const { bytes } = out
    const [stdout, stderr] = [bytes.toString('utf8'), err.bytes.toString('utf8')]
    return { code, signal: null, bytes, stdout, stderr }
  } finally {
    process.chdir(before)
  }
}

/** Runs a command that must succeed and gives what it printed, without the last end of line. */
export async function outputHere(args: readonly string[], options: CommandOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await runHere(args, options)
  if (code !== 0) throw new Error(`forkspace ${args.join(' ')}: ${code}: ${stderr}`)
  return stdout.replace(/\n$/, '')
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
