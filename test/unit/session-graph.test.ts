import { expect, test } from 'vitest'
import { drawGraph, type GraphPoint, type GraphSession } from '../../src/adapters/cli/session-graph.js'

interface Named extends GraphPoint {
  readonly name: string
}

/** Points of a session from `time name` pairs, such as `1 a`; `3 m<b` is a merge of `b` at the time 3. */
function session(id: string, points: string, parent?: GraphSession<Named>['parent']): GraphSession<Named> {
  const list = points.split(', ').map((text): Named => {
    const [time = '', name = ''] = text.split(' ')
    const [, mergedFrom] = name.split('<')
    return { sessionId: id, time, name, ...(mergedFrom !== undefined && { mergedFrom }) }
  })
  return { id, points: list, ...(parent !== undefined && { parent }) }
}

function draw(...sessions: GraphSession<Named>[]): string[] {
  return [...drawGraph(sessions)].map(({ lanes, point }) =>
    point === undefined ? lanes : `${lanes} ${point.name}`,
  )
}

test('one session is one lane, the newest point first', () => {
  expect(draw(session('a', '1 one, 2 two, 3 three'))).toEqual(['* three', '* two', '* one'])
})

test('a fork has a lane of its own, which ends in that of its parent', () => {
  expect(draw(session('a', '1 a1, 3 a3'), session('b', '2 b2, 4 b4', { id: 'a', points: 1 }))).toEqual([
    '* b4',
    '| * a3',
    '* | b2',
    ' \\|',
    '  * a1',
  ])
  expect(draw(session('a', '1 a1, 5 a5'), session('b', '2 b2, 4 b4', { id: 'a', points: 1 }))).toEqual([
    '* a5',
    '| * b4',
    '| * b2',
    '|/',
    '* a1',
  ])
})

test('a parent without later points continues in the lane of its fork', () => {
  expect(draw(session('a', '1 a1'), session('b', '2 b2', { id: 'a', points: 1 }))).toEqual(['* b2', '* a1'])
})

test('a fork comes before the older points of its parent, whatever their times', () => {
  expect(draw(session('a', '5 a5, 9 a9'), session('b', '2 b2', { id: 'a', points: 1 }))).toEqual([
    '* a9',
    '| * b2',
    '|/',
    '* a5',
  ])
})

test('a merge connects the lane of its source', () => {
  const parent = { id: 'a', points: 1 }
  expect(draw(session('a', '1 a1, 4 a<b, 5 a5'), session('b', '2 b2, 4 b4', parent))).toEqual([
    '* a5',
    '* a<b',
    '|\\',
    '| * b4',
    '| * b2',
    '|/',
    '* a1',
  ])
  expect(draw(session('a', '1 a1, 7 a<none'), session('b', '2 b2', parent))[1]).toBe('| * b2')
})

test('a connection crosses the lanes between', () => {
  const parent = { id: 'a', points: 1 }
  const sessions = [session('a', '1 a1, 9 a9'), session('b', '2 b2, 8 b8', parent)]
  expect(draw(...sessions, session('c', '3 c3, 7 c7', parent))).toEqual([
    '* a9',
    '| * b8',
    '| | * c7',
    '| | * c3',
    '|-|/',
    '| * b2',
    '|/',
    '* a1',
  ])
})

test('a lane is used again after its session', () => {
  const sessions = [session('a', '1 a1, 5 a5, 9 a9'), session('b', '2 b2', { id: 'a', points: 1 })]
  expect(draw(...sessions, session('c', '6 c6', { id: 'a', points: 2 }))).toEqual([
    '* a9',
    '| * c6',
    '|/',
    '* a5',
    '| * b2',
    '|/',
    '* a1',
  ])
})
