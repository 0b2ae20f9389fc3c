/** Compares `session.fs.promises` of a session on a server with one in process. */
import { inspect, isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { RemoteFsPromises, RemoteSession } from '../../src/adapters/client/index.js'
import type { EngineScope, Session } from '../../src/index.js'
import { openRemote, type Remote } from '../support/remote.js'
import { isComplete, isLong } from '../support/seed.js'

const paths = [
  '/',
  '/file',
  '/file/',
  '/broken/',
  '/file/x',
  '/none',
  '/none/',
  '/none/x',
  '/none/x/',
  '/loop/',
  '/dir',
  '/dir/',
  '/dir/file',
  '/dir/../file',
  '/dir/.',
  '/empty',
  '/link',
  '/dirlink',
  '/dirlink/file',
  '/dirlink/',
  '/broken',
  '/broken/x',
  '/loop',
  'file',
  '',
  '/a\0',
  `/${'n'.repeat(256)}`,
  '/missing',
] as const

/** Every item in `npm run test:long`, every fourth one in `npm test`. `at` shifts which ones. */
function sample<Item>(items: readonly Item[], at: number): Item[] {
  const step = isComplete ? 1 : 4
  return items.filter((_, index) => (index + at) % step === 0)
}

function numbered<Item>(items: Readonly<Record<string, Item>>): [name: string, item: Item, at: number][] {
  return Object.entries(items).map(([name, item], at) => [name, item, at])
}

type Call = (fs: RemoteFsPromises) => Promise<unknown>

const onOnePath: Readonly<Record<string, (fs: RemoteFsPromises, path: string) => Promise<unknown>>> = {
  access: (fs, path) => fs.access(path),
  'access to run': (fs, path) => fs.access(path, fs.constants.X_OK),
  stat: (fs, path) => fs.stat(path),
  'stat in bigints': (fs, path) => fs.stat(path, { bigint: true }),
  lstat: (fs, path) => fs.lstat(path),
  readlink: (fs, path) => fs.readlink(path),
  'readlink as bytes': (fs, path) => fs.readlink(path, 'buffer'),
  realpath: (fs, path) => fs.realpath(path),
  readdir: (fs, path) => fs.readdir(path),
  'readdir, recursive': (fs, path) => fs.readdir(path, { recursive: true }),
  'readdir with types': (fs, path) => fs.readdir(path, { withFileTypes: true, recursive: true }),
  'readdir in hex': (fs, path) => fs.readdir(path, 'hex' as 'utf8'),
  readFile: (fs, path) => fs.readFile(path),
  'readFile as text': (fs, path) => fs.readFile(path, 'utf8'),
  'readFile with a+': (fs, path) => fs.readFile(path, { flag: 'a+', encoding: 'base64' }),
  'readFile with w+': (fs, path) => fs.readFile(path, { flag: 'w+' }),
  'readFile with r+': (fs, path) => fs.readFile(path, { flag: 'r+' }),
  'readFile without following': (fs, path) =>
    fs.readFile(path, { flag: fs.constants.O_NOFOLLOW as unknown as string }),
  'readFile of a directory': (fs, path) =>
    fs.readFile(path, { flag: fs.constants.O_DIRECTORY as unknown as string }),
  'writeFile without following': (fs, path) =>
    fs.writeFile(path, 'wr', {
      flag: (fs.constants.O_WRONLY | fs.constants.O_NOFOLLOW) as unknown as string,
    }),
  'readFile with w': (fs, path) => fs.readFile(path, { flag: 'w' }),
  writeFile: (fs, path) => fs.writeFile(path, 'written'),
  'writeFile in hex': (fs, path) => fs.writeFile(path, '00ff', 'hex'),
  'writeFile with a mode': (fs, path) => fs.writeFile(path, new Uint16Array([1, 2]), { mode: 0o700 }),
  'writeFile with wx': (fs, path) => fs.writeFile(path, 'written', { flag: 'wx' }),
  'writeFile with r+': (fs, path) => fs.writeFile(path, 'wr', { flag: 'r+' }),
  'writeFile with r': (fs, path) => fs.writeFile(path, 'wr', { flag: 'r' }),
  'writeFile with a': (fs, path) => fs.writeFile(path, 'wr', { flag: 'a' }),
  appendFile: (fs, path) => fs.appendFile(path, ' and more'),
  'appendFile with a mode': (fs, path) => fs.appendFile(path, Buffer.from('x'), { mode: '600' }),
  truncate: (fs, path) => fs.truncate(path),
  'truncate to more': (fs, path) => fs.truncate(path, 9),
  chmod: (fs, path) => fs.chmod(path, '711'),
  chown: (fs, path) => fs.chown(path, 1, 2),
  lchown: (fs, path) => fs.lchown(path, 1, 2),
  utimes: (fs, path) => fs.utimes(path, 1, 1_700_000_000.125),
  lutimes: (fs, path) => fs.lutimes(path, new Date(0), new Date(5)),
  mkdir: (fs, path) => fs.mkdir(path),
  'mkdir with a mode': (fs, path) => fs.mkdir(path, 0o700),
  'mkdir, recursive': (fs, path) => fs.mkdir(path, { recursive: true }),
  'mkdir, recursive, below': (fs, path) => fs.mkdir(`${path}/p//q/`, { recursive: true, mode: 0o711 }),
  rmdir: (fs, path) => fs.rmdir(path),
  'rmdir, recursive': (fs, path) => fs.rmdir(path, { recursive: true }),
  rm: (fs, path) => fs.rm(path),
  'rm, recursive': (fs, path) => fs.rm(path, { recursive: true }),
  'rm by force': (fs, path) => fs.rm(path, { force: true, recursive: true }),
  unlink: (fs, path) => fs.unlink(path),
  symlink: (fs, path) => fs.symlink('file', path),
}

const onTwoPaths: Readonly<
  Record<string, (fs: RemoteFsPromises, from: string, to: string) => Promise<unknown>>
> = {
  rename: (fs, from, to) => fs.rename(from, to),
  link: (fs, from, to) => fs.link(from, to),
  copyFile: (fs, from, to) => fs.copyFile(from, to),
  'copyFile to a new one': (fs, from, to) => fs.copyFile(from, to, fs.constants.COPYFILE_EXCL),
  cp: (fs, from, to) => fs.cp(from, to),
  'cp, recursive': (fs, from, to) => fs.cp(from, to, { recursive: true }),
  'cp, kept': (fs, from, to) =>
    fs.cp(from, to, { recursive: true, force: false, preserveTimestamps: true, verbatimSymlinks: true }),
  'cp, refused': (fs, from, to) => fs.cp(from, to, { recursive: true, force: false, errorOnExist: true }),
}

const wrong: Readonly<Record<string, Call>> = {
  'stat of a number': (fs) => fs.stat(5 as unknown as string),
  'stat of bytes': (fs) => fs.stat(Buffer.from('/file')),
  'stat of a URL': (fs) => fs.stat(new URL('file:///dir/file')),
  'stat of what is no UTF-8': (fs) => fs.stat(Buffer.from([47, 255])),
  'readFile in no encoding': (fs) => fs.readFile('/file', 'utf9' as 'utf8'),
  'readFile of an aborted signal': (fs) =>
    fs.readFile('/file', { signal: AbortSignal.abort(new Error('x')) }),
  'readFile with options': (fs) => fs.readFile('/file', 5 as unknown as 'utf8'),
  'writeFile of an object': (fs) => fs.writeFile('/file', {} as string),
  'writeFile with a flag': (fs) => fs.writeFile('/file', '', { flag: 'q' }),
  'mkdir with an option': (fs) => fs.mkdir('/x', { recursive: 1 as unknown as boolean }),
  'rm with an option': (fs) => fs.rm('/file', { force: 1 as unknown as boolean }),
  'rm with retries': (fs) => fs.rm('/file', { maxRetries: -1 }),
  'truncate to less than nothing': (fs) => fs.truncate('/file', -5),
  'truncate to a text': (fs) => fs.truncate('/file', 'x' as unknown as number),
  'chmod to a text': (fs) => fs.chmod('/file', 'rw'),
  'chown to nobody': (fs) => fs.chown('/file', -2, 0),
  'utimes to a text': (fs) => fs.utimes('/file', 'x', 0),
  'symlink of a kind': (fs) => fs.symlink('a', '/x', 'kind'),
  'symlink to nothing': (fs) => fs.symlink('', '/x'),
  'access with a mode': (fs) => fs.access('/file', 8),
  'copyFile with a mode': (fs) => fs.copyFile('/file', '/x', 8),
  'cp with two options': (fs) => fs.cp('/file', '/x', { dereference: true, verbatimSymlinks: true }),
  'cp with a filter': (fs) =>
    fs.cp('/dir', '/x', { recursive: true, filter: (from) => !from.endsWith('file') }),
  'cp through symlinks': (fs) => fs.cp('/dirlink', '/x', { recursive: true, dereference: true }),
  'cp into itself': (fs) => fs.cp('/dir', '/dir/x/y', { recursive: true }),
}

interface Seen {
  readonly outcome: unknown
  readonly state: unknown
}

describe('a call', () => {
  let remote: Remote
  let scope: EngineScope
  let template: Session
  let here: Session
  let there: RemoteSession

  beforeAll(async () => {
    remote = await openRemote()
    scope = remote.engine.as({ tenant: 'acme', principal: 'ann' })
    template = await scope.sessions.create({
      files: { '/file': 'one', '/dir/file': 'two', '/dir/sub/é': '' },
    })
    const { promises: fs } = template.fs
    await fs.mkdir('/empty')
    await fs.symlink('file', '/link')
    await fs.symlink('dir', '/dirlink')
    await fs.symlink('/none/at/all', '/broken')
    await fs.symlink('dir/missing', '/missing')
    await fs.symlink('loop', '/loop')
    await fs.link('/file', '/dir/same')
    await fs.chmod('/dir/file', 0o755)
  })
  afterAll(() => remote.close())
  beforeEach(async () => {
    here = await template.fork()
    there = await remote.client.sessions.open((await template.fork()).id)
  })

  /** The result of a call and the resulting state of the session, on the server and in process. */
  async function both(call: Call): Promise<readonly [there: Seen, here: Seen]> {
    const sides = [there, here].map(async (session) => ({
      outcome: await outcome(call, session.fs.promises),
      state: await stateOf(scope, session.id),
    }))
    return Promise.all(sides) as Promise<[Seen, Seen]>
  }

  /** The calls with differing results. Reuses the sessions after a call that changed nothing. */
  async function differences(calls: readonly (readonly [label: string, call: Call])[]): Promise<unknown[]> {
    const found: unknown[] = []
    const untouched = await stateOf(scope, template.id)
    for (const [label, call] of calls) {
      const [remotely, locally] = await both(call)
      if (!isDeepStrictEqual(remotely, locally)) found.push({ label, remotely, locally })
      if (isDeepStrictEqual([remotely.state, locally.state], [untouched, untouched])) continue
      here = await template.fork()
      there = await remote.client.sessions.open((await template.fork()).id)
    }
    return found
  }

  test.each(numbered(onOnePath))('%s does the same for every path', async (_name, call, at) => {
    const calls = sample(paths, at).map((path): [string, Call] => [
      inspect(path).slice(0, 40),
      (fs: RemoteFsPromises) => call(fs, path),
    ])
    expect(await differences(calls)).toEqual([])
  })

  const ends = ['/file', '/none', '/none/x', '/dir', '/empty', '/link', '/dirlink', '/broken', '/dir/same']
  const slashedEnds = ['/file/', '/none/', '/file/x/', '/dir/', '/dirlink/', '/link/']
  test.each(numbered(onTwoPaths))('%s does the same for any two paths', async (_name, call, at) => {
    const calls = [...ends, ...slashedEnds].flatMap((from, row) =>
      sample([...ends, ...slashedEnds], at + row).map((to): [string, Call] => [
        `from ${from} to ${to}`,
        (fs: RemoteFsPromises) => call(fs, from, to),
      ]),
    )
    expect(await differences(calls)).toEqual([])
  })

  test.each(['writeFile', 'appendFile'] as const)(
    '%s gives its mode to the file that a symlink names, if it is new',
    async (name) => {
      for (const path of ['/missing', '/link', '/broken', '/loop', '/dirlink']) {
        const [remotely, locally] = await both((fs) => fs[name](path, 'x', { mode: 0o700 }))
        expect(remotely).toEqual(locally)
      }
      expect((await there.fs.promises.stat('/dir/missing')).mode & 0o777).toBe(0o700)
    },
  )

  test.each(Object.keys(wrong))('%s fails with the same error', async (name) => {
    const [remotely, locally] = await both(wrong[name]!)
    expect(remotely).toEqual(locally)
  })

  test.runIf(isLong)('transfers large files and directories completely', async () => {
    const content = Buffer.alloc(20 * 2 ** 20, 'forkspace ')
    await there.fs.promises.writeFile('/large', content)
    expect((await there.fs.promises.readFile('/large')).equals(content)).toBe(true)
    const files = Object.fromEntries(Array.from({ length: 10_050 }, (_, i) => [`/many/${i}`, '']))
    const { id } = await scope.sessions.create({ files })
    const { promises: fs } = (await remote.client.sessions.open(id)).fs
    expect(await fs.readdir('/many')).toHaveLength(10_050)
    expect(await fs.readdir('/', { recursive: true })).toHaveLength(10_051)
  })

  test('makes directories with unique names', async () => {
    const made = await Promise.all([1, 2, 3].map(() => there.fs.promises.mkdtemp('/dir/t-')))
    expect(new Set(made).size).toBe(3)
    for (const path of made) expect((await there.fs.promises.stat(path)).mode & 0o777).toBe(0o700)
  })
})

/** The result of a call, or its error. */
async function outcome(call: Call, fs: object): Promise<unknown> {
  try {
    return { result: shown(await call(fs as RemoteFsPromises)) }
  } catch (error) {
    const { name, message, code, errno, syscall, path, dest } = error as NodeJS.ErrnoException & {
      dest?: string
    }
    return { name, message, code, errno, syscall, path, dest }
  }
}

/** Replaces inode numbers and times, which differ between sessions. */
function shown(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Buffer.isBuffer(value)) return value
  if (Array.isArray(value)) return value.map(shown)
  const { constructor } = value
  const entries = Object.entries(value).map(([key, part]) => [
    key,
    /^(ino|.time(Ms|Ns)?|birthtime(Ms|Ns)?)$/.test(key) ? typeof part : (part as unknown),
  ])
  const kinds = ['isFile', 'isDirectory', 'isSymbolicLink'].map((name) =>
    ((value as Record<string, unknown>)[name] as () => boolean)(),
  )
  return { class: constructor.name, ...Object.fromEntries(entries), kinds }
}

async function stateOf(scope: EngineScope, id: string): Promise<unknown> {
  const session = await scope.sessions.open(id)
  const { nodes, manifestHash } = await session.manifest()
  return { manifestHash, paths: nodes.map(({ path, mode }) => [path, mode]) }
}
