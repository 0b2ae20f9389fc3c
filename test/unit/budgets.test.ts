import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ByteBudgets } from '../../src/engine/storage/byte-budgets.js'
import type { ScanRange } from '../../src/engine/storage/store.js'
import { itemAt } from '../../src/engine/base/present.js'
import {
  limits,
  openEngine,
  type Budgets,
  type Engine,
  type EngineError,
  type Session,
  type Storage,
} from '../../src/index.js'
import { FailingStorage } from '../support/failing-storage.js'
import { randomWords } from '../../src/testing.js'
import { randomBytes } from '../support/random-bytes.js'
import { seed } from '../support/seed.js'
import { storages } from '../support/storages.js'

const kb = 1000
const usedUp = (budget: string): unknown =>
  expect.objectContaining({
    name: 'EngineError',
    reason: 'BUDGET',
    details: expect.objectContaining({ budget }) as unknown,
  })

describe.each(storages)('budgets on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let engine: Engine

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'budgets-'))
    storage = makeStorage(directory)
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  async function open(budgets: Budgets): Promise<void> {
    engine = await openEngine({ storage, budgets })
  }

  const bytes = (count: number, fill: string): Buffer => Buffer.alloc(count * kb, fill)
  const noise = (count: number, start: number): Buffer => randomBytes(count, seed + start)
  const write = (session: Session, path: string, content: Buffer): Promise<void> =>
    session.files.write({ path, content })

  test('a tenant at its budget can only read and delete until space is freed', async () => {
    await open({ tenantBytes: 100 * kb })
    const session = await engine.sessions.create({ files: { '/a': bytes(60, 'a') } })
    await write(session, '/b', bytes(40, 'b'))
    const { manifestHash } = await session.manifest()
    const { headHash } = await session.events.verify()
    await expect(write(session, '/c', bytes(1, 'c'))).rejects.toEqual(usedUp('tenantBytes'))
    const batch = [{ write: { path: '/d', content: '' } }, { write: { path: '/e', content: bytes(1, 'e') } }]
    await expect(session.files.batch(batch)).rejects.toEqual(usedUp('tenantBytes'))
    await expect(session.files.append({ path: '/a', content: bytes(1, 'x') })).rejects.toEqual(
      usedUp('tenantBytes'),
    )
    await expect(write(session, '/large', bytes(9000, 'l'))).rejects.toEqual(usedUp('tenantBytes'))
    await expect(engine.sessions.create({ files: { '/a': bytes(9, 'y') } })).rejects.toEqual(
      usedUp('tenantBytes'),
    )
    await expect(session.cache.put({ key: 'k', value: bytes(20, 'k') })).rejects.toEqual(
      usedUp('tenantBytes'),
    )
    await expect(session.fs.promises.writeFile('/c', bytes(1, 'c'))).rejects.toMatchObject({
      code: 'EDQUOT',
      syscall: 'open',
    })
    expect((await session.manifest()).manifestHash).toBe(manifestHash)
    expect((await session.events.verify()).headHash).toBe(headHash)
    expect((await session.files.read({ path: '/b' })).byteLength).toBe(40 * kb)
    // Other tenants have their own budgets.
    const other = await engine.as({ tenant: 'other' }).sessions.create()
    await write(other, '/a', bytes(100, 'o'))
    await session.files.delete({ path: '/b' })
    if (!lasting) return
    // The same content is already stored.
    await write(session, '/again', bytes(60, 'a'))
    await engine.collect()
    await write(session, '/c', bytes(40, 'c'))
    await expect(write(session, '/d', bytes(1, 'd'))).rejects.toEqual(usedUp('tenantBytes'))
    await engine.close()
    await open({ tenantBytes: 100 * kb })
    const again = await engine.sessions.open(session.id)
    await expect(write(again, '/d', bytes(1, 'd'))).rejects.toEqual(usedUp('tenantBytes'))
    await write(again, '/d', bytes(40, 'c'))
  })

  test.runIf(lasting)('large writes at the same time are together within the budget', async () => {
    await open({ tenantBytes: 16_000 * kb })
    // Those of one session would come one after the other.
    const sessions = await Promise.all(Array.from({ length: 4 }, () => engine.sessions.create()))
    const large = sessions.map((_, index) => noise(6_000 * kb, index))
    const reasonOf = (work: Promise<unknown>): Promise<unknown> =>
      work.then(
        () => 'stored',
        (error: EngineError) => error.reason,
      )
    const written = sessions.map((session, index) => reasonOf(write(session, '/a', itemAt(large, index))))
    expect(await Promise.all(written)).toEqual(['stored', 'stored', 'BUDGET', 'BUDGET'])
    expect((await engine.usage.metrics()).storedBytes).toBe(12_000 * kb)
    const values = sessions.map(({ cache }, index) =>
      reasonOf(cache.put({ key: 'k', value: noise(5_000 * kb, 4 + index) })),
    )
    expect(await Promise.all(values)).toEqual(sessions.map(() => 'BUDGET'))
  })

  test('equal contents of one change count once where they are stored once', async () => {
    await open({ tenantBytes: 100 * kb })
    const session = await engine.sessions.create()
    const content = bytes(60, 'e')
    const batch = session.files.batch(['/a', '/b'].map((path) => ({ write: { path, content } })))
    const outcome = await batch.then(
      () => 'stored',
      (error: EngineError) => error.reason,
    )
    expect(outcome).toBe(lasting ? 'stored' : 'BUDGET')
  })

  test('sessionBytes counts extended attributes, and no holes', async () => {
    await open({ sessionBytes: 100 })
    const session = await engine.sessions.create({ files: { '/a': 'base' } })
    const hole = { hole: { offset: 0, length: 1000 } }
    await session.files.patchSegments({
      mutations: [{ path: '/holes', segments: [hole], logicalSize: 1000 }],
    })
    await session.files.setXattr({ path: '/a', name: 'user.a', value: Buffer.alloc(90, 'x') })
    await expect(
      session.files.setXattr({ path: '/a', name: 'user.b', value: Buffer.alloc(20, 'y') }),
    ).rejects.toEqual(usedUp('sessionBytes'))
    await session.files.setXattr({ path: '/a', name: 'user.b', value: Buffer.alloc(10, 'y') })
  })

  test('storeBytes applies to all tenants together', async () => {
    await open({ storeBytes: 100 * kb })
    const [one, two] = await Promise.all(
      ['one', 'two'].map((tenant) => engine.as({ tenant }).sessions.create()),
    )
    await write(one!, '/a', bytes(60, 'a'))
    await expect(write(two!, '/a', bytes(50, 'b'))).rejects.toEqual(usedUp('storeBytes'))
    await write(two!, '/a', bytes(40, 'b'))
    await expect(write(one!, '/b', bytes(1, 'c'))).rejects.toEqual(usedUp('storeBytes'))
  })

  test('a large write that sessionBytes refuses uses none of tenantBytes', async () => {
    await open({ sessionBytes: 1000 * kb, tenantBytes: 11_000 * kb })
    const session = await engine.sessions.create({ files: { '/file': '' } })
    const large = noise(10_000 * kb, 1)
    const refused = expect.objectContaining({ code: 'EDQUOT' })
    const { fs } = session
    await expect(write(session, '/a', large)).rejects.toEqual(usedUp('sessionBytes'))
    await expect(session.files.append({ path: '/file', content: large })).rejects.toEqual(
      usedUp('sessionBytes'),
    )
    const batch = session.files.batch([{ write: { path: '/a', content: noise(10_000 * kb, 2) } }])
    await expect(batch).rejects.toEqual(usedUp('sessionBytes'))
    const segments = [{ data: { offset: 0, content: noise(10_000 * kb, 6) } }]
    const patch = session.files.patchSegments({ mutations: [{ path: '/file', segments }] })
    await expect(patch).rejects.toEqual(usedUp('sessionBytes'))
    await expect(fs.promises.writeFile('/a', noise(10_000 * kb, 3))).rejects.toEqual(refused)
    expect(() => fs.writeFileSync('/a', noise(10_000 * kb, 4))).toThrow(refused)
    const fd = fs.openSync('/file', 'r+')
    expect(() => fs.writeSync(fd, noise(10_000 * kb, 5))).toThrow(refused)
    fs.closeSync(fd)
    for (let i = 0; i < 10; i++) await write(await engine.sessions.create(), '/own', noise(1000 * kb, 10 + i))
  })

  test('a patch whose rewritten blocks exceed sessionBytes uses none of tenantBytes', async () => {
    const content = noise(20 * limits.blockBytes, 1)
    await open({ sessionBytes: 5000 * kb, tenantBytes: content.length + 11_000 * kb })
    const session = await engine.sessions.create({ files: { '/file': content } })
    // Each block gets more extents than it may have.
    const step = Math.floor(limits.blockBytes / (limits.extentsPerBlock / 2 + 10))
    const segments = Array.from({ length: Math.floor(content.length / step) }, (_, i) => ({
      data: { offset: i * step, content: Uint8Array.of(i % 256) },
    }))
    const patch = session.files.patchSegments({ mutations: [{ path: '/file', segments }] })
    await expect(patch).rejects.toEqual(usedUp('sessionBytes'))
    for (let i = 0; i < 10; i++) await write(await engine.sessions.create(), '/own', noise(1000 * kb, 10 + i))
  })

  test('a streamed write is refused as soon as it exceeds sessionBytes', async () => {
    await open({ sessionBytes: 1000 * kb })
    const session = await engine.sessions.create()
    let sent = 0
    async function* pieces(): AsyncGenerator<Uint8Array> {
      for (; sent < 100; sent++) yield noise(100 * kb, sent)
    }
    await expect(session.files.write({ path: '/a', content: pieces() })).rejects.toEqual(
      usedUp('sessionBytes'),
    )
    expect(sent).toBe(10)
    expect(session.fs.existsSync('/a')).toBe(false)
  })

  test('sessionBytes applies to each session and fork separately', async () => {
    await open({ sessionBytes: 100 * kb })
    let session = await engine.sessions.create({ files: { '/base': bytes(500, 'f') } })
    await write(session, '/a', bytes(60, 'a'))
    await write(session, '/a', bytes(40, 'b'))
    await expect(write(session, '/a', bytes(1, 'c'))).rejects.toEqual(usedUp('sessionBytes'))
    await session.files.copy({ sourcePath: '/a', destinationPath: '/copy' })
    const fork = await session.fork()
    await write(fork, '/b', bytes(100, 'd'))
    await expect(write(fork, '/b', bytes(1, 'c'))).rejects.toEqual(usedUp('sessionBytes'))
    if (!lasting) return
    await engine.close()
    await open({ sessionBytes: 100 * kb })
    session = await engine.sessions.open(session.id)
    await expect(write(session, '/a', bytes(1, 'c'))).rejects.toEqual(usedUp('sessionBytes'))
    await session.files.delete({ path: '/copy' })
    await engine.collect()
    // The overwritten content no longer counts.
    await write(session, '/b', bytes(60, 'e'))
    await expect(write(session, '/c', bytes(1, 'c'))).rejects.toEqual(usedUp('sessionBytes'))
    await engine.close()
    await open({ sessionBytes: 100 * kb })
    session = await engine.sessions.open(session.id)
    await expect(write(session, '/c', bytes(1, 'c'))).rejects.toEqual(usedUp('sessionBytes'))
  })

  test('an import over the budget fails and leaves the source usable', async () => {
    await open({ tenantBytes: 100 * kb })
    const source = await engine.sources.create({ displayName: 'files', uploadedSnapshot: {} })
    const start = async (content: Buffer): Promise<unknown> => {
      const files = { '/a': content }
      const job = await engine.sources.startImport(source.sourceId, { uploadedSnapshot: { files } })
      return engine.sources.waitForJob(job)
    }
    await expect(start(bytes(200, 'a'))).rejects.toMatchObject({
      reason: 'IMPORT_FAILED',
      details: { errorCode: 'LIMIT_EXCEEDED' },
    })
    await start(bytes(50, 'b'))
  })

  test.runIf(lasting)('counts writes during collections and recounts', async () => {
    const storeBytes = 500 * kb
    await open({ storeBytes, sessionBytes: 50 * storeBytes })
    const random = randomWords(seed)
    let over = false
    const collecting = (async () => {
      while (!over) {
        await engine.collect()
        await nextTurn()
      }
    })()
    const refusals: unknown[] = []
    const work = async (tenant: string): Promise<void> => {
      const { sessions } = engine.as({ tenant })
      let session = await sessions.create()
      for (let step = 0; step < 150; step++) {
        const path = `/${random() % 8}`
        const content = Buffer.alloc(1 + (random() % (60 * kb)), `${tenant} ${step % 40} ${random() % 2}`)
        const kind = random() % 10
        if (kind === 0) await session.fs.promises.rm(path, { force: true })
        else if (kind === 1) {
          await session.delete()
          session = await sessions.create()
        } else {
          const put =
            kind < 4 ? session.cache.put({ key: path, value: content }) : write(session, path, content)
          await put.catch((error: unknown) => {
            refusals.push(error)
          })
        }
        if (step % 5 === 0) await nextTurn()
      }
    }
    await Promise.all(['one', 'two'].map(work))
    over = true
    await collecting
    expect(refusals).not.toEqual([])
    expect(refusals).toEqual(refusals.map(() => usedUp('storeBytes')))
    await engine.collect()
    let left = storeBytes
    for (const tenant of ['one', 'two']) left -= (await engine.as({ tenant }).usage.metrics()).storedBytes
    expect(left).toBeGreaterThanOrEqual(0)
    const last = await engine.sessions.create()
    const tooMuch = write(last, '/last', Buffer.alloc(left + 1, 'last'))
    await expect(tooMuch).rejects.toEqual(usedUp('storeBytes'))
    if (left > 0) await write(last, '/last', Buffer.alloc(left, 'last'))
    await expect(write(last, '/more', Buffer.from('m'))).rejects.toEqual(usedUp('storeBytes'))
  })

  test.runIf(lasting).each(['fail', 'lose'] as const)(
    'contents of a failed commit count only if they are stored (%s)',
    async (failure) => {
      const failing = new FailingStorage(storage, { recovers: true })
      storage = failing
      await open({ tenantBytes: 100 * kb, storeBytes: 160 * kb, sessionBytes: 120 * kb })
      const session = await engine.sessions.create({ files: { '/kept': bytes(30, 'k') } })
      const other = await engine.as({ tenant: 'other' }).sessions.create()
      await write(other, '/a', bytes(50, 'o'))
      failing.next = failure
      await expect(write(session, '/a', bytes(60, 'a'))).rejects.toMatchObject({ reason: 'STORE_FAILED' })
      failing.next = 'commit'
      const left = failure === 'fail' ? 70 : 10
      await expect(write(session, '/b', bytes(left + 1, 'b'))).rejects.toEqual(usedUp('tenantBytes'))
      await write(session, '/b', bytes(left, 'c'))
      await expect(write(session, '/c', bytes(1, 'd'))).rejects.toEqual(usedUp('tenantBytes'))
      await expect(write(other, '/b', bytes(11, 'e'))).rejects.toEqual(usedUp('storeBytes'))
      await write(other, '/b', bytes(10, 'f'))
    },
  )

  test.runIf(lasting)('a commit that fails during a recount does not count', async () => {
    const failing = new FailingStorage(storage, { recovers: true })
    let scanned: (() => Promise<void>) | undefined
    storage = {
      open: async () => {
        const store = await failing.open()
        return new Proxy(store, {
          get: (target, name) => {
            const value: unknown = Reflect.get(target, name)
            if (name === 'scan')
              return async (range: ScanRange) => {
                const found = await target.scan(range)
                if (range.gte.startsWith('y') && range.reverse === true) await scanned?.()
                return found
              }
            return typeof value === 'function' ? (value.bind(target) as unknown) : value
          },
        })
      },
    }
    await open({ tenantBytes: 100 * kb })
    const session = await engine.sessions.create({ files: { '/kept': bytes(30, 'k') } })
    const outcomes: unknown[] = []
    scanned = async () => {
      scanned = undefined
      failing.next = 'fail'
      outcomes.push(await write(session, '/a', bytes(60, 'a')).catch((error: unknown) => error))
      failing.next = 'commit'
      await write(session, '/b', bytes(20, 'b'))
    }
    await engine.collect().catch(() => undefined)
    expect(outcomes).toEqual([expect.objectContaining({ reason: 'STORE_FAILED' })])
    await expect(write(session, '/c', bytes(51, 'c'))).rejects.toEqual(usedUp('tenantBytes'))
    await write(session, '/c', bytes(50, 'd'))
  })

  test('the error says how to make room', async () => {
    await open({ storeBytes: 100, sessionBytes: 50 })
    const session = await engine.sessions.create()
    const advice = lasting ? 'then call engine.collect()' : 'open an engine with a larger budget'
    await expect(write(session, '/a', Buffer.alloc(60))).rejects.toThrow(advice)
    await expect(engine.sessions.create({ files: { '/a': Buffer.alloc(101) } })).rejects.toThrow(advice)
  })

  test('rejects invalid options with INVALID_ARGUMENT', async () => {
    await open({})
    for (const budgets of [{ storeBytes: -1 }, { tenantBytes: 0.5 }, { sessionBytes: '1' }, 1])
      await expect(openEngine({ budgets: budgets as Budgets })).rejects.toMatchObject({
        reason: 'INVALID_ARGUMENT',
      })
  })
})

