import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  limits,
  memoryStorage,
  openEngine,
  Secret,
  SecretScope,
  type Engine,
  type SecretOptions,
  type Session,
  type Storage,
} from '../../src/index.js'
import { Residency } from '../../src/engine/session/table/residency.js'
import { fixedEnvironment } from '../../src/testing.js'
import { isLong } from '../support/seed.js'
import { FailingStorage } from '../support/failing-storage.js'
import { SteppedStorage, type Held } from '../support/stepped-storage.js'
import { storages } from '../support/storages.js'

const refused = (reason: string): unknown => expect.objectContaining({ name: 'EngineError', reason })
const scope = SecretScope.SESSION
const key = (byte: number): Uint8Array => new Uint8Array(32).fill(byte)

describe.each(storages)('secrets on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'secrets-'))
    storage = makeStorage(directory)
    engine = await openEngine({ storage, environment: fixedEnvironment(), secrets: { masterKey: key(1) } })
    session = await engine.as({ principal: 'ann' }).sessions.create({ files: { '/a': 'one' } })
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  async function reload(secrets: SecretOptions = { masterKey: key(1) }, seed = 2): Promise<void> {
    if (!lasting) return
    await engine.close()
    engine = await openEngine({ storage, environment: fixedEnvironment({ seed }), secrets })
    session = await engine.as({ principal: 'ann' }).sessions.open(session.id)
  }

  const put = (secretName: string, secretValue: string, to = session): Promise<unknown> =>
    to.secrets.put({ secretName, secretValue })
  const reveal = async (secretName: string, from = session): Promise<string> =>
    (await from.secrets.get({ secretName })).secretValue.reveal()
  /** Makes sessions until an engine with little memory evicts this one. */
  const evicted = async ({ id }: Session): Promise<boolean> => {
    const evict = vi.spyOn(Residency.prototype, 'evict')
    const base = await engine.sessions.create({ files: { '/x': 'x' } })
    const isEvicted = (): boolean => evict.mock.calls.some(([live]) => live.id === id)
    for (let n = 0; n < 5000 && !isEvicted(); n++)
      await (await base.fork()).files.write({ path: '/x', content: `${n}` })
    const result = isEvicted()
    evict.mockRestore()
    return result
  }
  const names = async (from = session): Promise<string[]> =>
    (await from.secrets.list()).secrets.map(({ secretName }) => secretName)

  test('can be put, read, listed and deleted', async () => {
    expect(await session.secrets.put({ secretName: 'B', secretValue: 'b1' })).toEqual({
      secretName: 'B',
      scope,
    })
    await session.secrets.put({ secretName: 'A', secretValue: '', scope })
    await reload()
    await put('B', 'b2')
    expect(await session.secrets.list({ scope })).toEqual({
      secrets: [
        { secretName: 'A', scope },
        { secretName: 'B', scope },
      ],
    })
    const found = await session.secrets.get({ secretName: 'B' })
    expect(found).toEqual({ secretName: 'B', secretValue: expect.any(Secret) })
    expect(found.secretValue.reveal()).toBe('b2')
    await reload()
    expect([await reveal('A'), await reveal('B')]).toEqual(['', 'b2'])
    expect(await session.secrets.delete({ secretName: 'B', scope })).toEqual({ secretName: 'B', scope })
    await expect(reveal('B')).rejects.toEqual(refused('SECRET_NOT_FOUND'))
    await reload()
    await expect(reveal('B')).rejects.toEqual(refused('SECRET_NOT_FOUND'))
    await expect(session.secrets.delete({ secretName: 'B' })).rejects.toEqual(refused('SECRET_NOT_FOUND'))
    await put('B', 'b3')
    expect(await reveal('B')).toBe('b3')
    const { events } = await session.events.list()
    expect(
      events.slice(1).map(({ eventType, principal, details }) => [eventType, principal, details]),
    ).toEqual(
      ['B', 'A', 'B', '-B', 'B'].map((name) => [
        `v1.SecretsService.${name.startsWith('-') ? 'Delete' : 'Put'}Secret`,
        'ann',
        { secretName: name.replace('-', ''), scope },
      ]),
    )
    expect(await session.events.verify()).toMatchObject({ eventCount: 6 })
  })

  test('keep their names unchanged, sorted by bytes', async () => {
    const all = ['__proto__', 'a', 'A.b-c/d:e f', 'constructor', 'ä', 'ﬀ', '😀', '../x', '.', 'x'.repeat(128)]
    for (const name of all) await put(name, `value of ${name}`)
    await reload()
    expect(await names()).toEqual(all.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))))
    for (const name of all) expect(await reveal(name)).toBe(`value of ${name}`)
    for (const name of ['toString', 'hasOwnProperty', 'A', 'a\u0308'])
      await expect(reveal(name)).rejects.toEqual(refused('SECRET_NOT_FOUND'))
    for (const secretName of all) await session.secrets.delete({ secretName })
    expect(await names()).toEqual([])
  })

  test('keep their values unchanged', async () => {
    const values = ['\0', '\ufeffx', 'a\r\nb', '😀', '"\\', 'x'.repeat(limits.secretValueBytes)]
    for (const [i, value] of values.entries()) await put(`v${i}`, value)
    await reload()
    for (const [i, value] of values.entries()) expect(await reveal(`v${i}`)).toBe(value)
    await expect(put('v0', 'x'.repeat(limits.secretValueBytes + 1))).rejects.toEqual(refused('TOO_LARGE'))
    await expect(put('v0', 'ä'.repeat(limits.secretValueBytes / 2 + 1))).rejects.toEqual(refused('TOO_LARGE'))
    expect(await reveal('v0')).toBe('\0')
  })

  test('belong to one session and are not changed by a restore', async () => {
    await put('A', 'of the parent')
    await session.checkpoint({ checkpointLabel: 'c' })
    const fork = await session.fork()
    expect(await names(fork)).toEqual([])
    await expect(reveal('A', fork)).rejects.toEqual(refused('SECRET_NOT_FOUND'))
    await put('A', 'of the fork', fork)
    await put('A', 'changed')
    await session.restore({ checkpointLabel: 'c' })
    await reload()
    expect(await reveal('A')).toBe('changed')
    expect(await reveal('A', await engine.sessions.open(fork.id))).toBe('of the fork')
    const other = engine.as({ tenant: 'other' })
    await expect(other.sessions.open(session.id)).rejects.toEqual(refused('SESSION_NOT_FOUND'))
  })

  test('are limited in number, but existing ones can be replaced', async () => {
    for (let i = 0; i < limits.secrets; i++) await put(`s${i}`, 'x')
    await expect(put('more', 'x')).rejects.toMatchObject({ reason: 'QUOTA', details: { limit: '1000' } })
    await put('s7', 'y')
    await reload()
    await expect(put('more', 'x')).rejects.toEqual(refused('QUOTA'))
    expect(await reveal('s7')).toBe('y')
    await session.secrets.delete({ secretName: 's7' })
    await put('more', 'x')
    expect(await names()).toHaveLength(limits.secrets)
  })

  test('take effect in call order', async () => {
    const calls = [
      put('A', '1'),
      put('A', '2'),
      session.secrets.delete({ secretName: 'A' }),
      put('A', '3'),
      session.secrets.delete({ secretName: 'B' }).catch((error: unknown) => error),
    ]
    expect((await Promise.all(calls)).at(-1)).toEqual(refused('SECRET_NOT_FOUND'))
    await reload()
    expect(await reveal('A')).toBe('3')
  })

  test('can be withheld from a narrowed handle, and are deleted with the session', async () => {
    await put('A', 'x')
    const { secrets } = session.narrow({ without: ['secrets'] })
    for (const attempt of [
      secrets.put({ secretName: 'A', secretValue: 'y' }),
      secrets.get({ secretName: 'A' }),
      secrets.list(),
      secrets.delete({ secretName: 'A' }),
    ])
      await expect(attempt).rejects.toEqual(refused('PERMISSION_DENIED'))
    await session.delete()
    await expect(reveal('A')).rejects.toEqual(refused('SESSION_NOT_FOUND'))
    if (!lasting) return
    await engine.close()
    const store = await storage.open()
    expect(await store.scan({ gte: 'x', lt: 'y', limit: 10 })).toEqual([])
    await store.close()
  })

  test.each([
    ['put', undefined],
    ['put', { secretValue: 'x' }],
    ['put', { secretName: '', secretValue: 'x' }],
    ['put', { secretName: 7, secretValue: 'x' }],
    ['put', { secretName: ['A'], secretValue: 'x' }],
    ['put', { secretName: ' A', secretValue: 'x' }],
    ['put', { secretName: 'A\u00a0', secretValue: 'x' }],
    ['put', { secretName: 'A\nB', secretValue: 'x' }],
    ['put', { secretName: 'A\0', secretValue: 'x' }],
    ['put', { secretName: 'A\u202eB', secretValue: 'x' }],
    ['put', { secretName: 'A\u2028B', secretValue: 'x' }],
    ['put', { secretName: '\u{10ffff}', secretValue: 'x' }],
    ['put', { secretName: '\ud800', secretValue: 'x' }],
    ['put', { secretName: 'A' }],
    ['put', { secretName: 'A', secretValue: null }],
    ['put', { secretName: 'A', secretValue: Buffer.from('x') }],
    ['put', { secretName: 'A', secretValue: new Secret('x') }],
    ['put', { secretName: 'A', secretValue: '\udc00' }],
    ['put', { secretName: 'A', secretValue: 'x', scope: 'SECRET_SCOPE_TENANT' }],
    ['put', { secretName: 'A', secretValue: 'x', scope: '' }],
    ['get', undefined],
    ['get', { secretName: '\u0085' }],
    ['list', null],
    ['list', { scope: 'toString' }],
    ['delete', { secretName: 'A', scope: 7 }],
    ['delete', { secretName: {} }],
  ] as const)('%s rejects %j', async (method, request) => {
    const call = session.secrets[method].bind(session.secrets) as (request: unknown) => Promise<unknown>
    // The request of list is optional.
    await expect(call(request)).rejects.toEqual(refused('INVALID_ARGUMENT'))
    expect(await names()).toEqual([])
  })

  test('have names of at most 128 bytes', async () => {
    await expect(put('x'.repeat(129), '')).rejects.toEqual(refused('TOO_LARGE'))
    await expect(put('ä'.repeat(65), '')).rejects.toEqual(refused('TOO_LARGE'))
  })

  describe.runIf(lasting)('at rest', () => {
    test('need a master key to be written and read, but not to be deleted', async () => {
      await put('A', 'x')
      await put('B', 'x')
      await reload({})
      await expect(put('C', 'x')).rejects.toEqual(refused('NO_MASTER_KEY'))
      await expect(reveal('A')).rejects.toEqual(refused('NO_MASTER_KEY'))
      await expect(engine.rotateSecrets()).rejects.toEqual(refused('NO_MASTER_KEY'))
      expect(await names()).toEqual(['A', 'B'])
      await session.secrets.delete({ secretName: 'A' })
      expect((await session.events.list()).events).toHaveLength(4)
      await reload()
      expect(await names()).toEqual(['B'])
      expect(await reveal('B')).toBe('x')
    })

    test('cannot be read with another key, even with the same key id', async () => {
      await reload({ masterKey: { id: 'k', key: key(1) } })
      await put('A', 'x')
      await reload({ masterKey: { id: 'k', key: key(2) } })
      await expect(reveal('A')).rejects.toMatchObject({
        reason: 'NO_MASTER_KEY',
        details: { sessionId: session.id, secretName: 'A', keyId: 'k' },
      })
      await put('B', 'y')
      await reload({ masterKey: { id: 'renamed', key: key(1) }, previousKeys: [key(2)] })
      expect([await reveal('A'), await reveal('B')]).toEqual(['x', 'y'])
    })

    test('are rewrapped without changing values, in memory and in storage', async () => {
      await put('A', 'a')
      await put('B', 'b')
      const other = await engine.as({ tenant: 'other' }).sessions.create()
      await put('A', 'other', other)
      const deleted = await session.fork()
      await put('A', 'x', deleted)
      await deleted.delete()
      const before = await records()
      const masterKey = { id: 'new', key: key(2) }
      await reload({ masterKey, previousKeys: [{ id: 'old', key: key(1) }] })
      await put('B', 'b2')
      // Queued before and after the rotation.
      const changes = [put('A', 'a2'), engine.rotateSecrets(), put('C', 'c')] as const
      expect(await changes[1]).toEqual({ rewrapped: 1 })
      await Promise.all(changes)
      expect(await engine.rotateSecrets()).toEqual({ rewrapped: 0 })
      await reload({ masterKey: key(2) })
      expect([await reveal('A'), await reveal('B'), await reveal('C')]).toEqual(['a2', 'b2', 'c'])
      const opened = await engine.as({ tenant: 'other' }).sessions.open(other.id)
      expect(await reveal('A', opened)).toBe('other')
      const after = await records()
      expect(after.size).toBe(4)
      const moved = `x${other.id}A`
      expect(after.get(moved)!.value).toBe(before.get(moved)!.value)
      expect(after.get(moved)!.dataKey).not.toBe(before.get(moved)!.dataKey)
      // These belong to a session in memory.
      await reload({ masterKey: key(3), previousKeys: [key(2)] })
      expect(await reveal('A')).toBe('a2')
      expect(await engine.rotateSecrets()).toEqual({ rewrapped: 4 })
      expect(await engine.rotateSecrets()).toEqual({ rewrapped: 0 })
      expect(await reveal('A')).toBe('a2')
      await reload({ masterKey: key(3) })
      expect([await reveal('A'), await reveal('B'), await reveal('C')]).toEqual(['a2', 'b2', 'c'])
    })

    test('are rewrapped a few at a time', async () => {
      const count = 2 * limits.secretsPerCommit + 1
      const numbers = Array.from({ length: count }, (_, i) => `${i}`)
      await Promise.all(numbers.map((name) => put(name, name)))
      // First not loaded, then in memory.
      for (const isInMemory of [false, true]) {
        await reload(
          isInMemory
            ? { masterKey: key(3), previousKeys: [key(2)] }
            : { masterKey: key(2), previousKeys: [key(1)] },
        )
        if (isInMemory) await names()
        const rotation = engine.rotateSecrets()
        if (isInMemory) await put('0', 'changed')
        expect(await rotation).toEqual({ rewrapped: isInMemory ? count - 1 : count })
      }
      await reload({ masterKey: key(3) })
      expect(await Promise.all(numbers.map((name) => reveal(name)))).toEqual(['changed', ...numbers.slice(1)])
    })

    test('keep a value that is put by a session that opens during a rotation', async () => {
      await put('A', 'a')
      await engine.close()
      const stepped = new SteppedStorage(storage)
      engine = await openEngine({
        storage: stepped,
        secrets: { masterKey: key(2), previousKeys: [key(1)] },
      })
      const held = stepped.hold('scan', ({ limit }) => limit === limits.secretsPerCommit, 'after')
      const rotation = engine.rotateSecrets()
      await held.reached
      session = await engine.as({ principal: 'ann' }).sessions.open(session.id)
      await put('A', 'newer')
      held.release()
      expect(await rotation).toEqual({ rewrapped: 0 })
      await reload({ masterKey: key(2) })
      expect(await reveal('A')).toBe('newer')
    })

    test.each(['put', 'delete'])(
      'keep the %s of a session that opens and is evicted during a rotation',
      async (change) => {
        await put('A', 'a')
        await engine.close()
        const stepped = new SteppedStorage(storage)
        engine = await openEngine({
          storage: stepped,
          memoryBudgetBytes: 2 ** 20,
          secrets: { masterKey: key(2), previousKeys: [key(1)] },
        })
        const held = stepped.hold('scan', ({ limit }) => limit === limits.secretsPerCommit, 'after')
        const rotation = engine.rotateSecrets()
        await held.reached
        session = await engine.as({ principal: 'ann' }).sessions.open(session.id)
        if (change === 'put') await put('A', 'newer')
        else await session.secrets.delete({ secretName: 'A' })
        expect(await evicted(session)).toBe(true)
        held.release()
        await rotation
        await reload({ masterKey: key(2), previousKeys: [key(1)] })
        const kept = await Promise.all((await names()).map((name) => reveal(name)))
        expect(kept).toEqual(change === 'put' ? ['newer'] : [])
      },
    )

    test('keep a change that is not stored yet when a rotation reads them', async () => {
      await put('A', 'a')
      await engine.close()
      const stepped = new SteppedStorage(storage)
      engine = await openEngine({
        storage: stepped,
        memoryBudgetBytes: 2 ** 20,
        secrets: { masterKey: key(2), previousKeys: [key(1)] },
      })
      const holdRead = (): Held =>
        stepped.hold('scan', ({ limit }) => limit === limits.secretsPerCommit, 'after')
      const first = holdRead()
      const firstRotation = engine.rotateSecrets()
      await first.reached
      const rotation = engine.rotateSecrets()
      await stepped.quiet()
      session = await engine.as({ principal: 'ann' }).sessions.open(session.id)
      const stored = stepped.hold('commit', () => true)
      const change = put('A', 'newer')
      await stored.reached
      const second = holdRead()
      first.release()
      // The second rotation reads now, unless it sees that the session is open.
      await stepped.quiet()
      stored.release()
      await change
      expect(await evicted(session)).toBe(true)
      second.release()
      await Promise.all([firstRotation, rotation])
      await reload({ masterKey: key(2), previousKeys: [key(1)] })
      expect(await reveal('A')).toBe('newer')
    })

    test('stay deleted if their session is deleted during a rotation', async () => {
      const masters = [key(1), key(4)]
      for (let turns = 0; turns < 40; turns += isLong ? 1 : 4) {
        masters.reverse()
        const gone = await session.fork()
        await put('A', 'x', gone)
        await engine.close()
        engine = await openEngine({ storage, secrets: { masterKey: masters[0]!, previousKeys: masters } })
        const wait = async (): Promise<void> => {
          for (let i = 0; i < turns; i++) await Promise.resolve()
        }
        await Promise.all([wait().then(() => engine.rotateSecrets()), engine.sessions.delete(gone.id)])
        await engine.close()
        const store = await storage.open()
        expect(await store.scan({ gte: `x${gone.id}`, lt: `x${gone.id}~`, limit: 1 })).toEqual([])
        await store.close()
        await reload({ masterKey: masters[0]!, previousKeys: masters }, 10 + turns)
      }
    })

    test('are deleted with their session while the engine closes', async () => {
      await put('A', 'a')
      const deleted = session.delete()
      const closed = engine.close()
      await deleted
      await closed
      const store = await storage.open()
      expect(await store.scan({ gte: `x${session.id}`, lt: `x${session.id}~`, limit: 1 })).toEqual([])
      await store.close()
    })

    test('that cannot be rewrapped do not block others', async () => {
      await put('A', 'a')
      await reload({ masterKey: key(2) })
      await put('B', 'b')
      await reload({ masterKey: key(3), previousKeys: [key(2)] })
      // The second rotation finds no other secret.
      for (let rotations = 0; rotations < 2; rotations++) {
        await expect(engine.rotateSecrets()).rejects.toMatchObject({
          reason: 'NO_MASTER_KEY',
          details: { sessionId: session.id, secretName: 'A' },
        })
      }
      await reload({ masterKey: key(3) })
      expect(await reveal('B')).toBe('b')
      await expect(reveal('A')).rejects.toEqual(refused('NO_MASTER_KEY'))
    })

    test('never repeat a nonce, a key or a ciphertext', async () => {
      for (let i = 0; i < 50; i++) await put(`s${i % 10}`, 'the same')
      await reload(undefined, 3)
      for (let i = 0; i < 10; i++) await put(`t${i}`, 'the same')
      const all = [...(await records()).values()]
      expect(all).toHaveLength(20)
      const distinct = (part: (one: StoredSecret) => string): number => new Set(all.map(part)).size
      expect(distinct(({ value }) => value)).toBe(20)
      expect(distinct(({ value }) => value.slice(0, 16))).toBe(20)
      expect(distinct(({ dataKey }) => dataKey)).toBe(20)
      expect(distinct(({ dataKey }) => dataKey.slice(0, 16))).toBe(20)
    })

    test('are detected as damaged after any change', async () => {
      await put('A', 'a value')
      await put('B', 'another')
      const other = await session.fork()
      await put('A', 'of the fork', other)
      const own = `x${session.id}A`
      const sealed = (await records()).get(own)!
      const stranger = (await records()).get(`x${other.id}A`)!
      const flip = (text: string, at: number): string => {
        const bytes = Buffer.from(text, 'base64')
        bytes[at < 0 ? bytes.length + at : at]! ^= 1
        return bytes.toString('base64')
      }
      const { value, dataKey, version } = sealed
      const damages: (object | string)[] = [
        ...[0, 11, 12, 27, 28, -1].flatMap((at) => [
          { ...sealed, value: flip(value, at) },
          { ...sealed, dataKey: flip(dataKey, at) },
        ]),
        { ...sealed, value: value.slice(0, -4) },
        { ...sealed, value: `${value} ` },
        { ...sealed, value: '' },
        { ...sealed, dataKey: '' },
        { ...sealed, value: dataKey, dataKey: value },
        { ...sealed, version: version + 1 },
        { ...sealed, version: String(version) },
        { ...sealed, scope: 'SECRET_SCOPE_TENANT' },
        { ...sealed, keyPrint: undefined },
        { ...sealed, secretName: 'C' },
        { ...sealed, value: stranger.value },
        { ...sealed, value: stranger.value, dataKey: stranger.dataKey },
        stranger,
        { ...(await records()).get(`x${session.id}B`)!, secretName: 'A' },
        'null',
        [],
        '7',
        '{',
      ]
      for (const damage of damages) {
        await engine.close()
        const store = await storage.open()
        await store.commit({
          put: [[own, typeof damage === 'string' ? damage : JSON.stringify(damage)]],
        })
        await store.close()
        engine = await openEngine({ storage, secrets: { masterKey: key(1) } })
        session = await engine.sessions.open(session.id)
        await expect(reveal('A'), JSON.stringify(damage)).rejects.toMatchObject({
          reason: 'DATA_LOSS',
          details: { sessionId: session.id, secretName: 'A' },
        })
        expect(await names()).toEqual(['A', 'B'])
        expect(await reveal('B')).toBe('another')
      }
      await expect(reloadRotated()).rejects.toEqual(refused('DATA_LOSS'))
      expect(await reveal('B')).toBe('another')
      await put('A', 'mended')
      await reload({ masterKey: key(9) })
      expect(await reveal('A')).toBe('mended')
    })

    async function reloadRotated(): Promise<void> {
      await reload({ masterKey: key(9), previousKeys: [key(1)] })
      await engine.rotateSecrets()
    }

    test('have versions, which count the values and not the rotations', async () => {
      for (const value of ['one', 'two', 'three']) await put('A', value)
      for (const value of ['one', 'two']) await put('B', value)
      await session.secrets.delete({ secretName: 'B' })
      await put('B', 'three')
      await reload({ masterKey: key(2), previousKeys: [key(1)] })
      await engine.rotateSecrets()
      const versions = Array.from(await records(), ([at, { version }]) => [at.slice(-1), version])
      expect(versions).toEqual([
        ['A', 3],
        ['B', 1],
      ])
    })

    test('have a rotation that fails if the storage fails', async () => {
      await put('A', 'a')
      const failing = new FailingStorage(storage)
      await engine.close()
      engine = await openEngine({
        storage: failing,
        secrets: { masterKey: key(2), previousKeys: [key(1)] },
      })
      session = await engine.as({ principal: 'ann' }).sessions.open(session.id)
      failing.next = 'fail'
      await expect(engine.rotateSecrets()).rejects.toEqual(refused('STORE_FAILED'))
    })

    /** The stored secrets; the engine must be closed. */
    async function records(): Promise<Map<string, StoredSecret>> {
      await engine.close()
      const store = await storage.open()
      const found = await store.scan({ gte: 'x', lt: 'y', limit: 10_000 })
      await store.close()
      engine = await openEngine({ storage, secrets: { masterKey: key(1), previousKeys: [key(2), key(3)] } })
      const id = session.id
      session = await engine.as({ principal: 'ann' }).sessions.open(id)
      return new Map(found.map(([at, json]) => [at, JSON.parse(json) as StoredSecret]))
    }
  })
})

