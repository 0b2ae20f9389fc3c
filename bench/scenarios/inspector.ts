import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { env } from 'node:process'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { getRequestListener } from '@hono/node-server'
import { openEngine, type Engine } from 'forkspace'
import { staticTokens } from 'forkspace/http'
import { inspector as inspect } from 'forkspace/inspector'
import { chromium, type Page } from 'playwright-core'
import { singleRow } from '../support/rows.js'
import type { Context, Row, Scenario } from '../support/scenario.js'

const token = 'bench'
/** All files of the page, gzipped. */
const pageTarget = { atMost: 60 * 1024 }
/** A frame while the list scrolls may take this much longer than one of an empty page, in milliseconds. */
const frameTarget = { atMost: 50 }

/** The page of the inspector in a browser: its size, its first paint, and its lists. */
export const inspector: Scenario = { name: 'inspector', title: 'page of the inspector', run }

async function* run(context: Context): AsyncIterable<Row> {
  const files = fileURLToPath(new URL('page', import.meta.resolve('forkspace/inspector')))
  let bytes = 0
  for (const name of await readdir(files)) bytes += gzipSync(await readFile(join(files, name))).byteLength
  yield singleRow('bytes of the page, gzipped', 'bytes', bytes, pageTarget)

  const executablePath = env['CHROMIUM'] ?? '/usr/bin/chromium'
  // Without a browser, only the size can be measured.
  if (!existsSync(executablePath)) return
  const engine = await openEngine()
  const { url, server } = await serve(engine)
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] })
  try {
    const page = await browser.newPage()
    await page.goto('about:blank')
    const empty = await longestFrame(page, 'document.documentElement')

    const main = await engine.sessions.create()
    await page.goto(url)
    await page.locator('.row').first().waitFor()
    const paint = await page.evaluate<number>(
      "performance.getEntriesByName('first-contentful-paint')[0].startTime",
    )
    yield singleRow('first paint', 'time', paint)

    const sessions = context.count(10_000)
    for (let made = 1; made < sessions; made++) await main.fork({ newTags: { attempt: String(made) } })
    yield await timed(`graph of ${sessions} sessions`, async () => {
      await page.reload()
      await page.getByText(`${sessions.toLocaleString('en')} sessions`, { exact: true }).waitFor()
    })
    yield singleRow(
      'longest frame while it scrolls, above that of an empty page',
      'time',
      Math.max(0, (await longestFrame(page, "document.querySelector('.list')")) - empty),
      frameTarget,
    )

    const count = context.count(100_000)
    const large = await engine.sessions.create({
      files: Object.fromEntries(Array.from({ length: count }, (_, index) => [`/file-${index}.txt`, 'x'])),
    })
    yield await timed(`tree of ${count} files in one directory`, async () => {
      await page.goto(`${url.replace(/#.*/, '')}#/session/${large.id}`)
      await page.locator('[role=treeitem]').first().waitFor()
    })
    yield singleRow(
      'longest frame while the tree scrolls, above that of an empty page',
      'time',
      Math.max(0, (await longestFrame(page, "document.querySelector('[role=tree]')")) - empty),
      frameTarget,
    )
  } finally {
    await browser.close()
    server.close()
    server.closeAllConnections()
    await engine.close()
  }
}

async function serve(engine: Engine): Promise<{ url: string; server: Server }> {
  const handle = inspect(engine, {
    authenticate: staticTokens({ [token]: { tenant: 'local', principal: 'local' } }),
  })
  const listener = getRequestListener((request) => handle(request))
  const server = createServer((incoming, outgoing) => {
    listener(incoming, outgoing).catch(() => outgoing.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/#token=${token}`, server }
}

async function timed(what: string, work: () => Promise<void>): Promise<Row> {
  const start = performance.now()
  await work()
  return singleRow(what, 'time', performance.now() - start)
}

/** The longest of 120 frames, in each of which an element is scrolled by several screens. */
function longestFrame(page: Page, element: string): Promise<number> {
  return page.evaluate<number>(`new Promise((resolve) => {
    const element = ${element}
    let frames = 0
    let longest = 0
    let last
    const step = (now) => {
      if (last !== undefined) longest = Math.max(longest, now - last)
      last = now
      element.scrollTop += 1700
      if (++frames < 120) requestAnimationFrame(step)
      else resolve(longest)
    }
    requestAnimationFrame(step)
  })`)
}
