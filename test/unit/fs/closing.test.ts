import { once } from 'node:events'
import nodeFs from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, describe, expect, test } from 'vitest'
import { levelStorage } from '../../../src/adapters/level/index.js'
import { openEngine, type Engine, type Session } from '../../../src/index.js'

const endings: [string, (engine: Engine, session: Session) => Promise<unknown>][] = [
  ['the session was deleted', (engine, session) => engine.sessions.delete(session.id)],
  ['the engine was closed', (engine) => engine.close()],
]
const opened: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const close of opened.splice(0)) await close()
})

describe.each(['memory', 'LevelDB'])('on %s', (storage) => {
  async function open(): Promise<Engine> {
    if (storage === 'memory') {
      const engine = await openEngine()
      opened.push(() => engine.close())
      return engine
    }
    const directory = await mkdtemp(join(tmpdir(), 'fs-closing-'))
    const engine = await openEngine({ storage: levelStorage(join(directory, 'db')) })
    opened.push(async () => {
      await engine.close()
      await rm(directory, { recursive: true })
    })
    return engine
  }

  test.each(endings)('no synchronous call suggests to try again after %s', async (_name, end) => {
    const engine = await open()
    const session = await engine.sessions.create({ files: { '/a': 'a' } })
    await end(engine, session)
    const error = (await session.fs.promises.readFile('/a').catch((one: unknown) => one)) as Error & {
      code: string
    }
    for (const call of [
      () => session.fs.readFileSync('/a'),
      () => session.fs.statSync('/a'),
      () => session.fs.writeFileSync('/a', ''),
    ])
      expect(call).toThrow(expect.objectContaining({ code: error.code }))
    expect(error.code).not.toBe('EAGAIN')
  })

  test.each(endings)('closes open files after %s', async (_name, end) => {
    const engine = await open()
    const session = await engine.sessions.create({ files: { '/a': 'a', '/dir/b': 'b' } })
    const { fs } = session
    const handle = await fs.promises.open('/a')
    const directory = await fs.promises.open('/dir')
    const [sync, called] = [fs.openSync('/a', 'r'), fs.openSync('/dir/b', 'r+')]
    const [source, target] = [fs.createReadStream('/a'), fs.createWriteStream('/new')]
    await Promise.all([once(source, 'ready'), once(target, 'ready')])
    await end(engine, session)

    await handle.close()
    expect(handle.fd).toBe(-1)
    await directory.close()
    fs.closeSync(sync)
    await promisify(fs.close)(called)
    for (const stream of [source, target]) {
      const closed = once(stream, 'close')
      stream.destroy()
      await closed
      expect(stream.errored).toBeNull()
    }
    // A closed descriptor stays closed, so this is the only error.
    expect(() => fs.closeSync(sync)).toThrow(expect.objectContaining({ code: 'EBADF' }))
    await expect(promisify(fs.close)(called)).rejects.toMatchObject({ code: 'EBADF' })
    expect(() => fs.fstatSync(sync)).toThrow(expect.objectContaining({ code: expect.stringMatching(/^E/) }))
  })
})

describe('util.promisify', () => {
  /** The same calls on a file of a session and on disk. */
  const sides: [string, () => Promise<{ fs: typeof nodeFs; path: string }>][] = [
    [
      'node:fs',
      async () => {
        const directory = await mkdtemp(join(tmpdir(), 'fs-promisify-'))
        opened.push(() => rm(directory, { recursive: true }))
        return { fs: nodeFs, path: join(directory, 'file') }
      },
    ],
    [
      'session.fs',
      async () => {
        const engine = await openEngine()
        opened.push(() => engine.close())
        const session = await engine.sessions.create({})
        return { fs: session.fs as unknown as typeof nodeFs, path: '/file' }
      },
    ],
  ]

  test.each(sides)('names the results of %s like Node', async (_name, make) => {
    const { fs, path } = await make()
    const number = fs.openSync(path, 'w+')
    const [text, bytes] = ['text', Buffer.from('bytes')]
    expect(await promisify(fs.write)(number, text)).toEqual({ bytesWritten: 4, buffer: text })
    const written = await promisify(fs.write)(number, bytes, 0, 5, 4)
    expect(written).toEqual({ bytesWritten: 5, buffer: bytes })
    expect(written.buffer).toBe(bytes)
    const list = [Buffer.from('a'), Buffer.from('b')]
    const listed = await promisify(fs.writev)(number, list, 9)
    // As in Node, whose documentation says `buffers`.
    expect(listed).toEqual({ bytesWritten: 2, buffer: list })

    const target = Buffer.alloc(4)
    const read = await promisify(fs.read)(number, target, 0, 4, 0)
    expect(read).toEqual({ bytesRead: 4, buffer: Buffer.from('text') })
    expect(read.buffer).toBe(target)
    const targets = [Buffer.alloc(5), Buffer.alloc(9)]
    const readAll = await promisify(fs.readv)(number, targets, 4)
    expect(readAll.bytesRead).toBe(7)
    expect(readAll.buffers).toBe(targets)

    expect(await promisify(fs.exists)(path)).toBe(true)
    expect(await promisify(fs.exists)(`${path}-none`)).toBe(false)
    expect(await promisify(fs.exists)(undefined as never)).toBe(false)
    await expect(promisify(fs.read)('no number' as never, target, 0, 1, 0)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG_TYPE',
    })
    fs.closeSync(number)
    await expect(promisify(fs.read)(number, target, 0, 1, 0)).rejects.toMatchObject({ code: 'EBADF' })
    expect(await promisify(fs.stat)(path)).toHaveProperty('size', 11)
  })
})
