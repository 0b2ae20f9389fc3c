import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { findDavfs, isMounted, unmount } from '../../src/adapters/cli/davfs.js'
import { mountCommands } from '../../src/adapters/cli/mount-commands.js'
import { nextTurn } from '../../src/engine/ports.js'
import { outputHere, runHere, serveHere, startHere } from '../support/command-here.js'
import { commandFile, runCommand, startCommand, type Watched } from '../support/command.js'
import { canMountDavfs } from '../support/davfs.js'

let directory: string
let env: Record<string, string>
let session: string
const started = new Set<Pick<Watched, 'stop'>>()

beforeEach(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), 'mount-')))
  env = { FORKSPACE_STORE: join(directory, 'store') }
  session = await outputHere(['session', 'create'], { env })
  await outputHere(['put', '-', `${session}:/a.txt`], { env, input: 'hello\n' })
})
afterEach(async () => {
  for (const one of started) await one.stop()
  started.clear()
  await rm(directory, { recursive: true })
})

function mount(
  args: readonly string[],
  options: { readonly env: Record<string, string> } = { env },
): Watched {
  const command = startHere(['mount', ...args], options)
  started.add(command)
  return command
}

interface Announced {
  readonly url: string
  readonly token: string
}

async function announced(command: Watched): Promise<Announced> {
  const [, url = ''] =
    /^forkspace webdav on (http:\/\/127\.0\.0\.1:\d+\/)$/.exec(await command.until(/webdav on/)) ?? []
  const [, token = ''] = /password ([\w-]{43})$/.exec(await command.until(/password/)) ?? []
  return { url, token }
}

function ask({ url, token }: Announced, method: string, path: string, body?: string): Promise<Response> {
  const headers = { authorization: `Basic ${btoa(`forkspace:${token}`)}` }
  return fetch(new URL(path, url), { method, headers, ...(body !== undefined && { body }) })
}

test('without a directory, it serves the session, and says how to mount it', async () => {
  const command = mount([session])
  const where = await announced(command)
  expect(await (await ask(where, 'GET', 'a.txt')).text()).toBe('hello\n')
  expect((await ask(where, 'PUT', 'a.txt', 'x')).status).toBe(403)
  expect((await ask({ ...where, token: 'other' }, 'GET', 'a.txt')).status).toBe(401)
  const commands = command.lines.filter((line) => line.startsWith('to mount it: '))
  expect(commands.length).toBeGreaterThan(0)
  for (const line of commands) expect(line).not.toContain(where.token)
  expect(await command.stop()).toEqual({ code: 0, signal: null })
  expect(command.stderr()).toBe('')
  expect(await outputHere(['cat', `${session}:/a.txt`], { env })).toBe('hello')
})

