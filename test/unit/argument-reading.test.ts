/** Every public method reads its arguments during the call, and each property only once. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { memoryStorage, openEngine, type Engine, type EngineScope, type Session } from '../../src/index.js'
import { FailingStorage } from '../support/failing-storage.js'
import * as calls from '../support/public-calls.js'
import { openRemote, type Remote } from '../support/remote.js'

type Table = Readonly<Record<string, readonly (readonly unknown[])[]>>
type Method = (...given: readonly unknown[]) => unknown

/** The reads that the getters of one call recorded. */
interface Reads {
  /** Set when the call has returned. */
  over: boolean
  readonly late: string[]
  readonly repeated: string[]
}

/** A copy of arguments in which every property of every object is a getter that records its reads. */
function watched(given: unknown, reads: Reads, at: string): unknown {
  const isArray = Array.isArray(given)
  if (typeof given !== 'object' || given === null) return given
  if (!isArray && Object.getPrototypeOf(given) !== Object.prototype) return given
  const copy: object = isArray ? [] : {}
  for (const [name, part] of Object.entries(given)) {
    const place = `${at}.${name}`
    const value = watched(part, reads, place)
    let count = 0
    Object.defineProperty(copy, name, {
      enumerable: true,
      configurable: true,
      get() {
        if (reads.over) reads.late.push(place)
        if (++count > 1) reads.repeated.push(place)
        return value
      },
    })
  }
  return copy
}

/** Iterators that wait for future items. */
const endless = new Set(['subscribe', 'follow'])

/** Waits for a promise, or for the first item of an iterator. */
async function firstOf(result: unknown, isEndless = false): Promise<void> {
  if (typeof (result as PromiseLike<unknown>)?.then === 'function') await result
  else if (typeof (result as AsyncIterable<unknown>)?.[Symbol.asyncIterator] === 'function') {
    const iterator = (result as AsyncIterable<unknown>)[Symbol.asyncIterator]()
    const first = iterator.next()
    if (!isEndless) await first
    else await Promise.race([first, delay(20)])
    iterator.return?.()?.catch(() => undefined)
    first.catch(() => undefined)
  }
}

/** Calls a method, changes its arguments as soon as it has returned, and waits for it to finish. */
async function readsOf(target: object, name: string, given: readonly unknown[]): Promise<Reads> {
  const reads: Reads = { over: false, late: [], repeated: [] }
  const copies = given.map((one, index) => watched(one, reads, String(index)))
  try {
    const result = (target as Record<string, Method>)[name]!(...copies)
    reads.over = true
    await firstOf(result, endless.has(name))
  } catch {
    // Most of the calls name resources that do not exist.
  }
  reads.over = true
  return reads
}

/** Argument errors are rejections: a call that returns a promise never throws. */
async function failsBy(target: object, name: string, given: readonly unknown[]): Promise<string> {
  const throwing = new Proxy(
    {},
    {
      ownKeys() {
        throw new Error('not readable')
      },
    },
  )
  const copies = given.map((one) => (isPlain(one) ? throwing : one))
  let result: unknown
  try {
    result = (target as Record<string, Method>)[name]!(...copies)
  } catch (error) {
    return `throws ${String(error)}`
  }
  try {
    await firstOf(result)
    return 'succeeds'
  } catch (error) {
    return `rejects with ${(error as { reason?: string }).reason}`
  }
}

function isPlain(value: unknown): boolean {
  return typeof value === 'object' && Object.getPrototypeOf(value) === Object.prototype
}

/** Methods that return neither a promise nor an iterator. */
const synchronous = new Set(['narrow', 'as', 'withMetadata'])

