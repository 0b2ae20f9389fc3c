// oxlint-disable vitest/expect-expect -- `sameFs` does.
import { once } from 'node:events'
import { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Sides } from '../../support/fs-sides.js'
import { isNewerCall } from '../../support/newer-node.js'

describe.each([
  ['memory', false],
  ['LevelDB', true],
])('on %s, like on disk:', (_name, durable) => {
  const sides = new Sides('sync', durable)
  beforeAll(() => sides.open())
  afterAll(() => sides.close())
  beforeEach(async () => {
    await sides.begin()
    await sides.sameFs('setup', (fs, at) => fs.writeFileSync(at('/file'), '0123456789'))
  })
  afterEach(() => sides.end())

  test('close() calls back, also when the stream is already closed', () =>
    sides.sameFs('close', async (fs, at) => {
      const stream = fs.createReadStream(at('/file'))
      const close = (): Promise<unknown> =>
        new Promise((resolve) => stream.close((error) => resolve((error as NodeJS.ErrnoException)?.code)))
      return [await close(), await close()]
    }))

  test('destroySoon keeps written data', () =>
    sides.sameFs('destroySoon', async (fs, at) => {
      const stream = fs.createWriteStream(at('/file'))
      stream.write('kept')
      ;(stream as unknown as { destroySoon(): void }).destroySoon()
      await once(stream, 'close')
    }))

  test('reports unknown flags with an error event', () =>
    sides.sameFs('flags', async (fs, at) => {
      const stream = fs.createReadStream(at('/file'), { flags: 'bogus' })
      const [error] = (await once(stream, 'error').catch((thrown: unknown) => [thrown])) as [Error]
      return error.message
    }))

  describe('lines', () => {
    const contents = {
      'with all kinds of line ends': 'a\nb\r\nc\rd\n\n\re',
      'with a final line end': 'a\r\nb\r',
      'without content': '',
      'with other separators': 'a\u2028b\u2029c\vd',
    }
    for (const [name, content] of Object.entries(contents)) {
      test.skipIf(isNewerCall(`lines ${name}`)).each([1, 2, 3, 64 * 1024])(
        `${name}, in chunks of %i bytes`,
        (highWaterMark) =>
          sides.sameFs(name, async (fs, at) => {
            fs.writeFileSync(at('/lines'), content)
            const handle = await fs.promises.open(at('/lines'))
            const lines: string[] = []
            for await (const line of handle.readLines({ highWaterMark })) lines.push(line)
            return [lines, handle.fd]
          }),
      )
    }

    test('in an encoding', () =>
      sides.sameFs('latin1', async (fs, at) => {
        fs.writeFileSync(at('/lines'), 'ü\nö', 'latin1')
        const handle = await fs.promises.open(at('/lines'))
        const lines: string[] = []
        for await (const line of handle.readLines({ encoding: 'latin1' })) lines.push(line)
        return lines
      }))

    test('keep the file open with autoClose: false', () =>
      sides.sameFs('autoClose', async (fs, at) => {
        const handle = await fs.promises.open(at('/file'))
        const lines: string[] = []
        for await (const line of handle.readLines({ autoClose: false, start: 0 })) lines.push(line)
        const { bytesRead } = await handle.read(Buffer.alloc(4), 0, 4, 0)
        await handle.close()
        return [lines, bytesRead]
      }))
  })

  test('a web stream fills the buffers of its reader, once per FileHandle', () =>
    sides.sameFs('bytes', async (fs, at) => {
      const handle = await fs.promises.open(at('/file'))
      const reader = handle.readableWebStream({ type: 'bytes' }).getReader({ mode: 'byob' })
      const found: string[] = []
      for (;;) {
        const { value, done } = (await reader.read(new Uint8Array(4))) as {
          value?: Uint8Array
          done: boolean
        }
        if (done) break
        found.push(Buffer.from(value!).toString())
      }
      const open = handle.fd > 0
      await handle.close()
      return [found, open]
    }))
})

describe('long streams of data in memory', () => {
  const sides = new Sides('sync', false)
  beforeAll(() => sides.open())
  afterAll(() => sides.close())
  beforeEach(() => sides.begin())
  afterEach(() => sides.end())

  test('yield to the event loop', async () => {
    const { fs } = sides
    // A sparse file: it takes no memory and is practically endless.
    fs.writeFileSync('/file', '')
    fs.truncateSync('/file', 2 ** 35)
    const handle = await fs.promises.open('/file')
    const ended = new AbortController()
    setTimeout(() => ended.abort(), 20)
    const sink = new Writable({ write: (_chunk, _encoding, done) => done() })
    await expect(
      pipeline(fs.createReadStream('/file'), sink, { signal: ended.signal }),
    ).rejects.toMatchObject({ name: 'AbortError' })
    const stopped = new AbortController()
    setTimeout(() => stopped.abort(), 20)
    const target = new WritableStream({ write: () => undefined })
    await expect(handle.readableWebStream().pipeTo(target, { signal: stopped.signal })).rejects.toMatchObject(
      { name: 'AbortError' },
    )
    await handle.close()
  })

  test('a second web stream, or one of a closed file, is rejected', async () => {
    sides.fs.writeFileSync('/file', 'x')
    const handle = await sides.fs.promises.open('/file')
    handle.readableWebStream()
    expect(() => handle.readableWebStream()).toThrow(expect.objectContaining({ code: 'ERR_INVALID_STATE' }))
    await handle.close()
    expect(() => handle.readableWebStream()).toThrow(expect.objectContaining({ code: 'ERR_INVALID_STATE' }))
  })
})
