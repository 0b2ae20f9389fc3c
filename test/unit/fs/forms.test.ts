// oxlint-disable vitest/expect-expect -- `same` does.
import * as disk from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { describeStats, inForm, Sides, type Form, type Promises as Fs } from '../../support/fs-sides.js'
import { isNewerCall } from '../../support/newer-node.js'
import { isLong } from '../../support/seed.js'

/** The forms of `npm run test:long`. Another test compares pairs of paths in callbacks. */
const inLong = [
  ['callbacks', 'callback', false],
  ['synchronous calls on LevelDB', 'sync', true],
]

/**
 * Every operation runs on a session and on a real directory, with the same result on both. The directory represents the
 * root of the session: its path is removed from results and errors before they are compared. The README of
 * src/engine/fs lists intentional omissions.
 */
describe.each([
  ['promises', 'promise', false],
  ['synchronous calls', 'sync', false],
  ...(isLong ? inLong : []),
] as [string, Form, boolean][])('%s:', (_name, form, durable) => {
  const sides = new Sides(form, durable)
  const same: Sides['same'] = (...parameters) => sides.same(...parameters)
  let session: Fs

  beforeAll(() => sides.open())
  afterAll(() => sides.close())

  beforeEach(async () => {
    await sides.beginWith(async (anyForm, at) => {
      const fs = inForm(anyForm, form)
      await fs.writeFile(at('/file'), 'content')
      await fs.writeFile(at('/empty'), '')
      await fs.writeFile(at('/utf8'), 'grüße 🎉\n')
      await fs.writeFile(at('/bytes'), Buffer.from([0, 255, 128, 10, 13]))
      await fs.mkdir(at('/dir'))
      await fs.mkdir(at('/bare'))
      await fs.writeFile(at('/dir/a'), 'a')
      await fs.mkdir(at('/dir/sub'))
      await fs.writeFile(at('/dir/sub/deep'), 'deep')
      await fs.symlink('file', at('/link'))
      await fs.symlink('dir', at('/dirlink'))
      await fs.symlink('nowhere', at('/dangling'))
      await fs.symlink('no/where', at('/dangling-deep'))
      await fs.symlink('loop', at('/loop'))
      await fs.symlink('../file', at('/dir/up'))
      await fs.symlink('file/', at('/slashed'))
    })
    session = inForm(sides.fs, form)
  })

  afterEach(() => sides.end())

  /** Newer versions of Node add the path to the error for a directory. */
  const readErrors = isNewerCall('readFile of a directory') ? 'code only' : 'whole'

  /** Paths of every kind of entry, and paths that lead nowhere. */
  const places = [
    '/file',
    '/dir',
    '/bare',
    '/dir/a',
    '/link',
    '/dirlink',
    '/dirlink/a',
    '/dirlink/sub/deep',
    '/dir/up',
    '/dangling',
    '/dangling/x',
    '/dangling-deep',
    '/loop',
    '/loop/x',
    '/slashed',
    '/none',
    '/none/x',
    '/file/x',
    '/link/x',
    `/${'n'.repeat(256)}`,
  ] as const

  /** Different spellings of paths that resolve alike on both sides. */
  const spellings = ['/dir/', '/dir/./a', '/dir//a', '/dir/../file', '/dir/../none', '//file'] as const

  /** Names with a slash at the end, of which only directories may have one. */
  const slashed = ['/file/', '/link/', '/loop/', '/none/', '/none/x/', '/file/x/', '/loop/x/'] as const

  describe('the same on a session and on disk:', () => {
    for (const path of [...places, ...spellings]) {
      test(`reading ${shorten(path)}`, async () => {
        await same('readFile', (fs, at) => fs.readFile(at(path)), readErrors)
        await same('stat', async (fs, at) => describeStats(await fs.stat(at(path))))
        await same('lstat', async (fs, at) => describeStats(await fs.lstat(at(path))))
        await same('readdir', async (fs, at) => (await fs.readdir(at(path))).sort())
        await same('readlink', (fs, at) => fs.readlink(at(path)))
        await same('realpath', (fs, at) => fs.realpath(at(path)))
        await same('access', (fs, at) => fs.access(at(path)))
      })

      // For a symlink to `file/`, Linux reports EISDIR if the call may create a file, else ENOTDIR; a session always
      // reports ENOTDIR.
      const writes = path !== '/slashed'
      for (const flag of writes ? ['w', 'wx', 'a', 'ax'] : []) {
        test(`writing ${shorten(path)} with flag ${flag}`, async () => {
          await same(`writeFile ${flag}`, (fs, at) => fs.writeFile(at(path), 'new', { flag }))
        })
      }

      const changes: Record<string, (fs: Fs, path: string) => Promise<unknown>> = {
        ...(writes && { appendFile: (fs: Fs, at: string) => fs.appendFile(at, ' more') }),
        mkdir: (fs, at) => fs.mkdir(at),
        'recursive mkdir': (fs, at) => fs.mkdir(at, { recursive: true }),
        rmdir: (fs, at) => fs.rmdir(at),
        unlink: (fs, at) => fs.unlink(at),
        rm: (fs, at) => fs.rm(at),
        'forced rm': (fs, at) => fs.rm(at, { force: true }),
        'recursive rm': (fs, at) => fs.rm(at, { recursive: true }),
        'forced and recursive rm': (fs, at) => fs.rm(at, { recursive: true, force: true }),
        chmod: (fs, at) => fs.chmod(at, 0o700),
        'symlink at': (fs, at) => fs.symlink('target', at),
      }
      for (const [name, change] of Object.entries(changes)) {
        test.skipIf(isNewerCall(`${name} ${path}`))(`${name} ${shorten(path)}`, () =>
          same(name, (fs, at) => change(fs, at(path))),
        )
      }
    }

    describe('rename', () => {
      const ends = [
        '/file',
        '/dir',
        '/bare',
        '/dir/a',
        '/dir/sub',
        '/link',
        '/dirlink',
        '/dangling',
        '/none',
        '/none/x',
        '/file/x',
        '/dir/sub/x',
        '/loop',
      ]
      for (const from of ends) {
        for (const to of [...ends, '/dirlink/new']) {
          test(`${from} to ${to}`, () => same('rename', (fs, at) => fs.rename(at(from), at(to))))
        }
      }
    })

    describe('readFile', () => {
      for (const encoding of [
        'utf8',
        'utf-8',
        'hex',
        'base64',
        'base64url',
        'latin1',
        'ascii',
        'utf16le',
      ] as const) {
        test(`as ${encoding}`, async () => {
          for (const path of ['/utf8', '/bytes', '/empty']) {
            await same(encoding, (fs, at) => fs.readFile(at(path), encoding))
            await same(encoding, (fs, at) => fs.readFile(at(path), { encoding }))
          }
        })
      }

      test('as bytes returns a Buffer', async () => {
        await same('null', (fs, at) => fs.readFile(at('/bytes'), null))
        await same('no encoding', (fs, at) => fs.readFile(at('/bytes'), {}))
        expect(Buffer.isBuffer(await session.readFile('/bytes'))).toBe(true)
      })

      test('rejects an unknown encoding', () =>
        same('readFile', (fs, at) => fs.readFile(at('/file'), 'bogus' as BufferEncoding), 'code only'))

      test('rejects with an aborted signal', async () => {
        const signal = AbortSignal.abort()
        await same('readFile', (fs, at) => fs.readFile(at('/file'), { signal }), 'code only')
      })
    })

    describe('writeFile', () => {
      test.each([
        ['text in an encoding', 'ff00', 'hex'],
        ['base64', 'AAEC', 'base64'],
        ['latin1', 'ü', 'latin1'],
        ['text', 'ü\ud800', undefined],
        ['a Buffer', Buffer.from('buffer'), undefined],
        ['a view', new Uint8Array([1, 2, 3, 4]).subarray(1, 3), undefined],
        ['another view', new Uint16Array([1, 2]), undefined],
        ['a DataView', new DataView(new ArrayBuffer(3)), undefined],
      ] as [string, string | Uint8Array, BufferEncoding | undefined][])(
        'of %s',
        async (_case, data, encoding) => {
          await same('writeFile', (fs, at) => fs.writeFile(at('/new'), data, encoding))
          await same('appendFile', (fs, at) => fs.appendFile(at('/new'), data, encoding))
          await same('readFile', (fs, at) => fs.readFile(at('/new')))
        },
      )

      test.each([5, null, undefined, true, {}, () => 'x'].map((data) => [typeof data, data]))(
        'rejects %s as data',
        async (_name, data) => {
          await same('writeFile', (fs, at) => fs.writeFile(at('/new'), data as string), 'code only')
        },
      )

      test('rejects an unknown flag', () =>
        same('writeFile', (fs, at) => fs.writeFile(at('/new'), 'x', { flag: 'bogus' }), 'code only'))

      test('applies its mode to a new file only', async () => {
        for (const mode of [0o600, 0o700, '640', 0o444]) {
          await same('new', (fs, at) => fs.writeFile(at(`/new${mode}`), 'x', { mode: mode as number }))
          await same('old', (fs, at) => fs.writeFile(at('/file'), 'x', { mode: mode as number }))
        }
      })

      test('rejects with an aborted signal', async () => {
        const signal = AbortSignal.abort()
        await same('writeFile', (fs, at) => fs.writeFile(at('/new'), 'x', { signal }), 'code only')
      })
    })

    describe('readdir', () => {
      for (const path of ['/', '/dir', '/dir/', '/dirlink', '/bare', '/file', '/none']) {
        for (const recursive of [false, true]) {
          // Node throws this error synchronously, although the call has a callback.
          if (recursive && form === 'callback' && ['/file', '/none'].includes(path)) continue
          test(`${recursive ? 'recursive ' : ''}of ${path}`, async () => {
            await same('names', async (fs, at) => {
              const names = await fs.readdir(at(path), { recursive })
              // Without types Node follows symlinks to directories, with types it does not; a session never does.
              return names.filter((name) => !name.startsWith('dirlink/')).sort()
            })
            if (isNewerCall('readdir with types')) return
            await same('entries', async (fs, at) => {
              const entries = await fs.readdir(at(path), { recursive, withFileTypes: true })
              return entries
                .map((entry) => [
                  entry.parentPath,
                  entry.name,
                  entry.isFile(),
                  entry.isDirectory(),
                  entry.isSymbolicLink(),
                  entry.isFIFO() || entry.isSocket() || entry.isBlockDevice() || entry.isCharacterDevice(),
                ])
                .sort((a, b) => (a.join() < b.join() ? -1 : 1))
            })
          })
        }
      }

      test('as bytes', () =>
        same('readdir', async (fs, at) =>
          (await fs.readdir(at('/dir'), { encoding: 'buffer' })).sort((a, b) => Buffer.compare(a, b)),
        ))

      test('in an encoding', () =>
        same('readdir', async (fs, at) => (await fs.readdir(at('/dir'), 'hex')).sort()))
    })

    describe('mkdir', () => {
      test.each([
        '/x',
        '/x/y/z',
        '/dir/x/y',
        '/dir',
        '/dir/sub',
        '/dirlink/x/y',
        '/file',
        '/file/x/y',
        '/',
        '/dir/../x/y',
        '/x/y/',
      ])('recursive of %s returns the first created directory', async (path) => {
        await same('mkdir', (fs, at) => fs.mkdir(at(path), { recursive: true }))
        await same('mkdir again', (fs, at) => fs.mkdir(at(path), { recursive: true }))
      })

      test('accepts a mode as number, text or option', async () => {
        await same('number', (fs, at) => fs.mkdir(at('/m1'), 0o700))
        await same('text', (fs, at) => fs.mkdir(at('/m2'), '750'))
        await same('option', (fs, at) => fs.mkdir(at('/m3'), { mode: 0o711 }))
        await same('recursive', (fs, at) => fs.mkdir(at('/m4/m5'), { recursive: true, mode: 0o711 }))
      })
    })

    test('chmod accepts numbers and text, and follows symlinks', async () => {
      for (const mode of [0o600, '755', 0o7777, 0, 0o100644]) {
        await same('chmod', (fs, at) => fs.chmod(at('/link'), mode))
        await same('chmod', (fs, at) => fs.chmod(at('/dir'), mode === 0 ? 0o755 : mode))
      }
      for (const mode of [-1, 1.5, 'x', '9', Number.NaN, null, undefined, 2 ** 32]) {
        await same(`chmod ${mode}`, (fs, at) => fs.chmod(at('/file'), mode as number), 'code only')
      }
    })

    test('symlink accepts any target except an empty one', async () => {
      for (const [index, target] of ['a', './a/', '/abs', '..', ' ', 'ü'].entries()) {
        await same('symlink', (fs, at) => fs.symlink(target, at(`/l${index}`)))
        expect(await session.readlink(`/l${index}`)).toBe(target)
      }
      await same('empty', (fs, at) => fs.symlink('', at('/l')))
      await same('NUL', (fs, at) => fs.symlink('a\0b', at('/l')), 'code only')
    })

    test('symlink ignores a type', () => same('symlink', (fs, at) => fs.symlink('dir', at('/typed'), 'dir')))

    test('paths can be bytes or URLs', async () => {
      await same('bytes', (fs, at) => fs.readFile(Buffer.from(at('/file')), 'utf8'))
      await same('bytes', (fs, at) => fs.writeFile(Buffer.from(at('/new ü')), 'x'))
      await same('URL', (fs, at) => fs.readFile(asUrl(at('/new ü')), 'utf8'))
      await same('URL', (fs, at) => fs.mkdir(asUrl(at('/100% new'))))
      await same('missing URL', (fs, at) => fs.stat(asUrl(at('/none'))))
      await same('web URL', (fs) => fs.readFile(new URL('https://example.org/x')), 'code only')
      await same('slash in a name', (fs, at) => fs.readFile(new URL(`file://${at('/dir')}%2Fa`)), 'code only')
    })

    test('an invalid path rejects the promise', async () => {
      for (const bad of [undefined, null, 5, {}, [], true, '/a\0b']) {
        const path = bad as string
        const calls: Record<string, (fs: Fs) => Promise<unknown>> = {
          // In the other forms a number is a file descriptor, of this process on the disk's side.
          ...((form === 'promise' || bad !== 5) && {
            readFile: (fs: Fs) => fs.readFile(path),
            writeFile: (fs: Fs) => fs.writeFile(path, 'x'),
            appendFile: (fs: Fs) => fs.appendFile(path, 'x'),
          }),
          stat: (fs) => fs.stat(path),
          lstat: (fs) => fs.lstat(path),
          readdir: (fs) => fs.readdir(path),
          mkdir: (fs) => fs.mkdir(path),
          rmdir: (fs) => fs.rmdir(path),
          rm: (fs) => fs.rm(path),
          unlink: (fs) => fs.unlink(path),
          rename: (fs) => fs.rename(path, '/x'),
          'rename to': (fs) => fs.rename('/x', path),
          chmod: (fs) => fs.chmod(path, 0o600),
          symlink: (fs) => fs.symlink('x', path),
          'symlink to': (fs) => fs.symlink(path, '/x'),
          readlink: (fs) => fs.readlink(path),
          // The other forms convert any value to text.
          ...(form === 'promise' && { realpath: (fs: Fs) => fs.realpath(path) }),
          access: (fs) => fs.access(path),
        }
        for (const [name, call] of Object.entries(calls))
          await same(`${name} ${JSON.stringify(bad)}`, call, 'code only')
      }
    })
  })

  test('changes resolve to undefined', async () => {
    const results = [
      await session.writeFile('/x', 'x'),
      await session.appendFile('/x', 'x'),
      await session.mkdir('/y'),
      await session.chmod('/x', 0o600),
      await session.symlink('x', '/l'),
      await session.rename('/x', '/z'),
      await session.unlink('/z'),
      await session.rm('/l'),
      await session.rmdir('/y'),
      await session.access('/'),
    ]
    expect(results).toEqual(results.map(() => undefined))
  })

  test('rejects a relative path', async () => {
    await expect(session.readFile('file')).rejects.toMatchObject({ code: 'EINVAL', syscall: 'open' })
    await expect(session.stat('')).rejects.toBeInstanceOf(Error)
  })

  test('a trailing slash requires a directory', async () => {
    await same('stat', async (fs, at) => describeStats(await fs.stat(`${at('/file')}/`)))
    await same('readFile', (fs, at) => fs.readFile(`${at('/file')}/`))
    await same('lstat', async (fs, at) => describeStats(await fs.lstat(`${at('/dirlink')}/`)))
    await same('unlink', (fs, at) => fs.unlink(`${at('/file')}/`))
    for (const to of [
      '/none/',
      '/none//',
      '/none/x/',
      '/file/',
      '/dir/',
      '/link/',
      '/dirlink/',
      '/dangling/',
    ]) {
      await same(`symlink ${to}`, (fs, at) => fs.symlink('target', at(to)))
      await same(`link ${to}`, (fs, at) => fs.link(at('/file'), at(to)))
      await same(`mkdir ${to}`, (fs, at) => (to.startsWith('/none') ? undefined : fs.mkdir(at(to))))
      for (const from of ['/file', '/dirlink', '/dirlink/'])
        await same(`rename ${from} to ${to}`, (fs, at) => fs.rename(at(from), at(to)))
    }
  })

  test.each(slashed)(
    'a call that may create a file refuses %s with the error of its directory first',
    async (path) => {
      for (const flag of ['w', 'wx', 'a', 'ax', 'w+'])
        await same(`writeFile ${flag}`, (fs, at) => fs.writeFile(at(path), 'new', { flag }))
      await same('appendFile', (fs, at) => fs.appendFile(at(path), 'new'))
      await same('readFile', (fs, at) => fs.readFile(at(path), { flag: 'a+' }))
      await same('copyFile', (fs, at) => fs.copyFile(at('/file'), at(path)))
    },
  )

  test.each(slashed)('removes, renames and links %s only if that is a directory', async (path) => {
    await same('rmdir', (fs, at) => fs.rmdir(at(path)))
    await same('rename to it', (fs, at) => fs.rename(at('/dir'), at(path)))
    await same('rename from it', (fs, at) => fs.rename(at(path), at('/file/x')))
    await same('rename of a missing entry', (fs, at) => fs.rename(at('/none/x'), at(path)))
    await same('link to a directory', (fs, at) => fs.link(at('/dirlink/'), at('/second')))
  })

  test('a flag that truncates empties the file, also if writes go to the end', async () => {
    const { O_RDWR, O_CREAT, O_TRUNC, O_APPEND } = disk.constants
    await same('writeFile', (fs, at) =>
      fs.writeFile(at('/file'), 'new', {
        flag: (O_RDWR | O_CREAT | O_TRUNC | O_APPEND) as unknown as string,
      }),
    )
    await same('content', (fs, at) => fs.readFile(at('/file'), 'utf8'))
  })

  test('an append of nothing changes no times', async () => {
    const unchanged = async (fs: Fs, path: string): Promise<boolean> => {
      const before = await fs.stat(path)
      await setTimeout(20)
      await fs.appendFile(path, '')
      const after = await fs.stat(path)
      return after.mtimeMs === before.mtimeMs && after.ctimeMs === before.ctimeMs
    }
    await same('times', (fs, at) => unchanged(fs, at('/file')))
    expect(await unchanged(session, '/file')).toBe(true)
  })

  test('a symlink is no directory for a call that does not follow it', async () => {
    const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = disk.constants
    for (const path of ['/link', '/dirlink', '/dirlink/', '/dir', '/file'])
      for (const flags of [O_RDONLY | O_DIRECTORY | O_NOFOLLOW, O_RDONLY | O_NOFOLLOW])
        await same(
          `readFile ${path}`,
          (fs, at) => fs.readFile(at(path), { flag: flags as unknown as string }),
          readErrors,
        )
  })

  test('a symlink to a directory is not renamed by a path with a trailing slash', () =>
    same('rename', (fs, at) => fs.rename(`${at('/dirlink')}/`, at('/moved'))))

  test('a symlink is neither removed nor read by a path with a trailing slash', async () => {
    for (const name of ['/dirlink', '/dangling', '/link', '/dir', '/none']) {
      const path = `${name}/`
      await same(`unlink ${path}`, (fs, at) => fs.unlink(at(path)))
      await same(`rm ${path}`, (fs, at) => fs.rm(at(path)))
      await same(`readlink ${path}`, (fs, at) => fs.readlink(at(path)))
      const isForced = name !== '/dirlink' && name !== '/link'
      if (isForced) await same(`forced rm ${path}`, (fs, at) => fs.rm(at(path), { force: true }))
      if (name !== '/none')
        await same(`lstat ${name}`, async (fs, at) => describeStats(await fs.lstat(at(name))))
    }
    // In Node, the promise form empties the directory, and the others fail.
    await expect(session.rm('/dirlink/', { recursive: true })).rejects.toMatchObject({ code: 'ENOTDIR' })
    expect(await session.readlink('/dirlink')).toBe('dir')
  })

  test('mkdir returns the first directory that it made, also for paths with dots', async () => {
    for (const path of [
      '/one/two/.',
      '/three/./four/./',
      '/five/six/../six',
      '/dir/./seven/eight',
      '/nine//ten/',
    ])
      await same(path, (fs, at) => fs.mkdir(at(path), { recursive: true }))
  })
})

function asUrl(path: string): URL {
  return pathToFileURL(path)
}

function shorten(path: string): string {
  return path.length > 40 ? `${path.slice(0, 10)}… (${path.length} characters)` : path
}
