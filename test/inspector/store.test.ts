import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { memoryStorage, openEngine, type Engine, type Store } from 'forkspace'
import { createHttpHandler, serve, staticTokens } from 'forkspace/http'
import { hasBrowser, startBrowser } from '../support/browser.js'
import { inspected, type Inspected } from '../support/inspected.js'
import { tarEntry } from '../support/raw-archives.js'
import { isLong } from '../support/seed.js'

const hostileName = '\u202e<img src=x onerror="globalThis.ran=1">'

describe.skipIf(!hasBrowser)('the store in the page of the inspector', () => {
  let browser: Browser
  let axe: string
  let engine: Engine
  let store: Store
  let holdsChecks: boolean
  /** Ends the check of the storage that is held. */
  let endCheck: (() => void) | undefined
  let served: Inspected
  let context: BrowserContext
  let page: Page
  const problems: string[] = []

  beforeAll(async () => {
    browser = await startBrowser()
    axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
  })
  afterAll(() => browser.close())

  beforeEach(async () => {
    const memory = memoryStorage({ durable: true })
    holdsChecks = false
    const open = async (): Promise<Store> => {
      store = await memory.open()
      store.check = heldCheck
      return store
    }
    engine = await openEngine({ storage: { open } })
    served = await inspected(engine, { check: true })
    problems.length = 0
    context = await browser.newContext({ viewport: { width: 1400, height: 900 } })
    page = await context.newPage()
    page.setDefaultTimeout(20_000)
    page.on('pageerror', ({ message }) => problems.push(message))
    page.on('console', (message) => {
      if (message.type() === 'error') problems.push(message.text())
    })
  })
  afterEach(async () => {
    await context.close()
    await served.close()
    await engine.close()
    expect(problems).toEqual([])
  })

  /** The rows of a table that have a text. */
  const row = (table: string, text: string | RegExp) =>
    page.getByRole('table', { name: table }).getByRole('row').filter({ hasText: text })
  const sees = async (text: string | RegExp): Promise<void> => page.getByText(text).first().waitFor()
  const check = () => page.getByRole('button', { name: 'Check the store' })

  /** With `holdsChecks`, a check of the storage waits until `endCheck`, or until it is aborted. */
  const heldCheck: NonNullable<Store['check']> = async function* ({ signal }) {
    if (holdsChecks)
      await new Promise<void>((resolve) => {
        endCheck = resolve
        signal?.addEventListener('abort', () => resolve(), { once: true })
      })
    endCheck = undefined
    yield* []
  }

  test.runIf(isLong)(
    'follows the progress of an import until its end, and shows one that failed',
    async () => {
      const { sourceId } = await engine.sources.create({ displayName: hostileName, uploadedSnapshot: {} })
      await page.goto(`${served.url}&/store`)
      await sees('Nothing was imported.')
      const failed = await engine.sources.startImport(sourceId, {
        uploadedSnapshot: { content: Buffer.from('no archive') },
      })
      const error = (await engine.sources.waitForJob(failed).catch((thrown: unknown) => thrown)) as Error
      await row('Imports', 'INVALID_ARCHIVE').filter({ hasText: error.message }).waitFor()

      const steps: (() => void)[] = []
      const step = (): Promise<void> => new Promise((resolve) => steps.push(resolve))
      const content = async function* (): AsyncGenerator<Uint8Array> {
        for (const name of ['a', 'b']) {
          yield tarEntry({ name, content: Buffer.alloc(2000) })
          await step()
        }
        yield Buffer.alloc(1024)
      }
      const job = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content: content() } })
      await row('Imports', /running.*1 file, 2\.0 KiB/).waitFor()
      await sees('1 import not finished')
      steps.shift()?.()
      await row('Imports', /running.*2 files, 3\.9 KiB/).waitFor()
      steps.shift()?.()
      await engine.sources.waitForJob(job)
      await row('Imports', /succeeded.*2 files, 3\.9 KiB/).waitFor()
      await row('Sources', /ready.*\\u202e<img src=x/).waitFor()
      // The newest import is the first one.
      expect(
        await page.getByRole('table', { name: 'Imports' }).locator('tbody tr').allTextContents(),
      ).toEqual([expect.stringMatching(/^succeeded/), expect.stringMatching(/^failed/)])
      expect(await page.evaluate(() => 'ran' in globalThis)).toBe(false)
      expect(await violations()).toEqual([])
    },
  )

  test.runIf(isLong)('shows all sources, 200 at a time', async () => {
    for (let index = 1; index <= 201; index++)
      await engine.sources.create({ displayName: `source ${index}`, uploadedSnapshot: {} })
    await page.goto(`${served.url}&/store`)
    await sees('Sources 1 to 200')
    const later = page.getByRole('button', { name: 'Later sources' })
    const earlier = page.getByRole('button', { name: 'Earlier sources' })
    expect(await earlier.isDisabled()).toBe(true)
    const first = await page.getByRole('table', { name: 'Sources' }).locator('tbody tr').allTextContents()
    await later.click()
    await sees('Sources 201 to 201')
    const last = await page.getByRole('table', { name: 'Sources' }).locator('tbody tr').allTextContents()
    const names = [...first, ...last].map((text) => /source \d+/.exec(text)?.[0])
    expect(new Set(names).size).toBe(201)
    expect(await later.isDisabled()).toBe(true)
    expect(await violations()).toEqual([])
    await earlier.click()
    await sees('Sources 1 to 200')
  })

  test.runIf(isLong)('follows the sessions of a listing with several pages', async () => {
    const [first] = await Promise.all(
      Array.from({ length: 2001 }, (_, index) =>
        engine.sessions.create({ initialTags: { name: `number ${index}` } }),
      ),
    )
    await page.goto(served.url)
    await sees('2,001 sessions')
    await first?.delete()
    await sees('2,000 sessions')
    await engine.sessions.create({ initialTags: { name: 'newest' } })
    const newest = page.locator('.row', { hasText: 'newest' })
    await newest.waitFor()
    await sees('2,001 sessions')
    expect(await newest.count()).toBe(1)
  })

  test('checks the store, and shows the problems as text', async () => {
    const session = await engine.sessions.create({ files: { '/a': 'kept' } })
    await session.files.write({ path: `/${hostileName}`, content: 'lost' })
    await page.goto(`${served.url}&/store`)
    await check().click()
    await sees(/No problem found\. Checked: 1 session, 2 events/)

    await store.commit({ deleteBlobs: [createHash('sha256').update('lost').digest('hex')] })
    await page.getByLabel('and read every content').check()
    await check().click()
    await sees(/1 problem found\. Checked: 1 session.* of contents were read/)
    await row('Problems', /missing.*blob.*\\u202e<img src=x/).waitFor()
    expect(await page.evaluate(() => 'ran' in globalThis)).toBe(false)
    expect(await violations()).toEqual([])
  })

  test('shows that a check runs, and ends it with a button or by leaving the view', async () => {
    holdsChecks = true
    await page.goto(`${served.url}&/store`)
    await check().click()
    await sees(/Checking: /)
    expect(await check().isDisabled()).toBe(true)
    await expect.poll(() => endCheck).toBeDefined()
    await page.getByRole('button', { name: 'Stop' }).click()
    await expect.poll(() => endCheck).toBe(undefined)
    await check().click()
    await expect.poll(() => endCheck).toBeDefined()
    await page.getByRole('link', { name: 'Sessions' }).click()
    await expect.poll(() => endCheck).toBe(undefined)
    await page.getByRole('link', { name: 'Store' }).click()
    await check().click()
    await expect.poll(() => endCheck).toBeDefined()
    endCheck?.()
    await sees('No problem found')
  })

  test('names the way to check the store if the page cannot check it', async () => {
    const local = await inspected(engine)
    await page.goto(`${local.url}&/store`)
    await sees('did not allow this page')
    expect(await check().count()).toBe(0)
    // The open page would ask for its sessions.
    await page.goto('about:blank')
    await local.close()

    const caller = { tenant: 'local', principal: 'ann' }
    const server = await serve(createHttpHandler(engine, { authenticate: staticTokens({ token: caller }) }))
    const remote = await inspected({ baseUrl: server.url, token: 'token' })
    await page.goto(`${remote.url}&/store`)
    await sees('forkspace check')
    expect(await check().count()).toBe(0)
    await page.goto('about:blank')
    await remote.close()
    await server.close()
  })

  async function violations(): Promise<unknown> {
    // The policy of the page allows no other script, so this one is evaluated by the debugger.
    return page.evaluate(`${axe}; axe.run().then(({ violations }) =>
      violations.map(({ id, nodes }) => [id, nodes[0].html, nodes[0].failureSummary]))`)
  }
})
