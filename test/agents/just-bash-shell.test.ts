import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { defineCommand } from 'just-bash'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { workspaceShell, type WorkspaceShell } from '../../src/adapters/just-bash/index.js'
import { openEngine, type Engine, type Session } from '../../src/index.js'
import { fewStorages } from '../support/storages.js'

describe.each(fewStorages)('a shell on a session on %s', (_name, makeStorage) => {
  let directory: string
  let engine: Engine
  let session: Session
  let shell: WorkspaceShell

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'shell-'))
    engine = await openEngine({ storage: makeStorage(join(directory, 'store')) })
    session = await engine.sessions.create({ files: { '/a.txt': 'one\n', '/src/b.txt': 'two\n' } })
    shell = workspaceShell(session)
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  const eventTypes = async (): Promise<string[]> =>
    (await session.events.list()).events.map(({ eventType }) => eventType.split('.').at(-1)!)
  const read = (path: string): Promise<string> => session.fs.promises.readFile(path, 'utf8')
  const stateHash = async (): Promise<string> => (await session.manifest()).manifestHash

  test('makes each command one event, and undo undoes the whole command', async () => {
    const start = await stateHash()
    const result = await shell.exec(
      'mkdir -p out/deep && for i in 1 2 3; do echo $i > out/deep/$i; done; sed -i s/one/ONE/ a.txt; rm -r src; ln -s a.txt l; exit 3',
      { turn: 'turn 1', callId: 'call_7' },
    )
    expect(result).toMatchObject({ stdout: '', stderr: '', exitCode: 3, changeCount: 9 })
    expect(result.changes.map(({ path, change, kind }) => `${change} ${kind} ${path}`)).toEqual([
      'modified file /a.txt',
      'added symlink /l',
      'added directory /out',
      'added directory /out/deep',
      'added file /out/deep/1',
      'added file /out/deep/2',
      'added file /out/deep/3',
      'removed directory /src',
      'removed file /src/b.txt',
    ])
    expect(result.changes[0]!.contentHash).toBe(await session.files.contentHash('/a.txt'))
    expect(result.changes.map(({ contentHash }) => contentHash !== undefined)).toEqual(
      result.changes.map(({ kind, change }) => kind === 'file' && change !== 'removed'),
    )
    const [, event] = (await session.events.list()).events
    expect(event).toMatchObject({
      eventId: result.eventId,
      details: { group: 'turn 1', metadata: { callId: 'call_7' }, operationCount: 9 },
    })
    expect((await session.undo()).count).toBe(1)
    expect(await stateHash()).toBe(start)
  })

  test('makes no event for a command that changes nothing, and leaves no session', async () => {
    expect(await shell.exec('grep -r two . > /dev/null; cat a.txt')).toMatchObject({
      stdout: 'one\n',
      changes: [],
      eventId: '',
    })
    expect(await eventTypes()).toEqual(['CreateSession'])
    await expect.poll(async () => (await engine.sessions.list()).sessions.length).toBe(1)
  })

  test('starts each command anew, and keeps its private files', async () => {
    const own = workspaceShell(session, { cwd: '/src', env: { A: '1' }, privateTmp: true })
    const first = await own.exec('pwd; echo "$A$B"; export A=2; cd /; echo kept > /tmp/k', {
      env: { B: 'b' },
    })
    expect(first).toMatchObject({ stdout: '/src\n1b\n', changes: [] })
    expect((await own.exec('pwd; echo "$A$B"; cat /tmp/k; cat')).stdout).toBe('/src\n1\nkept\n')
    expect((await own.exec('pwd; cat', { cwd: '/', stdin: 'in' })).stdout).toBe('/\nin')
    expect((await shell.exec('ls /tmp')).exitCode).not.toBe(0)
  })

  test('works on forks, whose commands merge', async () => {
    const fork = await session.fork()
    await workspaceShell(fork).exec('sed -i s/two/TWO/ src/b.txt; echo new > n')
    await shell.exec('echo more >> a.txt')
    const { conflicts } = await session.merge(fork)
    expect(conflicts).toEqual([])
    expect((await shell.exec('cat a.txt src/b.txt n')).stdout).toBe('one\nmore\nTWO\nnew\n')
  })

  test('rejects with the paths that the session changed meanwhile, and changes nothing', async () => {
    const wait = defineCommand('meanwhile', async () => {
      await session.files.write({ path: '/a.txt', content: 'from elsewhere\n' })
      await session.files.write({ path: '/other', content: 'other\n' })
      return { stdout: '', stderr: '', exitCode: 0 }
    })
    const own = workspaceShell(session, { customCommands: [wait] })
    await expect(own.exec('echo x > new; meanwhile; echo mine > a.txt')).rejects.toMatchObject({
      reason: 'MERGE_CONFLICT',
      details: { paths: '["/a.txt"]' },
    })
    expect(await read('/a.txt')).toBe('from elsewhere\n')
    expect(session.fs.existsSync('/new')).toBe(false)
    await own.exec('echo x > new; meanwhile')
    expect([await read('/new'), await read('/other')]).toEqual(['x\n', 'other\n'])
  })

  test('runs commands of two shells at once', async () => {
    const other = workspaceShell(session)
    await Promise.all(
      Array.from({ length: 6 }, (_, index) =>
        (index % 2 === 0 ? shell : other).exec(`mkdir d${index}; echo ${index} > d${index}/f; cat a.txt`),
      ),
    )
    expect((await shell.exec('cat d*/f')).stdout).toBe('0\n1\n2\n3\n4\n5\n')
    expect((await eventTypes()).filter((type) => type === 'ApplyBatch')).toHaveLength(6)
    const racing = await Promise.allSettled([shell.exec('echo 1 >> a.txt'), other.exec('echo 2 >> a.txt')])
    expect(racing.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
  })

  test('ends a command during its reads, without an unhandled rejection', async () => {
    const unhandled: unknown[] = []
    const onUnhandled = (error: unknown): number => unhandled.push(error)
    process.on('unhandledRejection', onUnhandled)
    const entries = Array.from({ length: 3000 }, (_, at) => [`/d/${at % 5}/${at}`, ''])
    const large = await engine.sessions.create({ files: Object.fromEntries(entries) })
    const start = (await large.events.list()).events.length
    for (const timeoutMs of [20, 40, 60, 80, 100]) {
      const limited = workspaceShell(large, { timeoutMs })
      const ended = await limited.exec('while true; do ls -lR /d; done').catch((error: unknown) => error)
      expect(ended).toMatchObject({ reason: 'DEADLINE_EXCEEDED' })
      const stopped = workspaceShell(large).exec('while true; do ls -lR /d; done', {
        signal: AbortSignal.timeout(timeoutMs),
      })
      expect(await stopped.catch((error: unknown) => error)).toMatchObject({ name: 'TimeoutError' })
    }
    // The reads of an ended command go on for a while.
    await pause(300)
    process.off('unhandledRejection', onUnhandled)
    expect(unhandled).toEqual([])
    expect((await large.events.list()).events.length).toBe(start)
  })

  test('changes nothing when the signal aborts or the time is over', async () => {
    const before = await stateHash()
    const controller = new AbortController()
    setTimeout(() => controller.abort(new Error('stop')), 30)
    const endless = 'echo x > made; while true; do echo y >> made; done'
    await expect(shell.exec(endless, { signal: controller.signal })).rejects.toThrow('stop')
    await expect(shell.exec('echo x > made', { signal: controller.signal })).rejects.toThrow('stop')
    await expect(workspaceShell(session, { timeoutMs: 50 }).exec(endless)).rejects.toMatchObject({
      reason: 'DEADLINE_EXCEEDED',
    })
    await expect(workspaceShell(session, { timeoutMs: 50 }).exec('sleep 5')).rejects.toMatchObject({
      reason: 'DEADLINE_EXCEEDED',
    })
    expect(await stateHash()).toBe(before)
    expect(await eventTypes()).toEqual(['CreateSession'])
  })

  test('has the rights of its handle', async () => {
    const reader = workspaceShell(session.narrow({ without: ['files.write'] }))
    await expect(reader.exec('cat a.txt')).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' })
  })
})

