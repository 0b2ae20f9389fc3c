import { getEventListeners } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  limits,
  openEngine,
  type BusMessage,
  type BusSubscribeRequest,
  type BusSubscription,
  type Engine,
  type Session,
  type Store,
} from '../../src/index.js'
import { fixedEnvironment, openTestEngine, type FixedEnvironment } from '../../src/testing.js'
import { FailingStorage } from '../support/failing-storage.js'
import { lowerBound } from '../support/lower-bound.js'
import { isLong } from '../support/seed.js'
import { fewStorages } from '../support/storages.js'

const refused = (reason: string): unknown => expect.objectContaining({ name: 'EngineError', reason })
const mebibyte = 2 ** 20
const end = { done: true, value: undefined }

const text = ({ payload }: BusMessage): string => new TextDecoder().decode(payload)

/** The next messages of a subscription. */
async function take(subscription: BusSubscription, count: number): Promise<BusMessage[]> {
  const taken: BusMessage[] = []
  while (taken.length < count) {
    const next = await subscription.next()
    if (next.done === true) throw new Error(`ended after ${taken.length}`)
    taken.push(next.value)
  }
  return taken
}

describe.each(fewStorages)('the message bus on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: FailingStorage
  let store: Store
  let environment: FixedEnvironment
  let engine: Engine
  let session: Session
  let bob: Session

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'bus-'))
    storage = new FailingStorage(makeStorage(directory))
    environment = fixedEnvironment({ stepMs: 0 })
    await open()
    await use((await engine.sessions.create({ files: { '/a': '1' } })).id)
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  async function open(): Promise<void> {
    const kept = { open: async () => (store = await storage.open()) }
    engine = await openEngine({ storage: kept, environment })
  }

  async function use(id: string): Promise<void> {
    session = await engine.as({ principal: 'ann' }).sessions.open(id)
    bob = await engine.as({ principal: 'bob' }).sessions.open(id)
  }

  async function reload(): Promise<void> {
    if (!lasting) return
    await engine.close()
    await open()
    await use(session.id)
  }

  const publish = async (topic: string, payload: string | Uint8Array = topic): Promise<string> =>
    (await session.bus.publish({ topic, payload })).messageId

  /** The messages that a subscription already has; ends it. */
  async function drain(request: BusSubscribeRequest | BusSubscription = {}): Promise<string[]> {
    const subscription =
      'opened' in request
        ? request
        : session.bus.subscribe({ replayLimit: limits.busKeptMessages, ...request })
    await subscription.opened
    const found: string[] = []
    for (;;) {
      const next = await Promise.race([subscription.next(), turns()])
      if (next === undefined || next.done === true) break
      found.push(text(next.value))
    }
    await subscription.return()
    return found
  }

  async function turns(): Promise<undefined> {
    for (let i = 0; i < 10; i++) await nextTurn()
  }

  const records = async (): Promise<number> =>
    (await store.scan({ gte: `u${session.id}`, lt: `u${session.id}~`, limit: 10_000 })).length

  test('delivers published messages to matching subscribers once each', async () => {
    const everything = session.bus.subscribe()
    const exact = session.bus.subscribe({ topics: ['tests:a', 'other', 'tests:a'] })
    const globs = session.bus.subscribe({
      topicPatterns: ['tests:*', '*:a', 'tests:*'],
      scope: 'SESSION_ONLY',
    })
    const both = bob.bus.subscribe({ topics: ['tests:a', '*'], topicPatterns: ['{tests,other}*'] })
    const topics = ['tests:a', 'tests:b/c.d', 'tests', 'other', '*', 'x:a', 'Tests:a']
    for (const topic of topics) await publish(topic)
    expect(await drain(everything)).toEqual(topics)
    expect(await drain(exact)).toEqual(['tests:a', 'other'])
    expect(await drain(globs)).toEqual(['tests:a', 'tests:b/c.d', 'x:a', 'Tests:a'])
    expect(await drain(both)).toEqual(['tests:a', 'tests:b/c.d', 'tests', 'other', '*'])
    await reload()
    expect(await drain(lasting ? {} : { replayLimit: 7 })).toEqual(topics)
  })

  test('reports the sender and time of each message', async () => {
    await bob.bus.publish({ topic: 'one', payload: Uint8Array.of(0, 255, 10) })
    environment.advance(5)
    const messageId = await publish('two', 'é')
    environment.advance(-1000)
    const later = await publish('three', '')
    await reload()
    const messages = await take(session.bus.subscribe({ replayLimit: 3 }), 3)
    const sessionId = session.id
    expect(messages).toEqual([
      {
        messageId: '00000001',
        sessionId,
        topic: 'one',
        payload: Uint8Array.of(0, 255, 10),
        senderId: 'bob',
        publishedAt: '2025-01-01T00:00:00.000Z',
      },
      {
        messageId,
        sessionId,
        topic: 'two',
        payload: new TextEncoder().encode('é'),
        senderId: 'ann',
        publishedAt: '2025-01-01T00:00:00.005Z',
      },
      {
        messageId: later,
        sessionId,
        topic: 'three',
        payload: new Uint8Array(),
        senderId: 'ann',
        publishedAt: '2025-01-01T00:00:00.005Z',
      },
    ])
    const { events } = await session.events.list()
    expect(events).toHaveLength(1)
  })

  test('delivers messages published right after the call, and none from before it', async () => {
    const calls: Promise<string>[] = []
    const subscriptions: BusSubscription[] = []
    for (let i = 0; i < 70; i++) {
      calls.push(publish('t', `${i}`))
      if (i % 10 === 9) subscriptions.push(session.bus.subscribe(i > 30 ? { replayLimit: 15 } : {}))
    }
    const ids = await Promise.all(calls)
    expect(ids).toEqual(ids.toSorted())
    expect(new Set(ids).size).toBe(70)
    for (const [i, subscription] of subscriptions.entries()) {
      const from = i * 10 + (i > 2 ? -5 : 10)
      expect(await drain(subscription)).toEqual(Array.from({ length: 70 - from }, (_, k) => `${from + k}`))
    }
  })

  test('replays from any position without gaps or duplicates', async () => {
    const ids: string[] = []
    for (let i = 0; i < 10; i++) ids.push(await publish(i % 2 === 0 ? 'even' : 'odd', `${i}`))
    const replayAfterMessageId = ids[3]!
    for (let round = 0; round < 2; round++) {
      expect(await drain({ replayLimit: 3 })).toEqual(['7', '8', '9'])
      expect(await drain({ replayLimit: 0 })).toEqual([])
      expect(await drain({ replayLimit: 3, topics: ['even'] })).toEqual(['4', '6', '8'])
      expect(await drain({ replayLimit: 3, topicPatterns: ['o*'] })).toEqual(['5', '7', '9'])
      expect(await drain(session.bus.subscribe({ replayAfterMessageId }))).toEqual([
        '4',
        '5',
        '6',
        '7',
        '8',
        '9',
      ])
      expect(await drain({ replayLimit: 2, replayAfterMessageId })).toEqual(['8', '9'])
      expect(await drain({ replayLimit: 8, replayAfterMessageId, topics: ['odd'] })).toEqual(['5', '7', '9'])
      expect(await drain({ replayLimit: 0, replayAfterMessageId })).toEqual([])
      expect(await drain({ replayAfterMessageId: '00000000' })).toHaveLength(10)
      expect(await drain({ replayAfterMessageId: ids[9]! })).toEqual([])
      await reload()
    }
    // The id is in the future: only messages after the call are delivered.
    const future = session.bus.subscribe({ replayAfterMessageId: 'zzzzzzzz' })
    const messageId = await publish('even', 'new')
    expect(messageId > ids.at(-1)!).toBe(true)
    expect(await drain(future)).toEqual(['new'])
    await reload()
    const [last] = await take(session.bus.subscribe({ replayLimit: 1 }), 1)
    expect(last!.messageId).toBe(messageId)
    expect((await publish('even')) > messageId).toBe(true)
  })

  test('keeps the newest 1,000 messages', async () => {
    await Promise.all(Array.from({ length: 1010 }, (_, i) => publish('t', `${i}`)))
    for (let round = 0; round < 2; round++) {
      const kept = await drain({ replayAfterMessageId: '00000000' })
      expect(kept).toEqual(Array.from({ length: 1000 }, (_, i) => `${10 + i}`))
      expect(await records()).toBe(lasting ? 1000 : 0)
      await reload()
    }
  })

  test('keeps as many of the newest messages as the limits of messages and bytes allow, at least one', async () => {
    lowerBound(limits, 'busKeptMessages', 4)
    lowerBound(limits, 'busKeptBytes', 12)
    let kept: string[] = []
    for (const [index, size] of [1, 1, 1, 1, 1, 6, 6, 6, 1, 13, 1, 11, 1].entries()) {
      const payload = String.fromCodePoint(97 + index).repeat(size)
      await publish('t', payload)
      kept.push(payload)
      while (kept.length > 1 && (kept.length > 4 || kept.join('').length > 12)) kept = kept.slice(1)
      expect(await drain()).toEqual(kept)
      expect(await records()).toBe(lasting ? kept.length : 0)
      if (index % 4 === 0) await reload()
    }
  })

  test.runIf(isLong)('keeps at most 16 MiB', async () => {
    const large = new Uint8Array(mebibyte)
    for (let i = 0; i < 20; i++) {
      large[0] = i
      await publish('t', large)
    }
    for (let round = 0; round < 2; round++) {
      const subscription = session.bus.subscribe({ replayLimit: 1000 })
      const kept = await take(subscription, 16)
      expect(kept.map(({ payload }) => payload[0])).toEqual(Array.from({ length: 16 }, (_, i) => 4 + i))
      expect(kept.every(({ payload }) => payload.byteLength === mebibyte)).toBe(true)
      expect(await drain(subscription)).toEqual([])
      expect(await records()).toBe(lasting ? 16 : 0)
      await reload()
    }
    await publish('t', 'x')
    expect(await drain({ replayLimit: 1000 })).toHaveLength(16)
  })

  test.each([5, 20_000])('gives every subscriber its own copy of a payload of %d bytes', async (size) => {
    const subscriptions = [session.bus.subscribe(), session.bus.subscribe(), bob.bus.subscribe()]
    const payload = new Uint8Array(size).fill(7)
    const waiting = subscriptions[0]!.next()
    const published = publish('t', payload)
    payload.fill(1)
    await published
    for (const next of [waiting, subscriptions[1]!.next(), subscriptions[2]!.next()]) {
      const message = (await next).value!
      expect(structuredClone(message)).toEqual({ ...message })
      expect(Object.keys(message)).toEqual([
        'messageId',
        'sessionId',
        'topic',
        'payload',
        'senderId',
        'publishedAt',
      ])
      expect(message.payload).toBe(message.payload)
      expect(message.payload.buffer.byteLength).toBe(size)
      expect(message.payload).toEqual(new Uint8Array(size).fill(7))
      message.payload.fill(2)
      expect(message.payload[0]).toBe(2)
      Object.assign(message, { payload: 'mine', topic: 'mine' })
      expect(message).toMatchObject({ payload: 'mine', topic: 'mine' })
    }
    const [again] = await take(session.bus.subscribe({ replayLimit: 1 }), 1)
    expect(again).toMatchObject({ topic: 't', payload: new Uint8Array(size).fill(7) })
  })

  test('rejects invalid requests', async () => {
    const long = 'x'.repeat(1025)
    for (const [reason, request] of [
      ['INVALID_ARGUMENT', undefined],
      ['INVALID_ARGUMENT', 'x'],
      ['INVALID_ARGUMENT', { payload: '' }],
      ['INVALID_ARGUMENT', { topic: '', payload: '' }],
      ['INVALID_ARGUMENT', { topic: 7, payload: '' }],
      ['INVALID_ARGUMENT', { topic: '\ud800', payload: '' }],
      ['TOO_LARGE', { topic: long, payload: '' }],
      ['INVALID_ARGUMENT', { topic: 't' }],
      ['INVALID_ARGUMENT', { topic: 't', payload: [1] }],
      ['INVALID_ARGUMENT', { topic: 't', payload: '\udc00' }],
      ['TOO_LARGE', { topic: 't', payload: new Uint8Array(mebibyte + 1) }],
      ['TOO_LARGE', { topic: 't', payload: 'é'.repeat(mebibyte / 2 + 1) }],
    ] as const) {
      await expect(session.bus.publish(request as never)).rejects.toEqual(refused(reason))
    }
    await publish('é'.repeat(512), 'x'.repeat(mebibyte))
    for (const [reason, field, request] of [
      ['INVALID_ARGUMENT', 'request', 'x'],
      ['INVALID_ARGUMENT', 'request', null],
      ['INVALID_ARGUMENT', 'topics', { topics: 'x' }],
      ['INVALID_ARGUMENT', 'topics[1]', { topics: ['a', ''] }],
      ['INVALID_ARGUMENT', 'topics[0]', { topics: Array<string>(2) }],
      ['TOO_LARGE', 'topics', { topics: Array.from({ length: 257 }, (_, i) => `${i}`) }],
      ['INVALID_ARGUMENT', 'topicPatterns[0]', { topicPatterns: [''] }],
      ['INVALID_ARGUMENT', 'topicPatterns', { topicPatterns: ['a', '\\'] }],
      ['INVALID_ARGUMENT', 'topicPatterns', { topicPatterns: ['!(a)'] }],
      ['TOO_LARGE', 'topicPatterns[0]', { topicPatterns: [long] }],
      ['INVALID_ARGUMENT', 'scope', { scope: 'ALL' }],
      ['INVALID_ARGUMENT', 'replayLimit', { replayLimit: -1 }],
      ['INVALID_ARGUMENT', 'replayLimit', { replayLimit: '5' }],
      ['INVALID_ARGUMENT', 'replayAfterMessageId', { replayAfterMessageId: '' }],
      ['INVALID_ARGUMENT', 'replayAfterMessageId', { replayAfterMessageId: '0000000A' }],
      ['INVALID_ARGUMENT', 'replayAfterMessageId', { replayAfterMessageId: '00000001\n' }],
      ['INVALID_ARGUMENT', 'replayAfterMessageId', { replayAfterMessageId: 5 }],
      ['INVALID_ARGUMENT', 'signal', { signal: {} }],
    ] as const) {
      const subscription = session.bus.subscribe(request as never)
      const error = { name: 'EngineError', reason, details: { field } }
      await expect(subscription.opened).rejects.toMatchObject(error)
      await expect(subscription.next()).rejects.toMatchObject(error)
      expect(await subscription.next()).toEqual(end)
    }
    const denied = session.narrow({ without: ['bus'] }).bus
    await expect(denied.publish({ topic: 't', payload: '' })).rejects.toEqual(refused('PERMISSION_DENIED'))
    await expect(denied.subscribe().next()).rejects.toEqual(refused('PERMISSION_DENIED'))
    const aborted = session.bus.subscribe({ signal: AbortSignal.abort('enough') })
    await expect(aborted.next()).rejects.toBe('enough')
    expect(await aborted.next()).toEqual(end)
  })

  test('limits a session to 1,000 subscribers and 1,000 patterns', async () => {
    const subscriptions = Array.from({ length: 1000 }, (_, i) =>
      session.bus.subscribe({ topicPatterns: [`agent-${i}:*`] }),
    )
    const over = session.bus.subscribe()
    await expect(over.opened).rejects.toMatchObject({ reason: 'QUOTA', details: { limit: '1000' } })
    await expect(over.next()).rejects.toEqual(refused('QUOTA'))
    await publish('agent-77:x')
    expect(await drain(subscriptions[77])).toEqual(['agent-77:x'])
    await session.bus.subscribe({ topicPatterns: ['agent-1:*'] }).opened
    for (const one of subscriptions) await one.return()
    const heavy = ['a', 'b', 'c', 'd'].map((letter) =>
      session.bus.subscribe({ topicPatterns: [`*${letter}{1000..1999}`] }),
    )
    await expect(heavy[3]!.next()).rejects.toEqual(refused('QUOTA'))
    const same = heavy.map(() => session.bus.subscribe({ topicPatterns: ['*a{1000..1999}'] }))
    await Promise.all(same.map(({ opened }) => opened))
    await heavy[1]!.return()
    await session.bus.subscribe({ topicPatterns: ['*d{1000..1999}', '*a{1000..1999}'] }).opened
  })

  test('leaks nothing after thousands of subscriptions', async () => {
    const abort = new AbortController()
    const warnings: Error[] = []
    const onWarning = (warning: Error): void => void warnings.push(warning)
    process.on('warning', onWarning)
    for (let round = 0; round < 3; round++) {
      const subscriptions = Array.from({ length: 1000 }, (_, i) =>
        session.bus.subscribe({
          topics: [`topic ${round} ${i}`],
          topicPatterns: [`pattern ${round} ${i}*`],
          replayLimit: i % 2,
          signal: abort.signal,
        }),
      )
      await Promise.all(subscriptions.map(({ opened }) => opened))
      expect(getEventListeners(abort.signal, 'abort')).toHaveLength(1)
      await Promise.all(subscriptions.map((one) => one.return()))
      expect(getEventListeners(abort.signal, 'abort')).toHaveLength(0)
    }
    await nextTurn()
    process.off('warning', onWarning)
    expect(warnings).toEqual([])
  })

  test('stays fast when many messages are published at once', async () => {
    const subscription = session.bus.subscribe()
    const seen: number[] = []
    const reading = (async () => {
      for await (const { payload } of subscription) {
        seen.push(payload[0]!)
        if (seen.length === 40) return
      }
    })()
    const payload = new Uint8Array(mebibyte)
    const calls = Array.from({ length: 40 }, (_, i) => {
      payload[0] = i
      return publish('t', payload)
    })
    await Promise.all([...calls, reading])
    expect(seen).toEqual(Array.from({ length: 40 }, (_, i) => i))
  })

  test('ends a subscriber for which more messages or bytes wait than the limits allow', async () => {
    lowerBound(limits, 'busWaitingMessages', 3)
    lowerBound(limits, 'busWaitingBytes', 10)
    for (const [sizes, received] of [
      [[1, 1, 1], 3],
      [[1, 1, 1, 1], 3],
      [[4, 6], 2],
      [[4, 7], 1],
      [[11], 0],
    ] as const) {
      const [slow, quick] = [session.bus.subscribe(), session.bus.subscribe()]
      await Promise.all([slow.opened, quick.opened])
      const whole = take(quick, sizes.length)
      for (const size of sizes) await publish('t', new Uint8Array(size))
      expect(await whole).toHaveLength(sizes.length)
      expect((await take(slow, received)).map(({ payload }) => payload.byteLength)).toEqual(
        sizes.slice(0, received),
      )
      // A message that was taken makes room for another.
      const isSlow = received < sizes.length
      const after = slow.next().then(
        () => 'next',
        (error: { readonly reason: string }) => error.reason,
      )
      await publish('t', 'x')
      expect(await after).toBe(isSlow ? 'SLOW_CONSUMER' : 'next')
      await Promise.all([slow.return(), quick.return()])
    }
  })

  test.runIf(isLong)('ends a subscriber that is too slow after its buffered messages', async () => {
    const large = session.bus.subscribe({ topics: ['large'] })
    const many = session.bus.subscribe({ topics: ['small'] })
    const quick = session.bus.subscribe({ topics: ['small'] })
    let count = 0
    const reading = (async () => {
      for await (const _ of quick) if (++count === 10_001) return
    })()
    for (let i = 0; i < 3; i++) await publish('large', new Uint8Array(mebibyte).fill(i))
    expect((await take(large, 2)).map(({ payload }) => payload[5])).toEqual([0, 1])
    await expect(large.next()).rejects.toEqual(refused('SLOW_CONSUMER'))
    expect(await large.next()).toEqual(end)
    await Promise.all(Array.from({ length: 10_000 }, (_, i) => publish('small', `${i}`)))
    expect(text((await take(many, 1))[0]!)).toBe('0')
    await publish('small', 'one for one')
    await publish('small', 'too much')
    const last = (await take(many, 10_000)).at(-1)!
    expect(text(last)).toBe('one for one')
    await expect(many.next()).rejects.toEqual(refused('SLOW_CONSUMER'))
    await reading
    expect(count).toBe(10_001)
  })

  test('applies the same buffer limit to a replay', async () => {
    for (let i = 0; i < 16; i++) await publish('old', new Uint8Array(mebibyte).fill(i))
    const replay = (): BusSubscription => session.bus.subscribe({ topics: ['old'], replayLimit: 16 })
    const slow = replay()
    const slower = replay()
    await Promise.all([slow.opened, slower.opened])
    for (let i = 0; i < 2; i++) await publish('new', new Uint8Array(mebibyte))
    expect((await take(slow, 4)).map(({ payload }) => payload[0])).toEqual([0, 1, 2, 3])
    for (let i = 0; i < 4; i++) await publish('new', new Uint8Array(mebibyte))
    expect((await take(slow, 12)).map(({ payload }) => payload[0])).toEqual(
      Array.from({ length: 12 }, (_, i) => 4 + i),
    )
    expect(await drain(slow)).toEqual([])
    expect((await take(slower, 2)).map(({ payload }) => payload[0])).toEqual([0, 1])
    await expect(slower.next()).rejects.toEqual(refused('SLOW_CONSUMER'))
    expect(await slower.next()).toEqual(end)
  })

  test.each([1, 5])('counts replayed messages of %d bytes as waiting once they are dropped', async (size) => {
    lowerBound(limits, 'busKeptMessages', 4)
    lowerBound(limits, 'busWaitingMessages', size === 1 ? 3 : 100)
    lowerBound(limits, 'busWaitingBytes', 15)
    for (let i = 0; i < 4; i++) await publish('old', `${i}`.repeat(size))
    const replay = (): BusSubscription => session.bus.subscribe({ topics: ['old'], replayLimit: 4 })
    const [slow, slower] = [replay(), replay()]
    await Promise.all([slow.startsAfter, slower.startsAfter, turns()])
    for (let i = 0; i < 3; i++) await publish('new')
    expect((await take(slow, 1)).map((message) => text(message)[0])).toEqual(['0'])
    await publish('new')
    expect((await take(slow, 3)).map((message) => text(message)[0])).toEqual(['1', '2', '3'])
    expect((await take(slower, 3)).map((message) => text(message)[0])).toEqual(['0', '1', '2'])
    await expect(slower.next()).rejects.toEqual(refused('SLOW_CONSUMER'))
    // Messages that were read no longer count.
    for (let i = 0; i < 3; i++) await publish('old', 'x'.repeat(size))
    expect(await take(slow, 3)).toHaveLength(3)
    await slow.return()
  })

  test.each(['delete', 'close'])('ends after the last message on %s', async (how) => {
    const subscription = session.bus.subscribe()
    const waiting = bob.bus.subscribe({ topics: ['none'] }).next()
    await publish('t', 'first')
    const last = publish('t', 'last')
    if (how === 'delete') await session.delete()
    else await engine.close()
    await last
    expect((await take(subscription, 2)).map(text)).toEqual(['first', 'last'])
    expect(await subscription.next()).toEqual(end)
    expect(await waiting).toEqual(end)
    const reason = how === 'delete' ? 'SESSION_NOT_FOUND' : 'STORE_CLOSED'
    await expect(session.bus.subscribe().next()).rejects.toEqual(refused(reason))
    await expect(publish('t')).rejects.toEqual(refused(reason))
  })

  test('ends when the subscriber leaves, and rejects with the reason of the signal', async () => {
    const abort = new AbortController()
    const subscription = session.bus.subscribe({ signal: abort.signal })
    const idle = session.bus.subscribe({ signal: abort.signal })
    const waiting = [idle.next(), idle.next()]
    await idle.opened
    await Promise.all([publish('t', '1'), publish('t', '2'), publish('t', '3')])
    expect((await Promise.all(waiting)).map(({ value }) => text(value!))).toEqual(['1', '2'])
    expect((await take(subscription, 1)).map(text)).toEqual(['1'])
    const third = idle.next()
    const fourth = idle.next()
    abort.abort(new Error('enough'))
    await third
    await expect(fourth).rejects.toThrow('enough')
    await expect(subscription.next()).rejects.toThrow('enough')
    expect(await subscription.next()).toEqual(end)
    const left = session.bus.subscribe()
    await publish('t')
    for await (const _ of left) break
    expect(await left.next()).toEqual(end)
    await using disposed = session.bus.subscribe()
    const unsettled = disposed.next()
    await disposed.return()
    expect(await unsettled).toEqual(end)
    // Also before it is established.
    const early = session.bus.subscribe({ replayLimit: 1 })
    await early.return()
    expect(await early.next()).toEqual(end)
    await early.opened
  })

  test('delivers messages in order, and only after they are stored', async () => {
    await publish('t', 'stored')
    storage.hold()
    const pending = [publish('t', '1'), publish('t', '2')]
    const subscription = session.bus.subscribe({ replayLimit: 2 })
    pending.push(publish('t', '3'))
    const seen: string[] = []
    const reading = (async () => {
      for await (const message of subscription) if (seen.push(text(message)) === 3) return
    })()
    await turns()
    expect(seen).toEqual([])
    storage.release()
    await Promise.all([...pending, reading])
    expect(seen).toEqual(['1', '2', '3'])
  })

  test('fails when a write fails', async () => {
    await publish('t', 'kept')
    const subscription = session.bus.subscribe()
    const replay = session.bus.subscribe({ replayLimit: 5 })
    await publish('t', 'seen')
    storage.next = 'fail'
    await expect(publish('t', 'lost')).rejects.toEqual(refused('STORE_FAILED'))
    expect((await take(subscription, 1)).map(text)).toEqual(['seen'])
    await expect(subscription.next()).rejects.toEqual(refused('STORE_FAILED'))
    expect((await take(replay, 2)).map(text)).toEqual(['kept', 'seen'])
    await expect(replay.next()).rejects.toEqual(refused('STORE_FAILED'))
    storage.next = 'commit'
    await reload()
    expect(await drain()).toEqual(lasting ? ['kept', 'seen'] : [])
  })

  test('replays no message that could not be stored', async () => {
    await publish('t', 'kept')
    let report!: () => void
    const reported = new Promise<void>((resolve) => (report = resolve))
    storage.after = { commits: 0, failure: 'fail', reported }
    const lost = publish('t', 'lost').catch((error: unknown) => error)
    const replay = session.bus.subscribe({ replayLimit: 5 })
    await turns()
    report()
    expect(await lost).toEqual(refused('STORE_FAILED'))
    expect((await take(replay, 1)).map(text)).toEqual(['kept'])
    await expect(replay.next()).rejects.toEqual(refused('STORE_FAILED'))
  })

  test('delivers messages that can be frozen', async () => {
    const subscription = session.bus.subscribe()
    const payload = Buffer.alloc(limits.busCopiedBytes + 1, 7)
    await session.bus.publish({ topic: 't', payload })
    const [message] = (await take(subscription, 1)).map((one) => Object.freeze(one))
    message!.payload.fill(9)
    expect(payload.equals(message!.payload)).toBe(true)
  })

  test('is not changed by restores and is empty in a fork', async () => {
    await session.checkpoint({ checkpointLabel: 'c' })
    const subscription = session.bus.subscribe()
    await publish('t', '1')
    await session.restore({ checkpointLabel: 'c' })
    const fork = await session.fork()
    const forked = fork.bus.subscribe({ replayLimit: 5 })
    await fork.bus.publish({ topic: 't', payload: 'forked' })
    expect(await drain(forked)).toEqual(['forked'])
    await publish('t', '2')
    expect(await drain(subscription)).toEqual(['1', '2'])
    expect(await drain()).toEqual(['1', '2'])
  })
})