test('contents that are stored during a recount are in the old counts and in the new ones', async () => {
  const budgets = new ByteBudgets({ tenantBytes: 10 }, true)
  budgets.add('tenant', [{ hash: '1'.repeat(64), length: 9 }])
  await budgets.recount(async () => {
    budgets.add('tenant', [{ hash: '2'.repeat(64), length: 1 }])
    expect(() => budgets.admit('tenant', [{ hash: '3'.repeat(64), length: 1 }])).toThrow(
      usedUp('tenantBytes'),
    )
    await nextTurn()
  })
  budgets.admit('tenant', [{ hash: '3'.repeat(64), length: 9 }])
  expect(() => budgets.admit('tenant', [{ hash: '4'.repeat(64), length: 10 }])).toThrow(usedUp('tenantBytes'))
})

describe('the bytes of tenants', () => {
  const blob = (digit: number, length: number) => ({ hash: String(digit).repeat(64), length })
  const admits = (budgets: ByteBudgets, tenant: string, ...blobs: ReturnType<typeof blob>[]): boolean => {
    try {
      budgets.admit(tenant, blobs)
      return true
    } catch {
      return false
    }
  }

  test('may fill each budget exactly', () => {
    const budgets = new ByteBudgets({ tenantBytes: 10, storeBytes: 15 }, true)
    expect([admits(budgets, 'a', blob(1, 10)), admits(budgets, 'a', blob(1, 11))]).toEqual([true, false])
    budgets.add('a', [blob(1, 10)])
    expect([admits(budgets, 'b', blob(1, 5)), admits(budgets, 'b', blob(1, 6))]).toEqual([true, false])
    expect(() => budgets.admit('b', [blob(1, 6)])).toThrow(usedUp('storeBytes'))
    expect(() => budgets.admit('a', [blob(2, 1)])).toThrow(usedUp('tenantBytes'))
    budgets.add('b', [blob(1, 5)])
    // Contents that are known, and empty ones, always fit.
    expect(admits(budgets, 'a', blob(1, 10), blob(2, 0))).toBe(true)
    expect(admits(budgets, 'b', blob(2, 1))).toBe(false)
  })

  test('count equal contents once, or each time in memory', () => {
    for (const countsOnce of [true, false]) {
      const budgets = new ByteBudgets({ tenantBytes: 10 }, countsOnce)
      expect(admits(budgets, 'a', blob(1, 6), blob(1, 6))).toBe(countsOnce)
      budgets.add('a', [blob(1, 4), blob(1, 4)])
      expect(admits(budgets, 'a', blob(2, 6))).toBe(countsOnce)
      expect(admits(budgets, 'a', blob(2, 2))).toBe(true)
      expect(admits(budgets, 'a', blob(2, 7))).toBe(false)
    }
  })

  test('are counted anew after they were forgotten', async () => {
    const budgets = new ByteBudgets({ tenantBytes: 10, storeBytes: 12 }, true)
    budgets.add('a', [blob(1, 10)])
    budgets.forget()
    expect(admits(budgets, 'a', blob(2, 10))).toBe(true)
    await budgets.recount(async (next) => next.add('a', [blob(3, 9)]))
    expect([admits(budgets, 'a', blob(2, 1)), admits(budgets, 'a', blob(2, 2))]).toEqual([true, false])
    expect([admits(budgets, 'b', blob(2, 3)), admits(budgets, 'b', blob(2, 4))]).toEqual([true, false])
  })

  test('ignore a recount during which they were forgotten, or which failed', async () => {
    const budgets = new ByteBudgets({ tenantBytes: 10 }, true)
    await budgets.recount(async (next) => {
      next.add('a', [blob(1, 10)])
      budgets.forget()
    })
    expect(admits(budgets, 'a', blob(2, 10))).toBe(true)
    await expect(
      budgets.recount(async (next) => {
        next.add('a', [blob(1, 10)])
        throw new Error('failed')
      }),
    ).rejects.toThrow('failed')
    expect(admits(budgets, 'a', blob(2, 10))).toBe(true)
    // The next recount is not affected.
    await budgets.recount(async (next) => next.add('a', [blob(1, 10)]))
    expect(admits(budgets, 'a', blob(2, 1))).toBe(false)
  })
})
