/**
 * Calls every public method with arguments that lie, throw or have the wrong type. A call must succeed or fail with a
 * coded error. It must not fail with an internal error, hang, leave an unhandled rejection, or change a global
 * prototype. A failed call must change nothing: no file, event, checkpoint, lock, cache entry, source, usage or
 * checked-out file. Calls of node:fs that also fail halfway in Node must leave the same files as Node.
 */
import { Buffer } from 'node:buffer'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'
import { inspect } from 'node:util'
import {
  EngineError,
  openEngine,
  PosixLockKind,
  type Checkout,
  type Engine,
  type EngineScope,
  type Session,
} from '../../src/index.js'
import { fixedEnvironment, randomWords } from '../../src/testing.js'
import * as publicCalls from '../support/public-calls.js'
import { abortReason, hostileError, hostileValues } from './hostile-values.js'
import { attempt, pictureOfPrototypes, placesIn, setAt } from './hostile-places.js'
import { compareWithNode, mayBePartial } from './node-partial.js'
import type { AttackOptions, AttackResult } from './attacks.js'

type Arguments = readonly unknown[]
type Random = (below: number) => number

interface Target {
  readonly name: string
  readonly handle: object
  readonly method: string
  /** Valid arguments of the method; none are known for `session.fs`. */
  readonly given: Arguments
  readonly isFs: boolean
}

/** Calls on one session before it is replaced. */
const callsPerSession = 200
/** Calls with the same hostile values, some of which are slow to create. */
const callsPerValues = 50
/** A call that takes longer counts as hanging. */
const hangMs = 10_000
/** Iterators and blocking locks may wait forever, so they are only observed for this long. */
const waitMs = 5

const tables = {
  engine: publicCalls.engineCalls,
  sessions: publicCalls.sessionsCalls,
  sources: publicCalls.sourcesCalls,
  usage: publicCalls.usageCalls,
  session: publicCalls.sessionCalls,
  files: publicCalls.filesCalls,
  text: publicCalls.textCalls,
  cache: publicCalls.cacheCalls,
  bus: publicCalls.busCalls,
  events: publicCalls.eventsCalls,
  annotations: publicCalls.annotationsCalls,
  approvals: publicCalls.approvalsCalls,
  fileLocks: publicCalls.fileLocksCalls,
  posixLocks: publicCalls.posixLocksCalls,
  commits: publicCalls.commitsCalls,
  health: publicCalls.healthCalls,
  secrets: publicCalls.secretsCalls,
  checkout: publicCalls.checkoutCalls,
} as const

/** Methods that end objects which other calls need. */
const leftOut = new Set(['engine.close', 'session.delete', 'sessions.delete'])
/** Methods that wait for another caller. */
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
    // As in Node, errors thrown by a callback of node:fs become uncaught exceptions.
    if (!isOfCallback(error) || !/^fs|^File/.test(calling)) report(`${calling}: uncaught ${shortOf(error)}`)
  }
  process.on('uncaughtException', onUncaught)
  const prototypes = pictureOfPrototypes()
  const root = await mkdtemp(join(tmpdir(), 'hostile-arguments-'))
  // The clock does not advance, so nothing expires between two comparisons of the state.
  const environment = fixedEnvironment({ stepMs: 0, seed })
  const engine = await openEngine({ memoryBudgetBytes: 2 ** 24, environment, hostPaths: { roots: [root] } })
  const compared = { same: 0, other: 0, unsafe: 0, linked: 0, pieces: 0 }
  const outcomes = { failed: 0, succeeded: 0, waited: 0 }
  try {
    let values = hostileValues()
    let world = await openWorld(engine, root, random, 0)
    let before = await stateOf(world)
    for (let call = 0; call < n; call++) {
      if (call % callsPerSession === callsPerSession - 1) {
        await closeWorld(world)
        world = await openWorld(engine, root, random, call)
        before = await stateOf(world)
      }
      const target = pick(random, world.targets)
      if (call % callsPerValues === 0) values = hostileValues()
      const { given, again } = hostile(random, values, target, world)
      const label = `${target.name}.${target.method}`
      calling = label
      const kept = target.isFs && mayBePartial(target) ? await world.session.fork() : undefined
      if (kept !== undefined) before = await stateOf(world)
      const outcome = await outcomeOf(target, given)
      outcomes[outcome.kind]++
      if (outcome.kind === 'failed' && !isCoded(outcome.error, target))
        report(`${label} fails with ${shortOf(outcome.error)}`)
      if (outcome.hangs) report(`${label} hangs`)
      // A callback or a stream may still be in progress.
      if (outcome.kind === 'succeeded' && target.name === 'fs' && !target.method.endsWith('Sync'))
        await delay(2)
      if (outcome.kind === 'succeeded') await follow(world, target, given, outcome.value, report)
      const after = await stateOf(world)
      if (outcome.kind === 'failed' && after !== before) {
        const fsCall = { name: target.name, method: target.method, given: again }
        const comparison = kept === undefined ? undefined : await compareWithNode(kept, world.session, fsCall)
        if (comparison !== undefined) compared[comparison]++
        const parts = difference(before, after)
        // If a callback interrupts a checkout, the next update completes it.
        const isCutOff = parts === 'directory' && isOfCallback(outcome.error)
        const isPartial = comparison === 'same' || comparison === 'linked' || comparison === 'pieces'
        if (!isPartial && !isCutOff) {
          const how = comparison === undefined ? '' : ` (as in Node: ${comparison})`
          report(`${label} failed and changed ${parts}${how}: ${shortOf(outcome.error)}`)
        }
      }
      await kept?.delete()
      before = kept === undefined ? after : await stateOf(world)
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
    await rm(root, { recursive: true, force: true })
    // Waits for errors that callbacks throw later.
    await delay(100)
    process.off('unhandledRejection', onUnhandled)
    process.off('uncaughtException', onUncaught)
  }
  const { failed, succeeded, waited } = outcomes
  const line = `${n} calls: ${failed} refused, ${succeeded} carried out, ${waited} waited, ${compared.same} left what Node leaves, ${compared.linked + compared.pieces} could not be compared; ${found.size} findings`
  return { line, failed: found.size > 0 }
}

