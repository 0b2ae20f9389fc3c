import { tracingChannel } from 'node:diagnostics_channel'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { memoryStorage, openEngine, type Engine, type LogEntry, type Session } from '../../src/index.js'
import { FailingStorage } from '../support/failing-storage.js'
import { unhandledDuring } from '../support/unhandled.js'

interface Trace {
  readonly action: string
  readonly tenant: string
  readonly principal: string
  readonly sessionId?: string
  readonly error?: unknown
}

const channel = tracingChannel<unknown, Trace>('forkspace.operation')

describe('authorize', () => {
  let engine: Engine
  let session: Session
  let asked: unknown[]
  let answer: (action: string) => unknown

  beforeEach(async () => {
    asked = []
    answer = () => true
    engine = await openEngine({
      authorize: (caller, action, resource) => {
        asked.push([caller, action, resource])
        return answer(action) as boolean
      },
    })
    session = await engine.as({ tenant: 't', principal: 'p' }).sessions.create({ files: { '/a': '1' } })
  })

  afterEach(() => engine.close())

  test('receives the caller, the action and the session', async () => {
    const caller = { tenant: 't', principal: 'p' }
    const { id: sessionId } = session
    asked = []
    await session.files.write({ path: '/a', content: '2' })
    session.fs.readFileSync('/a')
    await session.fs.promises.unlink('/a')
    await session.diff().paths()
    expect(asked).toEqual([
      [caller, 'writeFile', { sessionId }],
      [caller, 'fs.read', { sessionId }],
      [caller, 'fs.write', { sessionId }],
      [caller, 'diff', { sessionId }],
    ])
  })

  test.each([false, undefined, null, 1, 'yes', Promise.resolve(true)])(
    'treats %o as a denial',
    async (no) => {
      const { manifestHash } = await session.manifest()
      answer = (action) => (action === 'getManifest' ? true : no)
      const denied = expect.objectContaining({ reason: 'PERMISSION_DENIED' }) as Error
      await expect(session.files.delete({ path: '/a' })).rejects.toEqual(denied)
      await expect(session.files.read({ path: '/a' })).rejects.toEqual(denied)
      await expect(session.fork()).rejects.toEqual(denied)
      await expect(session.delete()).rejects.toEqual(denied)
      await expect(session.diff().paths()).rejects.toEqual(denied)
      await expect(session.events.list()).rejects.toEqual(denied)
      await expect(session.events.follow().next()).rejects.toEqual(denied)
      await expect(engine.sessions.create()).rejects.toEqual(denied)
      await expect(engine.sessions.list()).rejects.toEqual(denied)
      await expect(engine.as({ tenant: 't' }).sessions.open(session.id)).rejects.toEqual(denied)
      await expect(engine.sources.list()).rejects.toEqual(denied)
      expect(() => session.fs.statSync('/a')).toThrow(expect.objectContaining({ code: 'EACCES' }) as Error)
      expect((await session.manifest()).manifestHash).toBe(manifestHash)
    },
  )

  test('checks both sides of a diff', async () => {
    const other = await engine.as({ tenant: 't', principal: 'p' }).sessions.create({ files: { '/b': '' } })
    answer = (action) => action !== 'diff' || asked.length === 1
    const caller = { tenant: 't', principal: 'p' }
    for (const target of [other, { sessionId: other.id }, { sessionId: other.id, base: true }]) {
      asked = []
      await expect(session.diff(target).paths()).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' })
      expect(asked).toEqual([
        [caller, 'diff', { sessionId: session.id }],
        [caller, 'diff', { sessionId: other.id }],
      ])
    }
  })

  test.each(['createSession', 'createSource', 'startImport'])(
    'checks each action of creating a session from a repository: %s',
    async (withheld) => {
      answer = (action) => action !== withheld
      await expect(engine.sessions.create({ gitRepository: { path: '/none' } })).rejects.toMatchObject({
        reason: 'PERMISSION_DENIED',
        details: { action: withheld },
      })
    },
  )

  test('determines the reported capabilities', async () => {
    answer = (action) => action !== 'commit'
    const { capabilities } = await session.get()
    expect(capabilities).toEqual({ commit: false, approvals: true, annotations: true })
  })

  test('receives the source of a new session', async () => {
    asked = []
    answer = () => false
    const sourceRef = { sourceId: '0'.repeat(36) }
    await expect(engine.sessions.create({ sourceRef })).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' })
    expect(asked).toEqual([[{ tenant: 'local', principal: 'local' }, 'createSession', sourceRef]])
  })

  test('that throws for a capability counts as a denial and does not fail the operation', async () => {
    await session.checkpoint({ checkpointLabel: 'one' })
    answer = (action) => {
      if (action === 'commit') throw new Error('mine')
      return true
    }
    const { capabilities } = await session.restore({ checkpointLabel: 'one' })
    expect(capabilities).toEqual({ commit: false, approvals: true, annotations: true })
  })

  test('that throws denies with its error', async () => {
    answer = () => {
      throw new Error('mine')
    }
    await expect(session.files.delete({ path: '/a' })).rejects.toThrow('mine')
  })

  test('that returns a promise denies, whatever its outcome', async () => {
    const unhandled = await unhandledDuring(async () => {
      for (const outcome of [() => Promise.reject(new Error('mine')), () => Promise.resolve(true)]) {
        answer = outcome
        await expect(session.files.delete({ path: '/a' })).rejects.toMatchObject({
          reason: 'PERMISSION_DENIED',
        })
      }
    })
    expect(unhandled).toEqual([])
  })
})

