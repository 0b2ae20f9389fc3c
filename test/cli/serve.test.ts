import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { request, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { cliLimits } from '../../src/adapters/cli/limits.js'
import { limits } from '../../src/index.js'
import {
  runCommand,
  serveCommand,
  type CommandOptions,
  type Served,
  type ServedProcess,
} from '../support/command.js'
import { outputHere, runHere, serveHere } from '../support/command-here.js'
import { hasGit } from '../support/git-repository.js'
import { runGit, type GitRun } from '../support/git-world.js'

let directory: string
let store: string
const stops = new Set<() => Promise<unknown>>()

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cli-'))
  store = join(directory, 'store')
})
afterEach(async () => {
  for (const stop of stops) await stop()
  stops.clear()
  await rm(directory, { recursive: true })
})

/** Runs in this process, which is faster. */
async function serve(args: readonly string[], options: CommandOptions = {}): Promise<Served> {
  const served = await serveHere(args, options)
  stops.add(() => served.stop())
  return served
}

async function serveInProcess(args: readonly string[]): Promise<ServedProcess> {
  const served = await serveCommand(args)
  stops.add(() => served.stop('SIGKILL'))
  return served
}

interface Call {
  readonly method?: string
  readonly body?: unknown
  readonly host?: string
}

async function call(
  { url }: { url: string },
  path: string,
  token: string,
  { method = 'GET', body, host }: Call = {},
): Promise<{ status: number; body: Record<string, unknown> }> {
  const { hostname, port } = new URL(url)
  const headers = {
    ...(token !== '' && { authorization: `Bearer ${token}` }),
    ...(body !== undefined && { 'content-type': 'application/json' }),
    host: host ?? `${hostname}:${port}`,
  }
  const sent = request({ host: hostname.replace(/^\[|\]$/g, ''), port, path, method, headers, agent: false })
  sent.end(body === undefined ? undefined : JSON.stringify(body))
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  let text = ''
  for await (const chunk of response.setEncoding('utf8')) text += String(chunk)
  return { status: response.statusCode!, body: JSON.parse(text) as Record<string, unknown> }
}

describe('the output', () => {
  test('starts with the address, and shows a generated token once', async () => {
    const served = await serveInProcess([])
    expect(served.lines[0]).toMatch(/^forkspace listening on http:\/\/127\.0\.0\.1:\d+$/)
    const line = await served.until(/^forkspace token /)
    const token = /^forkspace token ([\w-]{43})$/.exec(line)![1]!
    expect(served.stderr().split(token).length).toBe(2)
    expect(served.lines.join('\n')).not.toContain(token)
    expect(await call(served, '/v1/sessions', token)).toMatchObject({ status: 200, body: { sessions: [] } })
    expect(await call(served, '/v1/sessions', `${token}x`)).toMatchObject({ status: 401, body: { code: 16 } })
    expect(await call(served, '/v1/openapi.json', '')).toMatchObject({ status: 200 })
    expect(await served.stop()).toEqual({ code: 0, signal: null })
    expect(served.stderr().split(token).length).toBe(2)
  })

  test('is one JSON object per line with --log json, without the token', async () => {
    const served = await serve(['--log', 'json', '--storage', store])
    const line = await served.until(/^forkspace token /)
    expect(served.lines[1]).toBe(line)
    await served.until(/"serving"/)
    await served.stop()
    const entries = served
      .stderr()
      .split('\n')
      .map((text) => JSON.parse(text) as Record<string, unknown>)
    for (const entry of entries) expect(Object.keys(entry)).toEqual(['time', 'level', 'message', 'fields'])
    expect(entries.map(({ message }) => message)).toEqual([
      expect.stringContaining('master.key') as string,
      'serving',
      'closing',
      'closed',
    ])
    expect(served.stderr()).not.toContain(line.split(' ').at(-1))
    expect(served.stderr()).not.toContain((await readFile(join(store, 'master.key'), 'utf8')).trim())
  })

  test('writes an IPv6 address as in URLs', async () => {
    const failed = await runHere(['serve', '--host', '::1', '--port', '70000'])
    expect(failed.code).toBe(2)
    const served = await serve(['--host', '::1', '--token', 'tok']).catch(() => undefined)
    // Not every host has IPv6.
    if (served === undefined) return
    expect(served.url).toMatch(/^http:\/\/\[::1\]:\d+$/)
    expect(await call(served, '/v1/sessions', 'tok')).toMatchObject({ status: 200 })
  })
})