test('with --write, programs change the session', async () => {
  const command = mount([session, '--write', '--json'])
  const { url, token, write, mounted } = JSON.parse(await command.until(/^\{/)) as Announced & {
    readonly write: boolean
    readonly mounted: boolean
  }
  expect([write, mounted]).toEqual([true, false])
  expect((await ask({ url, token }, 'PUT', 'b.txt', 'written')).status).toBe(201)
  await command.stop('SIGINT')
  expect(await outputHere(['cat', `${session}:/b.txt`], { env })).toBe('written')
})

test('it serves a session of a server', async () => {
  const server = await serveHere(['--storage', join(directory, 'store'), '--token', 'server-token'])
  const remote = { FORKSPACE_SERVER: server.url, FORKSPACE_TOKEN: 'server-token' }
  const where = await announced(mount([session, '--write'], { env: remote }))
  started.add(server)
  expect(await (await ask(where, 'GET', 'a.txt')).text()).toBe('hello\n')
  expect((await ask(where, 'PUT', 'b.txt', 'written')).status).toBe(201)
  expect((await ask(where, 'GET', 'none')).status).toBe(404)
  expect((await ask(where, 'MKCOL', 'none/d')).status).toBe(409)
  const listed = await fetch(where.url, {
    method: 'PROPFIND',
    headers: { authorization: `Bearer ${where.token}`, depth: '1' },
  })
  expect(await listed.text()).toMatch(/\/a\.txt[^]*\/b\.txt/)
  expect(await outputHere(['cat', `${session}:/b.txt`], { env: remote })).toBe('written')
})

describe.skipIf(!canMountDavfs())('with a directory', () => {
  test('it mounts the session with davfs2 for reading, and unmounts it at a signal', async () => {
    const point = join(directory, 'a mount')
    const command = mount([session, point])
    expect(await command.until(/mounted/)).toBe(`forkspace mounted ${session} at ${point}`)
    expect(await readFile(join(point, 'a.txt'), 'utf8')).toBe('hello\n')
    expect(await readdir(point)).toContain('a.txt')
    await expect(writeFile(join(point, 'a.txt'), 'x')).rejects.toMatchObject({ code: 'EROFS' })
    // The file with the token is gone.
    expect((await readdir(tmpdir())).filter((name) => name.startsWith('forkspace-mount-'))).toEqual([])
    expect(await command.stop()).toEqual({ code: 0, signal: null })
    expect(command.stderr()).toBe('')
    expect(await isMounted(point)).toBe(false)
    expect(await readdir(point)).toEqual([])
  })

  test('with --write, changes are in the session, and a program in the directory delays the end', async () => {
    const point = join(directory, 'mount')
    const command = mount([session, point, '--write'])
    await command.until(/mounted/)
    await writeFile(join(point, 'b.txt'), 'written')
    await mkdir(join(point, 'd'))
    const inside = spawn('sleep', ['600'], { cwd: join(point, 'd') })
    await once(inside, 'spawn')
    const stopped = command.stop('SIGINT')
    expect(await command.until(/another signal/)).toContain('busy')
    expect(await isMounted(point)).toBe(true)
    inside.kill()
    expect(await stopped).toEqual({ code: 0, signal: null })
    expect(await isMounted(point)).toBe(false)
    expect(await outputHere(['cat', `${session}:/b.txt`], { env })).toBe('written')
  })

  test('that is a symlink or has unusual characters, it unmounts at a signal, also of a terminal', async () => {
    const real = join(directory, 'a\\b\tc\u00a0d# "e"')
    await mkdir(real)
    await symlink(real, join(directory, 'link'))
    const command = mount([session, join(directory, 'link')])
    expect(await command.until(/mounted/)).toContain(`at ${real}`)
    expect(await isMounted(real)).toBe(true)
    const other = { FORKSPACE_STORE: join(directory, 'other') }
    const id = await outputHere(['session', 'create'], { env: other })
    const again = await runHere(['mount', id, join(directory, 'link')], { env: other })
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('is mounted at')])
    expect(await command.stop('SIGHUP')).toEqual({ code: 0, signal: null })
    expect([command.stderr(), await isMounted(real)]).toEqual(['', false])
  })

  test('it needs no proxy, and passes on no token', async () => {
    const point = join(directory, 'mount')
    const temporary = join(directory, 'with " and space')
    await mkdir(temporary)
    const child = startCommand(['mount', session, point], {
      env: {
        ...env,
        TMPDIR: temporary,
        http_proxy: 'http://127.0.0.1:9',
        FORKSPACE_TOKEN: 'token of a server',
      },
    })
    const ended = once(child, 'exit')
    const [line] = (await once(child.stdout ?? child, 'data')) as [Buffer]
    expect(String(line)).toContain('mounted')
    for (const daemon of await davfsDaemons(point))
      expect(await readFile(`/proc/${daemon}/environ`, 'utf8')).not.toContain('FORKSPACE')
    expect(await readdir(temporary)).toEqual([])
    child.kill('SIGTERM')
    expect(await ended).toEqual([0, null])
    expect(await isMounted(point)).toBe(false)
  })

  test('it refuses what davfs2 cannot use', async () => {
    const quoted = await runHere(['mount', session, join(directory, "it's")], { env })
    expect([quoted.code, quoted.stderr]).toEqual([1, expect.stringContaining('apostrophe')])
    const temporary = join(directory, 'with, comma')
    await mkdir(temporary)
    const comma = await runCommand(['mount', session, join(directory, 'mount')], {
      env: { ...env, TMPDIR: temporary },
    })
    expect([comma.code, comma.stderr]).toEqual([1, expect.stringContaining('has a comma')])
    expect(await readdir(temporary)).toEqual([])
  })

  test('two signals while davfs2 mounts leave no file with the token', async () => {
    const point = join(directory, 'mount')
    const temporary = join(directory, 'temporary')
    await mkdir(temporary)
    const child = startCommand(['mount', session, point], { env: { ...env, TMPDIR: temporary } })
    const ended = once(child, 'exit')
    const hasSecrets = async (): Promise<boolean> =>
      (await readdir(temporary, { recursive: true })).some((name) => name.endsWith('/secrets'))
    while (!(await hasSecrets())) await nextTurn()
    child.kill('SIGINT')
    // Node would take both signals together.
    await pause(5)
    child.kill('SIGTERM')
    await ended
    expect(await readdir(temporary)).toEqual([])
    if (await isMounted(point)) await unmount(point)
  })

  test('that was unmounted already, it ends', async () => {
    const point = join(directory, 'mount')
    const command = mount([session, point])
    await command.until(/mounted/)
    const unmounting = spawn('umount', [point])
    await once(unmounting, 'close')
    expect(await command.stop()).toEqual({ code: 0, signal: null })
    expect(command.stderr()).toBe('')
  })
})

