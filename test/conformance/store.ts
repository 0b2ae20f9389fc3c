/**
 * The contract of `src/engine/storage/store.ts` as tests that every store must pass. A new store calls `storeSuite` and
 * declares its capabilities; tests of missing capabilities are not registered.
 */
import { createHash } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { EngineError, limits, prefixEnd } from '../../src/engine/ports.js'
import type { Storage, Store, StoreCapabilities, StoredEvent } from '../../src/engine/ports.js'

export interface StoreSuite {
  readonly name: string
  readonly capabilities: StoreCapabilities
  /** Creates new, empty storage for one test. Durable storage keeps its data across a close and reopen. */
  create(): Promise<StoreFixture>
}

export interface StoreFixture {
  readonly storage: Storage
  cleanup(): Promise<void>
}

export function storeSuite(suite: StoreSuite): void {
  const { capabilities } = suite
  describe(suite.name, () => {
    let fixture: StoreFixture
    let store: Store

    beforeEach(async () => {
      fixture = await suite.create()
      store = await fixture.storage.open()
    })

    afterEach(async () => {
      await store.close()
      await fixture.cleanup()
    })

    async function reopen(): Promise<void> {
      await store.close()
      store = await fixture.storage.open()
    }

    test('has the capabilities that it declares', () => {
      expect(store.capabilities).toEqual(capabilities)
      expect(typeof store.getSync).toBe(capabilities.syncReads ? 'function' : 'undefined')
      expect(typeof store.blobSync).toBe(capabilities.syncReads ? 'function' : 'undefined')
      if (capabilities.durable) expect(typeof store.forget).toBe('undefined')
    })

    describe('records', () => {
      test('can be put, replaced and deleted', async () => {
        expect(await store.get('a')).toBeUndefined()
        expect(
          await store.commit({
            put: [
              ['a', '1'],
              ['b', '2'],
            ],
          }),
        ).toBe(true)
        expect(await store.get('a')).toBe('1')
        expect(await store.commit({ put: [['a', '3']], del: ['b', 'never there'] })).toBe(true)
        expect(await store.get('a')).toBe('3')
        expect(await store.get('b')).toBeUndefined()
      })

      test('keep empty and unusual values', async () => {
        const values = ['', ' ', '\0', '"', '\u{1f600}\u{e000}\uffff', 'x'.repeat(200_000)]
        await store.commit({ put: values.map((value, i) => [`k${i}`, value] as const) })
        for (const [i, value] of values.entries()) expect(await store.get(`k${i}`)).toBe(value)
      })

      test('are stored as JSON text if they are objects', async () => {
        await store.commit({
          put: [
            ['object', { a: [1, 'two', null], __proto__: null }],
            ['array', [1]],
          ],
        })
        expect(await store.get('object')).toBe('{"a":[1,"two",null]}')
        expect(await store.get('array')).toBe('[1]')
        expect(await store.scan({ gte: 'a', lt: 'b', limit: 10 })).toEqual([['array', '[1]']])
        if (store.getSync) expect(store.getSync('object')).toBe('{"a":[1,"two",null]}')
      })

      test('may use the names of object properties as keys', async () => {
        const names = ['__proto__', 'constructor', 'hasOwnProperty', 'toString']
        for (const key of names) expect(await store.get(key)).toBeUndefined()
        await store.commit({ put: names.map((key) => [key, `of ${key}`] as const) })
        for (const key of names) expect(await store.get(key)).toBe(`of ${key}`)
        const found = await store.scan({ gte: '__proto__', lt: '__proto__\0', limit: 10 })
        expect(found).toEqual([['__proto__', 'of __proto__']])
        await store.commit({ del: ['__proto__'] })
        expect(await store.get('__proto__')).toBeUndefined()
      })

      test('of tree nodes may be read together with nodes that they refer to', async () => {
        const [parent, child, none] = ['a', 'b', 'c'].map((letter) => letter.repeat(40))
        const nodes = new Map([
          [`n${parent}`, JSON.stringify(['größe', child, none, 'n'.repeat(41)])],
          [`n${child}`, JSON.stringify([parent])],
        ])
        await store.commit({ put: [...nodes, [`o${child}`, 'no node']] })
        for (const [key, text] of nodes) {
          const found = (await store.getNodes?.(key)) ?? new Map([[key, text]])
          expect(found.get(key)).toBe(text)
          for (const [near, value] of found) expect([near, value]).toEqual([near, nodes.get(near)])
        }
        expect((await store.getNodes?.(`n${none}`)) ?? new Map()).toEqual(new Map())
      })

      test('accept an empty commit', async () => {
        expect(await store.commit({})).toBe(true)
        expect(await store.commit({ events: [], put: [], del: [], blobs: [] })).toBe(true)
      })

      if (capabilities.syncReads) {
        test('can be read synchronously', async () => {
          await store.commit({ put: [['a', '1']] })
          expect(store.getSync!('a')).toBe('1')
          expect(store.getSync!('b')).toBeUndefined()
          expect(store.getSync!('__proto__')).toBeUndefined()
        })
      }
    })

    describe('scan', () => {
      const inOrder = ['p', 'p\0', 'p\u0001', 'p ', 'p0', 'pA', 'p__proto__', 'pa', 'paa', 'pé', 'p\ud7ff']
        .concat(['p\ue000', 'p\ufb01', 'p\uffff', 'p\u{10000}', 'p\u{10000}a', 'p\u{1f600}', 'p\u{10fffe}'])
        .toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
      const shuffled = inOrder.toSorted((a, b) => ((a.length * 7 + a.codePointAt(1)!) % 13) - (b.length % 5))
      const entries = (found: readonly string[]): (readonly [string, string])[] =>
        found.map((key) => [key, `of ${key}`] as const)

      beforeEach(async () => {
        await store.commit({ put: entries(shuffled) })
        await store.commit({
          put: [
            ['o\u{10fffe}', 'before'],
            ['q', 'after'],
          ],
        })
      })

      test('returns the range in the order of UTF-8 bytes', async () => {
        const found = await store.scan({ gte: 'p', lt: prefixEnd('p'), limit: 100 })
        expect(found).toEqual(entries(inOrder))
      })

      test('includes the lower bound and excludes the upper bound', async () => {
        for (const [from, gte] of inOrder.entries()) {
          for (const [to, lt] of inOrder.entries()) {
            const expected = entries(inOrder.slice(from, to))
            expect(await store.scan({ gte, lt, limit: 100 })).toEqual(expected)
          }
        }
      })

      test('supports reverse order and limits', async () => {
        const range = { gte: 'p', lt: prefixEnd('p') }
        for (const limit of [0, 1, 2, inOrder.length, 1000]) {
          expect(await store.scan({ ...range, limit })).toEqual(entries(inOrder.slice(0, limit)))
          const reversed = inOrder.toReversed().slice(0, limit)
          expect(await store.scan({ ...range, limit, reverse: true })).toEqual(entries(reversed))
        }
        const lower = { gte: 'p', lt: 'p\u{10000}', limit: 1, reverse: true }
        expect(await store.scan(lower)).toEqual(entries(['p\uffff']))
      })

      test('returns records only', async () => {
        const sessionId = id('s')
        await store.commit({ events: [event(sessionId, 1)], blobs: [blob(10)] })
        await store.commit({ put: [['zz', 'last']] })
        expect(await store.scan({ gte: 's', lt: prefixEnd('z'), limit: 100 })).toEqual([['zz', 'last']])
      })

      test('returns thousands of records', async () => {
        const many = Array.from({ length: 5000 }, (_, i) => `t${String(i).padStart(6, '0')}`)
        await store.commit({ put: entries(many) })
        expect(await store.scan({ gte: 't', lt: prefixEnd('t'), limit: 10_000 })).toEqual(entries(many))
        const last = { gte: 't', lt: prefixEnd('t'), limit: 4000, reverse: true }
        expect(await store.scan(last)).toEqual(entries(many.toReversed().slice(0, 4000)))
      })
    })

    describe('events', () => {
      const a = id('a')
      const b = id('b')

      test('are read in order, by range', async () => {
        expect(await read(store, a, 1, 10)).toEqual([])
        for (let seq = 1; seq <= 5; seq++) expect(await store.commit({ events: [event(a, seq)] })).toBe(true)
        await store.commit({ events: [event(b, 1)] })
        expect(await read(store, a, 1, 5)).toEqual(sequence(a, 1, 5))
        expect(await read(store, a, 1, Infinity)).toEqual(sequence(a, 1, 5))
        expect(await read(store, a, 0, 2)).toEqual(sequence(a, 1, 2))
        expect(await read(store, a, 2, 3)).toEqual(sequence(a, 2, 3))
        expect(await read(store, a, 5, 5)).toEqual(sequence(a, 5, 5))
        expect(await read(store, a, 4, 3)).toEqual([])
        expect(await read(store, a, 6, 9)).toEqual([])
        expect(await read(store, b, 1, Infinity)).toEqual(sequence(b, 1, 1))
      })

      test('are read in bounded pages', async () => {
        const count = limits.eventsPerRead * 2 + 500
        const stored: Promise<boolean>[] = []
        for (let seq = 1; seq <= count; seq += 250) {
          stored.push(store.commit({ events: sequence(a, seq, seq + 249) }))
        }
        expect(await Promise.all(stored)).toEqual(stored.map(() => true))
        const pages: (readonly StoredEvent[])[] = []
        for await (const page of store.events(a, { from: 1, to: count })) pages.push(page)
        for (const page of pages) {
          expect(page.length).toBeGreaterThan(0)
          expect(page.length).toBeLessThanOrEqual(limits.eventsPerRead)
        }
        expect(pages.flat()).toEqual(sequence(a, 1, count))
        expect(await read(store, a, 999, 1001)).toEqual(sequence(a, 999, 1001))
      })

      test('allow a reader to stop early', async () => {
        await store.commit({ events: sequence(a, 1, 2500) })
        for await (const page of store.events(a, { from: 1, to: 2500 })) {
          expect(page[0]).toEqual(event(a, 1))
          break
        }
        expect(await read(store, a, 2500, 2500)).toEqual(sequence(a, 2500, 2500))
      })

      test('include the newest event of each session', async () => {
        expect(await store.lastEvent(a)).toBeUndefined()
        await store.commit({ events: [event(b, 1)] })
        expect(await store.lastEvent(a)).toBeUndefined()
        await store.commit({ events: sequence(a, 1, 3) })
        expect(await store.lastEvent(a)).toEqual(event(a, 3))
        expect(await store.lastEvent(b)).toEqual(event(b, 1))
      })

      test('keep JSON values', async () => {
        const body = [1, -0.5, 'é\u{1f600}\ud800', null, true, { nested: [{ '': [] }] }, []]
        await store.commit({ events: [{ sessionId: a, seq: 1, body }] })
        expect(await read(store, a, 1, 1)).toEqual([{ sessionId: a, seq: 1, body }])
      })

      test('reject a passed sequence number and change nothing', async () => {
        await store.commit({ events: sequence(a, 1, 3), put: [['kept', '1']] })
        for (const seq of [1, 2, 3]) {
          const refused = store.commit({
            events: [{ sessionId: a, seq, body: ['other'] }],
            put: [
              ['new', 'x'],
              ['kept', 'x'],
            ],
            del: ['kept'],
            blobs: [blob(9)],
          })
          expect(await refused).toBe(false)
        }
        // The first event of the commit would be accepted, the second one is not.
        expect(await store.commit({ events: [event(b, 1), event(a, 3)] })).toBe(false)
        expect(await store.commit({ events: [event(a, 4), event(a, 4)] })).toBe(false)
        expect(await read(store, a, 1, Infinity)).toEqual(sequence(a, 1, 3))
        expect(await read(store, b, 1, Infinity)).toEqual([])
        expect(await store.get('kept')).toBe('1')
        expect(await store.get('new')).toBeUndefined()
        expect(await store.blob(hash(9), whole)).toBeUndefined()
        expect(await store.commit({ events: [event(b, 1), event(a, 4)] })).toBe(true)
        expect(await read(store, a, 1, Infinity)).toEqual(sequence(a, 1, 4))
      })

      test('reject a sequence number that a queued commit has passed', async () => {
        const first = store.commit({ events: [event(a, 1)] })
        const refused = store.commit({
          events: [{ sessionId: a, seq: 1, body: ['late'] }],
          put: [['k', 'v']],
        })
        const second = store.commit({ events: [event(a, 2)] })
        expect(await refused).toBe(false)
        // After a rejection, the events that passed the number can be read.
        expect(await read(store, a, 1, 1)).toEqual(sequence(a, 1, 1))
        expect(await Promise.all([first, second])).toEqual([true, true])
        expect(await read(store, a, 1, Infinity)).toEqual(sequence(a, 1, 2))
        expect(await store.get('k')).toBeUndefined()
      })

      if (capabilities.durable) {
        test('reject a sequence number that was passed before the store was opened', async () => {
          await store.commit({ events: sequence(a, 1, 3) })
          await reopen()
          expect(await store.lastEvent(a)).toEqual(event(a, 3))
          expect(await store.commit({ events: [event(a, 2)] })).toBe(false)
          expect(await store.commit({ events: [event(a, 3)] })).toBe(false)
          expect(await store.commit({ events: [event(a, 4)] })).toBe(true)
          expect(await read(store, a, 1, Infinity)).toEqual(sequence(a, 1, 4))
        })
      } else {
        test('can be forgotten for a deleted session', async () => {
          if (store.forget === undefined) return
          await store.commit({ events: [...sequence(a, 1, 3), event(b, 1)] })
          store.forget(a)
          store.forget(id('c'))
          expect(await read(store, a, 1, Infinity)).toEqual([])
          expect(await read(store, b, 1, Infinity)).toEqual(sequence(b, 1, 1))
          await store.close()
          expect(() => store.forget?.(b)).not.toThrow()
        })
      }
    })

    describe('blobs', () => {
      test('are read whole and by range', async () => {
        const { hash: stored, bytes: content } = blob(1000)
        await store.commit({ blobs: [blob(1000)] })
        const ranges = [
          [0, 1000],
          [0, 0],
          [0, 1],
          [999, 1],
          [10, 20],
          [990, 100],
          [1000, 1],
          [5000, 10],
          [0, Infinity],
        ] as const
        for (const [offset, length] of ranges) {
          const found = await store.blob(stored, { offset, length })
          expect(Buffer.from(found!)).toEqual(Buffer.from(content.subarray(offset, offset + length)))
          const missing = await store.blob(hash(2), { offset, length })
          expect(missing).toBeUndefined()
        }
      })

      test('may be empty', async () => {
        await store.commit({ blobs: [blob(0)] })
        expect((await store.blob(hash(0), whole))?.length).toBe(0)
        expect((await store.blob(hash(0), { offset: 5, length: 5 }))?.length).toBe(0)
      })

      test('may be views of larger buffers, with every byte value', async () => {
        const view = Uint8Array.from({ length: 1000 }, (_, i) => i).subarray(100, 612)
        const stored = blobOf(view)
        await store.commit({ blobs: [stored] })
        expect(Buffer.from((await store.blob(stored.hash, whole))!)).toEqual(Buffer.from(view))
      })

      test('of the largest size can be read', async () => {
        const large = Array.from({ length: 12 }, (_, i) => blobOf(bytes(limits.blockBytes, i)))
        const stored = large.map((blob) => store.commit({ blobs: [blob] }))
        expect(await Promise.all(stored)).toEqual(large.map(() => true))
        expect(await store.commit({ blobs: large })).toBe(true)
        for (const { hash, bytes } of large) {
          expect(Buffer.compare((await store.blob(hash, whole))!, bytes)).toBe(0)
          const range = { offset: limits.blockBytes - 4096, length: 8192 }
          expect(Buffer.compare((await store.blob(hash, range))!, bytes.subarray(range.offset))).toBe(0)
        }
      })

      if (capabilities.syncReads) {
        test('can be read synchronously', async () => {
          await store.commit({ blobs: [blob(100)] })
          const found = store.blobSync!(hash(100), { offset: 50, length: 100 })
          expect(Buffer.from(found!)).toEqual(Buffer.from(blob(100).bytes.subarray(50)))
          expect(store.blobSync!(hash(2), whole)).toBeUndefined()
        })
      }
    })

    if (capabilities.durable) collectionSuite(() => store, reopen)

    describe('commits', () => {
      test('take effect in call order', async () => {
        const stored: Promise<boolean>[] = []
        for (let i = 0; i < 200; i++) {
          if (i % 3 === 0) stored.push(store.commit({ put: [['flag', String(i)]] }))
          else stored.push(store.commit({ put: [['last', String(i)]], del: ['flag'] }))
        }
        await Promise.all(stored)
        expect(await store.get('flag')).toBeUndefined()
        expect(await store.get('last')).toBe('199')
      })

      test('queue by the thousand', async () => {
        const count = 4_000
        const sessions = Array.from({ length: 7 }, (_, i) => id(String(i)))
        const stored: Promise<boolean>[] = []
        for (let i = 0; i < count; i++) {
          const sessionId = sessions[i % 7]!
          const seq = Math.floor(i / 7) + 1
          const blobs = [blobOf(numbered(i))]
          stored.push(store.commit({ events: [event(sessionId, seq)], put: [['count', String(i)]], blobs }))
        }
        expect((await Promise.all(stored)).every(Boolean)).toBe(true)
        expect(await store.get('count')).toBe(String(count - 1))
        for (const [i, sessionId] of sessions.entries()) {
          const last = Math.ceil((count - i) / 7)
          expect(await read(store, sessionId, 1, Infinity)).toEqual(sequence(sessionId, 1, last))
        }
        for (let i = 0; i < count; i += 997) {
          const { hash } = blobOf(numbered(i))
          expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(numbered(i))
        }
      })

      test('let timers run in an endless loop of awaited commits', async () => {
        let ran = false
        const timer = setTimeout(() => (ran = true), 1)
        const until = Date.now() + 20_000
        for (let i = 0; !ran && Date.now() < until; i++) await store.commit({ put: [['loop', String(i)]] })
        clearTimeout(timer)
        expect(ran).toBe(true)
      })
    })

    describe('close', () => {
      test('waits for commits that were not awaited', async () => {
        let settled = 0
        for (let i = 0; i < 2000; i++) {
          const put = [[`k${i}`, 'x'.repeat(100)]] as const
          const stored = store.commit({ events: [event(id('a'), i + 1)], put })
          stored.then(
            () => settled++,
            () => {},
          )
        }
        await store.close()
        expect(settled).toBe(2000)
        if (!capabilities.durable) return
        await reopen()
        expect(await read(store, id('a'), 1, Infinity)).toEqual(sequence(id('a'), 1, 2000))
        expect((await store.scan({ gte: 'k', lt: prefixEnd('k'), limit: 9999 })).length).toBe(2000)
      })

      test('is idempotent', async () => {
        await Promise.all([store.close(), store.close()])
        await store.close()
      })

      test('rejects later commits and reads with STORE_CLOSED', async () => {
        await store.commit({ events: sequence(id('a'), 1, 3), put: [['a', '1']], blobs: [blob(1)] })
        const started = store.events(id('a'), { from: 1, to: 3 })
        const closing = store.close()
        await expectClosed(() => store.commit({ put: [['late', '1']] }))
        await closing
        await expectClosed(() => store.commit({ put: [['late', '1']] }))
        await expectClosed(() => store.commit({}))
        await expectClosed(() => store.get('a'))
        await expectClosed(() => store.scan({ gte: 'a', lt: 'b', limit: 1 }))
        await expectClosed(() => store.blob(hash(1), whole))
        await expectClosed(() => store.lastEvent(id('a')))
        await expectClosed(() => read(store, id('a'), 1, 3))
        await expectClosed(async () => {
          for await (const page of started) expect(page).toBeUndefined()
        })
        if (!capabilities.syncReads) return
        await expectClosed(async () => store.getSync!('a'))
        await expectClosed(async () => store.blobSync!(hash(1), whole))
      })

      if (capabilities.durable) {
        test('keeps all data for the next open', async () => {
          const put = [
            ['a', '1'],
            ['gone', '1'],
            ['__proto__', '2'],
            ['\u{1f600}', '3'],
          ] as const
          await store.commit({ events: sequence(id('a'), 1, 1200), put, blobs: [blob(0), blob(500)] })
          await store.commit({ del: ['gone'] })
          for (let times = 0; times < 3; times++) {
            await reopen()
            expect(await store.get('a')).toBe('1')
            expect(await store.get('gone')).toBeUndefined()
            expect(await store.get('__proto__')).toBe('2')
            expect(await store.get('\u{1f600}')).toBe('3')
            expect(await read(store, id('a'), 1, Infinity)).toEqual(sequence(id('a'), 1, 1200))
            expect((await store.blob(hash(0), whole))?.length).toBe(0)
            expect(Buffer.from((await store.blob(hash(500), whole))!)).toEqual(Buffer.from(bytes(500, 500)))
          }
        })
      }
    })
  })
}