function readsAtTheCall(
  title: string,
  handle: () => Promise<object> | object,
  table: object,
  leftOut: readonly string[] = [],
): void {
  const rows = Object.entries(table as Table).filter(([name]) => !leftOut.includes(name))
  const withOptions = rows.filter(([, variants]) =>
    variants.some((given) => given.some((one) => typeof one === 'object' && one !== null)),
  )
  test.each(withOptions)(`${title}.%s`, async (name, variants) => {
    for (const given of variants) {
      const { late, repeated } = await readsOf(await handle(), name, given)
      expect({ given, late, repeated }).toEqual({ given, late: [], repeated: [] })
      const refuses = !synchronous.has(name) && given.some((one) => isPlain(one))
      const failure = refuses ? await failsBy(await handle(), name, given) : 'rejects with INVALID_ARGUMENT'
      expect([name, failure]).toEqual([name, 'rejects with INVALID_ARGUMENT'])
    }
  })
}

let directory: string
let engine: Engine
let recovering: Engine
/** Durable, so that sessions are reloaded from it. */
const storage = new FailingStorage(memoryStorage({ durable: true }), { recovers: true })
let remote: Remote
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'argument-reading-'))
  engine = await openEngine({ hostPaths: { roots: [directory] } })
  recovering = await openEngine({ storage, hostPaths: { roots: [directory] } })
  remote = await openRemote()
})
afterAll(async () => {
  await engine.close()
  await recovering.close()
  await remote.close()
  await rm(directory, { recursive: true })
})

const create = (scope: EngineScope): Promise<Session> => scope.sessions.create({ files: { '/a': 'x' } })

/** A session whose last change was not stored. At the next call the store recovers and the session is reloaded. */
async function failed(): Promise<Session> {
  const session = await create(recovering)
  storage.next = 'fail'
  await expect(session.files.write({ path: '/b', content: 'x' })).rejects.toMatchObject({
    reason: 'STORE_FAILED',
  })
  storage.next = 'commit'
  return session
}

function eachScope(open: () => Promise<Engine> | Engine): void {
  readsAtTheCall('engine', open, calls.engineCalls)
  readsAtTheCall('sessions', async () => (await open()).sessions, calls.sessionsCalls)
  readsAtTheCall('sources', async () => (await open()).sources, calls.sourcesCalls)
  readsAtTheCall('usage', async () => (await open()).usage, calls.usageCalls)
}

function eachHandle(open: () => Promise<Session>): void {
  const of = (part: keyof Session) => async (): Promise<object> => (await open())[part] as object
  readsAtTheCall('session', open, calls.sessionCalls)
  readsAtTheCall('files', of('files'), calls.filesCalls)
  readsAtTheCall('cache', of('cache'), calls.cacheCalls)
  readsAtTheCall('bus', of('bus'), calls.busCalls)
  readsAtTheCall('events', of('events'), calls.eventsCalls)
  readsAtTheCall('annotations', of('annotations'), calls.annotationsCalls)
  readsAtTheCall('conflicts', of('conflicts'), calls.conflictsCalls)
  readsAtTheCall('approvals', of('approvals'), calls.approvalsCalls)
  readsAtTheCall('fileLocks', of('fileLocks'), calls.fileLocksCalls)
  readsAtTheCall('posixLocks', of('posixLocks'), calls.posixLocksCalls)
  readsAtTheCall('commits', of('commits'), calls.commitsCalls)
  readsAtTheCall('health', of('health'), calls.healthCalls)
  readsAtTheCall('secrets', of('secrets'), calls.secretsCalls)
}