interface World {
  readonly tenant: string
  readonly scope: EngineScope
  readonly engine: Engine
  readonly session: Session
  /** Replaced when it was deleted. */
  sourceId: string
  readonly checkout: Checkout
  readonly targets: readonly Target[]
  readonly close: () => Promise<void>
}

const tenants = ['tenant', 'other tenant'] as const

/** A new tenant, because lists of sessions take longer with each deleted one. */
async function openWorld(engine: Engine, root: string, random: Random, call: number): Promise<World> {
  const tenant = `${pick(random, tenants)} ${call}`
  const scope = engine.as({ tenant, principal: 'agent' })
  const session = await scope.sessions.create({ files: { '/a': 'content', '/d/b': 'other' } })
  await session.fileLocks.lock({ path: '/a', timeoutSeconds: 60 })
  await session.posixLocks.set({ path: '/d/b', kind: PosixLockKind.EXCLUSIVE, owner: { ownerId: 'first' } })
  await session.checkpoint({ checkpointLabel: 'first' })
  const checkout = await session.checkout(join(root, session.id))
  const { sourceId } = await scope.sources.create({ displayName: 'a', uploadedSnapshot: {} })
  const { fs } = session
  const file = await fs.promises.open('/a', 'r+')
  const handles: Readonly<Record<keyof typeof tables, object>> = {
    engine,
    sessions: scope.sessions,
    sources: scope.sources,
    usage: scope.usage,
    session,
    files: session.files,
    text: session.text,
    cache: session.cache,
    bus: session.bus,
    events: session.events,
    annotations: session.annotations,
    approvals: session.approvals,
    fileLocks: session.fileLocks,
    posixLocks: session.posixLocks,
    commits: session.commits,
    health: session.health,
    secrets: session.secrets,
    checkout,
  }
  const targets: Target[] = []
  for (const [name, table] of Object.entries(tables) as [keyof typeof tables, object][])
    for (const [method, variants] of Object.entries(table as Record<string, readonly Arguments[]>))
      if (!leftOut.has(`${name}.${method}`))
        for (const given of variants)
          targets.push({ name, handle: handles[name], method, given, isFs: false })
  const directory = join(root, `${session.id}-too`)
  targets.push({
    name: 'session',
    handle: session,
    method: 'checkout',
    given: [directory, { force: true, signal: new AbortController().signal }],
    isFs: false,
  })
  const fsTargets = (name: string, handle: object): void => {
    for (const method of methodsOf(handle)) targets.push({ name, handle, method, given: [], isFs: true })
  }
  fsTargets('fs', fs)
  fsTargets('fs.promises', fs.promises)
  fsTargets('FileHandle', file)
  const close = (): Promise<void> => file.close().catch(() => undefined)
  return { tenant, scope, engine, session, sourceId, checkout, targets, close }
}