test('the message bus yields while it matches long patterns and keeps the order', async () => {
  // The clock advances on every read, so every slice is short.
  await using engine = await openTestEngine()
  const session = await engine.sessions.create()
  const topicPatterns = Array.from({ length: 200 }, (_, i) => `*${i}-{a,b}{c,d}*${'x'.repeat(40)}*`)
  const long = 'y'.repeat(900)
  const topics = Array.from(
    { length: 30 },
    (_, i) => `${i * 10}-ac${i % 3 === 0 ? long : ''}${'x'.repeat(40)}`,
  )
  const matching = session.bus.subscribe({ topicPatterns })
  const everything = session.bus.subscribe()
  await Promise.all(topics.slice(0, 15).map((topic) => session.bus.publish({ topic, payload: '' })))
  const replay = session.bus.subscribe({ topicPatterns, replayLimit: 12 })
  await Promise.all(topics.slice(15).map((topic) => session.bus.publish({ topic, payload: '' })))
  const given = async (subscription: BusSubscription, count: number): Promise<string[]> =>
    (await take(subscription, count)).map(({ topic }) => topic)
  expect(await given(everything, 30)).toEqual(topics)
  // A topic like 210-ac also matches the pattern of 10.
  expect(await given(matching, 30)).toEqual(topics)
  expect(await given(replay, 27)).toEqual(topics.slice(3))
  const next = Promise.all([everything.next(), matching.next(), replay.next()])
  await session.delete()
  expect(await next).toEqual([end, end, end])
})

