/** Which attributes of which nodes each change sets, live and after a replay. */
import { Buffer } from 'node:buffer'
import { expect, test } from 'vitest'
import { memoryStorage, openEngine, type Session } from '../../src/index.js'
import { fixedEnvironment } from '../../src/testing.js'

const start = fixedEnvironment({ stepMs: 0 }).wallClockMs()
const at5 = new Date(start + 5)

type Change = (session: Session) => Promise<unknown>

/**
 * Each change, and the nodes that it changes: the path of the node before (`new` without one), its mode, number of names
 * and size, then `mtime`, `ctime` and `birthtime`. The times are in milliseconds: the files were made at 0, `/e/l2` at 10,
 * the symlink at 20, and the change at 30.
 */
const changes: readonly (readonly [
  name: string,
  change: Change,
  changed: Readonly<Record<string, string>>,
])[] = [
  [
    'write a new file',
    ({ files }) => files.write({ path: '/d/new', content: 'x' }),
    { '/d': '/d 755 1 0 30 30 0', '/d/new': 'new 644 1 1 30 30 30' },
  ],
  [
    'write over a file',
    ({ files }) => files.write({ path: '/d/a', content: 'x' }),
    { '/d/a': '/d/a 644 1 1 30 30 0' },
  ],
  ['append', ({ files }) => files.append({ path: '/d/a', content: 'x' }), { '/d/a': '/d/a 644 1 3 30 30 0' }],
  [
    'write over one of two names',
    ({ files }) => files.write({ path: '/d/l1', content: 'x' }),
    { '/d/l1': '/d/l1 644 2 1 30 30 0', '/e/l2': '/d/l1 644 2 1 30 30 0' },
  ],
  ['chmod of a file', ({ fs }) => fs.promises.chmod('/d/a', 0o600), { '/d/a': '/d/a 600 1 2 0 30 0' }],
  ['chmod of a directory', ({ fs }) => fs.promises.chmod('/d', 0o700), { '/d': '/d 700 1 0 20 30 0' }],
  [
    'chmod of one of two names',
    ({ fs }) => fs.promises.chmod('/d/l1', 0o600),
    { '/d/l1': '/d/l1 600 2 2 0 30 0', '/e/l2': '/d/l1 600 2 2 0 30 0' },
  ],
  ['utimes of a file', ({ fs }) => fs.promises.utimes('/d/a', at5, at5), { '/d/a': '/d/a 644 1 2 5 30 0' }],
  ['utimes of a directory', ({ fs }) => fs.promises.utimes('/d', at5, at5), { '/d': '/d 755 1 0 5 30 0' }],
  [
    'lutimes of a symlink',
    ({ fs }) => fs.promises.lutimes('/d/s', at5, at5),
    { '/d/s': '/d/s 777 1 1 5 5 5' },
  ],
  [
    'set an attribute',
    ({ files }) => files.setXattr({ path: '/d/a', name: 'user.n', value: Buffer.from('v') }),
    { '/d/a': '/d/a 644 1 2 0 30 0' },
  ],
  [
    'set an attribute of a directory',
    ({ files }) => files.setXattr({ path: '/d', name: 'user.n', value: Buffer.from('v') }),
    { '/d': '/d 755 1 0 20 30 0' },
  ],
  [
    'make a directory',
    ({ fs }) => fs.promises.mkdir('/d/new'),
    { '/d': '/d 755 1 0 30 30 0', '/d/new': 'new 755 1 0 30 30 30' },
  ],
  [
    'make a symlink',
    ({ fs }) => fs.promises.symlink('a', '/d/new'),
    { '/d': '/d 755 1 0 30 30 0', '/d/new': 'new 777 1 1 30 30 30' },
  ],
  [
    'make a hard link',
    ({ fs }) => fs.promises.link('/d/a', '/e/new'),
    { '/d/a': '/d/a 644 2 2 0 30 0', '/e': '/e 755 1 0 30 30 0', '/e/new': '/d/a 644 2 2 0 30 0' },
  ],
  [
    'make a third hard link',
    ({ fs }) => fs.promises.link('/d/l1', '/e/new'),
    {
      '/d/l1': '/d/l1 644 3 2 0 30 0',
      '/e': '/e 755 1 0 30 30 0',
      '/e/l2': '/d/l1 644 3 2 0 30 0',
      '/e/new': '/d/l1 644 3 2 0 30 0',
    },
  ],
  ['delete a file', ({ fs }) => fs.promises.unlink('/d/a'), { '/d': '/d 755 1 0 30 30 0', '/d/a': 'gone' }],
  [
    'delete one of two names',
    ({ fs }) => fs.promises.unlink('/d/l1'),
    { '/d': '/d 755 1 0 30 30 0', '/d/l1': 'gone', '/e/l2': '/d/l1 644 1 2 0 30 0' },
  ],
  [
    'delete a directory with one of two names',
    ({ fs }) => fs.promises.rm('/d', { recursive: true }),
    {
      '/': '/ 755 1 0 30 30 0',
      '/d': 'gone',
      '/d/a': 'gone',
      '/d/l1': 'gone',
      '/d/s': 'gone',
      '/e/l2': '/d/l1 644 1 2 0 30 0',
    },
  ],
  [
    'move a file',
    ({ fs }) => fs.promises.rename('/d/a', '/e/new'),
    {
      '/d': '/d 755 1 0 30 30 0',
      '/d/a': 'gone',
      '/e': '/e 755 1 0 30 30 0',
      '/e/new': '/d/a 644 1 2 0 30 0',
    },
  ],
  [
    'move a directory',
    ({ fs }) => fs.promises.rename('/d', '/e/new'),
    {
      '/': '/ 755 1 0 30 30 0',
      '/d': 'gone',
      '/d/a': 'gone',
      '/d/l1': 'gone',
      '/d/s': 'gone',
      '/e': '/e 755 1 0 30 30 0',
      '/e/new': '/d 755 1 0 20 30 0',
      '/e/new/a': '/d/a 644 1 2 0 0 0',
      '/e/new/l1': '/d/l1 644 2 2 0 10 0',
      '/e/new/s': '/d/s 777 1 1 20 20 20',
    },
  ],
  [
    'move a symlink',
    ({ fs }) => fs.promises.rename('/d/s', '/e/new'),
    {
      '/d': '/d 755 1 0 30 30 0',
      '/d/s': 'gone',
      '/e': '/e 755 1 0 30 30 0',
      '/e/new': '/d/s 777 1 1 20 20 20',
    },
  ],
  [
    'move a name over another file',
    ({ fs }) => fs.promises.rename('/d/l1', '/e/b'),
    {
      '/d': '/d 755 1 0 30 30 0',
      '/d/l1': 'gone',
      '/e': '/e 755 1 0 30 30 0',
      '/e/b': '/d/l1 644 2 2 0 30 0',
      '/e/l2': '/d/l1 644 2 2 0 30 0',
    },
  ],
  [
    'move a file over one of two names',
    ({ fs }) => fs.promises.rename('/d/a', '/e/l2'),
    {
      '/d': '/d 755 1 0 30 30 0',
      '/d/a': 'gone',
      '/d/l1': '/d/l1 644 1 2 0 30 0',
      '/e': '/e 755 1 0 30 30 0',
      '/e/l2': '/d/a 644 1 2 0 30 0',
    },
  ],
  ['truncate', ({ fs }) => fs.promises.truncate('/d/a', 1), { '/d/a': '/d/a 644 1 1 30 30 0' }],
  ['copy over a file', ({ fs }) => fs.promises.copyFile('/d/a', '/e/b'), { '/e/b': '/e/b 644 1 2 30 30 0' }],
]