describe('tokens', () => {
  test('act as their callers', async () => {
    const served = await serve(['--token', 'ann-token@acme/ann@example.org', '--token', 'plain'], {
      env: { FORKSPACE_TOKEN: 'bob-token@other/bob' },
    })
    const created = await call(served, '/v1/sessions', 'ann-token', { method: 'POST', body: {} })
    const id = created.body['id'] as string
    expect(created.status).toBe(200)
    expect(await call(served, `/v1/sessions/${id}`, 'ann-token')).toMatchObject({ status: 200 })
    for (const token of ['bob-token', 'plain'])
      expect(await call(served, `/v1/sessions/${id}`, token)).toMatchObject({ status: 404 })
    for (const token of ['ann-token@acme/ann@example.org', '', 'ann', 'ann-tokens'])
      expect(await call(served, `/v1/sessions/${id}`, token)).toMatchObject({ status: 401 })
    const lock = { method: 'POST', body: { path: '/x', timeoutSeconds: 10 } }
    await call(served, `/v1/sessions/${id}/files/lock`, 'ann-token', lock)
    const { body } = await call(served, `/v1/sessions/${id}/files/list-locks`, 'ann-token', {
      method: 'POST',
      body: { pathPrefix: '/' },
    })
    expect(body).toMatchObject({ locks: [{ ownerId: 'ann@example.org' }] })
    await served.stop()
    expect(served.stderr() + served.lines.join('\n')).not.toMatch(/ann-token|bob-token|plain/)
  })

  test.each([
    ['with spaces', 'canary token'],
    ['empty', ''],
    ['empty before its caller', '@acme/canary'],
    ['with a caller without a principal', 'canary@acme'],
    ['with an empty principal', 'canary@acme/'],
    ['with an empty tenant', 'canary@/ann'],
    ['with a line end', 'canary\n'],
  ])('%s are rejected and not repeated', async (_case, token) => {
    const { code, stdout, stderr } = await runHere(['serve', '--token', token])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^forkspace: --token: .*\n$/)
    expect(stderr).not.toContain('canary')
    if (token === '') return
    const other = await runHere(['serve'], { env: { FORKSPACE_TOKEN: token } })
    expect(other.code).toBe(2)
    expect(other.stderr).toMatch(/^forkspace: FORKSPACE_TOKEN: /)
    expect(other.stderr).not.toContain('canary')
  })

  test('may decide on their own requests, except with --no-self-approval', async () => {
    const tokens = { ann: 'a'.repeat(32), bob: 'b'.repeat(32) }
    const grants = Object.entries(tokens).flatMap(([name, token]) => ['--token', `${token}@acme/${name}`])
    for (const [option, status] of [
      [[], 200],
      [['--no-self-approval'], 403],
    ] as const) {
      const served = await serve([...grants, ...option])
      const post = (path: string, token: string) =>
        call(served, `/v1/sessions${path}`, token, { method: 'POST', body: {} })
      const { id } = (await post('', tokens.ann)).body
      const { approvalId } = (await post(`/${String(id)}/request-approval`, tokens.ann)).body
      const grant = `/${String(id)}/approvals/${String(approvalId)}/grant`
      expect((await post(grant, tokens.ann)).status).toBe(status)
      expect((await post(grant, tokens.bob)).status).toBe(status === 200 ? 400 : 200)
      await served.stop()
    }
  })

  test('for two callers are rejected', async () => {
    const { code, stderr } = await runHere(['serve', '--token', 'canary@a/b', '--token', 'canary@a/c'])
    expect([code, stderr]).toEqual([2, 'forkspace: the same token is given for different callers\n'])
  })
})