describe('on an engine', () => {
  eachScope(() => engine)
})
describe('on an engine whose store must recover first', () => {
  eachScope(async () => {
    await failed()
    return recovering
  })
})
describe('on a session in memory', () => {
  eachHandle(() => create(engine))
})
describe('after a pending change of the session', () => {
  eachHandle(async () => {
    const session = await create(engine)
    session.files.write({ path: '/before', content: 'x' }).catch(() => undefined)
    return session
  })
})
describe('on a session that must be loaded', () => {
  eachHandle(failed)
})
describe('on a checkout', () => {
  readsAtTheCall(
    'checkout',
    async () => (await create(engine)).checkout(join(directory, crypto.randomUUID())),
    calls.checkoutCalls,
  )
})
describe('on a client', () => {
  const open = async (): Promise<object> => remote.client.sessions.create({ files: { '/a': 'x' } })
  const of = (part: string) => async (): Promise<object> => ((await open()) as Record<string, object>)[part]!
  const absent = [
    'as',
    'narrow',
    'rotateSecrets',
    'collect',
    'check',
    'importBundle',
    'exportTar',
    'onJob',
    'sent',
  ]
  const inProcess = [...absent, 'checkout', 'exec', 'exportBundle', 'follow', 'verify']
  readsAtTheCall('engine', () => remote.client, calls.engineCalls, inProcess)
  readsAtTheCall('sessions', () => remote.client.sessions, calls.sessionsCalls, inProcess)
  readsAtTheCall('sources', () => remote.client.sources, calls.sourcesCalls, inProcess)
  readsAtTheCall('usage', () => remote.client.usage, calls.usageCalls, inProcess)
  readsAtTheCall('session', open, calls.sessionCalls, inProcess)
  readsAtTheCall('files', of('files'), calls.filesCalls)
  readsAtTheCall('cache', of('cache'), calls.cacheCalls)
  readsAtTheCall('bus', of('bus'), calls.busCalls)
  readsAtTheCall('events', of('events'), calls.eventsCalls, inProcess)
  readsAtTheCall('annotations', of('annotations'), calls.annotationsCalls)
  readsAtTheCall('conflicts', of('conflicts'), calls.conflictsCalls)
  readsAtTheCall('approvals', of('approvals'), calls.approvalsCalls)
  readsAtTheCall('fileLocks', of('fileLocks'), calls.fileLocksCalls)
  readsAtTheCall('posixLocks', of('posixLocks'), calls.posixLocksCalls)
  readsAtTheCall('health', of('health'), calls.healthCalls)
  readsAtTheCall('secrets', of('secrets'), calls.secretsCalls)
})

/** Calls of `session.fs` with options, by the name that all forms share. */
const optionsOf: Readonly<Record<string, readonly unknown[]>> = {
  writeFile: ['/a', 'x', { encoding: 'utf8', mode: 0o600, flag: 'w', flush: true }],
  appendFile: ['/a', 'x', { encoding: 'utf8', mode: 0o600, flag: 'a', flush: false }],
  readFile: ['/a', { encoding: 'utf8', flag: 'r' }],
  readdir: ['/', { encoding: 'utf8', recursive: true, withFileTypes: true }],
  opendir: ['/', { encoding: 'utf8', recursive: true, bufferSize: 4 }],
  stat: ['/a', { bigint: true, throwIfNoEntry: true }],
  lstat: ['/a', { bigint: true, throwIfNoEntry: true }],
  statfs: ['/a', { bigint: true }],
  readlink: ['/l', { encoding: 'utf8' }],
  realpath: ['/a', { encoding: 'utf8' }],
  mkdir: ['/d', { recursive: true, mode: 0o700 }],
  mkdtemp: ['/t-', { encoding: 'utf8' }],
  rm: ['/a', { recursive: true, force: true, maxRetries: 1, retryDelay: 1 }],
  cp: ['/a', '/b', { recursive: true, force: true, mode: 0, preserveTimestamps: true }],
  glob: ['*', { cwd: '/', exclude: ['b'], withFileTypes: true }],
}

const ofPromises = { ...optionsOf, mkdtempDisposable: ['/t-', { encoding: 'utf8' }] }
const ofStreams = {
  createReadStream: ['/a', { encoding: 'utf8', flags: 'r', start: 0, end: 1, highWaterMark: 4 }],
  createWriteStream: ['/a', { encoding: 'utf8', flags: 'w', mode: 0o600, start: 0, flush: true }],
  openAsBlob: ['/a', { type: 'text/plain' }],
  watch: ['/a', { encoding: 'utf8', persistent: false, recursive: true }],
}
const ofHandle = {
  writeFile: ['x', { encoding: 'utf8' }],
  appendFile: ['x', { encoding: 'utf8' }],
  readFile: [{ encoding: 'utf8' }],
  read: [new Uint8Array(1), { offset: 0, length: 1, position: 0 }],
  write: [new Uint8Array(1), { offset: 0, length: 1, position: 0 }],
  stat: [{ bigint: true }],
  createReadStream: [{ encoding: 'utf8', start: 0 }],
  createWriteStream: [{ encoding: 'utf8', start: 0 }],
}

