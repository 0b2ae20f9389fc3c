// Writes the screenshots of the inspector into docs/images. Run it with `npm run screenshots`, which builds first.
import { Buffer } from 'node:buffer'
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { env } from 'node:process'
import { crc32, deflateSync } from 'node:zlib'
import { getRequestListener } from '@hono/node-server'
import { openEngine } from '../dist/index.js'
import { staticTokens } from '../dist/adapters/http/index.js'
import { inspector } from '../dist/adapters/inspector/index.js'
import { fixedEnvironment } from '../dist/testing.js'
import { chromium } from 'playwright-core'

const token = 'screenshots'
const images = join(import.meta.dirname, 'images')

/** The times and ids are fixed, so that the images change only with the page. */
const environment = fixedEnvironment({ startMs: Date.UTC(2026, 0, 31, 9), stepMs: 137, seed: 3 })
const engine = await openEngine({ environment })
const sessions = await fillStore(engine)
const handle = inspector(engine, {
  authenticate: staticTokens({ [token]: { tenant: 'local', principal: 'ann' } }),
})
const listener = getRequestListener((request) => handle(request))
const server = createServer((incoming, outgoing) => {
  listener(incoming, outgoing).catch(() => outgoing.destroy())
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const url = `http://127.0.0.1:${server.address().port}/#token=${token}`

const browser = await chromium.launch({
  executablePath: env['CHROMIUM'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu'],
})
await mkdir(images, { recursive: true })
for (const [name, place, ready, colorScheme, width = 1040] of [
  ['inspector', '/', '.row', 'light'],
  [
    'inspector-changes',
    `/session/${sessions.second}?tab=changes&file=/src/parse.ts&form=split`,
    '.line mark',
    'light',
    1400,
  ],
  ['inspector-forks', `/session/${sessions.main}?tab=forks`, '.compare .row', 'dark'],
]) {
  const page = await browser.newPage({
    viewport: { width, height: 560 },
    colorScheme,
    timezoneId: 'UTC',
    locale: 'en',
  })
  await page.goto(`${url}&${place}`)
  await page.locator(ready).first().waitFor()
  await page.waitForLoadState('load')
  await page.waitForTimeout(500)
  const screenshot = await page.screenshot()
  await page.close()
  await writeFile(join(images, `${name}.png`), await withPalette(screenshot))
}
await browser.close()
server.close()
server.closeAllConnections()
await engine.close()

/** A task with three attempts, of which the second one is merged. */
async function fillStore(engine) {
  const as = (principal) => engine.as({ principal })
  const parser = (strict, limit) =>
    [
      "import { tokens } from './tokens.js'",
      '',
      'export function parse(text: string): Tree {',
      `  const parts = tokens(text${strict ? ', { strict: true }' : ''})`,
      '  const tree = new Tree()',
      `  for (const part of parts.slice(0, ${limit})) tree.add(part)`,
      '  return tree',
      '}',
      '',
    ].join('\n')
  const main = await as('ann').sessions.create({
    files: {
      '/README.md': '# Parser\n',
      '/src/parse.ts': parser(false, 100),
      '/src/tokens.ts': 'export const tokens = (text: string) => text.split(/\\s+/)\n',
      '/test/parse.test.ts': "test('parses', () => parse('a b'))\n",
    },
    initialTags: { task: '42' },
  })
  await main.checkpoint({ checkpointLabel: 'imported' })
  const forks = []
  for (const [number, principal] of [
    [1, 'agent-1'],
    [2, 'agent-2'],
    [3, 'agent-3'],
  ]) {
    const own = await as(principal).sessions.open(main.id)
    forks.push(await own.fork({ newTags: { attempt: String(number) } }))
  }
  for (const [index, fork] of forks.entries()) {
    await fork.files.write({ path: '/src/parse.ts', content: parser(index > 0, 100 + index * 400) })
    await fork.files.write({ path: `/src/limit-${index + 1}.ts`, content: 'export const limit = 500\n' })
    await fork.files.append({ path: '/test/parse.test.ts', content: "test('refuses', () => parse(''))\n" })
    await fork.checkpoint({ checkpointLabel: 'tests pass' })
  }
  const review = await as('ann').sessions.open(main.id)
  await review.merge(forks[1])
  await review.files.write({ path: '/README.md', content: '# Parser\n\nIt is strict.\n' })
  await review.commit({ message: 'Parse strictly', author: { name: 'Ann', email: 'ann@example.org' } })
  return { main: main.id, second: forks[1].id }
}

/** The image with at most 256 colours, which takes about half of the bytes. */
async function withPalette(screenshot) {
  const page = await browser.newPage()
  const { width, height, base64 } = await page.evaluate(async (source) => {
    const blob = await (await fetch(`data:image/png;base64,${source}`)).blob()
    const image = await createImageBitmap(blob)
    const canvas = new OffscreenCanvas(image.width, image.height).getContext('2d')
    canvas.drawImage(image, 0, 0)
    const { data } = canvas.getImageData(0, 0, image.width, image.height)
    const parts = []
    for (let at = 0; at < data.length; at += 30_000)
      parts.push(btoa(String.fromCharCode(...data.subarray(at, at + 30_000))))
    return { width: image.width, height: image.height, base64: parts }
  }, screenshot.toString('base64'))
  await page.close()
  const pixels = Buffer.concat(base64.map((part) => Buffer.from(part, 'base64')))
  const counts = new Map()
  for (let at = 0; at < pixels.length; at += 4) {
    const colour = pixels.readUIntBE(at, 3)
    counts.set(colour, (counts.get(colour) ?? 0) + 1)
  }
  const { palette, nearest } = paletteOf(counts)
  const rows = Buffer.alloc(height * (width + 1))
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      rows[y * (width + 1) + x + 1] = nearest.get(pixels.readUIntBE((y * width + x) * 4, 3))
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  // Eight bits for each pixel, which is an index of the palette.
  header.set([8, 3, 0, 0, 0], 8)
  const colours = Buffer.concat(
    palette.map((colour) => Buffer.from([colour >> 16, (colour >> 8) & 255, colour & 255])),
  )
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk('IHDR', header),
    chunk('PLTE', colours),
    chunk('IDAT', deflateSync(rows, { level: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

/** Similar colours become the most frequent one of them, until there are few enough. */
function paletteOf(counts) {
  const sorted = [...counts].sort((one, other) => other[1] - one[1])
  for (let bits = 8; ; bits--) {
    const mask = (0xff << (8 - bits)) & 0xff
    const all = (mask << 16) | (mask << 8) | mask
    const groups = new Map()
    const palette = []
    const nearest = new Map()
    for (const [index, [colour]] of sorted.entries()) {
      // The most frequent colours stay as they are.
      const group = index < 128 ? `${colour}` : colour & all
      if (!groups.has(group)) groups.set(group, palette.push(colour) - 1)
      nearest.set(colour, groups.get(group))
    }
    if (palette.length <= 256) return { palette, nearest }
  }
}

function chunk(type, data) {
  const typed = Buffer.concat([Buffer.from(type), data])
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(data.length)
  check.writeUInt32BE(crc32(typed))
  return Buffer.concat([length, typed, check])
}
