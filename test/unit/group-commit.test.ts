/** The queue of commits of a level store alone, over a log that a test controls. */
import { expect, test } from 'vitest'
import { levelLimits } from '../../src/adapters/level/limits.js'
import type { Appended, CommitLog } from '../../src/adapters/level/log/commit-log.js'
import type { FrameBuilder } from '../../src/adapters/level/log/frame.js'
import { GroupCommit } from '../../src/adapters/level/log/group-commit.js'
import { limits, type StoreCommit } from '../../src/engine/ports.js'
import { lowerBound } from '../support/lower-bound.js'

interface Write {
  /** The number of commits that were written together. */
  readonly count: number
  readonly end: (error?: Error) => void
}

/** A queue, the writes that it began, and the numbers of events that were written. */
function queue(onWritten: () => Promise<void> | undefined = () => undefined): {
  readonly group: GroupCommit
  readonly writes: Write[]
} {
  const writes: Write[] = []
  const append = (frames: readonly FrameBuilder[]): Promise<readonly Appended[]> =>
    new Promise((resolve, reject) => {
      const end = (error?: Error): void => (error === undefined ? resolve([]) : reject(error))
      writes.push({ count: frames.length, end })
    })
  const log = { append } as unknown as CommitLog
  return { group: new GroupCommit({ log, hasEvent: () => false, onWritten }), writes }
}

const put = (value = ''): StoreCommit => ({ put: [['k', value]] })
const event = (seq: number): StoreCommit => ({ events: [{ sessionId: 's', seq, body: [] }] })
/** Enough turns of the event loop for a slice of the queue. */
const turns = async (): Promise<void> => {
  for (let i = 0; i < 3 * limits.turnsPerSlice; i++) await new Promise(setImmediate)
}

/** The outcome of a commit so far. */
function watched(commit: Promise<boolean>): { outcome: unknown } {
  const seen: { outcome: unknown } = { outcome: 'open' }
  commit.then(
    (stored) => (seen.outcome = stored),
    (error: { readonly details: { readonly outcome: string } }) => (seen.outcome = error.details.outcome),
  )
  return seen
}

const outcomes = (all: readonly { readonly outcome: unknown }[]): unknown[] =>
  all.map(({ outcome }) => outcome)

test('writes the commits of one turn together, and those that arrive meanwhile as the next group', async () => {
  const { group, writes } = queue()
  const commits = [put(), put()].map((one) => watched(group.add(one)))
  await turns()
  commits.push(...[put(), put(), put()].map((one) => watched(group.add(one))))
  await turns()
  expect(writes.map(({ count }) => count)).toEqual([2])
  writes[0]!.end()
  await turns()
  expect(writes.map(({ count }) => count)).toEqual([2, 3])
  expect(outcomes(commits)).toEqual([true, true, 'open', 'open', 'open'])
  writes[1]!.end()
  await group.drain()
  await turns()
  expect(outcomes(commits)).toEqual([true, true, true, true, true])
  commits.push(watched(group.add(put())))
  await turns()
  expect(writes).toHaveLength(3)
})

test('starts another group when one has its size', async () => {
  lowerBound(levelLimits, 'groupBytes', 1000)
  const { group, writes } = queue()
  for (const length of [2000, 10, 10, 2000, 10]) watched(group.add(put('x'.repeat(length))))
  for (let at = 0; at < 3; at++) {
    await turns()
    writes[at]!.end()
  }
  await group.drain()
  expect(writes.map(({ count }) => count)).toEqual([1, 3, 1])
})

test('acknowledges commits only after they were taken into the index', async () => {
  let taken!: () => void
  const { group, writes } = queue(() => new Promise<void>((resolve) => (taken = resolve)))
  const commit = watched(group.add(put()))
  await turns()
  writes[0]!.end()
  await turns()
  expect(commit.outcome).toBe('open')
  taken()
  await turns()
  expect(commit.outcome).toBe(true)
})

test('reports a taken number only when the commit that took it can be read', async () => {
  const { group, writes } = queue()
  const [first, passed] = [watched(group.add(event(1))), watched(group.add(event(1)))]
  await turns()
  expect([writes[0]!.count, first.outcome, passed.outcome]).toEqual([1, 'open', 'open'])
  const next = watched(group.add(event(2)))
  const late = watched(group.add(event(1)))
  writes[0]!.end()
  await turns()
  expect(outcomes([first, passed, next, late])).toEqual([true, false, 'open', 'open'])
  writes[1]!.end()
  await turns()
  expect(outcomes([next, late])).toEqual([true, false])
  const idle = watched(group.add(event(2)))
  await turns()
  expect(idle.outcome).toBe(false)
  await expect(group.add(event(9))).rejects.toMatchObject({ reason: 'INTERNAL' })
  expect(writes).toHaveLength(2)
})

test('after a failed write, rejects queued commits as not applied, and accepts none until it resumes', async () => {
  const { group, writes } = queue()
  const failing = watched(group.add(event(1)))
  await turns()
  const queued = watched(group.add(event(2)))
  const later = watched(group.addLater(() => expect.unreachable()))
  writes[0]!.end(new Error('disk'))
  await turns()
  expect(outcomes([failing, queued, later])).toEqual(['unknown', 'not-applied', 'not-applied'])
  expect(group.failed).toBe(true)
  expect(() => group.assertAccepting()).toThrow(expect.objectContaining({ reason: 'STORE_FAILED' }))
  const refused = [group.add(put()), group.addLater(() => expect.unreachable())].map(watched)
  await turns()
  expect(outcomes(refused)).toEqual(['not-applied', 'not-applied'])
  expect(writes).toHaveLength(1)
  group.resume()
  group.assertAccepting()
  // The numbers of events that were not written are free again.
  const again = watched(group.add(event(1)))
  await turns()
  writes[1]!.end()
  await turns()
  expect([again.outcome, group.failed]).toEqual([true, false])
})

test('a fence during a write lets the write end, and rejects the commits queued after it', async () => {
  const { group, writes } = queue()
  const written = watched(group.add(put()))
  await turns()
  const queued = watched(group.add(put()))
  group.fence(new Error('closing'))
  writes[0]!.end()
  await turns()
  expect(outcomes([written, queued])).toEqual([true, 'not-applied'])
  expect(writes).toHaveLength(1)
})

test('runs other work in its own turn between the commits before and after it', async () => {
  const { group, writes } = queue()
  const steps: string[] = []
  const before = watched(group.add(put()))
  const work = watched(
    group.addLater(async () => {
      steps.push(`work after ${writes.length}`)
      return undefined
    }),
  )
  const after = watched(group.add(put()))
  await turns()
  expect([steps, writes.length]).toEqual([[], 1])
  writes[0]!.end()
  await turns()
  expect([steps, writes.length]).toEqual([['work after 1'], 2])
  expect(outcomes([before, work, after])).toEqual([true, true, 'open'])
  writes[1]!.end()
  await turns()
  const failing = watched(group.addLater(() => Promise.reject(new Error('unreadable'))))
  const queued = watched(group.add(put()))
  await turns()
  expect(outcomes([after, failing, queued])).toEqual([true, 'unknown', 'not-applied'])
})
