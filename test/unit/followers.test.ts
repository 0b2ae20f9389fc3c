/** Readers of events and messages hold their session in memory, and its states, only until they leave. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { MessageBus } from '../../src/engine/services/bus/bus.js'
import type { Core } from '../../src/engine/session/core.js'
import type { LiveSession } from '../../src/engine/session/table/live.js'
import { memoryStorage, openEngine, type Engine, type Session } from '../../src/index.js'

let engine: Engine
let session: Session
let core: Core
let live: LiveSession

beforeEach(async () => {
  engine = await openEngine({ storage: memoryStorage({ durable: true }) })
  session = await engine.sessions.create({ files: { '/a': 'one' } })
  const spied = vi.spyOn(MessageBus.prototype, 'subscribe')
  const probe = session.bus.subscribe()
  await probe.opened
  ;[core, live] = spied.mock.calls[0]!
  spied.mockRestore()
  await probe.return()
})

afterEach(() => engine.close())

/** Apart from the trees of sessions in memory. */
const pinnedRoots = (): number => [...core.pins.roots()].length - [...core.table.trees()].length

const held = (): object => ({
  followers: live.followers?.size ?? 0,
  states: core.pins.statesOf(session.id) !== undefined,
  roots: pinnedRoots(),
})
const nothing = { followers: 0, states: false, roots: 0 }

/** Starts a reader that has read something. Returns how it leaves. */
const readers: Readonly<Record<string, (abort: AbortController) => Promise<() => unknown>>> = {
  'a subscription of the bus': async () => {
    const [first, second] = [
      session.bus.subscribe(),
      session.bus.subscribe({ topics: ['t'], replayLimit: 1 }),
    ]
    await Promise.all([first.opened, second.opened])
    return async () => Promise.all([first.return(), second.return()])
  },
  'a subscription of the bus with a signal': async ({ signal }) => {
    await session.bus.subscribe({ signal }).opened
    return () => undefined
  },
  'a reader of events that stops': async () => {
    const events = session.events.follow()
    await events.next()
    return () => events.return(undefined)
  },
  'a reader of events with a signal': async ({ signal }) => {
    const events = session.events.follow({ signal })
    await events.next()
    const waiting = events.next().catch(() => undefined)
    return () => waiting
  },
  'a watch of changes that stops': async () => {
    const batches = session.watch({ debounceMs: 0 })
    const first = batches.next()
    await batches.startsAfter
    await session.files.write({ path: '/a', content: 'two' })
    await first
    return () => batches.return(undefined)
  },
  'a watch of changes with a signal': async ({ signal }) => {
    const batches = session.watch({ debounceMs: 0, signal })
    const first = batches.next().catch(() => undefined)
    await batches.startsAfter
    await new Promise(setImmediate)
    return () => first
  },
  'fs.watch': async () => {
    const watcher = session.fs.watch('/a', () => undefined)
    return () => watcher.close()
  },
  'fs.watchFile': async () => {
    const listener = (): void => undefined
    session.fs.watchFile('/a', listener)
    return () => session.fs.unwatchFile('/a', listener)
  },
}

test.each(Object.keys(readers))('%s', async (name) => {
  expect(held()).toEqual(nothing)
  const abort = new AbortController()
  const leave = await readers[name]!(abort)
  expect(held()).not.toEqual(nothing)
  abort.abort(new Error('enough'))
  await leave()
  await new Promise(setImmediate)
  expect(held()).toEqual(nothing)
  expect(live.idle).toBe(true)
})

test('a watch of changes lets go of each state that it has compared', async () => {
  const batches = session.watch({ debounceMs: 0 })
  const counts: number[] = []
  for (const content of ['two', 'three', 'four']) {
    const next = batches.next()
    await batches.startsAfter
    await session.files.write({ path: '/a', content })
    await next
    counts.push(pinnedRoots())
  }
  await batches.return(undefined)
  expect(counts).toEqual([2, 2, 2])
})

test('a stream of a content lets go of its file once it has been read', async () => {
  const stream = await session.files.readStream({ path: '/a' })
  expect(pinnedRoots()).toBe(1)
  const pieces: Uint8Array[] = []
  for await (const piece of stream) pieces.push(piece)
  expect(Buffer.concat(pieces).toString()).toBe('one')
  expect(pinnedRoots()).toBe(0)
})