/** The processes of davfs2 that serve a directory. */
async function davfsDaemons(point: string): Promise<string[]> {
  const found: string[] = []
  for (const id of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    // A process may end meanwhile.
    const line = await readFile(`/proc/${id}/cmdline`, 'utf8').catch(() => '')
    if (line.startsWith('/usr/sbin/mount.davfs') && line.includes(`\0${point}\0`)) found.push(id)
  }
  expect(found).not.toEqual([])
  return found
}

test.each([
  ['an unknown session', ['none'], 1, 'session'],
  ['a wrong port', ['SESSION', '--port', 'x'], 2, 'a port must be'],
  ['a directory with files', ['SESSION', 'store'], 1, 'is not empty'],
  ['a file', ['SESSION', 'store/forkspace.json'], 1, 'forkspace.json cannot be used: it is not a directory'],
  ['a path below a file', ['SESSION', 'store/forkspace.json/x'], 1, 'a part of its path is not a directory'],
  ['an empty directory name', ['SESSION', ''], 2, 'the directory is empty'],
])('it refuses %s', async (_case, args, code, message) => {
  const given = args.map((arg) => arg.replace('SESSION', session))
  const result = await runHere(['mount', ...given], { env, cwd: directory })
  expect([result.code, result.stderr]).toEqual([code, expect.stringContaining(message)])
})

test.runIf(process.platform === 'linux')('it refuses a directory that cannot be created', async () => {
  const { code, stderr } = await runHere(['mount', session, '/proc/none/deep'], { env })
  expect([code, stderr]).toEqual([
    1,
    expect.stringContaining('/proc/none/deep cannot be used: it does not exist'),
  ])
})

/** Connects a command to its own terminal, which is closed after the first output. Prints the signal that ended it. */
const closedTerminal = `
import os, pty, sys
child, terminal = pty.fork()
if child == 0: os.execv(sys.argv[1], sys.argv[1:])
output = b''
while b'webdav on' not in output: output += os.read(terminal, 4096)
os.close(terminal)
status = os.waitpid(child, 0)[1]
print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 'none')
`

// Python's pty module needs Unix.
test.runIf(process.platform !== 'win32')('it ends as by SIGHUP when its terminal is closed', async () => {
  const { PATH = '', TMPDIR = '/tmp' } = process.env
  const args = ['-c', closedTerminal, process.execPath, commandFile, 'mount', session]
  const { stdout } = await promisify(execFile)('python3', args, { env: { PATH, TMPDIR, ...env } })
  expect(stdout).toBe(`${constants.signals.SIGHUP}\n`)
  // The store was closed.
  expect(await readdir(join(directory, 'store'))).not.toContain('owner.json')
})

test('it refuses a port that is in use', async () => {
  const { url } = await announced(mount([session]))
  const other = { FORKSPACE_STORE: join(directory, 'other') }
  const id = await outputHere(['session', 'create'], { env: other })
  const { code, stderr } = await runHere(['mount', id, '--port', new URL(url).port], { env: other })
  expect([code, stderr]).toEqual([1, expect.stringContaining('is in use: pass another --port')])
})

test('each platform has a command that asks for the password', () => {
  const url = 'http://127.0.0.1:1234/'
  expect(mountCommands('linux', { url, directory: "/a b'c" })).toEqual([
    String.raw`printf 'buf_size 64\ndelay_upload 0\n' > davfs2.conf && sudo mount -t davfs -o conf="$PWD/davfs2.conf",username=forkspace http://127.0.0.1:1234/ '/a b'\''c'`,
    'gio mount dav://forkspace@127.0.0.1:1234/',
  ])
  expect(mountCommands('darwin', { url, directory: undefined })).toEqual([
    'mount_webdav -i http://127.0.0.1:1234/ ./mount',
  ])
  expect(mountCommands('win32', { url, directory: undefined })).toEqual([
    'net use * http://127.0.0.1:1234/ /user:forkspace *',
  ])
})

test('only root of Linux mounts', async () => {
  expect(await findDavfs({ platform: 'darwin', getuid: () => 0 })).toBeUndefined()
  expect(await findDavfs({ platform: 'linux', getuid: () => 1000 })).toBeUndefined()
})
