/** The bounds of imports that have not ended. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { limits, openEngine, type Engine, type EngineScope, type ImportJob } from '../../src/index.js'
import { lowerBound } from '../support/lower-bound.js'

const tooMany = expect.objectContaining({ reason: 'QUOTA', details: { limit: '3' } }) as unknown

let engine: Engine

beforeEach(async () => {
  engine = await openEngine()
})

afterEach(() => engine.close())

async function newSource({ sources }: EngineScope): Promise<string> {
  return (await sources.create({ displayName: 'a', uploadedSnapshot: {} })).sourceId
}

function endless(): AsyncIterable<Uint8Array> {
  return { [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => undefined) }) }
}

test('a tenant can have so many, running or not, whatever other tenants have', async () => {
  lowerBound(limits, 'unfinishedJobs', 3)
  const acme = engine.as({ tenant: 'acme' })
  const [one, other] = [await newSource(acme), await newSource(acme)]
  const start = (sourceId: string): Promise<ImportJob> =>
    acme.sources.startImport(sourceId, { uploadedSnapshot: { content: endless() } })
  const running = await start(one)
  const waiting = await start(one)
  await start(other)
  const session = await acme.sessions.create()
  await expect(start(other)).rejects.toEqual(tooMany)
  await expect(acme.sources.promoteSession(one, { sessionId: session.id })).rejects.toEqual(tooMany)
  const local = await newSource(engine)
  await engine.sources.startImport(local, { uploadedSnapshot: { content: endless() } })
  for (const job of [waiting, running]) {
    await acme.sources.abortJob(job)
    await start(other)
    await expect(start(other)).rejects.toEqual(tooMany)
  }
})
