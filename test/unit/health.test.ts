import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  HealthStatus,
  limits,
  openEngine,
  type Engine,
  type Health,
  type Session,
  type Storage,
} from '../../src/index.js'
import { fixedEnvironment } from '../../src/testing.js'
import { fewStorages } from '../support/storages.js'

const refused = (reason: string, field = 'reportContent'): unknown =>
  expect.objectContaining({ name: 'EngineError', reason, details: expect.objectContaining({ field }) })
const reportFormat = 'junit-xml/v1'
const unknown: Health = {
  status: HealthStatus.UNKNOWN,
  testsPassed: 0,
  testsFailed: 0,
  testsSkipped: 0,
  lastUpdatedAt: '',
}
const anyTime: unknown = expect.stringMatching(/^2025-01-01T/)

/** A report with its outcomes in a suite. */
function report(...outcomes: string[]): string {
  const tests = outcomes.map((outcome) => `<testcase name="t">${outcome && `<${outcome}/>`}</testcase>`)
  return `<testsuites><testsuite name="s">${tests.join('')}</testsuite></testsuites>`
}

describe.each(fewStorages)('health on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'health-'))
    storage = makeStorage(directory)
    engine = await openEngine({ storage, environment: fixedEnvironment() })
    session = await engine.as({ principal: 'ci' }).sessions.create({ files: { '/a': 'one' } })
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  async function reload(startMs?: number): Promise<void> {
    if (!lasting) return
    await engine.close()
    engine = await openEngine({
      storage,
      environment: fixedEnvironment({ seed: 2, ...(startMs !== undefined && { startMs }) }),
    })
    session = await engine.as({ principal: 'ci' }).sessions.open(session.id)
  }

  const health = async (): Promise<Health> => (await session.health.get()).health
  const send = async (reportContent: string | Uint8Array): Promise<Health> =>
    (await session.health.report({ reportFormat, reportContent })).newHealthStatus

  test('is unknown before the first report', async () => {
    expect(await health()).toEqual(unknown)
    expect(await session.health.history()).toEqual({ reports: [], nextPageToken: '' })
  })

  test('is that of the newest report', async () => {
    const failing = {
      status: HealthStatus.FAILING,
      testsPassed: 2,
      testsFailed: 2,
      testsSkipped: 1,
      lastUpdatedAt: anyTime,
    }
    const first = await send(report('', 'failure', 'error', 'skipped', ''))
    expect(first).toEqual(failing)
    await reload()
    expect(await health()).toEqual(first)
    const { newHealthStatus } = await session.health.testResults({
      reportFormat,
      reportContent: Buffer.from(report('', 'skipped')),
    })
    expect(newHealthStatus).toEqual({
      status: HealthStatus.PASSING,
      testsPassed: 1,
      testsFailed: 0,
      testsSkipped: 1,
      lastUpdatedAt: anyTime,
    })
    await reload()
    expect(await health()).toEqual(newHealthStatus)
    expect((await session.events.list()).events.slice(1)).toMatchObject([
      { eventType: 'v1.HealthService.ReportHealth', principal: 'ci', details: { status: 'STATUS_FAILING' } },
      { eventType: 'v1.HealthService.ReportHealth', principal: 'ci', details: { status: 'STATUS_PASSING' } },
    ])
    const { reports } = await session.health.history()
    expect(reports).toEqual([
      { ...first, reportedBy: 'ci' },
      { ...newHealthStatus, reportedBy: 'ci' },
    ])
    Object.assign(reports[1]!, { status: 'x' })
    Object.assign(newHealthStatus, { status: 'x' })
    expect((await health()).status).toBe(HealthStatus.PASSING)
  })

  test('keeps the call order, even if a report takes long to read', async () => {
    const long = `<testsuite>${'<testcase/>'.repeat(50_000)}</testsuite>`
    const sent = [long, report('failure'), report('skipped')].map(send)
    await session.files.write({ path: '/a', content: 'meanwhile' })
    const results = await Promise.all(sent)
    expect(results.map(({ testsPassed }) => testsPassed)).toEqual([50_000, 0, 0])
    expect(await health()).toEqual(results[2])
    await reload()
    expect((await session.health.history()).reports.map(({ status }) => status)).toEqual([
      HealthStatus.PASSING,
      HealthStatus.FAILING,
      HealthStatus.PASSING,
    ])
  })

  test('copies its arguments', async () => {
    const reportContent = Buffer.from(report('failure'))
    const sent = session.health.report({ reportFormat, reportContent })
    reportContent.fill(0)
    expect((await sent).newHealthStatus.testsFailed).toBe(1)
  })

  test('is not inherited by forks and is not changed by a restore', async () => {
    await session.checkpoint({ checkpointLabel: 'c' })
    const reported = await send(report(''))
    const fork = await session.fork()
    expect((await fork.health.get()).health).toEqual(unknown)
    await session.restore({ checkpointLabel: 'c' })
    await reload()
    expect(await health()).toEqual(reported)
  })

  test('is stored in the order of the reports, independent of the clock', async () => {
    await send(report('failure'))
    await reload(Date.UTC(2020, 0, 1))
    await send(report(''))
    await reload(Date.UTC(2019, 0, 1))
    expect((await health()).status).toBe(HealthStatus.PASSING)
    const times = (await session.health.history()).reports.map(({ lastUpdatedAt }) => lastUpdatedAt)
    expect(times).toEqual(times.toSorted())
  })

  test('keeps only the newest reports, in pages', async () => {
    const more = 5
    const passed = (at: number): number => at % 30
    for (let i = 0; i < limits.healthReports + more; i++)
      await send(report(...Array.from({ length: passed(i) }, () => '')))
    await reload()
    const counts: number[] = []
    let pageToken = ''
    do {
      const page = await session.health.history({ pageSize: 300, pageToken })
      expect(page.reports.length).toBeLessThanOrEqual(300)
      counts.push(...page.reports.map(({ testsPassed }) => testsPassed))
      pageToken = page.nextPageToken
    } while (pageToken !== '')
    expect(counts).toEqual(Array.from({ length: limits.healthReports }, (_, i) => passed(i + more)))
    if (!lasting) return
    await engine.close()
    const store = await storage.open()
    const kept = await store.scan({ gte: 'h', lt: 'i', limit: limits.healthReports + 1 })
    expect(kept).toHaveLength(limits.healthReports)
    await store.close()
  })

  test('completes and keeps a report that was being read when the engine closed', async () => {
    const sent = send(`<testsuite>${'<testcase/>'.repeat(50_000)}</testsuite>`)
    await engine.close()
    expect((await sent).testsPassed).toBe(50_000)
    if (!lasting) return
    engine = await openEngine({ storage })
    expect((await (await engine.sessions.open(session.id)).health.get()).health.testsPassed).toBe(50_000)
  })

  test('is not changed by an invalid report', async () => {
    const before = await send(report('', 'failure'))
    const { events } = await session.events.list()
    await expect(send('<testsuite><testcase/>')).rejects.toEqual(refused('INVALID_ARGUMENT'))
    await expect(send(Buffer.from([0xff]))).rejects.toEqual(refused('INVALID_ARGUMENT'))
    expect(await health()).toEqual(before)
    expect((await session.events.list()).events).toEqual(events)
    expect((await session.health.history()).reports).toHaveLength(1)
    expect((await send(report(''))).status).toBe(HealthStatus.PASSING)
  })

  test('can be withheld from a narrowed handle, and is deleted with the session', async () => {
    const narrow = session.narrow({ without: ['health'] })
    await expect(narrow.health.get()).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' })
    await expect(narrow.health.report({ reportFormat, reportContent: report('') })).rejects.toMatchObject({
      reason: 'PERMISSION_DENIED',
    })
    await expect(narrow.health.history()).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' })
    const sent = send(`<testsuite>${'<testcase/>'.repeat(50_000)}</testsuite>`).catch(
      (error: unknown) => error,
    )
    await session.delete()
    expect(await sent).toMatchObject({ reason: 'SESSION_NOT_FOUND' })
    await expect(session.health.get()).rejects.toMatchObject({ reason: 'SESSION_NOT_FOUND' })
  })

  test.each([
    [undefined, 'request'],
    [[], 'request'],
    [{ reportContent: report('') }, 'reportFormat'],
    [{ reportFormat: 'junit-xml/v2', reportContent: report('') }, 'reportFormat'],
    [{ reportFormat: ['junit-xml/v1'], reportContent: report('') }, 'reportFormat'],
    [{ reportFormat }, 'reportContent'],
    [{ reportFormat, reportContent: 7 }, 'reportContent'],
    [{ reportFormat, reportContent: new ArrayBuffer(8) }, 'reportContent'],
    [{ reportFormat, reportContent: Object.create(new Uint8Array(2)) as unknown }, 'reportContent'],
    [{ reportFormat, reportContent: [60, 97, 47, 62] }, 'reportContent'],
    [{ reportFormat, reportContent: '<testsuite>\ud800</testsuite>' }, 'reportContent'],
  ])('rejects request %j', async (request, field) => {
    await expect(session.health.report(request as never)).rejects.toEqual(refused('INVALID_ARGUMENT', field))
    expect(await health()).toEqual(unknown)
  })

  test('accepts a report at the size limit and rejects one above it', async () => {
    const head = '<testsuite><testcase/><!--'
    const tail = '--></testsuite>'
    const whole = head + 'x'.repeat(limits.reportBytes - head.length - tail.length) + tail
    expect((await send(whole)).testsPassed).toBe(1)
    const over = `${whole} `
    await expect(send(over)).rejects.toEqual(refused('TOO_LARGE'))
    await expect(send(Buffer.from(over))).rejects.toEqual(refused('TOO_LARGE'))
    await expect(send('ä'.repeat(limits.reportBytes / 2 + 1))).rejects.toEqual(refused('TOO_LARGE'))
  })

  test.each([{ pageSize: -1 }, { pageSize: 1.5 }, { pageToken: 'x' }, 7, null])(
    'rejects a page %j of the history',
    async (request) => {
      await expect(session.health.history(request as never)).rejects.toMatchObject({
        reason: 'INVALID_ARGUMENT',
      })
    },
  )
})