interface StoredSecret {
  readonly value: string
  readonly dataKey: string
  readonly version: number
}

describe('the option secrets', () => {
  test('is not required in memory', async () => {
    const engine = await openEngine()
    const session = await engine.sessions.create()
    await session.secrets.put({ secretName: 'A', secretValue: 'x' })
    expect((await session.secrets.get({ secretName: 'A' })).secretValue.reveal()).toBe('x')
    expect(await engine.rotateSecrets()).toEqual({ rewrapped: 0 })
    await engine.close()
  })

  test('is copied', async () => {
    const storage = memoryStorage({ durable: true })
    const masterKey = Buffer.alloc(32, 1)
    let engine = await openEngine({ storage, secrets: { masterKey } })
    masterKey.fill(0)
    const { id, secrets } = await engine.sessions.create()
    await secrets.put({ secretName: 'A', secretValue: 'x' })
    await engine.close()
    engine = await openEngine({ storage, secrets: { masterKey: key(1) } })
    const session = await engine.sessions.open(id)
    expect((await session.secrets.get({ secretName: 'A' })).secretValue.reveal()).toBe('x')
    await engine.close()
  })

  test.each([
    [null, 'secrets'],
    ['key', 'secrets'],
    [{ masterKey: 'x'.repeat(32) }, 'secrets.masterKey'],
    [{ masterKey: new Uint8Array(31) }, 'secrets.masterKey'],
    [{ masterKey: new Uint8Array(33) }, 'secrets.masterKey'],
    [{ masterKey: new ArrayBuffer(32) }, 'secrets.masterKey'],
    [{ masterKey: null }, 'secrets.masterKey'],
    [{ masterKey: { id: 'a' } }, 'secrets.masterKey.key'],
    [{ masterKey: { id: '', key: key(1) } }, 'secrets.masterKey.id'],
    [{ masterKey: { key: key(1) } }, 'secrets.masterKey.id'],
    [{ masterKey: key(1), previousKeys: key(2) }, 'secrets.previousKeys'],
    [{ masterKey: key(1), previousKeys: [undefined] }, 'secrets.previousKeys[0]'],
    [{ previousKeys: [key(1)] }, 'secrets.masterKey'],
    [
      { masterKey: { id: 'a', key: key(1) }, previousKeys: [{ id: 'a', key: key(2) }] },
      'secrets.previousKeys',
    ],
    [{ masterKey: key(1), previousKeys: Array(1) }, 'secrets.previousKeys[0]'],
    [{ masterKey: new Proxy(key(1), {}) }, 'secrets.masterKey.0'],
  ])('rejects %j', async (secrets, field) => {
    const opened = openEngine({ secrets: secrets as never })
    await expect(opened).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT', details: { field } })
  })
})

