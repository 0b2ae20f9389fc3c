import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { compiledProject } from '../support/compile-source.js'

const run = promisify(execFile)

describe('npm run bench', () => {
  let directory: string

  beforeAll(async () => {
    directory = await compiledProject()
  })

  it('lists its scenarios', async () => {
    const { stdout } = await run(process.execPath, [join(directory, 'bench/run.js'), '--list'])
    expect(stdout).toMatch(/^core: .*\bmemory-files\b.*\bversions\b.*\bgit\b/m)
    expect(stdout).toMatch(/^smoke: /m)
  })

  it.each([
    [['nothing'], 'no group or scenario nothing'],
    [['smoke', '--n', 'many'], '--n takes whole numbers'],
    [['--unknown'], "Unknown option '--unknown'"],
    [['smoke', 'peers'], 'peers runs alone'],
  ])('rejects %j in one line', async (args, message) => {
    const failed: unknown = await run(process.execPath, [join(directory, 'bench/run.js'), ...args]).catch(
      (error: unknown) => error,
    )
    expect(failed).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(message) as string })
    expect((failed as { stderr: string }).stderr.trimEnd()).not.toContain('\n')
  })
})
