import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runCommand } from '../support/command.js'
import { runHere } from '../support/command-here.js'

const verbs = [
  ['serve'],
  ['source', 'add'],
  ['source', 'import'],
  ['source', 'refresh'],
  ['source', 'ls'],
  ['source', 'rm'],
  ['session', 'create'],
  ['session', 'ls'],
  ['session', 'show'],
  ['session', 'fork'],
  ['session', 'import'],
  ['session', 'rm'],
  ['ls'],
  ['cat'],
  ['put'],
  ['grep'],
  ['glob'],
  ['edit'],
  ['apply'],
  ['diff'],
  ['log'],
  ['checkpoint'],
  ['restore'],
  ['undo'],
  ['redo'],
  ['at'],
  ['blame'],
  ['watch'],
  ['merge'],
  ['rebase'],
  ['conflicts'],
  ['resolve'],
  ['abort'],
  ['commit'],
  ['export'],
  ['checkout'],
  ['sync'],
  ['mcp'],
  ['completion'],
]

let directory: string
let store: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cli-'))
  store = join(directory, 'store')
})
afterAll(() => rm(directory, { recursive: true }))

describe('help', () => {
  test('of the command names every verb and the exit codes', async () => {
    const { code, stdout, stderr } = await runCommand(['--help'])
    expect([code, stderr]).toEqual([0, ''])
    for (const [verb] of verbs) expect(stdout).toMatch(new RegExp(`^  ${verb!}\\b`, 'm'))
    expect(stdout).toContain('0 success, 1 failure, 2 usage error')
  })

  test.each(verbs.map((verb) => [verb.join(' ')]))('of %s lists its arguments', async (verb) => {
    const { code, stdout } = await runHere([...verb.split(' '), '--help'])
    expect(code).toBe(0)
    // A name is followed by its first alias.
    expect(stdout.replaceAll(/\|\w+/g, '').startsWith(`Usage: forkspace ${verb} `)).toBe(true)
    // Every argument and option is described.
    for (const [line] of stdout.matchAll(/^ {2}\S.*$/gm)) expect(line).toMatch(/\S {2,}\S|^ {2}\S+( \S+)*$/)
    const hasPlace = verb !== 'serve' && verb !== 'completion'
    expect(/--store <directory> +\S/.test(stdout)).toBe(hasPlace)
  })

  test.each([[], ['serve'], ['session', 'fork'], ['session', 'list']])(
    'of a command is what `help %s %s` prints',
    async (...words) => {
      const [asked, flag] = [await runHere(['help', ...words]), await runHere([...words, '--help'])]
      expect(asked).toEqual(flag)
      expect(asked.code).toBe(0)
    },
  )

  test('of a word that is no command is a usage error', async () => {
    const { code, stderr } = await runHere(['help', 'fork'])
    expect(code).toBe(2)
    expect(stderr).toMatch(/did you mean "forkspace session fork"\?/)
  })

  test('without arguments is a usage error that shows the help', async () => {
    const { code, stdout, stderr } = await runCommand([])
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain('Usage: forkspace')
  })

  test('--version prints the version of the package', async () => {
    const { version } = JSON.parse(
      readFileSync(resolve(import.meta.dirname, '../../package.json'), 'utf8'),
    ) as { version: string }
    expect(await runCommand(['--version'])).toMatchObject({ code: 0, stdout: `${version}\n`, stderr: '' })
  })
})

