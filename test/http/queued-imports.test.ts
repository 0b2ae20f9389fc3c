/** Imports that wait for their turn. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { ImportJobState, memoryStorage } from '../../src/index.js'
import { FailingStorage } from '../support/failing-storage.js'
import { caller, openServer, refusalIn, type Answered, type TestServer } from '../support/http-server.js'
import { randomBytes } from '../support/random-bytes.js'
import { tarOf, zipOf } from '../support/raw-archives.js'

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

const bytesType = { 'content-type': 'application/octet-stream' }

describe('the bytes of uploads that stay in memory', () => {
  const limits = { allBodyBytes: 2 ** 20 }
  const refused = { status: 429, reason: 'QUOTA', limit: String(limits.allBodyBytes) }
  const zip = zipOf([{ name: 'a', content: randomBytes(700_000, 7), method: 0 }])
  const storage = new FailingStorage(memoryStorage())
  let there: TestServer
  beforeAll(async () => (there = await openServer({ handler: { limits }, engine: { storage } })))
  afterAll(() => there[Symbol.asyncDispose]())

  async function upload(
    content: Uint8Array,
    kind: 'uploadedSnapshot' | 'uploadedGitBundle',
  ): Promise<Uploaded> {
    const made = await there.call('POST', '/v1/sources', { displayName: 'a', [kind]: {} })
    const { sourceId } = made.body as { sourceId: string }
    const answer = await there.call('POST', `/v1/sources/${sourceId}/${kind}`, content, bytesType)
    return { answer, sourceId, job: answer.body as { sourceId: string; jobId: string } }
  }

  test('are bounded together', async () => {
    const { sources } = there.engine.as(caller)
    const large = zipOf([{ name: 'a', content: randomBytes(1_500_000, 8), method: 0 }])
    const { answer: refusal, sourceId } = await upload(large, 'uploadedSnapshot')
    expect(refusalIn(refusal)).toMatchObject(refused)
    // The job, too, names the cause.
    await vi.waitFor(async () => {
      const [job] = (await sources.listJobs({ sourceId })).jobs
      expect(job).toMatchObject({ state: ImportJobState.FAILED, errorCode: 'LIMIT_EXCEEDED' })
    })
    const bundle = Buffer.concat([Buffer.from('# v2 git bundle\n'), Buffer.alloc(1_500_000)])
    expect(refusalIn((await upload(bundle, 'uploadedGitBundle')).answer)).toMatchObject(refused)
    // Each job gives its share back.
    for (let round = 0; round < 3; round++) {
      const { answer, job } = await upload(zip, 'uploadedSnapshot')
      expect(answer.status).toBe(200)
      expect(await sources.waitForJob(job)).toMatchObject({ filesProcessed: 1 })
    }
  })

  test('do not include those of a tar', async () => {
    const tar = tarOf({ name: 'PK', content: Buffer.alloc(3 * 2 ** 20) })
    const { answer, job } = await upload(tar, 'uploadedSnapshot')
    expect(answer.status).toBe(200)
    await there.engine.as(caller).sources.waitForJob(job)
  })

  test('count until the job has ended', async () => {
    const other = { path: '/none', padding: 'x'.repeat(600_000) }
    const readOther = async (): Promise<number> =>
      (await there.call('POST', '/v1/sessions/none:readFile', other)).status
    const { sources } = there.engine.as(caller)
    const { sourceId } = await sources.create({ displayName: 'a', uploadedSnapshot: {} })
    const isRunning = async (): Promise<void> =>
      expect((await sources.listJobs({ sourceId })).jobs[0]?.state).toBe(ImportJobState.RUNNING)
    const pieces = [zip.subarray(0, 300_000), zip.subarray(300_000)]
    const body = new ReadableStream({
      pull: async (controller) => {
        const piece = pieces.shift()
        if (piece === undefined) return controller.close()
        // From then on, the job can read the upload, but not end.
        if (pieces.length === 0) await vi.waitFor(isRunning, { timeout: 10_000 }).then(() => storage.hold())
        controller.enqueue(piece)
      },
    })
    const answer = await there.call('POST', `/v1/sources/${sourceId}/uploadedSnapshot`, body, bytesType)
    expect(answer.status).toBe(200)
    expect(await readOther()).toBe(429)
    storage.release()
    await sources.waitForJob(answer.body as { sourceId: string; jobId: string })
    expect(await readOther()).toBe(404)
  })
})

interface Uploaded {
  readonly answer: Answered
  readonly sourceId: string
  readonly job: { readonly sourceId: string; readonly jobId: string }
}
