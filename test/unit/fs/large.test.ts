import { createHash } from 'node:crypto'
import { once } from 'node:events'
import * as disk from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openEngine, type Engine, type Session, type SessionFs } from '../../../src/index.js'
import { fewStorages } from '../../support/storages.js'
import { seed } from '../../support/seed.js'
import { randomBytes } from '../../support/random-bytes.js'

const mebibyte = 2 ** 20

const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

describe.each(fewStorages)(`large contents on %s (FORKSPACE_SEED=${seed})`, (name, make, lasting) => {
  const syncReads = name !== 'durable memory without synchronous reads'
  let directory: string
  let engine: Engine
  let session: Session
  let fs: SessionFs

  /** Reopens the session with nothing in memory. */
  async function reopen(): Promise<void> {
    if (!lasting) return
    await engine.close()
    engine = await openEngine({ storage })
    session = await engine.sessions.open(session.id)
    fs = session.fs
  }

  let storage: ReturnType<typeof make>

  beforeEach(async () => {
    directory = disk.mkdtempSync(join(tmpdir(), 'large-'))
    storage = make(directory)
    engine = await openEngine({ storage })
    session = await engine.sessions.create()
    fs = session.fs
  })

  afterEach(async () => {
    await engine.close()
    disk.rmSync(directory, { recursive: true })
  })

  test('writeFileSync of 10 MiB', async () => {
    const bytes = randomBytes(10 * mebibyte, seed)
    const expected = digest(bytes)
    fs.writeFileSync('/file', bytes)
    // The content was copied, so later changes to the caller's buffer have no effect.
    bytes.fill(0)
    fs.copyFileSync('/file', '/copy')
    fs.appendFileSync('/copy', 'end')
    expect(fs.statSync('/file').size).toBe(10 * mebibyte)
    const beforeCommit = syncReads ? digest(fs.readFileSync('/file')) : expected
    expect(beforeCommit).toBe(expected)
    await session.flush()
    await reopen()
    expect(digest(await fs.promises.readFile('/file'))).toBe(expected)
    const copy = await fs.promises.readFile('/copy')
    expect(digest(copy.subarray(0, -3))).toBe(expected)
    expect(copy.toString('latin1', copy.length - 3)).toBe('end')
  })

  test('writeFileSync of 10 MiB is stored by close() without a flush', async () => {
    const bytes = randomBytes(10 * mebibyte, seed)
    fs.writeFileSync('/file', bytes)
    await reopen()
    expect(digest(await fs.promises.readFile('/file'))).toBe(digest(bytes))
  })

  test('streams of 5 MiB in both directions', async () => {
    const bytes = randomBytes(5 * mebibyte, seed)
    disk.writeFileSync(join(directory, 'from'), bytes)
    const writing = fs.createWriteStream('/file')
    await pipeline(disk.createReadStream(join(directory, 'from')), writing)
    expect(writing.bytesWritten).toBe(bytes.length)
    await reopen()
    const reading = fs.createReadStream('/file')
    await pipeline(reading, disk.createWriteStream(join(directory, 'to')))
    expect(reading.bytesRead).toBe(bytes.length)
    expect(digest(disk.readFileSync(join(directory, 'to')))).toBe(digest(bytes))
    await pipeline(fs.createReadStream('/file'), fs.createWriteStream('/copy'))
    expect(digest(await fs.promises.readFile('/copy'))).toBe(digest(bytes))
  })

  test.each([
    [0, 0],
    [mebibyte - 1, mebibyte],
    [3 * mebibyte + 17, undefined],
    [undefined, 2 * mebibyte + 5],
    [5 * mebibyte, undefined],
    [70_000, 4 * mebibyte],
  ])('a stream of a range, from %s to %s', async (start, end) => {
    const bytes = randomBytes(5 * mebibyte, seed)
    await fs.promises.writeFile('/file', bytes)
    await reopen()
    const range = { ...(start !== undefined && { start }), ...(end !== undefined && { end }) }
    const read = Buffer.concat(await fs.createReadStream('/file', range).toArray())
    expect(digest(read)).toBe(digest(bytes.subarray(start, end === undefined ? undefined : end + 1)))
    const part = randomBytes(2 * mebibyte + 4, seed).subarray(0, -1)
    await pipeline(
      Readable.from([part.subarray(0, 1_000_001), part.subarray(1_000_001)]),
      fs.createWriteStream('/file', { flags: 'r+', start: start ?? 0 }),
    )
    const expected = Buffer.alloc(Math.max(bytes.length, (start ?? 0) + part.length))
    bytes.copy(expected)
    part.copy(expected, start)
    expect(digest(await fs.promises.readFile('/file'))).toBe(digest(expected))
  })

  test('a stream that is destroyed halfway', async () => {
    const bytes = randomBytes(5 * mebibyte, seed)
    const writing = fs.createWriteStream('/file')
    for (let done = 0; done < 2 * mebibyte; done += 65_536) {
      const written = writing.write(bytes.subarray(done, done + 65_536))
      if (!written) await once(writing, 'drain')
    }
    writing.destroy()
    await once(writing, 'close')
    expect(writing.bytesWritten).toBe(2 * mebibyte)
    await reopen()
    expect(digest(await fs.promises.readFile('/file'))).toBe(digest(bytes.subarray(0, 2 * mebibyte)))

    const reading = fs.createReadStream('/file')
    const opened = once(reading, 'open') as Promise<[number]>
    const [chunk] = (await once(reading, 'data')) as [Buffer]
    const [fd] = await opened
    expect(chunk.equals(bytes.subarray(0, chunk.length))).toBe(true)
    reading.destroy(new Error('enough'))
    await expect(once(reading, 'close')).rejects.toThrow('enough')
    expect(() => fs.fstatSync(fd)).toThrow(expect.objectContaining({ code: 'EBADF' }))

    await expect(
      pipeline(
        fs.createReadStream('/file'),
        async function* (chunks: AsyncIterable<Buffer>) {
          for await (const part of chunks) {
            yield part
            throw new RangeError('half-way')
          }
        },
        fs.createWriteStream('/part'),
      ),
    ).rejects.toThrow('half-way')
    const abort = new AbortController()
    const aborted = pipeline(fs.createReadStream('/file'), fs.createWriteStream('/part'), {
      signal: abort.signal,
    })
    abort.abort()
    await expect(aborted).rejects.toMatchObject({ name: 'AbortError' })
    await session.flush()
  })
})
