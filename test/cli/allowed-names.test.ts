/** Options of the command that allow names which are rejected by default. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openEngine } from '../../src/index.js'
import { serveCommand, type Finished } from '../support/command.js'
import { outputHere, runHere } from '../support/command-here.js'
import { tarOf } from '../support/raw-archives.js'

let directory: string
let store: string

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cli-allowed-'))
  store = join(directory, 'store')
})
afterEach(() => rm(directory, { recursive: true }))

const environment = (): Record<string, string> => ({ FORKSPACE_STORE: store })
const run = (...args: readonly string[]): Promise<Finished> =>
  runHere(args, { env: environment(), cwd: directory })
const output = (...args: readonly string[]): Promise<string> =>
  outputHere(args, { env: environment(), cwd: directory })

async function sessionOf(files: Readonly<Record<string, string>>): Promise<string> {
  const engine = await openEngine({ storage: levelStorage(store) })
  try {
    return (await engine.sessions.create({ files })).id
  } finally {
    await engine.close()
  }
}

describe('--allow-git-names', () => {
  const config = { '/.git/config': 'x', '/a': 'y' }

  test('lets a checkout write otherwise rejected names', async () => {
    const session = await sessionOf(config)
    const refused = await run('checkout', session, 'out')
    expect(refused.code).toBe(1)
    expect(refused.stderr).toMatch(/^forkspace: \/\.git: .* or pass --allow-git-names\. \(UNSAFE_PATH\)$/m)
    const asJson = await run('checkout', session, 'out', '--json')
    expect(JSON.parse(asJson.stderr)).toMatchObject({
      error: {
        reason: 'UNSAFE_PATH',
        message: expect.stringContaining('pass --allow-git-names.') as unknown,
      },
    })
    await output('checkout', session, 'out', '--allow-git-names')
    expect(await readFile(join(directory, 'out/.git/config'), 'utf8')).toBe('x')
  })

  test('lets a sync bring such names back', async () => {
    const session = await sessionOf(config)
    await output('checkout', session, 'out', '--allow-git-names')
    await writeFile(join(directory, 'out/.git/config'), 'changed')
    expect((await run('sync', session, 'out')).code).toBe(1)
    await output('sync', session, 'out', '--allow-git-names')
    expect(await output('cat', `${session}:/.git/config`)).toBe('changed')
  })

  test('accepts an archive with such names', async () => {
    await writeFile(join(directory, 'in.tar'), tarOf({ name: '.git/config', content: 'x' }))
    const refused = await run('source', 'add', 'in.tar')
    expect(refused.code).toBe(1)
    expect(refused.stderr).toContain('pass --allow-git-names to accept it')
    const source = await output('source', 'add', 'in.tar', '--allow-git-names')
    const session = await output('session', 'create', '--source', source)
    expect(await output('cat', `${session}:/.git/config`)).toBe('x')
  })

  test('is an option of the server, and rejected together with --server', async () => {
    const archive = join(directory, 'in.tar')
    await writeFile(archive, tarOf({ name: '.git/config', content: 'x' }))
    for (const option of [[], ['--allow-git-names']]) {
      const served = await serveCommand(option, { env: { FORKSPACE_TOKEN: 'canary-token@local/local' } })
      try {
        const env = { FORKSPACE_SERVER: served.url, FORKSPACE_TOKEN: 'canary-token@local/local' }
        const added = await runHere(['source', 'add', archive], { env, cwd: directory })
        expect(added.code).toBe(option.length === 0 ? 1 : 0)
        expect(added.stderr.includes('start the server with --allow-git-names')).toBe(option.length === 0)
        const wrong = await runHere(['source', 'add', archive, '--allow-git-names'], { env, cwd: directory })
        expect(wrong.code).toBe(2)
        expect(wrong.stderr).toContain('--allow-git-names')
      } finally {
        await served.stop()
      }
    }
  })

  test.each(['checkout', 'sync', 'source add', 'serve'])('is in the help of %s', async (verb) => {
    expect(await output(...verb.split(' '), '--help')).toMatch(/--allow-git-names\s+allow[\s\S]+?\.git/)
  })
})

describe('--allow-empty', () => {
  test('makes a commit even if the last one has the same files', async () => {
    const session = await sessionOf({ '/a': 'x' })
    const first = await output('commit', session, '-m', 'One')
    expect(await output('commit', session, '-m', 'Two')).toBe(first)
    const empty = await output('commit', session, '-m', 'Two', '--allow-empty')
    expect(empty).toMatch(/^[0-9a-f]{40}$/)
    expect(empty).not.toBe(first)
  })

  test('is in the help of commit', async () => {
    expect(await output('commit', '--help')).toMatch(/--allow-empty +create a commit/)
  })
})
