import { execFile } from 'node:child_process'
import { mkdtemp, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Report } from '../../bench/peers/results.js'
import { compiledProject } from './compile-source.js'

const run = promisify(execFile)

export interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Arguments for a run that only shows that everything works. */
export const tiny = ['--quick', '--n', '1', '--count', '20', '--files', '40']

/** Runs the compiled `npm run bench`. */
export class BenchCommand {
  readonly directory: string

  private constructor(directory: string) {
    this.directory = directory
  }

  /** `directory` of the command is a new one. */
  static async create(): Promise<BenchCommand> {
    return new BenchCommand(await mkdtemp(join(await compiledProject(), 'bench-')))
  }

  run(...args: readonly string[]): Promise<Ended> {
    const script = join(this.directory, '../bench/run.js')
    return run(process.execPath, ['--expose-gc', script, ...args], { maxBuffer: 2 ** 24 }).then(
      ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
      (error: unknown) => error as Ended,
    )
  }

  async report(file: string): Promise<Report> {
    return JSON.parse(await readFile(file, 'utf8')) as Report
  }
}
