import { isDeepStrictEqual } from 'node:util'
import { describe, expect, test } from 'vitest'
import { EngineError, limits } from '../../src/index.js'
import { type LockKind } from '../../src/engine/services/locks/posix-lock-ranges.js'
import { LockTable, type LockRequest } from '../../src/engine/services/locks/posix-lock-table.js'
import { randomWords } from '../../src/testing.js'
import { lowerBound } from '../support/lower-bound.js'
import { isLong, runs, seed } from '../support/seed.js'

const runCount = runs(250)
const stepsPerRun = 120
const bytes = 8
const places = [0, 1, 2] as const
type Owner = { readonly key: string }

interface Wait {
  readonly place: number
  readonly owner: string
  readonly kind: LockKind
  readonly start: number
  readonly end: number
  readonly abort: AbortController
  settled: string[]
}

/** Locks as documented: an array of bytes for each owner, a queue for each place, and a graph. */
class Model {
  readonly held = places.map(() => new Map<string, (LockKind | undefined)[]>())
  lines: Wait[][] = places.map(() => [])

  conflictingHolders(wait: Wait): string[] {
    return [...this.held[wait.place]!]
      .filter(
        ([owner, kinds]) =>
          owner !== wait.owner &&
          kinds.some(
            (kind, at) =>
              kind !== undefined &&
              at >= wait.start &&
              at < wait.end &&
              (kind === 'exclusive' || wait.kind === 'exclusive'),
          ),
      )
      .map(([owner]) => owner)
  }

  /** The owners that the request waits for at its place in the queue `line`. */
  waitsFor(wait: Wait, line: readonly Wait[]): Set<string> {
    const ahead = line.includes(wait) ? line.slice(0, line.indexOf(wait)) : line
    return new Set([
      ...this.conflictingHolders(wait),
      ...ahead.filter((one) => clash(one, wait)).map(({ owner }) => owner),
    ])
  }

  /** Every owner with the owners that it waits for, directly or through others. */
  closure(lines: readonly Wait[][]): Map<string, Set<string>> {
    const graph = new Map<string, Set<string>>()
    for (const line of lines) {
      for (const wait of line) {
        graph.set(wait.owner, new Set([...(graph.get(wait.owner) ?? []), ...this.waitsFor(wait, line)]))
      }
    }
    for (let grown = true; grown;) {
      grown = false
      for (const reached of graph.values()) {
        const before = reached.size
        for (const one of reached) for (const next of graph.get(one) ?? []) reached.add(next)
        if (reached.size > before) grown = true
      }
    }
    return graph
  }

  hasCycle(lines = this.lines): boolean {
    return [...this.closure(lines)].some(([owner, reached]) => reached.has(owner))
  }

  /** The queue ahead of the request, which excludes waiters that depend on its owner. */
  ahead(wait: Wait): Wait[] {
    const graph = this.closure(this.lines)
    const line = this.lines[wait.place]!
    return line.filter(
      (one) =>
        ![...this.waitsFor(one, line)].some(
          (owner) => owner === wait.owner || graph.get(owner)?.has(wait.owner) === true,
        ),
    )
  }

  conflict(wait: Wait): boolean {
    return this.waitsFor(wait, this.ahead(wait)).size > 0
  }

  request(wait: Wait, blocking: boolean): 'held' | 'LOCK_HELD' | 'DEADLOCK' | 'waits' {
    const ahead = this.ahead(wait)
    if (this.waitsFor(wait, ahead).size === 0) {
      this.put(wait, wait.kind)
      return 'held'
    }
    if (!blocking) return 'LOCK_HELD'
    const behind = this.lines[wait.place]!.filter((one) => !ahead.includes(one))
    const lines = this.lines.map((line, place) => (place === wait.place ? [...ahead, wait, ...behind] : line))
    if (this.hasCycle(lines)) return 'DEADLOCK'
    this.lines = lines
    return 'waits'
  }

  put({ place, owner, start, end }: Wait, kind: LockKind | undefined): void {
    const kinds = this.held[place]!.get(owner) ?? Array.from<undefined>({ length: bytes })
    this.held[place]!.set(
      owner,
      kinds.map((old, at) => (at >= start && at < end ? kind : old)),
    )
  }

  /** Repeatedly grants the first waiter with no conflicts, until none is left. */
  wake(): Wait[] {
    const granted: Wait[] = []
    for (;;) {
      const next = this.lines.flatMap((line) => line.filter((one) => this.waitsFor(one, line).size === 0))[0]
      if (next === undefined) return granted
      this.leave(next)
      this.put(next, next.kind)
      granted.push(next)
    }
  }

  leave(wait: Wait): void {
    this.lines = this.lines.map((line) => line.filter((one) => one !== wait))
  }
}