/** Tests of the store methods that collections use. */
function collectionSuite(current: () => Store, reopen: () => Promise<void>): void {
  const [a, b] = [id('a'), id('b')]

  describe('collection', () => {
    test('lists blobs in pages, in the order of their hashes', async () => {
      expect(await current().listBlobs!('', 10)).toEqual([])
      const sizes = [1, 5, 10, 11, 255, 4096, 70_000]
      await current().commit({ blobs: sizes.toReversed().map(blob), put: [['a', 'a record']] })
      const all = sizes
        .map((size) => ({ hash: hash(size), bytes: size }))
        .toSorted((one, other) => (one.hash < other.hash ? -1 : 1))
      expect(await current().listBlobs!('', 100)).toEqual(all)
      expect(await current().listBlobs!('', 3)).toEqual(all.slice(0, 3))
      expect(await current().listBlobs!(all[2]!.hash, 3)).toEqual(all.slice(3, 6))
      expect(await current().listBlobs!(all[5]!.hash, 3)).toEqual(all.slice(6))
      expect(await current().listBlobs!(all[6]!.hash, 3)).toEqual([])
      await reopen()
      expect(await current().listBlobs!('', 100)).toEqual(all)
    })

    test('deletes only the named blobs', async () => {
      await current().commit({ blobs: [blob(10), blob(20), blob(30)] })
      await current().commit({ deleteBlobs: [hash(20), hash(99)], put: [['kept', '1']] })
      for (let times = 0; times < 2; times++) {
        expect(await current().blob(hash(20), whole)).toBeUndefined()
        if (current().blobSync) expect(current().blobSync!(hash(20), whole)).toBeUndefined()
        expect((await current().blob(hash(10), whole))?.length).toBe(10)
        expect(
          (await current().listBlobs!('', 9)).map(({ bytes }) => bytes).toSorted((a, b) => a - b),
        ).toEqual([10, 30])
        expect(await current().get('kept')).toBe('1')
        await reopen()
      }
      await current().commit({ blobs: [blob(20)] })
      expect((await current().blob(hash(20), whole))?.length).toBe(20)
    })

    test('deletes a blob of which a range was read', async () => {
      await current().commit({ blobs: [blob(1000)] })
      expect((await current().blob(hash(1000), { offset: 5, length: 5 }))?.length).toBe(5)
      if (current().blobSync) current().blobSync!(hash(1000), { offset: 5, length: 5 })
      await current().commit({ deleteBlobs: [hash(1000)] })
      expect(await current().blob(hash(1000), { offset: 5, length: 5 })).toBeUndefined()
      if (current().blobSync)
        expect(current().blobSync!(hash(1000), { offset: 5, length: 5 })).toBeUndefined()
    })

    test('keeps a blob that the same or a later commit adds', async () => {
      await current().commit({ blobs: [blob(10)] })
      await current().commit({ blobs: [blob(10), blob(20)], deleteBlobs: [hash(10), hash(20)] })
      expect((await current().listBlobs!('', 9)).map(({ bytes }) => bytes)).toEqual([10, 20])
      const queued = [
        current().commit({ deleteBlobs: [hash(10), hash(20)] }),
        current().commit({ blobs: [blob(10)] }),
      ]
      await Promise.all(queued)
      for (let times = 0; times < 2; times++) {
        expect((await current().listBlobs!('', 9)).map(({ bytes }) => bytes)).toEqual([10])
        expect((await current().blob(hash(10), whole))?.length).toBe(10)
        await reopen()
      }
    })

    test('replaces the bodies of events', async () => {
      await current().commit({ events: [...sequence(a, 1, 300), ...sequence(b, 1, 3)] })
      const replaced = { sessionId: a, seq: 2, body: ['shorter'] }
      const text = { sessionId: a, seq: 300, body: '["as text",1]' }
      await current().commit({ replaceEvents: [replaced, text], events: [event(a, 301)] })
      for (let times = 0; times < 2; times++) {
        const found = await read(current(), a, 1, Infinity)
        expect(found.length).toBe(301)
        expect(found[0]).toEqual(event(a, 1))
        expect(found[1]).toEqual(replaced)
        expect(found[299]!.body).toEqual(['as text', 1])
        expect(found[300]).toEqual(event(a, 301))
        expect(await read(current(), b, 1, Infinity)).toEqual(sequence(b, 1, 3))
        await reopen()
      }
      expect(await current().commit({ events: [event(a, 302)] })).toBe(true)
    })

    test('replaces nothing in a rejected commit', async () => {
      await current().commit({ events: sequence(a, 1, 2), blobs: [blob(10)] })
      const refused = await current().commit({
        events: [event(a, 2)],
        replaceEvents: [{ sessionId: a, seq: 1, body: ['other'] }],
        deleteBlobs: [hash(10)],
        deleteEvents: [a],
      })
      expect(refused).toBe(false)
      expect(await read(current(), a, 1, Infinity)).toEqual(sequence(a, 1, 2))
      expect((await current().blob(hash(10), whole))?.length).toBe(10)
    })

    test('deletes all events of a session', async () => {
      await current().commit({ events: [...sequence(a, 1, 700), ...sequence(b, 1, 3)], put: [['k', 'v']] })
      const queued = current().commit({ events: [event(a, 701)] })
      await current().commit({ deleteEvents: [a, id('never')] })
      await queued
      for (let times = 0; times < 2; times++) {
        expect(await read(current(), a, 1, Infinity)).toEqual([])
        expect(await current().lastEvent(a)).toBeUndefined()
        expect(await read(current(), b, 1, Infinity)).toEqual(sequence(b, 1, 3))
        expect(await current().get('k')).toBe('v')
        await reopen()
      }
      await current().commit({ deleteEvents: [b] })
      expect(await current().lastEvent(b)).toBeUndefined()
    })

    test('reports the stored size in bytes', async () => {
      const before = await current().size!()
      await current().commit({ blobs: [blobOf(bytes(limits.blockBytes, 1))] })
      expect(await current().size!()).toBeGreaterThan(before)
    })

    test('reclaims space without losing data', async () => {
      for (let i = 1; i <= 20; i++) await current().commit({ blobs: [blob(i * 1000)], events: [event(a, i)] })
      await current().commit({ deleteBlobs: Array.from({ length: 19 }, (_, i) => hash((i + 1) * 1000)) })
      await current().reclaim?.({})
      for (let times = 0; times < 2; times++) {
        expect(await current().listBlobs!('', 99)).toEqual([{ hash: hash(20_000), bytes: 20_000 }])
        expect(await read(current(), a, 1, Infinity)).toEqual(sequence(a, 1, 20))
        await reopen()
      }
    })
  })
}

