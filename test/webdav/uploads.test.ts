/** Changes by others while the body of a PUT arrives. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { webdavLimits } from '../../src/adapters/webdav/limits.js'
import { WebdavWorld, webdavToken } from '../support/webdav-world.js'

let world: WebdavWorld
beforeEach(async () => {
  world = await WebdavWorld.open({ '/a.txt': 'old', '/locked/b.txt': 'b' }, { write: true })
})
afterEach(async () => {
  expect(world.logged).toEqual([])
  await world.close()
})

const lockBody =
  '<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>'

/** Sends a PUT, and does something before the last piece of its body arrives. */
async function putWhile(
  path: string,
  headers: Readonly<Record<string, string>>,
  meanwhile: () => Promise<unknown>,
): Promise<number> {
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        await meanwhile()
        controller.enqueue(new TextEncoder().encode('new'))
        controller.close()
      },
    },
    // The body is asked for only after the server has checked the headers.
    { highWaterMark: 0 },
  )
  const init = { method: 'PUT', headers: { authorization: `Bearer ${webdavToken}`, ...headers }, body }
  const response = await world.handler.fetch(
    new Request(`http://localhost${path}`, { ...init, duplex: 'half' }),
  )
  return response.status
}

const textOf = (path: string): Promise<string> => world.session.fs.promises.readFile(path, 'utf8')

test('a PUT fails if another client locks the file while the body arrives', async () => {
  const status = await putWhile('/a.txt', {}, () => world.ask('LOCK', '/a.txt', { body: lockBody }))
  expect([status, await textOf('/a.txt')]).toEqual([423, 'old'])
})

test('a PUT with If-Match fails if a large file changes while the body arrives', async () => {
  await world.session.files.write({ path: '/large', content: new Uint8Array(webdavLimits.hashedBytes + 1) })
  const etag = (await world.ask('HEAD', '/large')).headers.get('etag') ?? ''
  const status = await putWhile('/large', { 'if-match': etag }, () =>
    world.session.files.write({ path: '/large', content: 'faster' }),
  )
  expect([status, await textOf('/large')]).toEqual([412, 'faster'])
  const again = (await world.ask('HEAD', '/large')).headers.get('etag') ?? ''
  expect(await putWhile('/large', { 'if-match': again }, () => Promise.resolve())).toBe(204)
})

test('a PUT with If-Match: * fails if the file is deleted while the body arrives', async () => {
  const status = await putWhile('/a.txt', { 'if-match': '*' }, () =>
    world.session.files.delete({ path: '/a.txt' }),
  )
  expect([status, world.session.fs.existsSync('/a.txt')]).toEqual([412, false])
})

test('a PUT to a symlink that leads to nothing does not create a file elsewhere', async () => {
  await world.session.fs.promises.symlink('/locked/new', '/link')
  const { status } = await world.ask('LOCK', '/locked', { body: lockBody })
  expect(status).toBe(200)
  const answer = await world.ask('PUT', '/link', { body: 'new' })
  expect([answer.status, answer.body]).toEqual([409, expect.stringContaining('delete it first')])
  const later = await putWhile('/fresh', {}, () => world.session.fs.promises.symlink('/locked/new', '/fresh'))
  expect([later, await world.session.fs.promises.readdir('/locked')]).toEqual([409, ['b.txt']])
  expect((await world.ask('DELETE', '/link')).status).toBe(204)
  expect((await world.ask('PUT', '/link', { body: 'new' })).status).toBe(201)
})
