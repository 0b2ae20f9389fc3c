/** Git remotes that require credentials. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { serveGit, type GitServer } from '../support/git-server.js'
import { outputHere, runHere } from '../support/command-here.js'
import type { Finished } from '../support/command.js'

const password = 'canary-password'

describe.skipIf(!hasGit)('a git remote that requires credentials', () => {
  let directory: string
  let server: GitServer
  let repository: GitRepository
  let url: string
  const env = (): Record<string, string> => ({
    FORKSPACE_STORE: join(directory, 'store'),
    GIT_TOKEN: password,
    WRONG: 'wrong-password',
    EMPTY: '',
  })
  const run = (args: readonly string[]): Promise<Finished> =>
    runHere([...args, '--allow-private-git'], { env: env(), cwd: directory })
  const output = (args: readonly string[]): Promise<string> =>
    outputHere(args, { env: env(), cwd: directory })

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'cli-'))
    const root = join(directory, 'git')
    repository = GitRepository.create(join(root, 'app.git'))
    repository.stage([['100644', 'a.txt', 'one\n']])
    repository.commit()
    server = await serveGit(root, { auth: `x-access-token:${password}` })
    url = `${server.url}/app.git`
    await writeFile(join(directory, 'password'), `${password}\n`)
    await writeFile(join(directory, 'two-lines'), `${password}\n\n`)
  })
  afterAll(async () => {
    await server.close()
    await rm(directory, { recursive: true })
  })

  test('gets the token for imports and commits', async () => {
    const added = await run(['source', 'add', url, '--password-env', 'GIT_TOKEN'])
    expect(added).toMatchObject({ code: 0 })
    const source = added.stdout.trim()
    const file = ['--username', 'x-access-token', '--password-file', 'password']
    expect(await run(['source', 'refresh', source, ...file])).toMatchObject({ code: 0 })
    expect(await run(['source', 'import', source, 'main', ...file])).toMatchObject({ code: 0 })
    const session = await output(['session', 'create', '--source', source])
    const commit = ['commit', session, '-m', 'Two', '--branch', 'fix']
    const refused = await run([...commit, '--json'])
    expect(refused).toMatchObject({ code: 1, stdout: '' })
    expect(JSON.parse(refused.stderr)).toMatchObject({
      error: { reason: 'GIT_AUTH_REQUIRED', code: 'FAILED_PRECONDITION' },
    })
    const committed = await run([...commit, '--password-env', 'GIT_TOKEN'])
    expect(committed.stdout).toBe(`${repository.tip('refs/heads/fix')}\n`)
    for (const { stdout, stderr } of [added, refused, committed])
      expect(stdout + stderr).not.toContain(password)
  })

  test.each([
    ['no credentials', []],
    ['a wrong password', ['--password-env', 'WRONG']],
    ['another user name', ['--username', 'other', '--password-env', 'GIT_TOKEN']],
  ])('rejects %s', async (_who, options) => {
    const { code, stderr } = await run(['source', 'add', url, ...options])
    expect(code).toBe(1)
    expect(stderr).toContain('AUTH_FAILED')
    expect(stderr).not.toMatch(/canary|wrong-password/)
  })

  test.each([
    ['only a user name', ['--username', 'a'], 2, /needs --password-env/],
    [
      'two passwords',
      ['--password-env', 'GIT_TOKEN', '--password-file', 'password'],
      2,
      /cannot be combined/,
    ],
    ['a user name with a colon', ['--username', 'a:b', '--password-env', 'GIT_TOKEN'], 2, /colon/],
    ['an unset variable', ['--password-env', password], 2, /name of a variable/],
    ['an empty variable', ['--password-env', 'EMPTY'], 2, /name of a variable/],
    ['a missing file', ['--password-file', 'none'], 1, /there is no file none/],
    ['a directory as the file', ['--password-file', '.'], 1, /cannot be read: EISDIR/],
    ['a file with several lines', ['--password-file', 'two-lines'], 1, /one line/],
  ])('is not contacted with %s', async (_what, options, code, message) => {
    const refused = await run(['source', 'add', url, ...options])
    expect(refused).toMatchObject({ code, stdout: '' })
    expect(refused.stderr).toMatch(message)
    expect(refused.stderr).not.toContain(password)
  })

  test('credentials are rejected for commands on a server', async () => {
    const args = [
      'source',
      'add',
      url,
      '--server',
      'http://127.0.0.1',
      '--token',
      't',
      '--password-env',
      'GIT_TOKEN',
    ]
    const { code, stderr } = await runHere(args, { env: env() })
    expect(code).toBe(2)
    expect(stderr).toContain('are for a store')
  })
})
