import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { execPath } from 'node:process'
import { promisify } from 'node:util'
import { bundledProject } from '../support/compile-source.js'

/**
 * What the command line of the long loops prints, whether it succeeds or not. It is run compiled, with the children
 * that it starts: processes of their own know no TypeScript.
 */
export async function runLoop(...args: readonly string[]): Promise<string> {
  const script = join(await bundledProject(), 'test/crash/run.js')
  const { stdout } = await promisify(execFile)(execPath, ['--enable-source-maps', script, ...args]).catch(
    (failed: { stdout: string }) => failed,
  )
  return stdout
}