async function closeWorld({ session, close }: World): Promise<void> {
  await close()
  await session.delete()
}

/** Completes the work that a call started, and inspects its result. */
async function follow(
  world: World,
  { name, method }: Target,
  given: Arguments,
  value: unknown,
  report: (text: string) => void,
): Promise<void> {
  const { scope, session, tenant } = world
  if (name === 'sources') {
    const { sourceId, jobId } = (value ?? {}) as { readonly sourceId?: string; readonly jobId?: string }
    if (typeof jobId === 'string' && typeof sourceId === 'string' && method !== 'abortJob')
      await scope.sources.abortJob({ sourceId, jobId }).catch(() => undefined)
    if (method === 'delete' && !(await exists(scope.sources.get(world.sourceId))))
      ({ sourceId: world.sourceId } = await scope.sources.create({ displayName: 'b', uploadedSnapshot: {} }))
  }
  if (name !== 'engine' || method !== 'as') return
  const other = value as EngineScope
  const wanted: unknown = plainly(given[0])['tenant']
  const sees = await exists(other.sessions.get(session.id))
  if (sees && typeof wanted === 'string' && wanted !== tenant)
    report(`engine.as(${inspect(wanted)}) sees a session of the tenant ${tenant}`)
}

async function exists(work: Promise<unknown>): Promise<boolean> {
  try {
    await work
    return true
  } catch (error) {
    if (error instanceof EngineError && error.code === 'NOT_FOUND') return false
    throw error
  }
}

/** Own properties without getters; empty for a value that cannot be read. */
function plainly(value: unknown): Readonly<Record<string, unknown>> {
  try {
    const own = Object.getOwnPropertyDescriptors(value as object)
    return Object.fromEntries(
      Object.entries(own).map(([name, property]) => [name, property.value as unknown]),
    )
  } catch {
    return {}
  }
}

/** Own and inherited functions, except classes. */
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

type State = Readonly<Record<string, string>>

/** The state that a failed call must not change, as one text with named parts. */
async function stateOf({ session, scope, checkout }: World): Promise<string> {
  const owner = { ownerId: 'a stranger' }
  const lockOf = async (path: string, isFlock: boolean): Promise<unknown> =>
    session.posixLocks
      .get({ path, kind: PosixLockKind.EXCLUSIVE, owner, isFlock })
      .catch((error: unknown) => (error as EngineError).reason)
  const { manifestHash } = await session.manifest({ pageSize: 1 })
  const state = {
    files: [manifestHash, (await session.files.listSymlinks()).symlinks],
    events: await session.events.verify(),
    checkpoints: await session.listCheckpoints(),
    session: await session.get(),
    cache: [await session.cache.keys(), (await session.cache.stats()).entryCount],
    fileLocks: await session.fileLocks.list(),
    posixLocks: [
      await lockOf('/a', false),
      await lockOf('/a', true),
      await lockOf('/d/b', false),
      await lockOf('/d/b', true),
    ],
    annotations: await session.annotations.list(),
    approvals: await session.approvals.list(),
    secrets: await session.secrets.list(),
    health: await session.health.history(),
    sources: await scope.sources.list(),
    sessions: (await scope.sessions.list()).sessions.length,
    usage: await scope.usage.metrics(),
    directory: [pictureOf(checkout.directory), pictureOf(`${checkout.directory}-too`)],
  }
  const texts = Object.entries(state).map(([name, part]) => [name, textOf(part)])
  return JSON.stringify(Object.fromEntries(texts))
}

function textOf(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? String(part) : part))
}

/** The names of the parts that differ. */
function difference(before: string, after: string): string {
  const [old, now] = [JSON.parse(before) as State, JSON.parse(after) as State]
  return Object.keys(now)
    .filter((name) => old[name] !== now[name])
    .join(', ')
}

/** The files of a host directory with their contents. */
function pictureOf(directory: string): unknown {
  try {
    return readdirSync(directory, { recursive: true, withFileTypes: true }).map((entry) => [
      join(entry.parentPath, entry.name),
      entry.isFile() ? readFileSync(join(entry.parentPath, entry.name), 'latin1') : '',
    ])
  } catch {
    return 'none'
  }
}

interface Hostile {
  readonly given: unknown[]
  /** Creates the same arguments again; for `session.fs` only. */
  readonly again: () => unknown[]
}

const rightOfFs = ['/a', '/d', '/new', 3, 'utf8', Buffer.alloc(4), { recursive: true }, 0o644, 'r+']