describe('a signal', () => {
  test('leaves the engine its time for commits that wait for a remote', () => {
    expect(cliLimits.closeMs).toBeGreaterThan(cliLimits.drainMs + limits.commitGraceMs)
  })

  test.each(['SIGTERM', 'SIGINT'] as const)(
    '%s ends streams and waits, and keeps completed changes',
    async (signal) => {
      const served = await serveInProcess(['--storage', store, '--token', 'tok', '--log', 'json'])
      const { body } = await call(served, '/v1/sessions', 'tok', { method: 'POST', body: {} })
      const id = body['id'] as string
      const operations = [{ write: { path: '/kept', content: Buffer.from('kept').toString('base64') } }]
      const written = await call(served, `/v1/sessions/${id}/batch`, 'tok', {
        method: 'POST',
        body: { operations },
      })
      expect(written.status).toBe(200)
      // A stream, a wait for a lock, an idle connection, and an incomplete request.
      const { hostname, port } = new URL(served.url)
      const stream = request({
        host: hostname,
        port,
        path: `/v1/sessions/${id}/bus`,
        headers: { authorization: 'Bearer tok' },
      })
      stream.on('error', () => undefined)
      stream.end()
      const [opened] = (await once(stream, 'response')) as [IncomingMessage]
      opened.on('error', () => undefined).resume()
      const owner = (ownerId: string): object => ({
        owner: { ownerId, pid: 1, clientId: 'c' },
        blocking: true,
      })
      const flock = (ownerId: string): ReturnType<typeof call> =>
        call(served, `/v1/sessions/${id}:flock`, 'tok', {
          method: 'POST',
          body: { path: '/kept', mode: 'POSIX_FLOCK_MODE_EXCLUSIVE', ...owner(ownerId) },
        })
      await flock('one')
      const waiting = flock('two').catch((error: Error) => error)
      const idle = connect(Number(port), hostname)
      const half = connect(Number(port), hostname)
      for (const socket of [idle, half]) socket.on('error', () => undefined)
      half.write(
        'POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer tok\r\nContent-Length: 100\r\n\r\n{',
      )
      await once(half, 'connect')

      expect(await served.stop(signal)).toEqual({ code: 0, signal: null })
      await waiting
      for (const socket of [idle, half]) socket.destroy()
      expect(served.stderr()).toContain(`"signal":"${signal}"`)
      expect(await outputHere(['cat', `${id}:kept`, '--store', store])).toBe('kept')
      expect(await readdir(store)).toEqual(['forkspace.json', 'index', 'master.key', 'segments'])
    },
  )

  test('that comes second ends immediately, and keeps completed changes', async () => {
    const served = await serveInProcess(['--storage', store, '--token', 'tok'])
    const { body } = await call(served, '/v1/sessions', 'tok', {
      method: 'POST',
      body: { initialTags: { a: 'b' } },
    })
    served.process.kill('SIGSTOP')
    served.process.kill('SIGTERM')
    served.process.kill('SIGCONT')
    // Either closing finishes first, or the signal ends it.
    await served.until(/closing/)
    const { code, signal } = await served.stop('SIGTERM')
    expect([code, signal]).toEqual(signal === null ? [0, null] : [null, 'SIGTERM'])
    expect(await outputHere(['session', 'ls', '--store', store])).toContain(body['id'])
  })
})

describe('a second opener', () => {
  test('sees the owner of the store and the time of its opening', async () => {
    const before = new Date().toISOString()
    const served = await serveInProcess(['--storage', store, '--token', 'tok'])
    // Concurrently, because a verb waits for the store.
    const attempts = await Promise.all([
      runCommand(['serve', '--storage', store]),
      runHere(['session', 'ls', '--store', store]),
    ])
    for (const [at, { code, stdout, stderr }] of attempts.entries()) {
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
      const [, pid, since, rest] =
        /^forkspace: the store .*\/store is in use by process (\d+) on \S+, since ([\d:TZ.-]+)(.*)\n$/.exec(
          stderr,
        )!
      expect(Number(pid)).toBe(served.process.pid)
      expect(since! >= before && since! <= new Date().toISOString()).toBe(true)
      expect(rest).toBe(at === 0 ? '' : '; if it is a forkspace server, use --server <url>')
    }
    await served.stop()
    await outputHere(['session', 'ls', '--store', store])
  })

  test('succeeds after the first one was killed', async () => {
    const served = await serveInProcess(['--storage', store, '--token', 'tok'])
    await served.stop('SIGKILL')
    expect(await readdir(store)).toContain('owner.json')
    expect(await outputHere(['session', 'ls', '--store', store])).toBe('')
    expect(await readdir(store)).not.toContain('owner.json')
  })
})

