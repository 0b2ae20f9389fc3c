/** `session.watch` over HTTP. */
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { connect, type RemoteSession } from '../../src/adapters/client/index.js'
import { limits, type ChangeWatch } from '../../src/index.js'
import { CuttingProxy } from '../support/cutting-proxy.js'
import { openRemote, type Remote } from '../support/remote.js'
import { seed } from '../support/seed.js'

let state = seed
const random = (below: number): number => {
  state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
  return state % below
}

describe('a watch over HTTP', () => {
  let remote: Remote
  let session: RemoteSession

  beforeAll(async () => {
    remote = await openRemote()
  })
  afterAll(() => remote.close())
  beforeEach(async () => {
    session = await remote.client.sessions.create({ files: { '/a': '1', '/src/b.ts': '1' } })
  })

  const write = (path: string, content = ''): Promise<unknown> => session.files.write({ path, content })
  const next = async (batches: ChangeWatch): Promise<string[]> => {
    const { value } = await batches.next()
    return (value?.changes ?? []).map(({ change, path }) => `${change} ${path}`)
  }

  test('yields the changes after its start, and continues after an event', async () => {
    const batches = session.watch({ globs: ['src/**', '*.md'], debounceMs: 5 })
    const start = await batches.startsAfter
    await write('/a', '2')
    await write('/src/c.ts')
    expect(await next(batches)).toEqual(['added /src/c.ts'])
    await write('/README.md')
    expect(await next(batches)).toEqual(['added /README.md'])
    await batches.return()
    expect(await batches.next()).toEqual({ done: true, value: undefined })

    const again = session.watch({ afterEventId: start, debounceMs: 0 })
    const { value } = await again.next()
    expect(value).toEqual({
      eventId: expect.stringContaining(session.id),
      changes: [
        { path: '/README.md', change: 'added', kind: 'file' },
        { path: '/a', change: 'modified', kind: 'file' },
        { path: '/src/c.ts', change: 'added', kind: 'file' },
      ],
    })
    await again.return()
  })

  test('divides a large batch, without a gap', async () => {
    const batches = session.watch({ debounceMs: 0 })
    await batches.startsAfter
    const count = limits.watchChanges + 5
    const operations = Array.from({ length: count }, (_, i) => ({
      write: { path: `/l${String(i).padStart(5, '0')}`, content: '' },
    }))
    for (let i = 0; i < count; i += 500) await session.files.batch(operations.slice(i, i + 500))
    const paths: string[] = []
    while (paths.length < count) paths.push(...(await next(batches)))
    expect(new Set(paths).size).toBe(count)
    await batches.return()
  })

  test('misses no change across cut connections', async () => {
    const proxy = new CuttingProxy(remote.server.port)
    const engine = connect({ baseUrl: await proxy.listen(), token: 'ann-token' })
    const batches = (await engine.sessions.open(session.id)).watch({ debounceMs: 1 })
    await batches.startsAfter
    const count = 100
    const writing = (async () => {
      for (let i = 0; i < count; i++) {
        await write(`/f${i}`)
        if (random(8) === 0) proxy.cut()
        if (random(4) === 0) await pause(5)
      }
    })()
    const seen = new Set<string>()
    for await (const { changes } of batches) {
      for (const { path } of changes) seen.add(path)
      if (random(4) === 0) proxy.cut()
      if (seen.size === count) break
    }
    await writing
    // Cuts during a pause between two attempts have no effect, so the number depends on the machine.
    expect(proxy.connections).toBeGreaterThan(1)
    await engine.close()
    await proxy.close()
  })

  test('ends with its session, its signal, or its loop', async () => {
    const stop = new AbortController()
    const stopped = session.watch({ signal: stop.signal })
    const left = session.watch({ debounceMs: 0 })
    const ended = session.watch()
    await Promise.all([stopped.startsAfter, left.startsAfter, ended.startsAfter])
    await write('/a', '2')
    for await (const _ of left) break
    expect(await left.next()).toMatchObject({ done: true })
    stop.abort(new Error('enough'))
    await expect(stopped.next()).rejects.toThrow('enough')
    await ended.next()
    await session.delete()
    expect(await ended.next()).toMatchObject({ done: true })
  })

  test('rejects invalid options at the first read', async () => {
    const refused = (batches: ChangeWatch): Promise<string> =>
      batches.next().then(
        () => 'started',
        ({ reason }: { readonly reason: string }) => reason,
      )
    expect(await refused(session.watch({ debounceMs: -1 }))).toBe('INVALID_ARGUMENT')
    expect(await refused(session.watch({ globs: [5 as never] }))).toBe('INVALID_ARGUMENT')
    expect(await refused(session.watch({ globs: ['x'.repeat(limits.pathBytes + 1)] }))).toBe('TOO_LARGE')
    expect(await refused(session.watch({ afterEventId: 'none' }))).toBe('INVALID_ARGUMENT')
    expect(await refused(session.watch({ afterEventId: `${session.id}-0000zzzz` }))).toBe('EVENT_NOT_FOUND')
    expect(await refused(session.watch({ unknown: true } as never))).toBe('INVALID_ARGUMENT')
    await session.delete()
    expect(await refused(session.watch())).toBe('SESSION_NOT_FOUND')
  })
})
