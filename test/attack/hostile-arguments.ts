/**
 * Every public method with arguments that lie, throw or have the wrong type. A call must fail with an error that has a
 * code, or succeed. It must not fail with an error from within, hang, leave a rejection behind, change a global
 * prototype, or change a session when it fails.
 */
import { Buffer } from 'node:buffer'
import process from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'
import { inspect } from 'node:util'
import { EngineError, openEngine, type Engine, type Session } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import * as publicCalls from '../support/public-calls.js'
import { abortReason, hostileError, hostileValues } from './hostile-values.js'
import type { AttackOptions, AttackResult } from './attacks.js'

type Arguments = readonly unknown[]
type Random = (below: number) => number

interface Target {
  readonly name: string
  readonly handle: object
  readonly method: string
  /** Arguments that the method takes; none are known of `session.fs`. */
  readonly given: Arguments
  readonly isFs: boolean
}

/** Calls on one session, before the next one is made. */
const callsPerSession = 200
/** Calls with the same hostile values, some of which are slow to make. */
const callsPerValues = 50
/** A call that has not ended by then hangs. */
const hangMs = 10_000
/** Iterators and blocking locks may wait for ever: so long they are looked at. */
const waitMs = 5

const tables = {
  engine: publicCalls.engineCalls,
  sessions: publicCalls.sessionsCalls,
  sources: publicCalls.sourcesCalls,
  usage: publicCalls.usageCalls,
  session: publicCalls.sessionCalls,
  files: publicCalls.filesCalls,
  cache: publicCalls.cacheCalls,
  bus: publicCalls.busCalls,
  events: publicCalls.eventsCalls,
  annotations: publicCalls.annotationsCalls,
  approvals: publicCalls.approvalsCalls,
  fileLocks: publicCalls.fileLocksCalls,
  posixLocks: publicCalls.posixLocksCalls,
  health: publicCalls.healthCalls,
  secrets: publicCalls.secretsCalls,
} as const

/** They end what the other calls need. */
const leftOut = new Set(['engine.close', 'session.delete', 'sessions.delete', 'sources.delete', 'engine.as'])
/** They wait for another caller. */
const patient = new Set(['setBlocking', 'flock', 'waitForJob'])

export async function hostileArguments({ n, seed, onProgress }: AttackOptions): Promise<AttackResult> {
  const words = randomWords(seed)
  const random: Random = (below) => words() % below
  const found = new Map<string, number>()
  const report = (text: string): void => {
    const count = found.get(text) ?? 0
    if (count === 0) onProgress(text)
    found.set(text, count + 1)
  }
  const onUnhandled = (reason: unknown): void => report(`unhandled rejection: ${shortOf(reason)}`)
  process.on('unhandledRejection', onUnhandled)
  let calling = 'nothing'
  const onUncaught = (error: unknown): void => {
    // As in Node, what a callback of node:fs throws has no other place to go.
    const isOfCallback = error === hostileError || /Class constructor|Constructor Map/.test(String(error))
    if (!isOfCallback || !/^fs|^File/.test(calling)) report(`${calling}: uncaught ${shortOf(error)}`)
  }
  process.on('uncaughtException', onUncaught)
  const prototypes = pictureOfPrototypes()
  const engine = await openEngine({ memoryBudgetBytes: 2 ** 24 })
  const outcomes = { failed: 0, succeeded: 0, waited: 0 }
  try {
    let values = hostileValues()
    let world = await openWorld(engine)
    let before = await stateOf(world.session)
    for (let call = 0; call < n; call++) {
      if (call % callsPerSession === callsPerSession - 1) {
        await closeWorld(world)
        world = await openWorld(engine)
        before = await stateOf(world.session)
      }
      const target = pick(random, world.targets)
      if (call % callsPerValues === 0) values = hostileValues()
      const given = hostile(random, values, target, world)
      calling = `${target.name}.${target.method}`
      const outcome = await outcomeOf(target, given)
      outcomes[outcome.kind]++
      const label = `${target.name}.${target.method}`
      if (outcome.kind === 'failed' && !isCoded(outcome.error, target.isFs))
        report(`${label} fails with ${shortOf(outcome.error)}`)
      if (outcome.hangs) report(`${label} hangs`)
      const after = await stateOf(world.session)
      if (outcome.kind === 'failed' && after !== before && !isPartial(target))
        report(`${label} failed and changed the session`)
      before = after
      if (pictureOfPrototypes() !== prototypes) {
        report(`${label} changed a global prototype`)
        break
      }
      if (call % 5000 === 4999) onProgress(`${call + 1} calls, ${found.size} findings`)
    }
    await closeWorld(world)
    await delay(10)
  } finally {
    await engine.close()
    // What a callback throws later is seen too.
    await delay(100)
    process.off('unhandledRejection', onUnhandled)
    process.off('uncaughtException', onUncaught)
  }
  const { failed, succeeded, waited } = outcomes
  const line = `${n} calls: ${failed} refused, ${succeeded} carried out, ${waited} waited; ${found.size} findings`
  return { line, failed: found.size > 0 }
}

