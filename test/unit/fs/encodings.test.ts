/** Encodings and lists that Node accepts or rejects, compared with node:fs in a host directory. */
import { once } from 'node:events'
import nodeFs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openEngine, type Engine, type SessionFs } from '../../../src/index.js'
import { openRemote, type Remote } from '../../support/remote.js'
import { isNewerCall } from '../../support/newer-node.js'

let engine: Engine
let remote: Remote
let root: string
let fs: SessionFs
beforeAll(async () => {
  engine = await openEngine()
  remote = await openRemote()
  fs = (await engine.sessions.create({ files: { '/d/a': 'text' } })).fs
  fs.symlinkSync('a', '/d/l')
  root = nodeFs.mkdtempSync(join(tmpdir(), 'encodings-'))
  nodeFs.mkdirSync(join(root, 'd'))
  nodeFs.writeFileSync(join(root, 'd/a'), 'text')
  nodeFs.symlinkSync('a', join(root, 'd/l'))
})
afterAll(async () => {
  nodeFs.rmSync(root, { recursive: true })
  await remote.close()
  await engine.close()
})

/** The types and lengths of a result. */
function formOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((one) => formOf(one))
  return typeof value === 'string' ? ['text', value.slice(-1)] : (value as Uint8Array).toString()
}

describe("the encoding ''", () => {
  const none = '' as 'utf8'
  const calls: readonly (readonly [string, (view: typeof nodeFs, at: string) => unknown])[] = [
    ['readdirSync', (view, at) => view.readdirSync(at, none)],
    ['readlinkSync', (view, at) => view.readlinkSync(join(at, 'l'), none)],
    ['realpathSync', (view, at) => view.realpathSync(at, none)],
    ['readFileSync', (view, at) => view.readFileSync(join(at, 'a'), none)],
    ['mkdtempSync', (view, at) => view.mkdtempSync(join(at, 't'), none).slice(0, -6)],
    [
      'writeFileSync',
      (view, at) => {
        view.writeFileSync(join(at, 'w'), 'ü', none)
        return view.readFileSync(join(at, 'w'))
      },
    ],
    [
      'createWriteStream',
      async (view, at) => {
        const stream = view.createWriteStream(join(at, 's'), none).end('ü')
        await once(stream, 'close')
        return view.readFileSync(join(at, 's'))
      },
    ],
    [
      'createReadStream',
      async (view, at) => {
        for await (const piece of view.createReadStream(join(at, 'a'), none)) return piece as unknown
        return undefined
      },
    ],
  ]
  test.each(calls)('means no encoding for %s, as in Node', async (_name, call) => {
    const [ours, theirs] = [await call(fs, '/d'), await call(nodeFs, join(root, 'd'))]
    expect(formOf(ours)).toEqual(formOf(theirs))
  })

  test('means no encoding for a client', async () => {
    const session = await remote.client.sessions.create({ files: { '/a': 'text' } })
    const { promises } = session.fs
    expect(formOf(await promises.readdir('/', none))).toEqual([['text', 'a']])
    expect(await promises.readFile('/a', none)).toEqual(Buffer.from('text'))
    await promises.writeFile('/a', 'ü', none)
    expect(await promises.readFile('/a', 'utf8')).toBe('ü')
  })

  test('returns the path of the directory that mkdtempDisposable makes', async () => {
    const before = fs.readdirSync('/')
    const made = await fs.promises.mkdtempDisposable('/made', none)
    expect(fs.readdirSync('/')).toEqual([...before, made.path.slice(1)].toSorted())
    await made.remove()
    expect(fs.readdirSync('/')).toEqual(before)
  })
})

describe('rejected options leave a file unchanged with content in pieces', () => {
  const pieces = ['new']
  test.each([
    ['for an unknown encoding', 'none', 'ERR_INVALID_ARG_VALUE'],
    ['for an unknown encoding in options', { encoding: 'none' }, 'ERR_INVALID_ARG_VALUE'],
    ['for an aborted signal', { signal: AbortSignal.abort() }, 'ABORT_ERR'],
    ['for an invalid signal', { signal: {} }, 'ERR_INVALID_ARG_TYPE'],
    ['for options of the wrong type', 5, 'ERR_INVALID_ARG_TYPE'],
  ])('%s', async (_what, options, code) => {
    for (const [view, at] of [
      [fs.promises, '/d'],
      [nodeFs.promises, join(root, 'd')],
    ] as const) {
      for (const name of ['a', 'fresh']) {
        await expect(view.writeFile(join(at, name), pieces, options as never)).rejects.toMatchObject({ code })
        await expect(
          view.appendFile(join(at, name), pieces as never, options as never),
        ).rejects.toHaveProperty('code')
      }
      expect(await view.readFile(join(at, 'a'), 'utf8')).toBe('text')
      await expect(view.stat(join(at, 'fresh'))).rejects.toMatchObject({ code: 'ENOENT' })
    }
  })
})

