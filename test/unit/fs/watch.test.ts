import { mkdtempSync, rmSync } from 'node:fs'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { memoryStorage, openEngine, type Engine, type Session, type SessionFs } from '../../../src/index.js'
import { FailingStorage } from '../../support/failing-storage.js'
import { storages } from '../../support/storages.js'

type WatchEvent = [eventType: string, filename: string | null]

test('a signal that aborts while the directory is loaded ends the watch', async () => {
  const storage = memoryStorage({ durable: true, syncReads: false })
  const first = await openEngine({ storage })
  const { id } = await first.sessions.create({ files: { '/w/file': 'file' } })
  await first.close()
  const second = await openEngine({ storage })
  const { promises } = (await second.sessions.open(id)).fs
  const abort = new AbortController()
  const change = promises.watch('/w', { signal: abort.signal })[Symbol.asyncIterator]().next()
  abort.abort()
  await expect(change).rejects.toMatchObject({ name: 'AbortError' })
  await second.close()
})

describe.each(storages)('watching on %s', (name, make) => {
  const syncReads = name !== 'durable memory without synchronous reads'
  let directory: string
  let engine: Engine
  let session: Session
  let fs: SessionFs

  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'watch-'))
    engine = await openEngine({ storage: make(directory) })
    session = await engine.sessions.create()
    fs = session.fs
    await fs.promises.mkdir('/w/sub/deep', { recursive: true })
    await fs.promises.writeFile('/w/file', 'file')
    await fs.promises.writeFile('/w/sub/deep/file', 'deep')
  })

  afterEach(async () => {
    await engine.close()
    rmSync(directory, { recursive: true })
  })

  /** The events of a watcher, up to and including all earlier calls. */
  function watched(path: string, options: { recursive?: boolean; signal?: AbortSignal } = {}): WatchEvent[] {
    const events: WatchEvent[] = []
    fs.watch(path, options, (eventType, filename) => events.push([eventType, filename]))
    return events
  }

  async function settled(): Promise<void> {
    await session.flush()
    await turn()
  }

  test('reports names and contents, each in its directory', async () => {
    const [root, flat, deep] = [watched('/'), watched('/w'), watched('/w', { recursive: true })]
    await fs.promises.writeFile('/w/new', 'x')
    await fs.promises.writeFile('/w/sub/empty', '')
    await fs.promises.chmod('/w/new', 0o600)
    await fs.promises.rename('/w/new', '/w/sub/moved')
    await fs.promises.unlink('/w/sub/moved')
    await fs.promises.link('/w/file', '/w/second')
    await fs.promises.symlink('file', '/w/link')
    await fs.promises.truncate('/w/file', 1)
    await settled()
    expect(root).toEqual([])
    expect(flat).toEqual([
      ['rename', 'new'],
      ['change', 'new'],
      ['change', 'new'],
      ['rename', 'new'],
      ['rename', 'second'],
      ['rename', 'link'],
      ['change', 'file'],
    ])
    expect(deep.filter(([, file]) => file?.startsWith('sub/') === true)).toEqual([
      ['rename', 'sub/empty'],
      ['rename', 'sub/moved'],
      ['rename', 'sub/moved'],
    ])
    expect(deep.filter(([, file]) => file?.startsWith('sub/') === false)).toEqual(flat)
  })

  test('reports synchronous changes and changes through another handle', async () => {
    const events = watched('/w')
    fs.writeFileSync('/w/sync', '')
    const other = await engine.sessions.open(session.id)
    await other.files.write({ path: '/w/other', content: '' })
    await other.files.batch([
      { write: { path: '/w/one', content: '' } },
      { delete: { path: '/w/file' } },
      { write: { path: '/elsewhere', content: '' } },
    ])
    await settled()
    expect(events).toEqual([
      ['rename', 'sync'],
      ['rename', 'other'],
      ['rename', 'one'],
      ['rename', 'file'],
    ])
  })

  test('does not report changes of an entry whose name only begins the same', async () => {
    await fs.promises.writeFile('/w/file2', '')
    await fs.promises.mkdir('/w/sub2')
    const [file, directory] = [watched('/w/file2'), watched('/w/sub2', { recursive: true })]
    await fs.promises.rename('/w/file', '/w/other')
    await fs.promises.rm('/w/sub', { recursive: true })
    await fs.promises.writeFile('/w/file2', 'x')
    await fs.promises.writeFile('/w/sub2/x', '')
    await settled()
    expect([file, directory]).toEqual([[['change', 'file2']], [['rename', 'x']]])
  })

  test('does not report changes of a fork', async () => {
    const events = watched('/', { recursive: true })
    const fork = await session.fork()
    await fork.fs.promises.writeFile('/w/file', 'fork')
    await settled()
    expect(events).toEqual([])
  })

  test('follows a renamed entry until it is removed', async () => {
    const [file, dir] = [watched('/w/file'), watched('/w/sub')]
    await fs.promises.rename('/w', '/v')
    await fs.promises.writeFile('/v/file', 'x')
    await fs.promises.writeFile('/v/sub/x', '')
    await fs.promises.writeFile('/v/other', '')
    await fs.promises.rename('/v/file', '/v/moved')
    await fs.promises.writeFile('/v/moved', 'y')
    await fs.promises.rm('/v', { recursive: true })
    await fs.promises.mkdir('/v/sub', { recursive: true })
    await fs.promises.writeFile('/v/moved', 'another file')
    await fs.promises.writeFile('/v/sub/x', '')
    await settled()
    expect(file).toEqual([
      ['rename', 'file'],
      ['change', 'file'],
      ['rename', 'file'],
      ['change', 'file'],
      ['rename', 'file'],
    ])
    expect(dir).toEqual([
      ['rename', 'sub'],
      ['rename', 'x'],
      ['rename', 'sub'],
    ])
  })

  test('reports the name that was given, also through a symlink', async () => {
    await fs.promises.symlink('file', '/w/given')
    const file = watched('/w/given')
    await fs.promises.writeFile('/w/file', 'x')
    await settled()
    expect(file).toEqual([['change', 'given']])
  })

  test('reports the differences of a checkpoint restore', async () => {
    await session.checkpoint({ checkpointLabel: 'before' })
    await fs.promises.writeFile('/w/file', 'other')
    await fs.promises.writeFile('/w/new', '')
    await fs.promises.rm('/w/sub', { recursive: true })
    const [flat, deep] = [watched('/w'), watched('/w', { recursive: true })]
    await session.restore({ checkpointLabel: 'before' })
    await fs.promises.writeFile('/w/after', '')
    // The differences may have to be read first; later changes are reported after them.
    while ([flat, deep].some((events) => events.at(-1)?.[1] !== 'after')) await turn()
    const sorted = (events: WatchEvent[]): WatchEvent[] =>
      events.toSorted(([, a], [, b]) => (a! < b! ? -1 : 1))
    expect(sorted(flat)).toEqual([
      ['rename', 'after'],
      ['change', 'file'],
      ['rename', 'new'],
      ['rename', 'sub'],
    ])
    expect(deep.map(([, file]) => file)).toContain('sub/deep/file')
  })

  test('ends on close, on a signal, when the session is deleted, and when the engine closes', async () => {
    const abort = new AbortController()
    const watchers = [
      fs.watch('/w'),
      fs.watch('/w', { signal: abort.signal }),
      fs.watch('/w', { signal: AbortSignal.abort() }),
      fs.watch('/w'),
    ] as const
    const events: unknown[] = []
    for (const [i, watcher] of watchers.entries())
      watcher.on('change', (_type, filename) => events.push([i, filename]))
    const closings = watchers.map((watcher) => once(watcher, 'close'))
    watchers[0].close()
    watchers[0].close()
    abort.abort()
    await Promise.all(closings.slice(0, 3))
    await fs.promises.writeFile('/w/x', '')
    await settled()
    expect(events).toEqual([[3, 'x']])
    await engine.sessions.delete(session.id)
    await closings[3]

    session = await engine.sessions.create()
    const last = session.fs.watch('/')
    const closed = once(last, 'close')
    await engine.close()
    await closed
  })

  test('rejects missing paths and wrong options', async () => {
    const missing = { code: 'ENOENT', syscall: 'watch', path: '/none', filename: '/none' }
    expect(() => fs.watch('/none')).toThrow(expect.objectContaining(missing))
    await expect(fs.promises.watch('/none')[Symbol.asyncIterator]().next()).rejects.toMatchObject(missing)
    for (const options of [{ recursive: 1 }, { persistent: 'no' }, { signal: {} }, { encoding: 'none' }]) {
      expect(() => fs.watch('/w', options as object)).toThrow(TypeError)
      const events = fs.promises.watch('/w', options as object)[Symbol.asyncIterator]()
      await expect(events.next()).rejects.toThrow(TypeError)
    }
  })

  test('reports names in an encoding', async () => {
    const [bytes] = await Promise.all([
      once(fs.watch('/w', { encoding: 'buffer' } as object), 'change') as Promise<[string, Buffer]>,
      fs.promises.writeFile('/w/ä', ''),
    ])
    expect(bytes).toEqual(['rename', Buffer.from('ä')])
    const [text] = await Promise.all([
      once(fs.watch('/w', 'hex' as never), 'change'),
      fs.promises.writeFile('/w/ö', ''),
    ])
    expect(text).toEqual(['rename', Buffer.from('ö').toString('hex')])
  })

  describe('by promises', () => {
    test('reports events in order from the first next() on, however slow the reader is', async () => {
      const abort = new AbortController()
      const events = fs.promises.watch('/w', { recursive: true, signal: abort.signal })
      const iterator = events[Symbol.asyncIterator]()
      fs.writeFileSync('/w/before', '')
      await session.flush()
      const first = iterator.next()
      if (!syncReads) await turn()
      fs.writeFileSync('/w/a', '')
      await fs.promises.rename('/w/a', '/w/sub/a')
      expect((await first).value).toEqual({ eventType: 'rename', filename: 'a' })
      expect((await iterator.next()).value).toEqual({ eventType: 'rename', filename: 'a' })
      expect((await iterator.next()).value).toEqual({ eventType: 'rename', filename: 'sub/a' })
      const reason = new Error('enough')
      const last = iterator.next()
      abort.abort(reason)
      await expect(last).rejects.toMatchObject({ name: 'AbortError', code: 'ABORT_ERR', cause: reason })
      expect(await iterator.next()).toEqual({ done: true, value: undefined })
    })

    test('rejects with an aborted signal', async () => {
      const events = fs.promises.watch('/w', { signal: AbortSignal.abort() })[Symbol.asyncIterator]()
      await expect(events.next()).rejects.toMatchObject({ name: 'AbortError' })
    })

    test('ends when the loop ends, the session is deleted, or the engine closes', async () => {
      for (const end of ['leave', 'delete', 'close']) {
        const own = await engine.sessions.create()
        const seen: unknown[] = []
        const loop = (async () => {
          for await (const { filename } of own.fs.promises.watch('/')) {
            seen.push(filename)
            if (end === 'leave') break
          }
        })()
        await turn()
        await own.fs.promises.writeFile('/x', '')
        await turn()
        if (end === 'delete') await engine.sessions.delete(own.id)
        if (end === 'close') await engine.close()
        await loop
        expect(seen).toEqual(['x'])
      }
    })

    test('throws or drops events when the queue is full', async () => {
      const [throwing, ignoring] = (['throw', 'ignore'] as const).map((overflow) =>
        fs.promises.watch('/w', { maxQueue: 2, overflow } as object)[Symbol.asyncIterator](),
      ) as [AsyncIterator<unknown>, AsyncIterator<unknown>]
      const firsts = Promise.all([throwing.next(), ignoring.next()])
      await turn()
      for (const i of [1, 2, 3, 4]) await fs.promises.mkdir(`/w/${i}`)
      await firsts
      await expect(throwing.next()).rejects.toMatchObject({ code: 'ERR_FS_WATCH_QUEUE_OVERFLOW' })
      expect((await ignoring.next()).value).toEqual({ eventType: 'rename', filename: '2' })
      await ignoring.return!()
    })
  })
})

test('a failed write ends watchers with an error, because later events are unknown', async () => {
  const storage = new FailingStorage(memoryStorage({ durable: true }))
  const engine = await openEngine({ storage })
  const session = await engine.sessions.create()
  const { fs } = session
  const watcher = fs.watch('/')
  const failed = once(watcher, 'error')
  const closed = new Promise((resolve) => watcher.once('close', resolve))
  const next = fs.promises.watch('/')[Symbol.asyncIterator]().next()
  const names: unknown[] = []
  watcher.on('change', (_type, filename) => names.push(filename))
  storage.next = 'pass'
  await expect(fs.promises.writeFile('/lost', '')).rejects.toMatchObject({ code: 'EIO' })
  expect(await failed).toMatchObject([{ reason: 'STORE_FAILED' }])
  await closed
  await expect(next).rejects.toMatchObject({ reason: 'STORE_FAILED' })
  expect(names).toEqual([])
  await engine.close()
})