describe('a Secret', () => {
  const value = 'the value itself'
  const secret = new Secret(value)

  test('reveals its value only through reveal()', () => {
    expect(secret.reveal()).toBe(value)
    const shown = [
      String(secret),
      `<${secret as unknown as string}>`,
      secret + '',
      JSON.stringify(secret),
      JSON.stringify({ secret }),
      secret.toLocaleString(),
      inspect(secret),
      inspect(secret, { showHidden: true, depth: null }),
      inspect(secret, { showHidden: true, customInspect: false, depth: null, getters: true }),
      inspect({ deep: [secret] }, { showHidden: true, depth: null, showProxy: true }),
      inspect(new Error('x', { cause: secret })),
      JSON.stringify(structuredClone(secret)),
      JSON.stringify(Object.assign({}, secret)),
      JSON.stringify(Object.getOwnPropertyDescriptors(secret)),
      Reflect.ownKeys(secret).join(),
      Object.keys(secret).join(),
    ]
    for (const text of shown) expect(text).not.toContain(value)
    expect(shown.slice(0, 4)).toEqual(['[redacted]', '<[redacted]>', '[redacted]', '"[redacted]"'])
    expect(inspect(secret)).toBe('[redacted]')
    const enumerated: string[] = []
    for (const name in secret) enumerated.push(name)
    expect(enumerated).toEqual([])
  })
})
