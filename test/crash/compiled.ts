import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { execPath } from 'node:process'
import { promisify } from 'node:util'
import { bundledProject } from '../support/compile-source.js'

/**
 * Returns the output of the long loops' command line, whether it succeeds or not. Runs it compiled, because it starts
 * child processes that cannot load TypeScript.
 */
export async function runLoop(...args: readonly string[]): Promise<string> {
  const script = join(await bundledProject(), 'test/crash/run.js')
  const { stdout } = await promisify(execFile)(execPath, ['--enable-source-maps', script, ...args]).catch(
    (failed: { stdout: string }) => failed,
  )
  return stdout
}