describe('rejects a list with a hole', () => {
  // oxlint-disable-next-line no-sparse-arrays -- The test needs a hole.
  const holes: readonly unknown[][] = [[,], [Buffer.alloc(1), , Buffer.alloc(1)]]
  const calls = ['readvSync', 'writevSync'] as const
  test.each(calls)('by %s, as in Node', (name) => {
    const views = [
      [fs, '/d/a'],
      [nodeFs, join(root, 'd/a')],
    ] as const
    for (const [view, path] of views) {
      const descriptor = view.openSync(path, 'r+')
      for (const list of holes)
        expect(() => view[name](descriptor, list as never)).toThrow(
          expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }),
        )
      view.closeSync(descriptor)
      expect(view.readFileSync(path, 'utf8')).toBe('text')
    }
  })

  test.each([
    // oxlint-disable-next-line no-sparse-arrays -- The test needs a hole.
    ['pattern', () => fs.globSync(['/a', , '/b'] as never)],
    // oxlint-disable-next-line no-sparse-arrays -- The test needs a hole.
    ['exclude', () => fs.globSync('*', { exclude: [,] as never })],
  ])('by globSync (%s)', (_what, call) => {
    expect(call).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }))
  })
})

describe('arguments that Node rejects', () => {
  const withFile = (view: typeof nodeFs, at: string, use: (fd: number) => unknown): unknown => {
    const fd = view.openSync(join(at, 'a'), 'r+')
    try {
      return use(fd)
    } finally {
      view.closeSync(fd)
    }
  }
  const unset = { recursive: undefined, force: true } as unknown as nodeFs.RmOptions
  const calls: readonly (readonly [string, (view: typeof nodeFs, at: string) => unknown])[] = [
    [
      'writeSync of half a byte',
      (view, at) => withFile(view, at, (fd) => view.writeSync(fd, 'abc', 0, 'hex')),
    ],
    [
      'write of half a byte',
      (view, at) => withFile(view, at, (fd) => view.write(fd, 'abc', 0, 'hex', () => {})),
    ],
    [
      'FileHandle.write of half a byte',
      async (view, at) => {
        await using handle = await view.promises.open(join(at, 'a'), 'r+')
        return await handle.write('abc', 0, 'hex')
      },
    ],
    [
      'readSync into an empty array',
      (view, at) => {
        const fd = view.openSync(join(at, 'a'), 'r')
        try {
          return view.readSync(fd, new Uint8Array(0), 0, 1, 0)
        } finally {
          view.closeSync(fd)
        }
      },
    ],
    ['rmSync with an undefined option', (view, at) => view.rmSync(join(at, 'missing'), unset)],
    ['promises.rm with an undefined option', (view, at) => view.promises.rm(join(at, 'missing'), unset)],
    ['rmdirSync with an undefined option', (view, at) => view.rmdirSync(join(at, 'missing'), unset)],
    ['writeFileSync as buffer', (view, at) => view.writeFileSync(join(at, 'x'), 'text', 'buffer' as 'utf8')],
    [
      'promises.appendFile as buffer',
      (view, at) => view.promises.appendFile(join(at, 'x'), 'text', 'buffer' as 'utf8'),
    ],
    ['readFileSync as buffer', (view, at) => view.readFileSync(join(at, 'a'), 'buffer' as 'utf8')],
    ['promises.readFile as buffer', (view, at) => view.promises.readFile(join(at, 'a'), 'buffer' as 'utf8')],
  ]
  const failureOf = async (call: () => unknown): Promise<unknown> => {
    try {
      return await call()
    } catch (error) {
      const { code, name, message } = error as NodeJS.ErrnoException
      return { code, name, message: message.replaceAll(root, '') }
    }
  }

  test.each(calls.filter(([title]) => !isNewerCall(title)))('%s', async (_title, call) => {
    const wanted = await failureOf(() => call(nodeFs, join(root, 'd')))
    expect(wanted).toMatchObject({ code: expect.stringMatching(/^E/) as string })
    expect(await failureOf(() => call(fs as typeof nodeFs, '/d'))).toEqual(wanted)
    expect(fs.readdirSync('/d').includes('x')).toBe(false)
    expect(fs.readFileSync('/d/a', 'utf8')).toBe('text')
  })
})

test('open neither creates nor opens a directory with O_CREAT and O_DIRECTORY, as on Linux since version 6.4', async () => {
  const flags = nodeFs.constants.O_CREAT | nodeFs.constants.O_DIRECTORY
  for (const path of ['/d', '/d/x']) {
    expect(() => fs.openSync(path, flags)).toThrow(`EINVAL: invalid argument, open '${path}'`)
    await expect(fs.promises.open(path, flags)).rejects.toMatchObject({ code: 'EINVAL', path })
    await expect(fs.promises.readFile(path, { flag: flags })).rejects.toMatchObject({ code: 'EINVAL', path })
  }
  expect(fs.existsSync('/d/x')).toBe(false)
})

test.each([{ defaultEncoding: 'hex' }, { defaultEncoding: 'hex', encoding: 'latin1' }, { encoding: 'hex' }])(
  'a stream with %j decodes texts as in Node',
  async (options) => {
    const written = [fs as unknown as typeof nodeFs, nodeFs].map(async (view, side) => {
      const path = join(side === 0 ? '/d' : join(root, 'd'), 'decoded')
      await once(view.createWriteStream(path, options as object).end('6162'), 'close')
      return view.readFileSync(path, 'latin1')
    })
    const [ours, theirs] = await Promise.all(written)
    expect(ours).toBe(theirs)
  },
)

test('each function has its name, as in Node', () => {
  const nameless = Object.entries({ ...fs, ...fs.promises }).filter(
    ([, value]) => typeof value === 'function' && (value as () => void).name === '',
  )
  expect(nameless).toEqual([])
  expect([fs.readFile.name, fs.readFileSync.name, fs.promises.watch.name]).toEqual([
    'readFile',
    'readFileSync',
    'watch',
  ])
})
