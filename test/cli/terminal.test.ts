import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execPath, platform } from 'node:process'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openEngine } from '../../src/index.js'
import { commandFile, outputOf, startCommand } from '../support/command.js'
import { outputHere } from '../support/command-here.js'

/** Connects a command to its own terminal. */
const pty = 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)'

let directory: string
let session: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cli-terminal-'))
  const engine = await openEngine({ storage: levelStorage(join(directory, 'store')) })
  try {
    const created = await engine.sessions.create({ files: { '/a.txt': 'one\n' } })
    await created.files.write({ path: '/a.txt', content: 'a \u001b[2J\u009b31m\u202e\r\tb\u00e9\n' })
    session = created.id
  } finally {
    await engine.close()
  }
})
afterAll(() => rm(directory, { recursive: true }))

async function onTerminal(args: readonly string[], env: Record<string, string> = {}): Promise<string> {
  const { PATH = '', TMPDIR = '/tmp' } = process.env
  const { stdout } = await promisify(execFile)('python3', ['-c', pty, execPath, commandFile, ...args], {
    env: {
      PATH,
      TMPDIR,
      TERM: 'xterm-256color',
      PAGER: '',
      FORKSPACE_STORE: join(directory, 'store'),
      ...env,
    },
  })
  return stdout.replaceAll('\r\n', '\n')
}

// Python's pty module needs Unix.
describe.runIf(platform !== 'win32')('on a terminal', () => {
  test('diff --patch escapes the control characters of contents', async () => {
    const shown = await onTerminal(['diff', session, '--patch'], { NO_COLOR: '1' })
    expect(shown).toContain('+a \\u001b[2J\\u009b31m\\u202e\\u000d\tb\u00e9\n')
    expect(shown.replaceAll(/[\n\t]/g, '')).not.toMatch(/[\p{Cc}\p{Cf}]/u)
  })

  test('diff has colours', async () => {
    expect(await onTerminal(['diff', session])).toBe('\u001b[33mM /a.txt\u001b[39m\n')
  })

  test('diff, log and blame show their output in the pager of FORKSPACE_PAGER or PAGER', async () => {
    const shown = { NO_COLOR: '1', FORKSPACE_PAGER: 'sed "s/^/| /"', PAGER: 'false' }
    expect(await onTerminal(['diff', session], shown)).toBe('| M /a.txt\n')
    expect(await onTerminal(['log', session], shown)).toMatch(/^(\| \S+Z .*\n){2}$/)
    expect(await onTerminal(['log', '--graph', session], { NO_COLOR: '1', PAGER: 'wc -l' })).toMatch(
      /^\s*2\n$/,
    )
    expect(await onTerminal(['blame', session, '/a.txt'], shown)).toMatch(/^\| 1 .*\n$/)
  })

  test('the output comes without a pager if there is none, and with --json', async () => {
    const plain = { NO_COLOR: '1' }
    for (const PAGER of ['', 'cat', '/no/such/program'])
      expect(await onTerminal(['diff', session], { ...plain, PAGER })).toBe('M /a.txt\n')
    const json = await onTerminal(['diff', session, '--json'], { ...plain, PAGER: 'wc -l' })
    expect(JSON.parse(json)).toMatchObject({ path: '/a.txt' })
  })

  test('a reader who leaves the pager early ends the command', async () => {
    expect(await onTerminal(['diff', session, '--patch'], { PAGER: 'true' })).toBe('')
  })
})

test('diff and log use colours on a terminal, unless NO_COLOR is set', async () => {
  const shown = (args: readonly string[], env: Record<string, string> = {}): Promise<string> => {
    const all = { TERM: 'xterm-256color', FORKSPACE_STORE: join(directory, 'store'), ...env }
    return outputHere(args, { env: all, isTerminal: true })
  }
  expect(await shown(['diff', session, '--patch'])).toContain('\u001b[31m-one\u001b[39m\n')
  expect(await shown(['log', session])).toContain('  \u001b[1mwriteFile\u001b[22m  ')
  expect(await shown(['diff', session], { NO_COLOR: '1' })).toBe('M /a.txt')
  expect(await shown(['diff', session], { TERM: 'dumb' })).toBe('M /a.txt')
})

describe('in a pipe', () => {
  const inPipe = (args: readonly string[], env: Record<string, string> = {}): Promise<string> =>
    outputHere(args, { env: { FORKSPACE_STORE: join(directory, 'store'), ...env } })

  test('diff --patch writes the raw bytes of the files', async () => {
    expect(await inPipe(['diff', session, '--patch'])).toContain('+a \u001b[2J\u009b31m\u202e\r\tb\u00e9')
  })

  test('colours appear only with FORCE_COLOR', async () => {
    const env = { FORKSPACE_STORE: join(directory, 'store') }
    expect(await outputOf(['diff', session], { env })).toBe('M /a.txt')
    expect(await inPipe(['diff', session], { FORCE_COLOR: '1' })).toBe('\u001b[33mM /a.txt\u001b[39m')
    expect(await inPipe(['diff', session, '--json'], { FORCE_COLOR: '1' })).not.toContain('\u001b')
  })
})

test('watch runs until a signal ends it', async () => {
  const child = startCommand(['watch', session, '--after', `${session}-00000001`], {
    env: { FORKSPACE_STORE: join(directory, 'store') },
  })
  const exit = once(child, 'exit')
  await once(child.stdout!, 'data')
  expect(await Promise.race([exit, pause(1000, 'running')])).toBe('running')
  child.kill('SIGINT')
  expect(await exit).toEqual([null, 'SIGINT'])
})