describe('the master key', () => {
  const putSecret = (served: Served, id: string): ReturnType<typeof call> =>
    call(served, `/v1/sessions/${id}/secrets/NAME`, 'tok', { method: 'PUT', body: { secretValue: 'canary' } })
  const getSecret = (served: Served, id: string): ReturnType<typeof call> =>
    call(served, `/v1/sessions/${id}/secrets/NAME`, 'tok')
  const newSession = async (served: Served): Promise<string> =>
    (await call(served, '/v1/sessions', 'tok', { method: 'POST', body: {} })).body['id'] as string
  const start = (args: readonly string[] = [], env: Record<string, string> = {}): Promise<Served> =>
    serve(['--storage', store, '--token', 'tok', ...args], { env })

  test('is created once in the store with owner-only permissions, and then reused', async () => {
    let served = await start()
    const id = await newSession(served)
    expect(await putSecret(served, id)).toMatchObject({ status: 200 })
    expect(served.stderr()).toMatch(/created .*\/store\/master\.key/)
    await served.stop()
    const file = join(store, 'master.key')
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    const key = await readFile(file, 'utf8')
    expect(key).toMatch(/^[0-9a-f]{64}\n$/)

    served = await start()
    expect(await getSecret(served, id)).toMatchObject({ status: 200, body: { secretValue: 'canary' } })
    expect(served.stderr()).not.toContain('created')
    await served.stop()
    expect(served.stderr() + served.lines.join('\n')).not.toMatch(/canary/)

    // The same key in other places and formats.
    const bytes = Buffer.from(key.trim(), 'hex')
    await rm(file)
    const raw = join(directory, 'raw.key')
    await writeFile(raw, bytes, { mode: 0o600 })
    for (const [args, env] of [
      [['--master-key-file', raw], {}],
      [[], { FORKSPACE_MASTER_KEY: bytes.toString('base64') }],
      [[], { FORKSPACE_MASTER_KEY: key.toUpperCase() }],
    ] as const) {
      served = await start(args, env)
      expect(await getSecret(served, id)).toMatchObject({ status: 200 })
      await served.stop()
    }
    expect(await readdir(store)).not.toContain('master.key')

    // A different key is detected, and a missing one is not replaced.
    served = await start([], { FORKSPACE_MASTER_KEY: randomBytes(32).toString('hex') })
    expect(await getSecret(served, id)).toMatchObject({ status: 400 })
    await served.stop()
    const { code, stderr } = await runHere(['serve', '--storage', store])
    expect(code).toBe(1)
    expect(stderr).toMatch(/^forkspace: the store has secrets, but their key .*master\.key is missing/)
    expect(await readdir(store)).toEqual(['forkspace.json', 'index', 'segments'])
  })

  test('is recreated if its creation was interrupted, and not replaced if damaged', async () => {
    const file = join(store, 'master.key')
    await outputHere(['session', 'create', '--store', store])
    await writeFile(`${file}.new`, 'half', { mode: 0o644 })
    const served = await start()
    await served.stop()
    expect(await readdir(store)).toEqual(['forkspace.json', 'index', 'master.key', 'segments'])
    await writeFile(file, 'canary')
    const { code, stderr } = await runHere(['serve', '--storage', store])
    expect(code).toBe(1)
    expect(stderr).toMatch(/master\.key: a master key is 32 bytes, in hex or base64\n$/)
    expect(await readFile(file, 'utf8')).toBe('canary')
  })

  test('that others can read causes a warning', async () => {
    const file = join(directory, 'key')
    await writeFile(file, randomBytes(32).toString('base64'))
    await chmod(file, 0o644)
    const served = await start(['--master-key-file', file])
    expect(await served.until(/can be read by other users/)).toMatch(/ warn .*chmod 600/)
  })

  test.each(['canary', 'ab'.repeat(31), 'ab'.repeat(33), `${'A'.repeat(42)}B`, `${'A'.repeat(42)}!`])(
    'that is invalid is rejected and not repeated: %s',
    async (key) => {
      const { code, stderr } = await runHere(['serve'], { env: { FORKSPACE_MASTER_KEY: key } })
      expect([code, stderr]).toEqual([
        2,
        'forkspace: FORKSPACE_MASTER_KEY: a master key is 32 bytes, in hex or base64\n',
      ])
    },
  )

  test('is read only from an existing file', async () => {
    const { code, stderr } = await runHere(['serve', '--master-key-file', join(directory, 'no')])
    expect([code, stderr]).toEqual([1, `forkspace: there is no file ${join(directory, 'no')}\n`])
  })

  test('is not needed in memory', async () => {
    const served = await serve(['--token', 'tok'])
    const id = await newSession(served)
    expect(await putSecret(served, id)).toMatchObject({ status: 200 })
    expect(await getSecret(served, id)).toMatchObject({ body: { secretValue: 'canary' } })
    await served.stop()
    expect(served.stderr()).not.toMatch(/key|canary/)
  })
})

