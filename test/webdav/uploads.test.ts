/** Changes by others while the body of a PUT arrives. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { webdavLimits } from '../../src/adapters/webdav/limits.js'
import { memoryStorage } from '../../src/index.js'
import { fixedEnvironment } from '../../src/testing.js'
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

test.each([false, true])(
  'a write at the same time changes the ETag of a large file (durable: %s)',
  async (durable) => {
    // The clock does not advance, so all times are equal.
    const engineOptions = {
      environment: fixedEnvironment({ stepMs: 0 }),
      storage: memoryStorage({ durable }),
    }
    const still = await WebdavWorld.open({}, { write: true }, engineOptions)
    const content = (fill: number): Buffer => Buffer.alloc(3 * webdavLimits.hashedBytes + 5, fill)
    const tagOf = async (): Promise<string> => (await still.ask('HEAD', '/large')).headers.get('etag') ?? ''
    expect((await still.ask('PUT', '/large', { body: content(1) })).status).toBe(201)
    const first = await tagOf()
    expect(await tagOf()).toBe(first)
    const headers = { 'if-match': first }
    expect((await still.ask('PUT', '/large', { body: content(2), headers })).status).toBe(204)
    const second = await tagOf()
    expect((await still.ask('PUT', '/large', { body: content(3), headers })).status).toBe(412)
    expect((await still.ask('GET', '/large', { headers: { 'if-none-match': first } })).status).toBe(200)
    // A change of one byte counts too, and an older content has its tag again.
    await still.session.files.patchSegments({
      mutations: [{ path: '/large', segments: [{ data: { offset: 2_000_000, content: 'x' } }] }],
    })
    const third = await tagOf()
    expect(new Set([first, second, third]).size).toBe(3)
    for (const tag of [first, second, third]) {
      expect(tag).toMatch(/^"extents:[\w-]{43}"$/)
      expect(tag).not.toContain('sha256')
    }
    await still.session.undo()
    expect(await tagOf()).toBe(second)
    expect(still.logged).toEqual([])
    await still.close()
  },
)

test('reads do not wait for uploads that never arrive', async () => {
  const bodies: ReadableStreamDefaultController<Uint8Array>[] = []
  const uploads = Array.from({ length: 40 }, (_, at) => {
    const body = new ReadableStream<Uint8Array>({ start: (controller) => void bodies.push(controller) })
    const init = { method: 'PUT', headers: { authorization: `Bearer ${webdavToken}` }, body }
    return world.handler.fetch(new Request(`http://localhost/up${at}`, { ...init, duplex: 'half' }))
  })
  await new Promise((resolve) => setTimeout(resolve, 50))
  const answered = Promise.all([world.ask('GET', '/a.txt'), world.ask('GET', '/locked/b.txt')])
  const late = new Promise((resolve) => setTimeout(resolve, 2000, 'late'))
  const answers = await Promise.race([answered, late])
  for (const body of bodies) body.close()
  const statuses = (await Promise.all(uploads)).map(({ status }) => status)
  expect(answers).toMatchObject([{ status: 200, body: 'old' }, { status: 200 }])
  expect(new Set(statuses)).toEqual(new Set([201]))
})