describe('invalid usage', () => {
  const id = 'x'.repeat(36)
  test.each<readonly [string, readonly string[], RegExp]>([
    [
      'an unknown verb',
      ['frobnicate'],
      /unknown command 'frobnicate'; "forkspace --help" lists the commands/,
    ],
    ['a mistyped verb', ['sessoin'], /Did you mean session/],
    [
      'the second word of a verb',
      ['fork'],
      /unknown command 'fork'; did you mean "forkspace session fork"\?/,
    ],
    [
      'the second word of two verbs',
      ['import'],
      /unknown command 'import'; did you mean "forkspace source import" or "forkspace session import"\?/,
    ],
    ['an unknown option', ['session', 'ls', '--frobnicate'], /unknown option '--frobnicate'/],
    [
      'an option before the command',
      ['--store', './store', 'session', 'ls'],
      /unknown option '--store'; put it after the command, as in "forkspace session list --store \.\/store"/,
    ],
    [
      'an option in place of an argument',
      ['check', '--store', './store'],
      /unknown option '--store'; the form is: forkspace check <directory>/,
    ],
    [
      'a missing argument',
      ['cat'],
      /missing required argument 'session:path'; the form is: forkspace cat <session:path>/,
    ],
    [
      'an extra argument',
      ['sessions', 'list', './store'],
      /too many arguments .* got 1; the form is: forkspace session ls$/m,
    ],
    ['a missing value', ['session', 'ls', '--store'], /argument missing/],
    ['no store or server', ['session', 'ls'], /pass --store <directory> or --server/],
    [
      'both a store and a server',
      ['session', 'ls', '--store', 'a', '--server', 'http://localhost'],
      /cannot be combined/,
    ],
    ['an empty store path', ['session', 'ls', '--store', ''], /--store takes a directory/],
    [
      'a server that is not a URL',
      ['session', 'ls', '--server', 'localhost', '--token', 't'],
      /--server takes/,
    ],
    ['a server without a token', ['session', 'ls', '--server', 'http://localhost'], /needs a token/],
    [
      'a malformed token',
      ['session', 'ls', '--server', 'http://h', '--token', 'a b'],
      /--token: must be <token> or <token>@<tenant>\/<principal>; a token can contain/,
    ],
    ['a token for a store', ['session', 'ls', '--store', 'a', '--token', 't'], /--token is for a server/],
    [
      'an actor on a server',
      ['session', 'ls', '--server', 'http://h', '--token', 't', '--as', 'a/b'],
      /--as/,
    ],
    ['an actor without a name', ['session', 'ls', '--store', 'a', '--as', 'acme/'], /<tenant>\/<principal>/],
    ['a tag without a value', ['session', 'create', '--store', 'a', '--tag', 'x'], /--tag takes key=value/],
    [
      'a label without a key',
      ['source', 'add', 'x.tar', '--store', 'a', '--label', '=x'],
      /--label takes key=value/,
    ],
    [
      'a revision without a source',
      ['session', 'create', '--store', 'a', '--revision', 'x'],
      /needs --source/,
    ],
    ['a commit without a message', ['commit', id, '--store', 'a'], /required option '-m/],
    [
      'an author without an address',
      ['commit', id, '-m', 'x', '--author', 'Ada', '--store', 'a'],
      /Name <email>/,
    ],
    ['a file without a path', ['cat', id, '--store', 'a'], /<session>:<path>/],
    ['the root as a file', ['put', '-', `${id}:/`, '--store', 'a'], /<session>:<path>/],
    ['a file without a session', ['cat', ':/a', '--store', 'a'], /id of a session is missing/],
    ['an invalid mode', ['put', '-', `${id}:/a`, '--mode', '9', '--store', 'a'], /octal/],
    ['three checkpoints', ['diff', id, '--checkpoint', 'a', 'b', 'c', '--store', 'a'], /one or two labels/],
    ['a policy without a glob', ['merge', id, id, '--policy', 'ours', '--store', 'a'], /<glob>=<policy>/],
    ['a resolution without a path', ['resolve', id, '--ours', '--store', 'a'], /one conflict, or --all/],
    ['a path with --all', ['resolve', id, '/a', '--all', '--ours', '--store', 'a'], /one conflict, or --all/],
    [
      'two resolutions',
      ['resolve', id, '/a', '--ours', '--deleted', '--store', 'a'],
      /exactly one of --ours/,
    ],
    ['--all without a side', ['resolve', id, '--all', '--deleted', '--store', 'a'], /--all needs --ours/],
    ['an unknown kind', ['source', 'add', '.', '--kind', 'x', '--store', 'a'], /--kind is one of/],
    ['another protocol', ['source', 'add', 'ssh://h/x', '--store', 'a'], /only http and https/],
    ['an invalid port', ['serve', '--port', '65536'], /from 0 to 65535/],
    ['a port with a fraction', ['serve', '--port', '80.5'], /from 0 to 65535/],
    ['an unknown log format', ['serve', '--log', 'xml'], /json or pretty/],
    ['no storage', ['serve', '--storage', ''], /--storage takes/],
    ['an unknown shell', ['completion', 'fish'], /bash or zsh/],
  ])('%s is rejected in one line, with code 2', async (_case, args, message) => {
    const { code, stdout, stderr } = await runHere(args, { cwd: directory })
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(message)
    expect(stderr).toMatch(/^forkspace: .*\n$/)
    expect(await readdir(directory)).toEqual([])
  })

  test('a store and a server in the environment conflict, and an option decides', async () => {
    const env = { FORKSPACE_STORE: store, FORKSPACE_SERVER: 'http://127.0.0.1:1', FORKSPACE_TOKEN: 't' }
    const both = await runHere(['session', 'ls'], { env })
    expect(both).toMatchObject({ code: 2, stderr: expect.stringContaining('both set') as string })
    const one = await runHere(['session', 'ls', '--store', store], { env })
    expect(one).toMatchObject({ code: 1, stderr: noStore() })
  })

  test('control characters of arguments do not reach the terminal', async () => {
    for (const args of [
      ['\u001b[2J'],
      ['session', 'ls', '--\u001b[2J'],
      ['session', 'ls', '--store', '\u001b[2J\n\u202e'],
      ['session', 'show', '\u001b[2J', '--store', store],
      ['source', 'add', '\u001b]0;x\u0007', '--store', store],
    ]) {
      const { stderr } = await runHere(args, { cwd: directory })
      expect(stderr).toMatch(/^[^\p{Cc}\p{Cf}]*\n$/u)
    }
    await rm(store, { recursive: true, force: true })
  })
})

test('a verb that only reads creates no store', async () => {
  for (const args of [
    ['session', 'ls'],
    ['source', 'ls'],
    ['cat', 'a:/b'],
    ['source', 'import', 'x'],
  ]) {
    const { code, stderr } = await runHere([...args, '--store', store])
    expect([code, stderr]).toEqual([1, noStore()])
  }
  expect(await readdir(directory)).toEqual([])
})

test('bash accepts the completion script', async () => {
  const { stdout } = await runHere(['completion', 'bash'])
  const script = `${stdout}
    COMP_WORDS=(forkspace source ''); COMP_CWORD=2; _forkspace; echo "\${COMPREPLY[*]}"
    COMP_WORDS=(forkspace session create --so); COMP_CWORD=3; _forkspace; echo "\${COMPREPLY[*]}"`
  const bash = spawnSync('bash', ['-c', script], { encoding: 'utf8' })
  if (bash.error !== undefined) return
  expect(bash.stdout.split('\n')).toEqual(['add import refresh ls rm --help', '--source', ''])
})

function noStore(): string {
  return `forkspace: there is no store in ${store}; pass the directory of a store, or make one with "forkspace session create"\n`
}
