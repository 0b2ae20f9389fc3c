import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openEngine, type Engine, type Session } from 'forkspace'
import { hasBrowser, startBrowser } from '../support/browser.js'
import { inspected, type Inspected } from '../support/inspected.js'
import { isLong } from '../support/seed.js'

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
    engine = await openEngine({ secrets: { masterKey: new Uint8Array(32) } })
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
  /** Deletes sessions after leaving the page, which would ask for them. */
  const remove = async (...sessions: Session[]): Promise<void> => {
    await page.goto('about:blank')
    for (const session of sessions) await session.delete()
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
    await remove(extra)
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

  test.runIf(isLong)('shows the row that was clicked as soon as it appeared', async () => {
    await open(`/session/${fork.id}`)
    await row('src').waitFor()
    // Types of the browser are not known here.
    await page.evaluate(`
      new MutationObserver((changes, observer) => {
        const rows = [...document.querySelectorAll('.row')]
        const found = rows.find((row) => row.textContent.includes('/src/parse.ts'))
        if (found === undefined) return
        observer.disconnect()
        found.click()
      }).observe(document.body, { childList: true, subtree: true })
      location.hash = '#/session/${fork.id}?tab=changes'`)
    await page.locator('.line.added', { hasText: 'parse(7)' }).waitFor()
    expect(await row('/src/parse.ts').getAttribute('aria-selected')).toBe('true')
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

  test.runIf(isLong)('lists events with principal and paths, and goes to their states', async () => {
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

  test.runIf(isLong)('compares with the event before when it is opened at that place', async () => {
    const written = (await fork.events.list()).events.find(({ details }) => details['path'] === '/src/new.ts')
    await open(`/session/${fork.id}?tab=changes&from=before&at=${written?.eventId}`)
    await row('/src/new.ts').waitFor()
    await sees('1 file')
    expect(await row('/src/parse.ts').count()).toBe(0)
  })

  test.runIf(isLong)('shows ends of lines where only they differ', async () => {
    const session = await engine.sessions.create({ files: { '/a.txt': 'one\r\ntwo\r\n' } })
    await session.checkpoint({ checkpointLabel: 'crlf' })
    await session.files.write({ path: '/a.txt', content: 'one\ntwo\r\n' })
    await open(`/session/${session.id}?tab=changes&from=before`)
    const line = (side: string) => page.locator(`.line.${side} bdi`)
    await line('removed').waitFor()
    expect(await line('removed').allTextContents()).toEqual(['one\\u000d'])
    expect(await line('added').allTextContents()).toEqual(['one'])
    expect(await line('same').allTextContents()).toEqual(['two'])
    await remove(session)
  })

  test.runIf(isLong)('keeps the chosen file and session when others are added above them', async () => {
    const session = await main.fork({ newTags: { name: 'chosen' } })
    await open(`/session/${session.id}`)
    await row('empty').click()
    await sees('The file is empty')
    await session.files.write({ path: '/aaa.txt', content: 'x' })
    await row('aaa.txt').waitFor()
    await expect.poll(() => page.locator('.row.active').textContent()).toContain('empty')
    await page.keyboard.press('g')
    const chosen = page.locator('.row', { has: page.getByText('chosen', { exact: true }) }).first()
    await chosen.click({ position: { x: 400, y: 10 } })
    const extra = await main.fork({ newTags: { attempt: 'above' } })
    await row('attempt=above').waitFor()
    await expect.poll(() => page.locator('.row.active').textContent()).toContain('chosen')
    await remove(session, extra)
  })

  test.runIf(isLong)(
    'says that the session that it shows was deleted, and shows its newest status',
    async () => {
      const session = await main.fork({ newTags: { name: 'first' } })
      await open(`/session/${session.id}`)
      await row('empty').waitFor()
      const attempt = await session.fork()
      await session.files.write({ path: '/empty', content: 'ours' })
      await attempt.files.write({ path: '/empty', content: 'theirs' })
      await session.merge(attempt)
      await page.locator('header .badge.warn').waitFor()
      await attempt.delete()
      await session.delete()
      await page.getByRole('alert').filter({ hasText: 'SESSION_NOT_FOUND' }).first().waitFor()
      expect(problems.every((problem) => problem.includes('404'))).toBe(true)
      problems.length = 0
    },
  )

  test.runIf(isLong)('leaves keys to lists of choices, and searches in every view', async () => {
    await open(`/session/${fork.id}?tab=changes`)
    await page.getByRole('combobox').first().focus()
    await page.keyboard.press('g')
    await page.keyboard.press('?')
    expect(await page.locator('dialog[open]').count()).toBe(0)
    expect(page.url()).toContain(fork.id)
    await page.getByRole('tab', { name: 'Timeline' }).click()
    await page.keyboard.press('/')
    await page.keyboard.type('readme')
    await sees('1 event')
  })

  test.runIf(isLong)('opens with a token that is malformed', async () => {
    await page.goto(served.url.replace(/#.*/, '#token=%&/'))
    await sees('needs the token')
    expect(await page.getByLabel('Token').count()).toBe(1)
    problems.length = 0
  })

  test.runIf(isLong)('shows the sessions of the caller of a new token', async () => {
    await open()
    await sees('2 sessions')
    await page.evaluate(`location.hash = 'token=wrong&/'`)
    await sees('needs the token')
    expect(await row('task=42').count()).toBe(0)
    problems.length = 0
    await open()
    await sees('2 sessions')
  })

  test('shows a hostile store as text', async () => {
    const hostile = await engine.sessions.create({
      initialTags: { ['__proto__']: script, constructor: '\u202e' },
    })
    await hostile.files.write({ path: `/${hostileName}`, content: script })
    await hostile.files.write({ path: '/__proto__', content: '\u202e\u0000\u001b[31m' })
    await hostile.files.write({ path: '/a.svg', content: svg })
    await hostile.files.write({ path: '/a.constructor', content: 'a text' })
    await hostile.files.write({ path: '/a.__proto__', content: 'another text' })
    await hostile.checkpoint({ checkpointLabel: script })
    await open(`/session/${hostile.id}`)
    await row('\\u202e<img').click()
    await sees('<script>globalThis.ran = 1</script>')
    await row('a.svg').click()
    await page.getByRole('button', { name: 'image' }).click()
    await page.locator('.picture img').waitFor()
    await row('a.constructor').click()
    await sees('a text')
    await row('a.__proto__').click()
    await sees('another text')
    await row(/^__proto__/).click()
    await sees('00 1b 5b')
    await page.getByRole('tab', { name: 'Timeline' }).click()
    await row('checkpoint <script>').click()
    await page.keyboard.press('g')
    // Only the list of sessions shows tags.
    await row('__proto__=').waitFor()
    expect(await page.evaluate(() => 'ran' in globalThis)).toBe(false)
    expect(await page.locator('script').count()).toBe(1)
    await remove(hostile)
  })

  test('shows blame, reviews, services, figures, forks and the store', async () => {
    const agent = await engine.as({ principal: 'agent-1' }).sessions.open(main.id)
    const { contentHash } = await agent.files.readWithHash({ path: '/src/parse.ts' })
    await agent.annotations.add({
      filePath: '/src/parse.ts',
      lineNumber: 8,
      expectedContentHash: contentHash,
      comment: 'Why parse?',
    })
    await agent.approvals.request({ reason: 'COMMIT_TO_MAIN', details: { summary: 'A parser' } })
    await agent.fileLocks.lock({ path: '/src/new.ts', timeoutSeconds: 600 })
    await agent.cache.put({ key: 'plan', value: Buffer.from('step 2') })
    await agent.bus.publish({ topic: 'progress', payload: Buffer.from('half done') })
    await agent.secrets.put({ secretName: 'NPM_TOKEN', secretValue: 'never-shown' })
    const report = '<testsuite><testcase name="a"/><testcase name="b"><failure/></testcase></testsuite>'
    await agent.health.report({ reportFormat: 'junit-xml/v1', reportContent: Buffer.from(report) })

    await open(`/session/${main.id}?path=/src/parse.ts`)
    await page.getByRole('button', { name: 'blame' }).click()
    await page
      .locator('.blame', { hasText: /ann|local/ })
      .first()
      .waitFor()
    await sees('the base')
    await page.getByRole('tab', { name: 'Changes' }).click()
    await row('/src/parse.ts').click()
    await page.locator('.note', { hasText: 'Why parse?' }).waitFor()
    await page.getByRole('tab', { name: 'Review' }).click()
    await sees('COMMIT_TO_MAIN')
    expect(await page.getByRole('button', { name: 'Grant' }).count()).toBe(0)
    await page.getByRole('tab', { name: 'Services' }).click()
    for (const text of ['/src/new.ts', 'plan', 'half done', 'NPM_TOKEN']) await sees(text)
    await agent.bus.publish({ topic: 'progress', payload: Buffer.from('all done') })
    await sees('all done')
    expect(await page.content()).not.toContain('never-shown')
    await page.getByRole('tab', { name: 'Figures' }).click()
    await sees('ReportHealth')
    await sees('failing')
    await page.getByRole('tab', { name: 'Forks' }).click()
    await row('/src/parse.ts').waitFor()
    await page.getByRole('button', { name: 'Preview a merge' }).click()
    await sees('A merge would change 0 paths, with 0 conflicts.')
    expect(await page.getByRole('button', { name: 'Merge', exact: true }).count()).toBe(0)
    await page.getByRole('link', { name: 'Store' }).click()
    await sees('without sharing')
    await sees('There are no sources')
  })

  test('restores, undoes, merges and decides only if it was opened for writing', async () => {
    const writable = await inspected(engine, { write: true })
    const session = await engine.sessions.create({ files: { '/a.txt': 'one\n' } })
    await session.files.write({ path: '/a.txt', content: 'two\n' })
    const attempt = await session.fork()
    await attempt.files.write({ path: '/b.txt', content: 'b\n' })
    await session.approvals.request({ reason: 'COMMIT_TO_MAIN' })
    const contentOf = (path: string): Promise<string> => session.fs.promises.readFile(path, 'utf8')
    page.removeAllListeners('request')

    await page.goto(`${served.url}&/session/${session.id}?tab=timeline`)
    await row('session created').click()
    await sees('v1.SessionService.CreateSession')
    expect(await page.getByRole('button', { name: 'Restore this state' }).count()).toBe(0)

    await page.goto(`${writable.url}&/session/${session.id}?tab=timeline`)
    await row('session created').click()
    await page.getByRole('button', { name: 'Restore this state …' }).click()
    await sees('1 path would change:')
    expect(await contentOf('/a.txt')).toBe('two\n')
    await page.getByRole('button', { name: 'Restore this state', exact: true }).click()
    await row('restore state').waitFor()
    expect(await contentOf('/a.txt')).toBe('one\n')
    await page.getByRole('button', { name: 'Undo …' }).click()
    await page.getByRole('button', { name: 'Undo the newest change' }).click()
    await row(/^undo/).waitFor()
    expect(await contentOf('/a.txt')).toBe('two\n')

    await page.getByRole('tab', { name: 'Forks' }).click()
    await page.getByRole('button', { name: 'Preview a merge' }).click()
    await sees('A merge would change 1 path, with 0 conflicts.')
    await page.getByRole('button', { name: 'Merge', exact: true }).click()
    await sees('The merge changed 1 path')
    expect(await contentOf('/b.txt')).toBe('b\n')

    await page.getByRole('tab', { name: 'Review' }).click()
    await page.getByLabel('Feedback').fill('Not yet')
    await page.getByRole('button', { name: 'Deny' }).click()
    await sees('denied')
    expect((await session.approvals.list()).approvals).toMatchObject([
      { status: 'APPROVAL_STATUS_DENIED', decidedBy: 'viewer', feedback: 'Not yet' },
    ])
    await remove(attempt, session)
    await writable.close()
  })

  test('lists the conflicts of a merge, before it and until they are resolved', async () => {
    const writable = await inspected(engine, { write: true })
    const paths = Array.from({ length: 11 }, (_, index) => `/file-${String(index).padStart(2, '0')}.txt`)
    const withContent = (content: string) => Object.fromEntries(paths.map((path) => [path, content]))
    const session = await engine.sessions.create({
      files: { ...withContent('one\n'), [`/${hostileName}`]: 'one\n' },
    })
    const attempt = await session.fork()
    for (const [side, content] of [
      [session, 'two\n'],
      [attempt, 'three\n'],
    ] as const)
      for (const path of [...paths, `/${hostileName}`]) await side.files.write({ path, content })
    page.removeAllListeners('request')

    await page.goto(`${writable.url}&/session/${session.id}?tab=forks`)
    await page.getByRole('button', { name: 'Preview a merge' }).click()
    await sees(/A merge would change .* with 12 conflicts\./)
    await sees('\\u202e<img')
    await sees('and 2 more')
    const open = page.getByRole('region', { name: 'Unresolved conflicts' })
    expect(await open.count()).toBe(0)

    await page.getByRole('button', { name: 'Merge', exact: true }).click()
    await open.getByText('/file-08.txt').waitFor()
    expect(await open.locator('li').last().textContent()).toBe('and more')
    await session.conflicts.resolveAll({ use: 'theirs' })
    await open.waitFor({ state: 'detached' })
    expect(await page.evaluate('globalThis.ran')).toBeUndefined()
    await remove(attempt, session)
    await writable.close()
  })

  test.runIf(isLong)('carries out the previewed change once, and no other', async () => {
    const writable = await inspected(engine, { write: true })
    const session = await engine.sessions.create({ files: { '/a.txt': '0' } })
    for (const content of ['1', '2', '3', '4']) await session.files.write({ path: '/a.txt', content })
    const contentOf = (path: string): Promise<string> => session.fs.promises.readFile(path, 'utf8')
    page.removeAllListeners('request')
    await page.goto(`${writable.url}&/session/${session.id}?tab=timeline`)
    await row('session created').click()
    const undo = page.getByRole('button', { name: 'Undo the newest change' })

    await page.getByRole('button', { name: 'Undo …' }).click()
    await undo.dblclick()
    await row(/^undo/).waitFor()
    expect(await contentOf('/a.txt')).toBe('3')

    await row('session created').click()
    await page.getByRole('button', { name: 'Undo …' }).click()
    await undo.waitFor()
    await session.files.write({ path: '/late.txt', content: 'late' })
    await undo.click()
    await sees('The session has changed since.')
    await page.locator('.preview', { hasText: '/late.txt' }).waitFor()
    expect(await contentOf('/late.txt')).toBe('late')

    const attempt = await session.fork()
    await attempt.files.write({ path: '/b.txt', content: 'b' })
    await page.getByRole('tab', { name: 'Forks' }).click()
    await page.getByRole('button', { name: 'Preview a merge' }).click()
    await sees('A merge would change 1 path')
    await attempt.files.write({ path: '/unseen.txt', content: 'c' })
    await page.getByRole('button', { name: 'Merge', exact: true }).dblclick()
    await sees('The merge changed 1 path')
    expect((await session.fs.promises.readdir('/')).sort()).toEqual(['a.txt', 'b.txt', 'late.txt'])
    await page.getByRole('button', { name: 'Preview a merge' }).click()
    await sees('A merge would change 1 path')
    await session.files.write({ path: '/late.txt', content: 'later' })
    await page.getByRole('button', { name: 'Merge', exact: true }).click()
    await page.getByRole('alert').waitFor()
    expect(await session.fs.promises.readdir('/')).not.toContain('unseen.txt')
    // The browser reports the refused merge.
    problems.length = 0
    await remove(attempt, session)
    await writable.close()
  })

  test.each(isLong ? (['light', 'dark'] as const) : (['dark'] as const))(
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