describe('the network', () => {
  test('reports a port in use, or a foreign address, in one line', async () => {
    const served = await serve(['--token', 'tok'])
    const { port } = new URL(served.url)
    const busy = await runHere(['serve', '--storage', store, '--port', port])
    expect(busy).toMatchObject({ code: 1, stdout: '' })
    expect(busy.stderr).toMatch(new RegExp(`^forkspace: port ${port} of 127\\.0\\.0\\.1 is in use$`, 'm'))
    const foreign = await runHere(['serve', '--host', '192.0.2.1'])
    expect(foreign).toMatchObject({
      code: 1,
      stdout: '',
      stderr: 'forkspace: 192.0.2.1 is not an address of this host\n',
    })
    // Neither attempt left the store locked.
    expect(await outputHere(['session', 'ls', '--store', store])).toBe('')
  })

  test('warns when it serves other hosts, and allows listed host names', async () => {
    const served = await serve(['--host', '0.0.0.0', '--token', 'tok', '--allow-host', 'build.example'])
    await served.until(/ warn .*HTTP does not encrypt/)
    const { port } = new URL(served.url)
    const local = { url: `http://127.0.0.1:${port}` }
    for (const [host, status] of [
      [`localhost:${port}`, 200],
      [`build.example:${port}`, 200],
      ['build.example', 200],
      ['evil.example', 403],
    ] as const)
      expect(await call(local, '/v1/sessions', 'tok', { host })).toMatchObject({ status })
    const loopback = await serve(['--token', 'tok'])
    await loopback.until(/serving/)
    expect(loopback.stderr()).not.toMatch(/ warn /)
  })

  test('keeps host directories closed except the allowed ones', async () => {
    const open = join(directory, 'open')
    await mkdir(open)
    const served = await serve(['--token', 'tok', '--allow-host-path', open])
    const add = (path: string): ReturnType<typeof call> =>
      call(served, '/v1/sources', 'tok', { method: 'POST', body: { displayName: 'x', hostPath: { path } } })
    expect(await add(open)).toMatchObject({ status: 200 })
    expect(await add(directory)).toMatchObject({ status: 403, body: { code: 7 } })
    const git = { displayName: 'x', gitRemote: { remoteUrl: 'http://127.0.0.1:1/x.git' } }
    const { body } = await call(served, '/v1/sources', 'tok', { method: 'POST', body: git })
    const source = `/v1/sources/${body['sourceId'] as string}`
    const started = await call(served, `${source}/startImport`, 'tok', { method: 'POST', body: {} })
    let job = started.body
    while (job['completedAt'] === '')
      job = (await call(served, `${source}/jobs/${job['jobId'] as string}`, 'tok')).body
    expect(job).toMatchObject({ state: 'UNDERLAY_IMPORT_JOB_STATE_FAILED', errorCode: 'REMOTE_UNREACHABLE' })
    expect(job['errorMessage']).toMatch(/git\.allowPrivateAddresses allows it/)
  })

  test('rejects a missing directory or a file for --allow-host-path', async () => {
    const file = join(directory, 'file')
    await writeFile(file, '')
    for (const path of [join(directory, 'missing'), file]) {
      const { code, stdout, stderr } = await runHere(['serve', '--allow-host-path', path])
      expect([code, stdout]).toEqual([2, ''])
      expect(stderr).toContain(
        `--allow-host-path: there is no directory ${path}; create it, or pass another one`,
      )
    }
  })
})

describe.skipIf(!hasGit)('the repositories', () => {
  const clone = async (flags: readonly string[], push: boolean): Promise<GitRun[]> => {
    const served = await serve(['--token', 'tok', ...flags])
    const { body } = await call(served, '/v1/sessions', 'tok', { method: 'POST', body: {} })
    const url = `${served.url.replace('://', '://git:tok@')}/sessions/${String(body['id'])}.git`
    const cloned = await runGit(directory, ['clone', '--quiet', url, 'work'])
    if (!push || cloned.code !== 0) return [cloned]
    const work = join(directory, 'work')
    await runGit(work, ['commit', '--quiet', '--allow-empty', '-m', 'first'])
    return [cloned, await runGit(work, ['push', '--quiet', 'origin', 'HEAD:main'])]
  }

  test('are absent without --git', async () => {
    const [cloned] = await clone([], false)
    expect(cloned).toMatchObject({
      code: 128,
      stderr: expect.stringMatching(/Authentication failed/) as string,
    })
  })

  test('are cloned with --git, and refuse pushes', async () => {
    const [cloned, pushed] = await clone(['--git'], true)
    expect([cloned?.code, pushed?.stderr]).toEqual([0, expect.stringMatching(/takes no pushes.*--git-push/)])
  })

  test('take pushes with --git-push', async () => {
    expect(await clone(['--git-push'], true)).toMatchObject([{ code: 0 }, { code: 0 }])
  })
})