async function* pieces(): AsyncGenerator<string> {
  yield 'y'
}

/** Data in pieces: the file is opened before the first piece arrives. */
const ofPieces = {
  writeFile: [pieces(), { encoding: 'utf8', mode: 0o600, flag: 'w', flush: true }],
  appendFile: [pieces(), { encoding: 'utf8', mode: 0o600, flag: 'a', flush: true }],
}

describe('on session.fs', () => {
  /** Iterators read their arguments at the first step, as in Node. */
  const isLazy = (form: string, name: string): boolean => form === 'promises' && name === 'glob'
  const forms: readonly (readonly [string, object, (session: Session) => object | Promise<object>])[] = [
    ['promises', ofPromises, ({ fs }) => fs.promises],
    ['pieces', ofPieces, ({ fs }) => fs.promises],
    ['callback', { ...optionsOf, ...ofStreams }, ({ fs }) => fs],
    ['Sync', optionsOf, ({ fs }) => fs],
    ['FileHandle', ofHandle, ({ fs }) => fs.promises.open('/a', 'r+')],
  ]
  const rows = forms.flatMap(([form, table, open]) =>
    Object.entries(table as Readonly<Record<string, readonly unknown[]>>).map(
      ([name, given]) => ({ form, name, given, open }) as const,
    ),
  )
  test.each(rows)('$form $name reads each option once', async ({ form, name, given, open }) => {
    const session = await createLinked()
    const handle = await open(session)
    const last = form === 'callback' && !(name in ofStreams) ? [() => undefined] : []
    const all = form === 'pieces' ? ['/a', ...given, ...last] : [...given, ...last]
    const { late, repeated } = await readsOf(handle, form === 'Sync' ? `${name}Sync` : name, all)
    expect({ late: isLazy(form, name) ? [] : late, repeated }).toEqual({ late: [], repeated: [] })
  })

  test.each(rows)(
    '$form $name changes nothing when an option throws',
    async ({ form, name, given, open }) => {
      const options = given.findIndex((one) => isPlain(one))
      for (const key of Object.keys(given[options] as object)) {
        const session = await createLinked()
        const handle = await open(session)
        const copy = Object.defineProperty({ ...(given[options] as object) }, key, {
          enumerable: true,
          get() {
            throw new Error('not readable')
          },
        })
        const all = form === 'pieces' ? ['/a', ...given] : [...given]
        all[all.indexOf(given[options])] = copy
        if (form === 'callback' && !(name in ofStreams)) all.push(() => undefined)
        const before = await session.events.verify()
        const call = async (): Promise<void> =>
          firstOf((handle as Record<string, Method>)[form === 'Sync' ? `${name}Sync` : name]!(...all))
        await expect(call()).rejects.toThrow('not readable')
        expect(await session.events.verify()).toEqual(before)
      }
    },
  )

  test('writes data in pieces with the given flag and mode', async () => {
    const { fs } = await createLinked()
    await fs.promises.writeFile('/a', ['y', 'z'], { flag: 'a' })
    expect(fs.readFileSync('/a', 'utf8')).toBe('xyz')
    await fs.promises.writeFile('/new', ['y'], { mode: 0o600 })
    expect(fs.statSync('/new').mode & 0o777).toBe(0o600)
  })

  test.each(['writeFile', 'appendFile'] as const)(
    '%s opens no file if the iterator of its data cannot be read',
    async (name) => {
      const session = await createLinked()
      const before = await session.events.verify()
      const unreadable = new Proxy([], {
        get() {
          throw new Error('not readable')
        },
      })
      const notIterable = { [Symbol.iterator]: 'none' }
      const call = session.fs.promises[name] as Method
      await expect(call('/new', unreadable)).rejects.toThrow('not readable')
      await expect(call('/new', notIterable)).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' })
      expect(await session.events.verify()).toEqual(before)
    },
  )

  async function createLinked(): Promise<Session> {
    const session = await create(engine)
    session.fs.symlinkSync('/a', '/l')
    return session
  }
})
