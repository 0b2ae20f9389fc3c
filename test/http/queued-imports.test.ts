/** Imports that wait for their turn. */
import { expect, test, vi } from 'vitest'
import { caller, openServer } from '../support/http-server.js'
import { tarOf } from '../support/raw-archives.js'

test('hold the share of their bodies until they have ended', async () => {
  await using there = await openServer({ handler: { limits: { allBodyBytes: 100_000 } } })
  const { sources } = there.engine.as(caller)
  const { sourceId } = await sources.create({ displayName: 'a', uploadedSnapshot: {} })
  const never = { [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => undefined) }) }
  const first = await sources.startImport(sourceId, { uploadedSnapshot: { content: never } })
  const content = tarOf({ name: 'a', content: Buffer.alloc(45_000) }).toString('base64')
  const start = (): ReturnType<typeof there.call> =>
    there.call('POST', `/v1/sources/${sourceId}/startImport`, { uploadedSnapshot: { content } })
  const second = await start()
  expect(second.status).toBe(200)
  // The job waits for the first one.
  const refused = await start()
  expect([refused.status, refused.body]).toMatchObject([429, { details: [{ reason: 'QUOTA' }] }])
  await sources.abortJob(first)
  await sources.waitForJob(second.body as { sourceId: string; jobId: string })
  await vi.waitFor(async () => expect((await start()).status).toBe(200), { timeout: 10_000 })
})
