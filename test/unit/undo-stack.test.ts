/** The positions of undo and redo, from the events alone. */
import { expect, test } from 'vitest'
import { eventTypes, type EventType, type Redo } from '../../src/engine/records/event.js'
import type { EventWalk } from '../../src/engine/session/history/event-walk.js'
import { redoItems, undoItems } from '../../src/engine/session/history/undo-stack.js'

type Event = readonly [type: EventType, details: object, redo: readonly Redo[] | undefined]

const changed: readonly Redo[] = [['u', '/a']]
const write = (details: object = {}): Event => [eventTypes.writeFile, details, changed]
const undo = (details: object): Event => [eventTypes.undo, details, changed]
const redo = (details: object): Event => [eventTypes.redo, details, changed]
const checkpoint: Event = [eventTypes.createCheckpoint, {}, []]
const pruned: Event = [eventTypes.writeFile, {}, undefined]
const merge: Event = [eventTypes.mergeSession, {}, []]
const rebase: Event = [eventTypes.rebaseSession, {}, []]

/** The changes that an undo and a redo after the last event affect, by their numbers. */
async function positions(events: readonly Event[]): Promise<{ undo: number[]; redo: string[] }> {
  const walk = {
    at: (seq: number) => {
      const [type, details, effects] = events[seq - 1]!
      return Promise.resolve({ seq, body: [0, type, details, 'me'], redo: effects })
    },
  } as unknown as EventWalk
  const found: { undo: number[]; redo: string[] } = { undo: [], redo: [] }
  for await (const { seq } of undoItems(walk, events.length)) found.undo.push(seq)
  for await (const { seq, undo: of, index } of redoItems(walk, events.length))
    found.redo.push(`${seq} of ${of}.${index}`)
  return found
}

const two = [write(), write()]
const three = [...two, write()]
/** Undoes 3, and then 2 and 1 together. */
const undone = [...three, undo({ count: 1, position: 2 }), undo({ count: 2, position: 0 })]

test.each<[name: string, events: readonly Event[], undo: number[], redo: string[]]>([
  ['nothing', [], [], []],
  ['changes', two, [2, 1], []],
  ['events without changes', [write(), checkpoint, write(), checkpoint], [3, 1], []],
  ['a change whose effects are no longer kept', [pruned, write()], [2, 1], []],
  ['an undo', [...two, undo({ count: 1, position: 1 })], [1], ['2 of 3.0']],
  [
    'an undo and an event without changes',
    [...two, undo({ count: 1, position: 1 }), checkpoint],
    [1],
    ['2 of 3.0'],
  ],
  ['a new change after an undo', [...two, undo({ count: 1, position: 1 }), write()], [4, 1], []],
  ['a merge without changes after an undo', [...two, undo({ count: 1, position: 1 }), merge], [1], []],
  ['undos', undone, [], ['1 of 5.0', '2 of 5.1', '3 of 4.0']],
  [
    'a redo of a part of an undo',
    [...undone, redo({ count: 1, position: 1, redoEvent: 5, redoSkip: 1 })],
    [1],
    ['2 of 5.1', '3 of 4.0'],
  ],
  [
    'a redo of a whole undo',
    [...undone, redo({ count: 2, position: 2, redoEvent: 4, redoSkip: 0 })],
    [2, 1],
    ['3 of 4.0'],
  ],
  ['a redo of everything', [...undone, redo({ count: 3, position: 3 })], [3, 2, 1], []],
  ['a rebase', [...two, rebase, write()], [4], []],
  ['an undo before a rebase', [...two, undo({ count: 1, position: 1 }), rebase], [], []],
])('after %s', async (_name, events, undoes, redoes) => {
  expect(await positions(events)).toEqual({ undo: undoes, redo: redoes })
})

test.each([
  { count: 1, position: 3 },
  { count: 1, position: 4 },
  { count: 1, position: -1 },
  { count: 1, position: 0.5 },
  { count: 1, position: '1' },
  { count: -1, position: 1 },
  { count: 1, position: 1, redoEvent: 3 },
  { count: 1, position: 1, redoEvent: 4 },
  { count: 1, position: 1, redoEvent: -1 },
  { count: 1, position: 1, redoSkip: -1 },
  { position: 1 },
  { count: 1 },
])('an undo or redo with the details %j is an ordinary change', async (details) => {
  for (const step of [undo, redo])
    expect(await positions([...two, step(details)])).toEqual({ undo: [3, 2, 1], redo: [] })
})

test('changes have the group of their details, if it is a text of their own', async () => {
  const inherited = Object.create({ group: 'inherited' }) as object
  const all = [{ group: 'turn' }, { group: 7 }, {}, inherited].map(write)
  const walk = {
    at: (seq: number) =>
      Promise.resolve({ seq, body: [0, all[seq - 1]![0], all[seq - 1]![1], 'me'], redo: changed }),
  } as unknown as EventWalk
  const groups: (string | undefined)[] = []
  for await (const { group } of undoItems(walk, all.length)) groups.unshift(group)
  expect(groups).toEqual(['turn', undefined, undefined, undefined])
})