const whole = { offset: 0, length: limits.blockBytes }

/** Ids have a fixed width. */
function id(name: string): string {
  return name.padStart(36, '0')
}

/** The hash of the content of a size. */
function hash(size: number): string {
  return blob(size).hash
}

function bytes(length: number, seed = 0): Uint8Array {
  const content = new Uint8Array(length)
  for (let i = 0; i < length; i++) content[i] = (i * 31 + seed * 17 + (i >> 8)) & 0xff
  return content
}

/** Another content for each number. */
function numbered(number: number): Buffer {
  return Buffer.from(`the content ${number}`)
}

function blob(size: number): { hash: string; bytes: Uint8Array } {
  return blobOf(bytes(size, size))
}

function blobOf(bytes: Uint8Array): { hash: string; bytes: Uint8Array } {
  return { hash: createHash('sha256').update(bytes).digest('hex'), bytes }
}

function event(sessionId: string, seq: number): StoredEvent {
  return { sessionId, seq, body: ['event', seq, { path: `/file-${seq}` }] }
}

function sequence(sessionId: string, from: number, to: number): StoredEvent[] {
  return Array.from({ length: to - from + 1 }, (_, i) => event(sessionId, from + i))
}

async function read(store: Store, sessionId: string, from: number, to: number): Promise<StoredEvent[]> {
  const found: StoredEvent[] = []
  for await (const page of store.events(sessionId, { from, to })) found.push(...page)
  return found
}

async function expectClosed(operation: () => Promise<unknown>): Promise<void> {
  const error = await operation().then(
    () => undefined,
    (error: unknown) => error,
  )
  expect(error).toBeInstanceOf(EngineError)
  expect((error as EngineError).reason).toBe('STORE_CLOSED')
}
