/** Errors of the engine name library options; the command shows them as its flags. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { outputHere, runHere } from '../support/command-here.js'

const long = 'k'.repeat(2000)
const url = 'https://git.example/app.git'
let directory: string
let env: Record<string, string>
let session: string

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cli-flags-'))
  env = { FORKSPACE_STORE: join(directory, 'store') }
  await writeFile(join(directory, 'a'), 'a')
  session = await outputHere(['session', 'create'], { env, cwd: directory })
})
afterAll(() => rm(directory, { recursive: true }))

test.each<readonly [string, readonly string[], string]>([
  ['--name', ['source', 'add', url, '--no-import', '--name', long], 'displayName'],
  ['--label', ['source', 'add', url, '--no-import', '--label', `${long}=x`], 'labels'],
  ['--ref', ['source', 'add', url, '--no-import', '--ref', long], 'gitRemote.defaultRef'],
  ['--allow-private-git', ['source', 'add', 'http://127.0.0.1:9/a.git'], 'git.allowPrivateAddresses'],
  ['--filter', ['source', 'ls', '--filter', 'x'], 'filter'],
  ['--tag', ['session', 'create', '--tag', `${long}=x`], 'initialTags'],
  ['--filter', ['session', 'ls', '--filter', 'x'], 'filter'],
  ['--tag', ['session', 'fork', 'SESSION', '--tag', `${long}=x`], 'newTags'],
  ['--expect', ['put', 'a', 'SESSION:/a', '--expect', 'x'], 'expectedHash'],
  ['--message', ['commit', 'SESSION', '-m', ''], 'message'],
  ['--branch', ['commit', 'SESSION', '-m', 'x', '--branch', 'a..b'], 'gitBranch.branchName'],
  ['--author', ['commit', 'SESSION', '-m', 'x', '--author', `${long} <a@b>`], 'author'],
])('an error about %s names the flag', async (flag, args, libraryName) => {
  const here = args.map((arg) => arg.replace('SESSION', session))
  const { code, stderr } = await runHere(here, { env, cwd: directory })
  expect(code).toBe(1)
  const refusal = stderr.trimEnd().split('\n').at(-1)!
  expect(refusal).toMatch(new RegExp(`^forkspace: (.* )?${flag}[: ]`))
  expect(refusal.replaceAll(flag, '')).not.toMatch(
    new RegExp(`(^|[ ])${libraryName.replace('.', '\\.')}[: ]`),
  )
})