/** The attributes of all nodes by path. Inode numbers are shown as the paths in `names`. */
function picture({ fs }: Session, names: ReadonlyMap<number, string>): Map<string, string> {
  const found = new Map<string, string>()
  for (const name of ['', ...fs.readdirSync('/', { recursive: true, encoding: 'utf8' })]) {
    const { ino, mode, nlink, size, mtimeMs, ctimeMs, birthtimeMs } = fs.lstatSync(`/${name}`)
    const times = [mtimeMs, ctimeMs, birthtimeMs].map((time) => time - start)
    const parts = [names.get(ino) ?? 'new', (mode & 0o777).toString(8), nlink, size, ...times]
    found.set(`/${name}`, parts.join(' '))
  }
  return found
}

test.each(changes)('%s', async (_name, change, changed) => {
  const storage = memoryStorage({ durable: true })
  const environment = fixedEnvironment({ stepMs: 0 })
  const engine = await openEngine({ storage, environment })
  const session = await engine.sessions.create({ files: { '/d/a': 'aa', '/d/l1': 'll', '/e/b': 'b' } })
  environment.advance(10)
  await session.fs.promises.link('/d/l1', '/e/l2')
  environment.advance(10)
  await session.fs.promises.symlink('a', '/d/s')
  environment.advance(10)
  const names = new Map<number, string>()
  for (const path of ['/', '/d', '/d/a', '/d/l1', '/d/s', '/e', '/e/b'])
    names.set(session.fs.lstatSync(path).ino, path)
  const before = picture(session, names)
  await change(session)
  const after = picture(session, names)
  const different = [...new Set([...before.keys(), ...after.keys()])].filter(
    (path) => before.get(path) !== after.get(path),
  )
  expect(Object.fromEntries(different.map((path) => [path, after.get(path) ?? 'gone']))).toEqual(changed)
  await engine.close()
  environment.advance(10)
  await using reopened = await openEngine({ storage, environment })
  expect(picture(await reopened.sessions.open(session.id), names)).toEqual(after)
})
