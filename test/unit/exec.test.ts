import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { execPath } from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  EngineError,
  openEngine,
  type Engine,
  type ExecRequest,
  type ExecResult,
  type ProcessOptions,
  type Session,
  type Storage,
} from '../../src/index.js'
import { runProcess } from '../../src/adapters/host/run-process.js'
import { fewStorages } from '../support/storages.js'

test('a command does not start if its signal aborts while its directory is looked up', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'exec-'))
  const abort = new AbortController()
  const { signal } = abort
  const request = {
    env: { PATH: '/usr/bin:/bin' },
    stdin: new Uint8Array(),
    timeoutMs: 60_000,
    maxOutputBytes: 1000,
    signal,
  }
  const running = runProcess({ command: 'touch', args: ['started'], directory, ...request })
  abort.abort(new Error('enough'))
  await expect(running).rejects.toThrow('enough')
  expect(readdirSync(directory)).toEqual([])
  rmSync(directory, { recursive: true })
})

describe.each(fewStorages)('session.exec on %s', (_name, makeStorage, lasting) => {
  let scratch: string
  let root: string
  let storage: Storage
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    scratch = realpathSync(mkdtempSync(join(tmpdir(), 'exec-')))
    root = join(scratch, 'root')
    mkdirSync(root)
    storage = makeStorage(scratch)
    await open()
    session = await engine.sessions.create({ files: { '/a': 'one', '/d/x': 'x' } })
  })

  afterEach(async () => {
    await engine.close()
    rmSync(scratch, { recursive: true, force: true })
  })

  async function open(more: Partial<ProcessOptions> = {}): Promise<void> {
    const path = `${dirname(execPath)}:/usr/bin:/bin`
    const exec = { directory: join(root, 'exec'), path, ...more }
    engine = await openEngine({ storage, hostPaths: { roots: [root] }, exec })
  }

  const shell = (script: string, more: Partial<ExecRequest> = {}): Promise<ExecResult> =>
    session.exec({ command: 'sh', args: ['-c', script], ...more })
  const output = ({ stdout }: ExecResult): string => Buffer.from(stdout).toString()
  const text = async (path: string): Promise<string> =>
    Buffer.from(await session.files.read({ path })).toString()
  const eventCount = async (): Promise<number> => (await session.events.list()).events.length

  async function reasonOf(failing: Promise<unknown>): Promise<string> {
    const error = await failing.then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    expect(error).toBeInstanceOf(EngineError)
    return (error as EngineError).reason
  }

  /** Whether a process runs. A killed one may wait for its parent as a zombie. */
  function runs(pid: string): boolean {
    try {
      return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid.trim()}/status`, 'utf8'))
    } catch {
      return false
    }
  }

  test('is refused without the option, which the error names', async () => {
    await using plain = await openEngine()
    const closed = await plain.sessions.create({ files: { '/a': '' } })
    await expect(closed.exec({ command: 'true' })).rejects.toMatchObject({
      reason: 'PERMISSION_DENIED',
      message: expect.stringContaining('exec: { directory, path }') as string,
    })
  })

  test('runs a program on the files, and brings its changes back as one event', async () => {
    const before = await eventCount()
    const script =
      "const fs = require('fs'); fs.writeFileSync('n', fs.readFileSync('a') + '!'); fs.appendFileSync('a', '2'); fs.rmSync('d/x'); console.log('out'); console.error('err'); process.exit(3)"
    const result = await session.exec({ command: 'node', args: ['-e', script] })
    expect(result).toMatchObject({ exitCode: 3, signal: null, truncated: false, timedOut: false })
    expect([output(result), Buffer.from(result.stderr).toString()]).toEqual(['out\n', 'err\n'])
    expect(result.changes).toEqual({ added: ['/n'], modified: ['/a'], removed: ['/d/x'] })
    expect(result.conflict).toBeUndefined()
    expect(await eventCount()).toBe(before + 1)
    expect([await text('/n'), await text('/a')]).toEqual(['one!', 'one2'])
  })

  test('sees earlier changes of the session, and writes only the differences', async () => {
    await shell('echo built > out')
    await session.files.write({ path: '/a', content: 'two' })
    const stamp = 'stat -c %i d/x out'
    const first = output(await shell(stamp))
    await session.files.write({ path: '/a', content: 'three' })
    const result = await shell(`cat a; echo; ${stamp}`)
    expect(output(result)).toBe(`three\n${first}`)
    expect(result.changes).toEqual({ added: [], modified: [], removed: [] })
    expect(readdirSync(join(root, 'exec'))).toHaveLength(1)
  })

  test('passes only the given environment, input and arguments', async () => {
    await engine.close()
    await open({ path: '/usr/bin:/bin', env: { A: 'engine', B: 'engine' } })
    session = await engine.sessions.create({ files: { '/d/x': '' } })
    const env = output(await session.exec({ command: 'env', env: { B: 'call', C: '' } }))
    expect(env.trim().split('\n').sort()).toEqual(['A=engine', 'B=call', 'C=', 'PATH=/usr/bin:/bin'])
    expect(output(await session.exec({ command: 'cat', stdin: 'text' }))).toBe('text')
    expect(output(await session.exec({ command: 'cat', stdin: new Uint8Array([65]) }))).toBe('A')
    expect(output(await session.exec({ command: 'printf', args: ['%s', '$PATH; *'] }))).toBe('$PATH; *')
    expect(output(await session.exec({ command: 'ls', cwd: '/d' }))).toBe('x\n')
    // The command ends before it has read its input.
    expect((await session.exec({ command: 'true', stdin: 'x'.repeat(2 ** 20) })).exitCode).toBe(0)
  })

  test('kills the whole process tree after the time is over, and keeps the changes', async () => {
    const script = "echo early > early; sh -c 'sleep 600 & echo $!; sleep 600' & echo $!; sleep 600"
    const result = await shell(script, { timeoutMs: 500 })
    expect(result).toMatchObject({ exitCode: null, signal: 'SIGKILL', timedOut: true })
    expect(result.changes.added).toEqual(['/early'])
    const pids = output(result).trim().split('\n')
    expect(pids).toHaveLength(2)
    expect(pids.filter(runs)).toEqual([])
  })

  test('kills children that outlive the command', async () => {
    const result = await shell('(sleep 0.3; echo late > late) > /dev/null 2>&1 & echo $!')
    await sleep(500)
    expect(runs(output(result))).toBe(false)
    expect((await shell('ls')).changes.added).toEqual([])
    expect(output(await shell('ls'))).toBe('a\nd\n')
  })

  test('an abort kills the tree, and changes nothing', async () => {
    const abort = new AbortController()
    const pidFile = join(scratch, 'pid')
    const running = shell(`echo x > half; echo changed > a; echo $$ > ${pidFile}; sleep 600 & sleep 600`, {
      signal: abort.signal,
    })
    const failing = running.catch((error: unknown) => error)
    while (!existsSync(pidFile) || readFileSync(pidFile, 'utf8') === '') await sleep(10)
    abort.abort(new Error('enough'))
    expect(await failing).toEqual(new Error('enough'))
    expect(runs(readFileSync(pidFile, 'utf8'))).toBe(false)
    expect(await text('/a')).toBe('one')
    const next = await shell('ls; cat a')
    expect(output(next)).toBe('a\nd\none')
    expect(next.changes).toEqual({ added: [], modified: [], removed: [] })
  })

  test('closing the engine ends commands', async () => {
    const failing = reasonOf(shell('sleep 600'))
    await sleep(300)
    await engine.close()
    expect(await failing).toBe('STORE_CLOSED')
    await open()
  })

  test('bounds the outputs', async () => {
    const result = await shell('head -c 100000 /dev/zero; echo short >&2', { maxOutputBytes: 1000 })
    expect([result.truncated, result.stdout.length, result.stderr.length, result.exitCode]).toEqual([
      true,
      1000,
      6,
      0,
    ])
  })

  test('concurrent commands of a session run one after the other', async () => {
    const results = await Promise.all(
      Array.from({ length: 5 }, (_, i) =>
        shell(`n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; echo ${i}`),
      ),
    )
    expect(results.map(output)).toEqual(['0\n', '1\n', '2\n', '3\n', '4\n'])
    expect(await text('/n')).toBe('5\n')
    expect(readdirSync(join(root, 'exec'))).toHaveLength(1)
  })

  test('merges with other changes of the session, and reports a conflict without a loss', async () => {
    const gate = join(scratch, 'gate')
    const during = async (script: string, change: () => Promise<unknown>): Promise<ExecResult> => {
      rmSync(gate, { force: true })
      const running = shell(`${script}; echo > ${gate}; sleep 0.3`)
      while (!existsSync(gate)) await sleep(10)
      await change()
      return running
    }
    const write = (path: string, content: string): Promise<void> => session.files.write({ path, content })
    const merged = await during('echo command > a', () => write('/d/x', 'session'))
    expect([merged.conflict, await text('/a'), await text('/d/x')]).toEqual([
      undefined,
      'command\n',
      'session',
    ])

    const before = await eventCount()
    const both = await during('echo mine > a; echo more > more', () => write('/a', 'session'))
    expect(both.conflict?.path).toBe('/a')
    expect(both.changes).toEqual({ added: [], modified: [], removed: [] })
    expect([await eventCount(), await text('/a')]).toEqual([before + 1, 'session'])
    const kept = both.conflict?.directory ?? ''
    const theirs = (): string[] => ['a', 'more'].map((name) => readFileSync(join(kept, name), 'utf8'))
    expect(theirs()).toEqual(['mine\n', 'more\n'])
    expect(output(await shell('cat a; ls'))).toBe('sessiona\nd\n')
    if (lasting) {
      await engine.close()
      await open()
      session = await engine.sessions.open(session.id)
    }
    expect(output(await shell('cat a; ls'))).toBe('sessiona\nd\n')
    expect(theirs()).toEqual(['mine\n', 'more\n'])
  })

  test('leaves out ignored files and shared directories, which stay for the next command', async () => {
    await engine.close()
    mkdirSync(join(root, 'modules'))
    writeFileSync(join(root, 'modules/m.cjs'), 'module.exports = 7')
    await open({
      ignore: ['cache/'],
      sharedDirectories: [{ path: '/node_modules', from: join(root, 'modules') }],
    })
    session = await engine.sessions.create({ files: { '/.gitkeep': '' } })
    const script =
      'mkdir -p cache; echo x >> cache/x; wc -l < cache/x; node -p "require(\'./node_modules/m.cjs\')"'
    expect(output(await shell(script))).toBe('1\n7\n')
    const again = await shell(script)
    expect(output(again)).toBe('2\n7\n')
    expect(again.changes).toEqual({ added: [], modified: [], removed: [] })
  })

  test('ignores sockets and FIFOs, and follows no symlink outside', async () => {
    writeFileSync(join(scratch, 'secret'), 'secret')
    const { changes } = await shell(`mkfifo pipe; ln -s ${scratch} out; ln -s ${scratch}/secret s`)
    expect(changes.added).toEqual(['/out', '/s'])
    await session.fs.promises.rm('/out')
    await shell('true')
    expect(existsSync(join(scratch, 'secret'))).toBe(true)
  })

  test('changes belong to the group of the handle', async () => {
    await session.group('turn 1').exec({ command: 'touch', args: ['one', 'two'] })
    await session.undo({ by: 'group' })
    expect(await session.fs.promises.readdir('/')).toEqual(['a', 'd'])
  })

  test('the command can be of the session itself, and a missing one fails with HOST_FAILED', async () => {
    expect(await reasonOf(session.exec({ command: 'no-such-program' }))).toBe('HOST_FAILED')
    expect(await reasonOf(shell('true', { cwd: '/missing' }))).toBe('PATH_NOT_FOUND')
    expect(await reasonOf(shell('true', { cwd: '/a' }))).toBe('PATH_NOT_FOUND')
    await session.files.write({ path: '/run', content: '#!/bin/sh\necho ran "$1"\n' })
    await session.files.setMode({ path: '/run', mode: 0o755 })
    expect(output(await session.exec({ command: './run', args: ['it'] }))).toBe('ran it\n')
  })

  test('a name such as .git fails with UNSAFE_PATH and changes nothing', async () => {
    expect(await reasonOf(shell('echo x > new; mkdir .git'))).toBe('UNSAFE_PATH')
    expect(output(await shell('ls -A'))).toBe('a\nd\n')
  })

  test.each<[string, ExecRequest, string]>([
    ['an empty command', { command: '' }, 'INVALID_ARGUMENT'],
    ['a NUL in the command', { command: 'a\0b' }, 'INVALID_ARGUMENT'],
    ['a NUL in an argument', { command: 'a', args: ['\0'] }, 'INVALID_ARGUMENT'],
    ['a variable with =', { command: 'a', env: { 'A=B': 'c' } }, 'INVALID_ARGUMENT'],
    ['a relative cwd', { command: 'a', cwd: 'd' }, 'INVALID_ARGUMENT'],
    ['a cwd with ..', { command: 'a', cwd: '/..' }, 'INVALID_ARGUMENT'],
    ['no time', { command: 'a', timeoutMs: 0 }, 'INVALID_ARGUMENT'],
    ['too much time', { command: 'a', timeoutMs: 2 ** 31 }, 'INVALID_ARGUMENT'],
    ['too many arguments', { command: 'a', args: Array.from({ length: 10_001 }, () => '') }, 'TOO_LARGE'],
  ])('refuses %s', async (_case, request, reason) => {
    expect(await reasonOf(session.exec(request))).toBe(reason)
  })

  test('refuses a directory outside the roots', async () => {
    await engine.close()
    await open({ directory: join(scratch, 'elsewhere') })
    session = await engine.sessions.create({ files: { '/a': '' } })
    expect(await reasonOf(shell('true'))).toBe('HOST_PATH_NOT_ALLOWED')
  })
})

test.each([
  [
    'ls -la',
    ' Pass the arguments separately: command "ls" with args ["-la"]; or run a shell: command "sh" with args ["-c","ls -la"]',
  ],
  ['no-such-program', ' Check its name and the option exec.path'],
])('the command %j fails with advice', async (command, advice) => {
  const running = runProcess({
    command,
    args: [],
    directory: tmpdir(),
    env: { PATH: '/usr/bin:/bin' },
    stdin: Buffer.alloc(0),
    timeoutMs: 60_000,
    maxOutputBytes: 100,
    signal: new AbortController().signal,
  })
  await expect(running).rejects.toMatchObject({
    reason: 'HOST_FAILED',
    message: `the host could not start the command ${JSON.stringify(command)}: ENOENT.${advice}`,
  })
})
