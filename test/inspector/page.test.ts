import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openEngine, type Engine, type Session } from 'forkspace'
import { hasBrowser, startBrowser } from '../support/browser.js'
import { inspected, type Inspected } from '../support/inspected.js'

const hostileName = '\u202e<img src=x onerror="globalThis.ran=1">\u0007.html'
const script = '<script>globalThis.ran = 1</script>\n'
const svg =
  '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>parent.ran=1</script><rect width="9" height="9"/></svg>'
const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC',
  'base64',
)

let browser: Browser
let axe: string
let engine: Engine
let served: Inspected
let context: BrowserContext
let page: Page
let main: Session
let fork: Session
const problems: string[] = []

const lines = (count: number): string =>
  Array.from({ length: count }, (_, index) => `const value${index} = ${index}\n`).join('')

describe.skipIf(!hasBrowser)('the page of the inspector', () => {
  beforeAll(async () => {
    browser = await startBrowser()
    axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
    engine = await openEngine()
    const ann = engine.as({ principal: 'ann' })
    main = await ann.sessions.create({
      files: { '/src/parse.ts': lines(60), '/README.md': '# App\n', '/logo.png': png, '/empty': '' },
      initialTags: { task: '42' },
    })
    await main.checkpoint({ checkpointLabel: 'imported' })
    const agent = await engine.as({ principal: 'agent-1' }).sessions.open(main.id)
    fork = await agent.fork({ newTags: { attempt: '1' } })
    await fork.files.write({
      path: '/src/parse.ts',
      content: lines(60).replace('value7 = 7', 'value7 = parse(7)'),
    })
    await fork.files.write({ path: '/src/new.ts', content: lines(3) })
    await fork.files.delete({ path: '/README.md' })
    await main.merge(fork)
    served = await inspected(engine)
  })
  afterAll(async () => {
    await browser.close()
    await served.close()
    await engine.close()
  })

  beforeEach(async () => {
    problems.length = 0
    context = await browser.newContext({ viewport: { width: 1200, height: 700 } })
    page = await context.newPage()
    page.setDefaultTimeout(20_000)
    page.on('pageerror', ({ message }) => problems.push(message))
    page.on('console', (message) => {
      if (message.type() === 'error') problems.push(message.text())
    })
    page.on('request', (request) => {
      const { protocol, host } = new URL(request.url())
      if (protocol !== 'blob:' && host !== new URL(served.url).host) problems.push(`request to ${host}`)
    })
  })
  afterEach(async () => {
    await context.close()
    expect(problems).toEqual([])
  })

  const open = async (place = ''): Promise<void> => {
    await page.goto(served.url + (place === '' ? '' : `&${place}`))
  }
  const sees = async (text: string | RegExp): Promise<void> => page.getByText(text).first().waitFor()
  const row = (text: string | RegExp) => page.locator('.row', { hasText: text })

  test('asks for a token, and keeps it out of the address and of the log of requests', async () => {
    await page.goto(served.url.replace(/#.*/, ''))
    await sees('needs the token')
    problems.length = 0
    await page.getByLabel('Token').fill(served.token)
    await page.getByRole('button', { name: 'Open' }).click()
    await sees('2 sessions')
    await open()
    await sees('2 sessions')
    expect(page.url()).not.toContain(served.token)
    await page.reload()
    await sees('2 sessions')
    expect(served.requested.join('\n')).not.toContain(served.token)
  })

  test('draws sessions with their forks, checkpoints and merges', async () => {
    await open()
    await row('checkpoint imported').waitFor()
    await row('merge of task 42, attempt 1').waitFor()
    await row(/agent-1/)
      .first()
      .waitFor()
    // The fork and the merge each have a line to the other lane.
    expect(await page.locator('svg.lanes path[d*="C"]').count()).toBe(2)
    await page.getByLabel('Search sessions').fill('attempt=1')
    await sees('1 of 2 sessions')
    await page.getByLabel('Search sessions').fill('nothing')
    await sees('No session matches')
  })

  test('shows new sessions and events without being asked', async () => {
    await open()
    await sees('2 sessions')
    const extra = await main.fork({ newTags: { attempt: 'late' } })
    await row('attempt=late').waitFor()
    await extra.checkpoint({ checkpointLabel: 'live' })
    await row('checkpoint live').waitFor()
    await page.goto(`${served.url.replace(/#.*/, '')}#/session/${extra.id}`)
    await page.locator('.row', { hasText: 'README.md' }).waitFor({ state: 'detached' })
    await extra.files.write({ path: '/streamed.txt', content: 'x' })
    await row('streamed.txt').waitFor()
    expect(await row('streamed.txt').count()).toBe(1)
    await extra.delete()
  })

  test('shows the tree of a state with sizes and marks, and files as text, image and hex', async () => {
    await open(`/session/${fork.id}`)
    await row('src').click()
    await page.keyboard.press('ArrowRight')
    const added = row('new.ts')
    await added.waitFor()
    await sees(/^\d+ B$/)
    expect(await added.locator('.letter').getAttribute('aria-label')).toBe('added')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('ArrowDown')
    await sees('const value7 = parse(7)')
    await page.getByRole('button', { name: 'hex' }).click()
    await sees(/63 6f 6e 73 74/)
    await row('logo.png').click()
    const image = page.locator('.picture img')
    await image.waitFor()
    await expect
      .poll(() => image.evaluate((element: { naturalWidth: number }) => element.naturalWidth))
      .toBe(10)
    await row('empty').click()
    await sees('The file is empty')
    // The state of the first event has the files of the parent.
    await page.getByRole('slider').fill('0')
    await row('README.md').waitFor()
    await row('new.ts').waitFor({ state: 'detached' })
  })

  test('compares two states in one column and in two', async () => {
    await open(`/session/${fork.id}?tab=changes`)
    await row('/src/parse.ts').click()
    await page.locator('.line.added', { hasText: 'parse(7)' }).waitFor()
    expect(await page.locator('.line.added mark').first().textContent()).toContain('parse')
    await page.getByRole('button', { name: 'split' }).click()
    await page.locator('.columns .line.removed', { hasText: 'value7 = 7' }).waitFor()
    await page.getByRole('combobox').first().selectOption('before')
    await row('/README.md').waitFor()
    await sees('1 file')
    await page.getByLabel('Id of a session or of an event').fill(main.id)
    await page.keyboard.press('Enter')
    await sees('No differences')
  })

  test('lists events with principal and paths, and goes to their states', async () => {
    await open(`/session/${fork.id}?tab=timeline`)
    await sees('4 events')
    await row('/src/new.ts').click()
    await sees('v1.FileSystemService.WriteFile')
    await page.keyboard.press('ArrowDown')
    await sees('2 / 4')
    await page.getByRole('searchbox').fill('readme')
    await sees('1 event')
    expect(await page.locator('[role=option]').count()).toBe(1)
  })

  test('shows a hostile store as text', async () => {
    const hostile = await engine.sessions.create({
      initialTags: { ['__proto__']: script, constructor: '\u202e' },
    })
    await hostile.files.write({ path: `/${hostileName}`, content: script })
    await hostile.files.write({ path: '/__proto__', content: '\u202e\u0000\u001b[31m' })
    await hostile.files.write({ path: '/a.svg', content: svg })
    await hostile.checkpoint({ checkpointLabel: script })
    await open(`/session/${hostile.id}`)
    await row('\\u202e<img').click()
    await sees('<script>globalThis.ran = 1</script>')
    await row('a.svg').click()
    await page.getByRole('button', { name: 'image' }).click()
    await page.locator('.picture img').waitFor()
    await row('__proto__').click()
    await sees('00 1b 5b')
    await page.getByRole('tab', { name: 'Timeline' }).click()
    await row('checkpoint <script>').click()
    await page.keyboard.press('g')
    await row('__proto__').waitFor()
    expect(await page.evaluate(() => 'ran' in globalThis)).toBe(false)
    expect(await page.locator('script').count()).toBe(1)
    await hostile.delete()
  })

  test.each(['light', 'dark'] as const)(
    'has no accessibility violations in the %s theme',
    async (colorScheme) => {
      await page.emulateMedia({ colorScheme })
      await open()
      await row('checkpoint imported').waitFor()
      const places = [
        '/',
        `/session/${fork.id}?path=/src/parse.ts`,
        `/session/${fork.id}?tab=changes&file=/src/parse.ts`,
        `/session/${fork.id}?tab=changes&file=/src/parse.ts&form=split`,
        `/session/${fork.id}?tab=timeline`,
        '/nothing',
      ]
      for (const place of places) {
        await page.evaluate(`location.hash = ${JSON.stringify(place)}`)
        await page
          .locator(place === '/nothing' ? '.empty' : '.row')
          .first()
          .waitFor()
        if (place.includes('file=')) await page.locator('.line').first().waitFor()
        expect([place, await violations()]).toEqual([place, []])
      }
    },
  )

  async function violations(): Promise<unknown> {
    // The policy of the page allows no other script, so this one is evaluated by the debugger.
    return page.evaluate(`${axe}; axe.run().then(({ violations }) =>
      violations.map(({ id, nodes }) => [id, nodes[0].html, nodes[0].failureSummary]))`)
  }
})