interface World {
  readonly session: Session
  readonly sourceId: string
  readonly targets: readonly Target[]
  readonly close: () => Promise<void>
}

async function openWorld(engine: Engine): Promise<World> {
  const session = await engine.sessions.create({ files: { '/a': 'content', '/d/b': 'other' } })
  const { sourceId } = await engine.sources.create({ displayName: 'a', uploadedSnapshot: {} })
  const { fs } = session
  const file = await fs.promises.open('/a', 'r+')
  const handles: Readonly<Record<keyof typeof tables, object>> = {
    engine,
    sessions: engine.sessions,
    sources: engine.sources,
    usage: engine.usage,
    session,
    files: session.files,
    cache: session.cache,
    bus: session.bus,
    events: session.events,
    annotations: session.annotations,
    approvals: session.approvals,
    fileLocks: session.fileLocks,
    posixLocks: session.posixLocks,
    health: session.health,
    secrets: session.secrets,
  }
  const targets: Target[] = []
  for (const [name, table] of Object.entries(tables) as [keyof typeof tables, object][])
    for (const [method, variants] of Object.entries(table as Record<string, readonly Arguments[]>))
      if (!leftOut.has(`${name}.${method}`))
        for (const given of variants)
          targets.push({ name, handle: handles[name], method, given, isFs: false })
  const fsTargets = (name: string, handle: object): void => {
    for (const method of methodsOf(handle)) targets.push({ name, handle, method, given: [], isFs: true })
  }
  fsTargets('fs', fs)
  fsTargets('fs.promises', fs.promises)
  fsTargets('FileHandle', file)
  return { session, sourceId, targets, close: () => file.close().catch(() => undefined) }
}

async function closeWorld({ session, close }: World): Promise<void> {
  await close()
  await session.delete()
}

/** Own and inherited functions, but for classes. */
function methodsOf(handle: object): string[] {
  const names = new Set<string>()
  for (let at: object = handle; at !== Object.prototype && at !== null;) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(at)))
      if (typeof value === 'function' && /^[a-z]/.test(name) && name !== 'constructor') names.add(name)
    at = Object.getPrototypeOf(at) as object
    if (at?.constructor?.name === 'EventEmitter') break
  }
  return [...names].filter((name) => !['close', 'closeSync'].includes(name))
}

/** What a failed call must leave as it is. */
async function stateOf(session: Session): Promise<string> {
  const { manifestHash } = await session.manifest({ pageSize: 1 })
  const { lastEventId } = await session.events.verify()
  const { entryCount, ...cached } = (await session.cache.stats()) as { entryCount?: number }
  const { totalBytes } = cached as { totalBytes?: number }
  const { symlinks } = await session.files.listSymlinks()
  return JSON.stringify([manifestHash, lastEventId, entryCount, totalBytes, symlinks.length])
}

/** The arguments of a call, of which at least one is hostile. */
function hostile(
  random: Random,
  values: Arguments,
  { given, isFs, method }: Target,
  world: World,
): unknown[] {
  const wrong = (): unknown => pick(random, values)
  if (isFs || given.length === 0) {
    const right = ['/a', '/d', '/new', 3, 'utf8', Buffer.alloc(4), { recursive: true }, 0o644, 'r+']
    const some = Array.from({ length: random(5) }, () => (random(2) === 0 ? wrong() : pick(random, right)))
    // Sync and promise forms take no callback.
    if (isFs && !method.endsWith('Sync') && random(2) === 0) some.push(() => undefined)
    return some
  }
  const copy = given.map((one) => renamed(random, one, world))
  const places: (readonly (string | number)[])[] = []
  for (const [index, part] of copy.entries()) places.push([index], ...placesIn(part, [index]))
  const times = 1 + random(2)
  for (let i = 0; i < times; i++) attempt(() => setAt(copy, pick(random, places), wrong()))
  return copy
}

/** An earlier hostile value may be in the way. */
function attempt(step: () => void): void {
  try {
    step()
  } catch {
    // The other arguments are hostile enough.
  }
}

/** A deep copy, in which ids are sometimes those of things that exist. */
function renamed(random: Random, given: unknown, world: World): unknown {
  if (given === publicCalls.id) return pick(random, [given, world.session.id, world.sourceId])
  if (Array.isArray(given)) return given.map((one) => renamed(random, one, world))
  if (typeof given !== 'object' || given === null || Object.getPrototypeOf(given) !== Object.prototype)
    return given
  return Object.fromEntries(Object.entries(given).map(([name, part]) => [name, renamed(random, part, world)]))
}