test('the message bus yields while it copies a large payload for many subscribers and keeps the order', async () => {
  await using engine = await openTestEngine()
  const session = await engine.sessions.create()
  const seen: string[][] = []
  const reading = Array.from({ length: 100 }, async (_, i) => {
    const request = [{}, { topics: ['t'] }, { topicPatterns: ['*'] }, { topicPatterns: ['t*', '?'] }][i % 4]!
    const mine: string[] = (seen[i] = [])
    for await (const { topic, payload } of session.bus.subscribe(request)) {
      mine.push(`${topic} ${payload.byteLength} ${payload[9] ?? ''}`)
      payload.fill(1)
      if (mine.length === 3) break
    }
  })
  let others = 0
  let running = true
  const counting = (async () => {
    for (; running; others++) await nextTurn()
  })()
  const large = new Uint8Array(mebibyte).fill(9)
  await Promise.all(
    [large, new Uint8Array(1), large].map((payload) => session.bus.publish({ topic: 't', payload })),
  )
  running = false
  await Promise.all([...reading, counting])
  expect(others).toBeGreaterThan(20)
  const expected = [`t ${mebibyte} 9`, 't 1 ', `t ${mebibyte} 9`]
  expect(seen).toEqual(seen.map(() => expected))
})

test('the message bus yields while it delivers many messages to many subscribers', async () => {
  const engine = await openEngine({ environment: fixedEnvironment() })
  const session = await engine.sessions.create()
  const subscriptions = Array.from({ length: 1000 }, () => session.bus.subscribe())
  const messages = 100
  let working = true
  let turns = 0
  const turn = (): void => {
    turns++
    if (working) setImmediate(turn)
  }
  setImmediate(turn)
  const taken = Promise.all(subscriptions.map((subscription) => take(subscription, messages)))
  const published = Array.from({ length: messages }, () => session.bus.publish({ topic: 't', payload: '' }))
  await Promise.all(published)
  for (const all of await taken) expect(all).toHaveLength(messages)
  working = false
  expect(turns).toBeGreaterThan(messages / 20)
  await engine.close()
})