describe('diagnostics', () => {
  test('report each operation with its caller and outcome', async () => {
    const started: Trace[] = []
    const ended: Trace[] = []
    const failed: unknown[] = []
    const handlers = {
      start: (trace: Trace) => started.push(trace),
      asyncEnd: (trace: Trace) => ended.push(trace),
      end: () => undefined,
      asyncStart: () => undefined,
      error: ({ error }: Trace) => failed.push(error),
    }
    const engine = await openEngine()
    channel.subscribe(handlers)
    try {
      const session = await engine.as({ principal: 'p' }).sessions.create()
      await session.files.write({ path: '/a', content: '1' })
      await session.fs.promises.stat('/a')
      session.fs.statSync('/a')
      await expect(session.files.read({ path: '/none' })).rejects.toThrow('/none')
      const who = { tenant: 'local', principal: 'p' }
      expect(started).toMatchObject([
        { action: 'createSession', ...who },
        { action: 'writeFile', ...who, sessionId: session.id },
        { action: 'fs.read', sessionId: session.id },
        { action: 'fs.read', sessionId: session.id },
        { action: 'readFile', sessionId: session.id },
      ])
      expect(ended.map(({ action }) => action)).toEqual(['createSession', 'writeFile', 'fs.read', 'readFile'])
      expect(failed).toEqual([expect.objectContaining({ reason: 'PATH_NOT_FOUND' })])
    } finally {
      channel.unsubscribe(handlers)
      await engine.close()
    }
  })
})

describe('the log', () => {
  test('reports errors that no call returns', async () => {
    const storage = new FailingStorage(memoryStorage({ durable: true }))
    const entries: LogEntry[] = []
    const engine = await openEngine({ storage, log: (entry) => entries.push(entry) })
    const session = await engine.sessions.create()
    expect(entries).toEqual([])
    storage.next = 'fail'
    await expect(session.files.write({ path: '/a', content: '' })).rejects.toMatchObject({
      reason: 'STORE_FAILED',
    })
    expect(entries).toEqual([
      {
        level: 'error',
        message: 'a write failed: all sessions are reloaded',
        details: { sessions: 1 },
      },
    ])
    storage.next = 'commit'
    await engine.close()
  })

  test.each<[string, () => unknown]>([
    ['throws', () => fail()],
    ['rejects', async () => fail()],
  ])('that %s changes nothing', async (_how, log) => {
    const storage = new FailingStorage(memoryStorage({ durable: true }))
    const unhandled = await unhandledDuring(async () => {
      const engine = await openEngine({ storage, log })
      const session = await engine.sessions.create()
      storage.next = 'fail'
      await expect(session.files.write({ path: '/a', content: '' })).rejects.toMatchObject({
        reason: 'STORE_FAILED',
      })
      storage.next = 'commit'
      await engine.close()
    })
    expect(unhandled).toEqual([])
  })
})

function fail(): never {
  throw new Error('mine')
}
