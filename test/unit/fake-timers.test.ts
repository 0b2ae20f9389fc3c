/** Users test programs with fake timers, which stop the globals `setImmediate` and `setTimeout`, and the clock. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { openEngine } from '../../src/index.js'
import { allStorages } from '../support/storages.js'

describe.each(allStorages)('with fake timers, an engine on %s', (_name, makeStorage) => {
  let directory: string
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'fake-timers-'))
    vi.useFakeTimers()
  })
  afterEach(async () => {
    vi.useRealTimers()
    await rm(directory, { recursive: true })
  })

  test('carries out long work', async () => {
    const engine = await openEngine({ storage: makeStorage(directory) })
    const session = await engine.sessions.create({ files: { '/a': 'a\nb\n' } })
    await session.checkpoint({ checkpointLabel: 'before' })
    await session.files.batch(
      Array.from({ length: 2000 }, (_, i) => ({ write: { path: `/f${i}`, content: `${i}` } })),
    )
    await session.files.write({ path: '/large', content: Buffer.alloc(20 * 2 ** 20) })
    const fork = await session.fork()
    await fork.files.write({ path: '/a', content: 'a\nc\n' })
    expect(await text(fork.diff(session).patch())).toContain('-b\n+c\n')
    expect((await session.merge(fork)).merged).toBe(true)
    await fork.delete()
    await engine.collect()
    expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('a\nc\n')
    await engine.close()
  })

  test('takes the times of files from the fake clock', async () => {
    const engine = await openEngine({ storage: makeStorage(directory) })
    const session = await engine.sessions.create()
    const time = new Date('2040-01-01')
    vi.setSystemTime(time)
    await session.files.write({ path: '/a', content: '' })
    expect((await session.fs.promises.stat('/a')).mtime).toEqual(time)
    await engine.close()
  })
})