function clash(a: Wait, b: Wait): boolean {
  return (
    a.owner !== b.owner &&
    (a.kind === 'exclusive' || b.kind === 'exclusive') &&
    a.start < b.end &&
    b.start < a.end
  )
}

/** Places 0 and 1 are two files; place 2 is the other lock space of the first file. */
function toRequest({ place, owner, kind, start, end }: Wait): LockRequest<Owner> {
  return {
    file: place % 2,
    space: place === 2 ? 'whole' : 'ranges',
    owner: { key: owner },
    kind,
    start: BigInt(start),
    end: BigInt(end),
    path: `/${place}`,
  }
}

/** Avoids `expect` for equal values: it costs more than the comparison, and there are a hundred thousand of them. */
function same(what: string, actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected)) expect(actual, what).toEqual(expected)
}

async function run(runSeed: number): Promise<Map<string, number>> {
  const word = randomWords(runSeed)
  const pick = (count: number): number => word() % count
  const seen = new Map<string, number>()
  const count = (what: string): void => void seen.set(what, (seen.get(what) ?? 0) + 1)
  const model = new Model()
  const unused = new Set<number>([0, 1])
  const table = new LockTable<Owner>((file) => {
    expect(unused.has(file)).toBe(false)
    unused.add(file)
  })
  const owners = Array.from({ length: 2 + pick(4) }, (_, i) => `owner-${i}`)
  const all: Wait[] = []
  const make = (): Wait => {
    const place = pick(places.length)
    const start = place === 2 ? 0 : pick(bytes)
    const end = place === 2 ? bytes : start + 1 + pick(bytes - start)
    const kind = pick(2) === 0 ? 'shared' : 'exclusive'
    const owner = owners[pick(owners.length)]!
    return { place, start, end, kind, owner, abort: new AbortController(), settled: [] }
  }
  const checkGranted = async (granted: readonly Wait[], what: string): Promise<void> => {
    await new Promise(setImmediate)
    for (const wait of granted) same(what, wait.settled, ['granted'])
    for (const wait of model.lines.flat()) same(what, wait.settled, [])
  }

  for (let step = 0; step < stepsPerRun; step++) {
    const what = `FORKSPACE_SEED=${seed}, run ${runSeed}, step ${step}`
    const wait = make()
    const request = toRequest(wait)
    const action = pick(10)
    let granted: Wait[] = []
    if (action < 6) {
      const blocking = action < 4
      same(what, table.conflict(request) !== undefined, model.conflict(wait))
      const expected = model.request(wait, blocking)
      unused.delete(request.file)
      let outcome: string = 'waits'
      try {
        if (blocking) {
          table.wait(request, wait.abort.signal).then(
            () => wait.settled.push('granted'),
            (error: unknown) => wait.settled.push(error instanceof EngineError ? error.reason : 'aborted'),
          )
          all.push(wait)
        } else table.set(request)
      } catch (error) {
        outcome = (error as EngineError).reason
      }
      await Promise.resolve()
      await Promise.resolve()
      if (outcome === 'waits' && (!blocking || wait.settled.length > 0)) outcome = 'held'
      same(what, outcome, expected)
      count(expected)
      granted = model.wake()
    } else if (action < 8) {
      model.put(wait, undefined)
      table.release(request)
      granted = model.wake()
    } else if (action === 8) {
      const line = model.lines.flat()
      const leaving = line[pick(line.length || 1)]
      if (leaving !== undefined) {
        model.leave(leaving)
        leaving.abort.abort(new Error('enough'))
        granted = model.wake()
        await new Promise(setImmediate)
        same(what, leaving.settled, ['aborted'])
        count('aborted')
      }
    } else if (pick(4) === 0) {
      const file = pick(2)
      const dropped = model.lines.filter((_, place) => place % 2 === file).flat()
      for (const place of places.filter((one) => one % 2 === file)) model.held[place]!.clear()
      for (const one of dropped) model.leave(one)
      table.drop(file, () => new EngineError('PATH_NOT_FOUND', 'gone'))
      unused.add(file)
      await new Promise(setImmediate)
      for (const one of dropped) same(what, one.settled, ['PATH_NOT_FOUND'])
    }
    count(`granted later ${Math.min(granted.length, 2)}`)
    await checkGranted(granted, what)
    // Only a request can create a cycle.
    same(what, model.hasCycle(), false)
    for (const place of places) {
      for (let at = 0; at < bytes; at++) {
        const probe = { ...make(), place, owner: 'probe', start: at, end: at + 1 }
        for (const kind of ['shared', 'exclusive'] as const) {
          const found = table.conflict(toRequest({ ...probe, kind }))
          same(what, found !== undefined, model.conflict({ ...probe, kind }))
        }
      }
    }
    for (const file of [0, 1]) {
      const used = places
        .filter((place) => place % 2 === file)
        .some(
          (place) =>
            model.lines[place]!.length > 0 ||
            [...model.held[place]!.values()].some((kinds) => kinds.some((kind) => kind !== undefined)),
        )
      same(what, table.uses(file), used)
      if (!used) unused.add(file)
      same(what, unused.has(file), !used)
    }
  }

  // Terminates: the holders release their locks one after another until none is left.
  for (let round = 0; !table.empty; round++) {
    expect(round).toBeLessThan(1000)
    for (const owner of owners) {
      for (const place of places) {
        const everything = { ...make(), place, owner, start: 0, end: bytes }
        model.put(everything, undefined)
        table.release(toRequest(everything))
        await checkGranted(model.wake(), `run ${runSeed}, the end`)
      }
    }
  }
  expect(model.lines.flat()).toEqual([])
  for (const wait of all) expect(wait.settled.length).toBeLessThanOrEqual(1)
  return seen
}

