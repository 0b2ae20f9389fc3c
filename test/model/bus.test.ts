import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  limits,
  openEngine,
  type BusSubscribeRequest,
  type BusSubscription,
  type Engine,
  type Session,
} from '../../src/index.js'
import { storages } from '../support/storages.js'
import { runs, seed, size } from '../support/seed.js'

const topics = ['a', 'b', 'a:b', 'a/b', '*'] as const
/** The topics that each pattern matches. */
const patterns: Readonly<Record<string, readonly string[]>> = {
  '*': topics,
  'a*': ['a', 'a:b', 'a/b'],
  '?': ['a', 'b', '*'],
  '*b': ['b', 'a:b', 'a/b'],
  '\\*': ['*'],
  'a{:,\\/}b': ['a:b', 'a/b'],
  'c*': [],
}
const payloadBytes = 256

type Step =
  | { readonly kind: 'publish'; readonly topics: readonly string[]; readonly wait: boolean }
  | {
      readonly kind: 'subscribe'
      readonly topics: readonly string[]
      readonly patterns: readonly string[]
      readonly limit: number | undefined
      /** The distance from the newest message to the start of the replay; negative for a start after it. */
      readonly behind: number | undefined
      readonly leaves: number
    }
  | { readonly kind: 'take'; readonly who: number; readonly count: number }
  | { readonly kind: 'leave'; readonly who: number; readonly how: 'return' | 'abort' }
  | { readonly kind: 'fill' | 'reopen' | 'settle' | 'fork' }

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('publish' as const),
      topics: fc.array(fc.constantFrom(...topics), { minLength: 1, maxLength: 8 }),
      wait: fc.boolean(),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('subscribe' as const),
      topics: fc.array(fc.constantFrom(...topics), { maxLength: 2 }),
      patterns: fc.array(fc.constantFrom(...Object.keys(patterns)), { maxLength: 2 }),
      limit: fc.option(fc.oneof(fc.nat(12), fc.constantFrom(999, 1000, 1001, 2 ** 40)), { nil: undefined }),
      behind: fc.option(fc.oneof(fc.integer({ min: -3, max: 12 }), fc.constantFrom(998, 999, 1000, 1001)), {
        nil: undefined,
      }),
      leaves: fc.nat(3),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('take' as const), who: fc.nat(), count: fc.nat(10) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('leave' as const),
      who: fc.nat(),
      how: fc.constantFrom('return' as const, 'abort' as const),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constantFrom('reopen' as const, 'settle' as const, 'fork' as const) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('fill' as const) }) },
)

interface Reader {
  readonly subscription: BusSubscription
  readonly abort: AbortController
  readonly lets: (topic: string) => boolean
  /** The messages that it must still receive. */
  expected: number[]
}

/** A session's bus and a list of all published messages. */
class World {
  readonly #reopen: (() => Promise<[Engine, Session]>) | undefined
  #engine: Engine
  #session: Session
  /** The topics of all messages, indexed by their numbers from 1. */
  readonly #topics: string[] = ['']
  #readers: Reader[] = []
  #pending: Promise<unknown>[] = []

  constructor(engine: Engine, session: Session, reopen: (() => Promise<[Engine, Session]>) | undefined) {
    this.#engine = engine
    this.#session = session
    this.#reopen = reopen
  }

