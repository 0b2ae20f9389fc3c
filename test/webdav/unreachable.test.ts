/** Paths that are too long for a request, and entries that change while they are listed. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { WebdavWorld } from '../support/webdav-world.js'

let world: WebdavWorld
beforeEach(async () => {
  world = await WebdavWorld.open({}, { write: true })
})
afterEach(async () => {
  expect(world.logged).toEqual([])
  await world.close()
})

/** A directory as deep as possible. */
const deep = `/${Array.from({ length: 254 }, () => 'd').join('/')}`

const hrefsOf = ({ body }: { body: string }): string[] =>
  [...body.matchAll(/<D:response><D:href>([^<]*)</g)].map(([, href]) => href ?? '')

test('a listing leaves out entries whose paths are too long', async () => {
  const { files } = world.session
  const name = 'n'.repeat(250)
  const inside = `/${Array.from({ length: 14 }, () => name).join('/')}`
  await files.write({ path: `/from${inside}/short`, content: '' })
  await files.write({ path: `/from${inside}/${name}`, content: '' })
  const to = `/${'t'.repeat(255)}/${'t'.repeat(100)}`
  await files.createDirectory({ path: to.slice(0, 256) })
  await files.rename({ sourcePath: '/from', destinationPath: to })
  const answer = await world.ask('PROPFIND', `${to}${inside}`, { headers: { depth: '1' } })
  const names = hrefsOf(answer).map((href) => href.slice(`${to}${inside}`.length))
  expect([answer.status, names]).toEqual([207, ['/', '/short']])
})

test('a listing leaves out an entry that is removed while it is listed', async () => {
  const { files } = world.session
  await files.batch(['a', 'b', 'c'].map((name) => ({ write: { path: `/d/${name}`, content: name } })))
  const contentHash = files.contentHash.bind(files)
  files.contentHash = async (path) => {
    if (path === '/d/b') await files.delete({ path })
    return contentHash(path)
  }
  const answer = await world.ask('PROPFIND', '/d', { headers: { depth: '1' } })
  expect([answer.status, hrefsOf(answer)]).toEqual([207, ['/d/', '/d/a', '/d/c']])
})

test.each(['MOVE', 'COPY'])('a %s that would make paths too long removes nothing', async (method) => {
  const { files } = world.session
  await files.write({ path: '/from/1/2/3', content: 'x' })
  await files.write({ path: `${deep}/old`, content: 'old' })
  const before = await world.events()
  const answer = await world.ask(method, '/from', { headers: { destination: deep } })
  expect(answer.status).toBe(414)
  expect(await world.events()).toEqual(before)
  expect(await world.session.fs.promises.readFile(`${deep}/old`, 'utf8')).toBe('old')
})