describe('a hostile script', () => {
  let engine: Engine
  let session: Session
  beforeEach(async () => {
    engine = await openEngine()
    session = await engine.sessions.create({ files: { '/a': 'one' } })
  })
  afterEach(() => engine.close())

  test.each([
    [
      'writes too much',
      'for i in 1 2 3 4 5 6 7 8 9; do printf "%01000d" 1; done',
      126,
      /output size exceeded/,
    ],
    ['recurses without end', 'f() { f; }; f', 126, /recursion depth/],
    ['loops without end', 'while :; do :; done', 126, /too many iterations/],
    ['leaves the root', 'cat ../../../../etc/passwd', 1, /No such file/],
    ['follows a symlink out', 'ln -s ../../../../etc/hostname l; cat l', 1, /No such file/],
    ['reads the process of the host', 'cat /proc/self/environ', 1, /No such file/],
    ['uses the network', 'curl http://127.0.0.1/', 127, /command not found/],
    ['writes through a file', 'echo x > a/b', 1, /a\/b|Not a directory/i],
    ['removes the root', 'rm -r /', 1, /EBUSY|busy/],
    ['has a syntax error', 'if then', 2, /syntax error/],
  ])('that %s gets an error', async (_name, script, exitCode, stderr) => {
    const shell = workspaceShell(session, {
      maxOutputBytes: 5000,
      executionLimits: { maxLoopIterations: 500 },
    })
    const result = await shell.exec(script)
    expect(result.stderr).toMatch(stderr)
    expect(result.exitCode).toBe(exitCode)
    expect(session.fs.readFileSync('/a', 'utf8')).toBe('one')
  })

  test('with unusual names reaches only files of the session', async () => {
    const shell = workspaceShell(session)
    const names = ['__proto__', 'constructor', '-rf', '$(id)', 'a\nb']
    await shell.exec(names.map((name, index) => `echo ${index} > ./'${name}'`).join('\n'))
    expect(session.fs.readdirSync('/').toSorted()).toEqual(['a', ...names].toSorted())
    expect((await shell.exec('cat __proto__ ./-rf')).stdout).toBe('0\n2\n')
    expect((await shell.exec("cat $'a\\0b'; echo x > $'n\\0m'")).exitCode).toBeTypeOf('number')
    expect(({} as Record<string, unknown>)['0']).toBeUndefined()
  })

  test('or a wrong option is refused before anything runs', async () => {
    const shell = workspaceShell(session)
    const wrong = [
      shell.exec(1 as never),
      shell.exec('x'.repeat(2 ** 20 + 1)),
      shell.exec('ls', { cwd: 'src' }),
      shell.exec('ls', { env: { A: 1 as never } }),
      shell.exec('ls', { env: new Map([['A', '1']]) as never }),
      shell.exec('ls', { signal: {} as never }),
      shell.exec('ls', { timeout: 1 } as never),
    ]
    const reasons = await Promise.all(
      wrong.map((call) => call.catch(({ reason }: { reason: string }) => reason)),
    )
    expect(reasons).toEqual(['INVALID_ARGUMENT', 'TOO_LARGE', ...Array<string>(5).fill('INVALID_ARGUMENT')])
    for (const options of [
      { cwd: 'a' },
      { timeoutMs: 0 },
      { maxOutputBytes: 1.5 },
      { privateTmp: 1 },
      { shell: 'sh' },
    ])
      expect(() => workspaceShell(session, options as never)).toThrow(
        expect.objectContaining({ reason: 'INVALID_ARGUMENT' }),
      )
    expect(() => workspaceShell({} as never)).toThrow('must be a session')
  })
})
