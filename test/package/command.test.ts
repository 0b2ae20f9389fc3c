import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { platform } from 'node:process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { commandFile } from '../support/command.js'

// Windows has no execute permission.
test.runIf(platform !== 'win32')('the built command is executable, as npx needs in a checkout', async () => {
  const { version } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string
  }
  const { stdout } = await promisify(execFile)(commandFile, ['--version'])
  expect(stdout).toBe(`${version}\n`)
})