  async run(one: Step): Promise<void> {
    switch (one.kind) {
      case 'publish':
        for (const topic of one.topics) this.#publish(topic)
        if (one.wait) await this.#settle()
        break
      case 'fill':
        for (let i = 0; i < limits.busKeptMessages - 4; i++) this.#publish(topics[i % topics.length]!)
        await this.#settle()
        break
      case 'subscribe':
        this.#subscribe(one)
        break
      case 'take':
        if (this.#readers.length > 0)
          await this.#take(this.#readers[one.who % this.#readers.length]!, one.count)
        break
      case 'leave':
        if (this.#readers.length > 0)
          await this.#leave(this.#readers[one.who % this.#readers.length]!, one.how)
        break
      case 'settle':
        await this.#settle()
        break
      case 'fork': {
        const fork = await this.#session.fork()
        const subscription = fork.bus.subscribe({ replayLimit: 5 })
        await fork.bus.publish({ topic: 'fork', payload: '1' })
        expect((await subscription.next()).value?.messageId).toBe('00000001')
        await subscription.return()
        break
      }
      case 'reopen':
        if (this.#reopen === undefined) break
        await this.#engine.close()
        await this.#settle()
        await this.#drain(true)
        ;[this.#engine, this.#session] = await this.#reopen()
    }
  }

  async finish(): Promise<void> {
    await this.#settle()
    await this.#drain(false)
    await this.#session.delete()
    for (const { subscription } of this.#readers) {
      expect(await subscription.next()).toEqual({ done: true, value: undefined })
    }
  }

  close(): Promise<void> {
    return this.#engine.close()
  }

  #publish(topic: string): void {
    const seq = this.#topics.push(topic) - 1
    const payload = new Uint8Array(payloadBytes).fill(seq % 251)
    const published = this.#session.bus.publish({ topic, payload })
    payload.fill(255)
    this.#pending.push(published.then(({ messageId }) => expect(messageId).toBe(idOf(seq))))
    for (const { lets, expected } of this.#readers) if (lets(topic)) expected.push(seq)
  }

  #subscribe(one: Step & { kind: 'subscribe' }): void {
    const newest = this.#topics.length - 1
    const after = one.behind === undefined ? undefined : Math.max(0, newest - one.behind)
    const abort = new AbortController()
    const request: BusSubscribeRequest = {
      signal: abort.signal,
      ...(one.topics.length + one.leaves > 0 && { topics: one.topics }),
      ...(one.patterns.length + one.leaves > 1 && { topicPatterns: one.patterns }),
      ...(one.limit !== undefined && { replayLimit: one.limit }),
      ...(after !== undefined && { replayAfterMessageId: idOf(after) }),
    }
    const given = [
      ...(request.topics ?? []),
      ...(request.topicPatterns ?? []).flatMap((glob) => patterns[glob]!),
    ]
    const everything = (request.topics?.length ?? 0) + (request.topicPatterns?.length ?? 0) === 0
    const lets = (topic: string): boolean => everything || given.includes(topic)
    const oldest = Math.max(1, newest - limits.busKeptMessages + 1)
    let expected: number[] = []
    if (one.limit !== undefined || after !== undefined) {
      for (let seq = Math.max(oldest, (after ?? 0) + 1); seq <= newest; seq++) {
        if (lets(this.#topics[seq]!)) expected.push(seq)
      }
      expected = expected.slice(Math.max(0, expected.length - (one.limit ?? Number.POSITIVE_INFINITY)))
    }
    this.#readers.push({ subscription: this.#session.bus.subscribe(request), abort, lets, expected })
  }

  /** Takes up to `count` of the expected messages. */
  async #take(reader: Reader, count: number): Promise<void> {
    const seqs = reader.expected.splice(0, count)
    const results = await Promise.all(seqs.map(() => reader.subscription.next()))
    for (const [i, { value: message }] of results.entries()) {
      const seq = seqs[i]!
      expect(message).toMatchObject({
        messageId: idOf(seq),
        sessionId: this.#session.id,
        topic: this.#topics[seq],
        senderId: 'local',
      })
      expect(message!.payload.byteLength).toBe(payloadBytes)
      expect(message!.payload.every((byte) => byte === seq % 251)).toBe(true)
      message!.payload.fill(254)
    }
  }

  async #leave(reader: Reader, how: 'return' | 'abort'): Promise<void> {
    this.#readers = this.#readers.filter((one) => one !== reader)
    if (how === 'abort') {
      reader.abort.abort('left')
      await expect(reader.subscription.next()).rejects.toBe('left')
    } else await reader.subscription.return()
    expect(await reader.subscription.next()).toEqual({ done: true, value: undefined })
  }

  async #settle(): Promise<void> {
    await Promise.all(this.#pending)
    this.#pending = []
  }

  /** Lets every reader take all expected messages, and requires that no more follow. */
  async #drain(ended: boolean): Promise<void> {
    for (const reader of this.#readers) {
      await this.#take(reader, Number.POSITIVE_INFINITY)
      if (ended) expect(await reader.subscription.next()).toEqual({ done: true, value: undefined })
    }
    if (ended) this.#readers = []
    else {
      let more = 0
      const waiting = this.#readers.map(({ subscription }) =>
        subscription.next().then(({ done }) => done || more++),
      )
      for (let i = 0; i < 5; i++) await nextTurn()
      expect(more).toBe(0)
      expect(waiting).toHaveLength(this.#readers.length)
    }
  }
}

function idOf(seq: number): string {
  return seq.toString(36).padStart(8, '0')
}

describe.each(storages)('the message bus on %s', (_name, makeStorage, lasting) => {
  test(`agrees with a plain list (FORKSPACE_SEED=${seed})`, { timeout: 60_000 + size * 60_000 }, async () => {
    expect.hasAssertions()
    const property = fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const directory = await mkdtemp(join(tmpdir(), 'bus-model-'))
      const storage = makeStorage(directory)
      const engine = await openEngine({ storage })
      const session = await engine.sessions.create()
      const reopen = async (): Promise<[Engine, Session]> => {
        const reopened = await openEngine({ storage })
        return [reopened, await reopened.sessions.open(session.id)]
      }
      const world = new World(engine, session, lasting ? reopen : undefined)
      try {
        for (const one of steps) await world.run(one)
        await world.finish()
      } finally {
        await world.close()
        await rm(directory, { recursive: true, force: true })
      }
    })
    await fc.assert(property, {
      seed,
      numRuns: runs(40),
      interruptAfterTimeLimit: 25_000 + size * 30_000,
      markInterruptAsFailure: true,
    })
  })
})
