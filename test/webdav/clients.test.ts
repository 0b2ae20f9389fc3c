/** Real clients: curl, davfs2 and rclone. */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { HttpServer } from '../../src/adapters/http/index.js'
import { canMountDavfs, hasProgram } from '../support/davfs.js'
import { isLong } from '../support/seed.js'
import { temporaryDirectory } from '../support/temporary-directory.js'
import { WebdavWorld, webdavToken } from '../support/webdav-world.js'

const hasCurl = hasProgram('curl', '--version')
const hasRclone = hasProgram('rclone', 'version')
const canMount = canMountDavfs()

let world: WebdavWorld
let server: HttpServer
let directory: string
beforeEach(async () => {
  world = await WebdavWorld.open(
    { '/a.txt': 'hello\n', '/src/b c.ts': 'b', '/ü#%.txt': 'u' },
    { write: true },
  )
  server = await world.listen()
  directory = await mkdtemp(join(temporaryDirectory(), 'webdav-'))
})
afterEach(async () => {
  expect(world.logged).toEqual([])
  await server.close({ timeoutMs: 100 })
  await world.close()
  await rm(directory, { recursive: true })
})

async function run(program: string, args: readonly string[]): Promise<string> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const [out, errors, code] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    new Promise<number | null>((resolve) => child.once('close', resolve)),
  ])
  if (code !== 0) throw new Error(`${program} ${args.join(' ')} failed with ${code}: ${errors}`)
  return out
}

const read = (path: string): Promise<Buffer> => world.session.fs.promises.readFile(path)

test.skipIf(!hasCurl)('curl reads, writes, moves and deletes', async () => {
  const { url } = server
  const curl = (...args: readonly string[]): Promise<string> =>
    run('curl', ['--silent', '--fail', '--user', `ann:${webdavToken}`, ...args])
  const content = randomBytes(3 * 2 ** 20)
  await writeFile(join(directory, 'big'), content)
  expect(await curl(`${url}/a.txt`)).toBe('hello\n')
  expect(await curl('--request', 'PROPFIND', '--header', 'Depth: 1', `${url}/src/`)).toContain(
    '/src/b%20c.ts',
  )
  await curl('--upload-file', join(directory, 'big'), `${url}/big`)
  expect((await read('/big')).equals(content)).toBe(true)
  // Without a known length, the body is chunked.
  await curl(
    '--upload-file',
    join(directory, 'big'),
    '--header',
    'Transfer-Encoding: chunked',
    `${url}/chunked`,
  )
  expect((await read('/chunked')).equals(content)).toBe(true)
  await curl('--request', 'MOVE', '--header', `Destination: ${url}/moved`, `${url}/big`)
  await curl('--output', join(directory, 'back'), `${url}/moved`)
  expect((await readFile(join(directory, 'back'))).equals(content)).toBe(true)
  expect(await curl('--range', '5-9', '--output', '-', `${url}/a.txt`)).toBe('\n')
  await curl('--request', 'DELETE', `${url}/src`)
  expect(await world.events()).toEqual(['WriteFile', 'WriteFile', 'Rename', 'RemoveDirectory'])
})

test.skipIf(!hasRclone)('rclone copies a tree to the session and back', async () => {
  const rclone = (...args: readonly string[]): Promise<string> =>
    run('rclone', [
      '--config=/dev/null',
      '--cache-dir',
      join(directory, 'cache'),
      `--webdav-url=${server.url}`,
      `--webdav-bearer-token=${webdavToken}`,
      ...args,
    ])
  const from = join(directory, 'from')
  await mkdir(join(from, 'deep'), { recursive: true })
  const count = isLong ? 500 : 20
  for (let index = 0; index < count; index++)
    await writeFile(join(from, 'deep', `${index} ä.txt`), `content ${index}`)
  await rclone('copy', from, ':webdav:/copied')
  expect(await world.session.fs.promises.readdir('/copied/deep')).toHaveLength(count)
  expect(String(await read('/copied/deep/7 ä.txt'))).toBe('content 7')
  expect((await rclone('lsf', '--recursive', ':webdav:/src')).trim()).toBe('b c.ts')
  await rclone('check', '--download', from, ':webdav:/copied')
  await rclone('moveto', ':webdav:/copied/deep/7 ä.txt', ':webdav:/ü.txt')
  expect(String(await read('/ü.txt'))).toBe('content 7')
  await rclone('purge', ':webdav:/copied')
  expect(world.session.fs.existsSync('/copied')).toBe(false)
})

test.skipIf(!canMount)('davfs2 mounts the session as a directory', async () => {
  const point = join(directory, 'mount')
  const [secrets, config] = [join(directory, 'secrets'), join(directory, 'davfs2.conf')]
  await mkdir(point)
  await writeFile(secrets, `${server.url}/ ann "${webdavToken}"\n`, { mode: 0o600 })
  await writeFile(config, `secrets ${secrets}\nask_auth 0\ndelay_upload 0\nbuf_size 64\n`, { mode: 0o600 })
  await run('/usr/sbin/mount.davfs', [`${server.url}/`, point, '-o', `conf=${config}`])
  const at = (...parts: readonly string[]): string => join(point, ...parts)
  try {
    const listed = (names: readonly string[]): string[] =>
      names.filter((name) => name !== 'lost+found').toSorted()
    expect(listed(await readdir(point))).toEqual(['a.txt', 'src', 'ü#%.txt'])
    expect(await readdir(at('src'))).toEqual(['b c.ts'])
    expect(await readFile(at('a.txt'), 'utf8')).toBe('hello\n')
    await mkdir(at('d'))
    await writeFile(at('d', 'new.txt'), 'new')
    // davfs2 uploads a file shortly after a program closed it.
    await expect.poll(async () => String(await read('/d/new.txt'))).toBe('new')
    await rename(at('d', 'new.txt'), at('a.txt'))
    expect(String(await read('/a.txt'))).toBe('new')
    await chmod(at('a.txt'), 0o755)
    expect((await world.session.fs.promises.stat('/a.txt')).mode & 0o777).toBe(0o755)
    expect((await stat(at('a.txt'))).size).toBe(3)
    const count = isLong ? 300 : 10
    for (let index = 0; index < count; index++) await writeFile(at('d', `${index}`), `${index}`)
    expect(await readdir(at('d'))).toHaveLength(count)
    await rm(at('src'), { recursive: true })
    expect(await world.session.fs.promises.readdir('/')).toEqual(['a.txt', 'd', 'ü#%.txt'])
  } finally {
    await run('umount', [point])
  }
  expect(await world.session.fs.promises.readdir('/d')).toHaveLength(isLong ? 300 : 10)
})