describe('the table of locks', () => {
  test(`agrees with a plain model, ${runCount} runs`, { timeout: 60_000 + runCount * 1000 }, async () => {
    const total = new Map<string, number>()
    for (let i = 0; i < runCount; i++) {
      for (const [what, count] of await run(seed + i)) total.set(what, (total.get(what) ?? 0) + count)
    }
    // The runs are only useful if every outcome occurs in them.
    for (const what of ['held', 'LOCK_HELD', 'DEADLOCK', 'waits', 'aborted', 'granted later 1']) {
      expect(total.get(what) ?? 0, what).toBeGreaterThan(runCount / 10)
    }
  })

  test('counts waiters and locks correctly', async () => {
    const table = new LockTable<Owner>()
    const request = (owner: string, start = 0n): LockRequest<Owner> => ({
      file: 1,
      space: 'ranges',
      owner: { key: owner },
      kind: 'exclusive',
      start,
      end: start + 1n,
      path: '/a',
    })
    for (let round = 0; round < (isLong ? 2 : 1); round++) {
      table.set(request('holder'))
      const abort = new AbortController()
      const order: number[] = []
      const waits: Promise<unknown>[] = []
      for (let i = 0; i < limits.lockWaiters; i++) {
        const signal = i % 2 === 0 ? { signal: abort.signal } : {}
        waits.push(
          table.wait(request(`waiter-${i}`), signal.signal).then(
            () => order.push(i),
            () => undefined,
          ),
        )
      }
      expect(() => table.wait(request('one more'))).toThrow(expect.objectContaining({ reason: 'QUOTA' }))
      abort.abort()
      table.release(request('holder'))
      for (let i = 1; i < limits.lockWaiters; i += 2) table.release(request(`waiter-${i}`))
      await Promise.all(waits)
      expect(order).toEqual(Array.from({ length: limits.lockWaiters / 2 }, (_, i) => 2 * i + 1))
      expect(table.empty).toBe(true)
      for (let i = 0n; i < BigInt(limits.heldLocks); i++) table.set(request('holder', i * 2n))
      const over = request('other', 1n)
      expect(() => table.set(over)).toThrow(expect.objectContaining({ reason: 'QUOTA' }))
      expect(table.conflict(over)).toBe(undefined)
      table.release({ ...request('holder'), end: 1n << 63n })
      expect(table.empty).toBe(true)
    }
  })

  test('does not count the locks and waiters of a file that is dropped, or of a closed table', async () => {
    lowerBound(limits, 'heldLocks', 4)
    lowerBound(limits, 'lockWaiters', 2)
    const table = new LockTable<Owner>()
    const request = (
      file: number,
      owner: string,
      space: LockRequest<Owner>['space'],
    ): LockRequest<Owner> => ({
      file,
      space,
      owner: { key: owner },
      kind: 'exclusive',
      start: 0n,
      end: 1n,
      path: '/a',
    })
    const gone = (): Error => new EngineError('PATH_NOT_FOUND', 'gone')
    for (let file = 0; file < 3; file++) {
      const waits: Promise<unknown>[] = []
      for (const space of ['ranges', 'whole'] as const) {
        table.set(request(file, 'a', space))
        table.set({ ...request(file, 'a', space), start: 2n, end: 3n })
        waits.push(table.wait(request(file, 'b', space)).catch((error: EngineError) => error.reason))
      }
      const quota = expect.objectContaining({ reason: 'QUOTA' }) as Error
      expect(() => table.set(request(9, 'a', 'whole'))).toThrow(quota)
      expect(() => table.wait(request(file, 'c', 'whole'))).toThrow(quota)
      if (file === 1) table.close(gone)
      else table.drop(file, gone)
      expect(await Promise.all(waits)).toEqual(['PATH_NOT_FOUND', 'PATH_NOT_FOUND'])
      expect(table.empty).toBe(true)
    }
  })
})