function* placesIn(
  given: unknown,
  at: readonly (string | number)[],
): Generator<readonly (string | number)[]> {
  if (typeof given !== 'object' || given === null || ArrayBuffer.isView(given)) return
  if (!Array.isArray(given) && Object.getPrototypeOf(given) !== Object.prototype) return
  for (const [name, part] of Object.entries(given)) {
    yield [...at, name]
    yield* placesIn(part, [...at, name])
  }
}

function setAt(given: unknown[], place: readonly (string | number)[], value: unknown): void {
  let at = given as unknown as Record<string | number, unknown>
  for (const name of place.slice(0, -1)) {
    const next = at[name]
    // An earlier hostile value is in the way.
    if (typeof next !== 'object' || next === null || hasHostile(next)) return
    at = next as Record<string | number, unknown>
  }
  Reflect.set(at, place.at(-1)!, value)
}

function hasHostile(value: object): boolean {
  try {
    return !Array.isArray(value) && Object.getPrototypeOf(value) !== Object.prototype
  } catch {
    return true
  }
}

type Outcome =
  | { readonly kind: 'failed'; readonly error: unknown; readonly hangs?: boolean }
  | { readonly kind: 'succeeded' | 'waited'; readonly hangs?: boolean }

const waiting = Symbol('waiting')

async function outcomeOf({ handle, method }: Target, given: Arguments): Promise<Outcome> {
  let result: unknown
  try {
    result = (handle as Record<string, (...all: Arguments) => unknown>)[method]!(...given)
  } catch (error) {
    return { kind: 'failed', error }
  }
  const work = settle(result)
  work.catch(() => undefined)
  const mayWait = patient.has(method) || isIterator(result)
  const timer = new AbortController()
  const late = delay(mayWait ? waitMs : hangMs, waiting, { signal: timer.signal }).catch(() => waiting)
  try {
    if ((await Promise.race([work, late])) !== waiting) return { kind: 'succeeded' }
    if (!mayWait) return { kind: 'waited', hangs: true }
    if (isIterator(result)) void Promise.resolve(result.return?.(undefined)).catch(() => undefined)
    return { kind: 'waited' }
  } catch (error) {
    return { kind: 'failed', error }
  } finally {
    timer.abort()
  }
}

/** Waits for a promise, the first thing of an iterator, or the error of an emitter. */
async function settle(result: unknown): Promise<void> {
  if (typeof result !== 'object' || result === null) return
  if (result instanceof Promise) {
    await closed(await result)
    return
  }
  if (isIterator(result)) {
    await result.next()
    await result.return?.(undefined)
    return
  }
  await closed(result)
}

/** Lets go of what a call opened. */
async function closed(result: unknown): Promise<void> {
  if (typeof result !== 'object' || result === null) return
  const { on, destroy, close, stop } = result as Record<string, unknown>
  if (typeof on === 'function') (on as (...all: Arguments) => void).call(result, 'error', () => undefined)
  for (const end of [destroy, stop])
    if (typeof end === 'function') {
      ;(end as () => void).call(result)
      return
    }
  if (typeof close === 'function') await (close as () => unknown).call(result)
}

function isIterator(value: unknown): value is AsyncGenerator<unknown> {
  try {
    return typeof (value as AsyncGenerator<unknown> | null)?.next === 'function'
  } catch {
    return false
  }
}

/** A content that comes in pieces is written as far as it came, as in Node. */
function isPartial({ isFs, method }: Target): boolean {
  return isFs && /^(?:write|append)File|^(?:cp|mkdir|rm)/.test(method)
}

function isCoded(error: unknown, isFs: boolean): boolean {
  if (error instanceof EngineError) return error.reason !== 'INTERNAL'
  if (error === abortReason) return true
  if (!isFs) return false
  // Node passes on the error of a getter, too.
  if (error === hostileError) return true
  // As in Node, too.
  if (error instanceof TypeError && /proxy that has been revoked|not a typed array/.test(error.message))
    return true
  const { code } = (error ?? {}) as { code?: unknown }
  return typeof code === 'string' && /^(?:E[A-Z0-9]+|ERR_[A-Z_0-9]+|ABORT_ERR)$/.test(code)
}

function shortOf(error: unknown): string {
  if (!(error instanceof Error)) return inspect(error).slice(0, 200)
  const at = error.stack?.split('\n').find((line) => line.includes('/src/')) ?? ''
  return `${error.name}: ${error.message.slice(0, 120)} ${at.trim().replace(/\(.*\/src\//, '(src/')}`
}

const watchedPrototypes = [
  Object,
  Array,
  Function,
  String,
  Number,
  Promise,
  Map,
  Set,
  RegExp,
  Error,
  Uint8Array,
  Buffer,
  ArrayBuffer,
  AbortSignal,
]

function pictureOfPrototypes(): string {
  return watchedPrototypes.map(({ prototype }) => Reflect.ownKeys(prototype as object).length).join()
}

function pick<T>(random: Random, values: readonly T[]): T {
  return values[random(values.length)]!
}