/** Arguments for a call, of which at least one is hostile. */
function hostile(random: Random, values: Arguments, target: Target, world: World): Hostile {
  const { given, isFs, method } = target
  if (isFs || given.length === 0) {
    const picks = Array.from({ length: random(5) }, () =>
      random(2) === 0 ? { wrong: random(values.length) } : { right: random(rightOfFs.length) },
    )
    const make = (from: Arguments): unknown[] =>
      picks.map(({ wrong, right }) => (wrong === undefined ? rightOfFs[right] : from[wrong]))
    // The sync and promise forms take no callback.
    const withCallback = isFs && !method.endsWith('Sync') && random(2) === 0
    const callback = withCallback ? [() => undefined] : []
    return {
      given: [...make(values), ...callback],
      again: () => [...make(hostileValues()), ...callback],
    }
  }
  const wrong = (): unknown => pick(random, values)
  const copy = given.map((one) => renamed(random, one, world))
  if (random(8) === 0) return { given: [...copy, wrong()], again: () => [] }
  const places: (readonly (string | number)[])[] = []
  for (const [index, part] of copy.entries()) places.push([index], ...placesIn(part, [index]))
  const times = 1 + random(2)
  for (let i = 0; i < times; i++) attempt(() => setAt(copy, pick(random, places), wrong()))
  return { given: copy, again: () => [] }
}

/** A deep copy in which some ids are replaced with existing ones. */
function renamed(random: Random, given: unknown, world: World): unknown {
  if (given === publicCalls.id) return pick(random, [given, world.session.id, world.sourceId])
  if (Array.isArray(given)) return given.map((one) => renamed(random, one, world))
  if (typeof given !== 'object' || given === null || Object.getPrototypeOf(given) !== Object.prototype)
    return given
  return Object.fromEntries(Object.entries(given).map(([name, part]) => [name, renamed(random, part, world)]))
}

type Outcome =
  | { readonly kind: 'failed'; readonly error: unknown; readonly hangs?: boolean }
  | { readonly kind: 'succeeded' | 'waited'; readonly value?: unknown; readonly hangs?: boolean }

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
    const value = await Promise.race([work, late])
    if (value !== waiting) return { kind: 'succeeded', value }
    if (!mayWait) return { kind: 'waited', hangs: true }
    if (isIterator(result)) void Promise.resolve(result.return?.(undefined)).catch(() => undefined)
    return { kind: 'waited' }
  } catch (error) {
    return { kind: 'failed', error }
  } finally {
    timer.abort()
  }
}

/** Waits for a promise, the first item of an iterator, or the error of an emitter. */
async function settle(result: unknown): Promise<unknown> {
  if (typeof result !== 'object' || result === null) return undefined
  if (result instanceof Promise) {
    const value: unknown = await result
    await closed(value)
    return value
  }
  if (isIterator(result)) {
    await result.next()
    await result.return?.(undefined)
    return undefined
  }
  await closed(result)
  return result
}

/** Closes a handle, stream or iterator that a call returned. */
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

/** These calls rethrow an error from a callback or content of the caller unchanged. */
const runCallers = new Set(['collect', 'check', 'checkout', 'update', 'waitForJob', 'importBundle'])

function isOfCallback(error: unknown): boolean {
  return error === hostileError || /Class constructor|Constructor Map/.test(String(error))
}

function isCoded(error: unknown, { isFs, method }: Target): boolean {
  if (error instanceof EngineError) return error.reason !== 'INTERNAL'
  if (error === abortReason) return true
  if (!isFs) return runCallers.has(method) && isOfCallback(error)
  // Node also passes on the error of a getter.
  if (error === hostileError) return true
  // Node throws these too.
  if (
    error instanceof TypeError &&
    /proxy that has been revoked|not a typed array|incompatible receiver/.test(error.message)
  )
    return true
  const { code } = (error ?? {}) as { code?: unknown }
  return typeof code === 'string' && /^(?:E[A-Z0-9]+|ERR_[A-Z_0-9]+|ABORT_ERR)$/.test(code)
}

function shortOf(error: unknown): string {
  if (!(error instanceof Error)) return inspect(error).slice(0, 200)
  const at = error.stack?.split('\n').find((line) => line.includes('/src/')) ?? ''
  return `${error.name}: ${error.message.slice(0, 120)} ${at.trim().replace(/\(.*\/src\//, '(src/')}`
}

function pick<T>(random: Random, values: readonly T[]): T {
  return values[random(values.length)]!
}
