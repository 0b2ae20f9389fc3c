import { expect, test } from 'vitest'
import { limits, openEngine, type Session } from '../../src/index.js'
import { fixedEnvironment } from '../../src/testing.js'

const mebibyte = 2 ** 20

/** A session whose clock says at each look that a slice of work is over. */
async function slowSession(): Promise<Session> {
  const engine = await openEngine({ environment: fixedEnvironment({ stepMs: limits.sliceMs }) })
  return engine.sessions.create()
}

/** How many turns the event loop had meanwhile. */
async function turnsOf(work: () => Promise<unknown>): Promise<number> {
  let turns = 0
  let working = true
  const turn = (): void => {
    turns++
    if (working) setImmediate(turn)
  }
  setImmediate(turn)
  await work()
  working = false
  return turns
}

test('a manifest lets the event loop run while it hashes the blocks of a file', async () => {
  const session = await slowSession()
  const segments = Array.from({ length: 32 }, (_, i) => ({
    data: { offset: i * mebibyte + 1, content: `${i}` },
  }))
  await session.files.patchSegments({ mutations: [{ path: '/a', segments }] })
  expect(await turnsOf(() => session.manifest({ pathPrefix: '/none' }))).toBeGreaterThanOrEqual(32)
})

test('listings let the event loop run while they look for what is listed', async () => {
  const session = await slowSession()
  await session.files.batch(
    Array.from({ length: 6400 }, (_, i) => ({ write: { path: `/${i % 7}/${i}`, content: '' } })),
  )
  await session.files.createSymlink({ linkPath: '/z', target: 'y' })
  const list = async (): Promise<void> => {
    expect((await session.files.listSymlinks()).symlinks).toEqual([{ path: '/z', target: 'y' }])
  }
  expect(await turnsOf(list)).toBeGreaterThanOrEqual(100)
})
