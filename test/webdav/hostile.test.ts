/** Requests that no honest client sends. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HttpServer } from '../../src/adapters/http/index.js'
import { webdavLimits } from '../../src/adapters/webdav/limits.js'
import { WebdavWorld, webdavToken, type Asked } from '../support/webdav-world.js'

let world: WebdavWorld
let server: HttpServer
beforeAll(async () => {
  world = await WebdavWorld.open({ '/a.txt': 'hello\n', '/src/b.ts': 'b' }, { write: true })
  server = await world.listen()
})
afterAll(async () => {
  // No request above may have been a defect, or have changed anything.
  expect(world.logged).toEqual([])
  expect(await world.events()).toEqual([])
  await server.close({ timeoutMs: 100 })
  await world.close()
})

/** Sends bytes, and returns all that the server answers until it closes the connection. */
async function raw(request: string | Uint8Array): Promise<string> {
  const socket = connect(server.port, '127.0.0.1')
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  socket.write(request)
  return text(socket)
}

const head = (line: string, ...headers: readonly string[]): string =>
  [
    line,
    'Host: localhost',
    `Authorization: Bearer ${webdavToken}`,
    'Connection: close',
    ...headers,
    '',
    '',
  ].join('\r\n')

const statusOf = (answer: string): number => Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1])

describe('a path', () => {
  test.each([
    '/../a.txt',
    '/./a.txt',
    '/src/..',
    '/%2e%2e/a.txt',
    '/%2E./a.txt',
    '/src%2Fb.ts',
    '/src%2f..%2fa.txt',
    '/a.txt%00',
    '/%ff',
    '/%c0%ae%c0%ae/a.txt',
    '/%ed%a0%80',
    '/%',
    '/%2',
    '/%zz',
    '//a.txt',
    '/src//b.ts',
    '/a.txt#x',
    '/\u00fc',
  ])('%j is refused in each method', async (path) => {
    for (const method of ['GET', 'PROPFIND', 'PUT', 'DELETE', 'MKCOL', 'LOCK', 'UNLOCK', 'PROPPATCH']) {
      const answer = await raw(
        Buffer.from(head(`${method} ${path} HTTP/1.1`, 'Depth: 0', 'Content-Length: 0'), 'latin1'),
      )
      expect([method, statusOf(answer)]).toEqual([method, 400])
    }
    const moved = await raw(
      Buffer.from(head('MOVE /a.txt HTTP/1.1', `Destination: http://localhost${path}`), 'latin1'),
    )
    expect(statusOf(moved)).toBe(400)
  })

  test('is found as other servers would find it', async () => {
    expect(await raw(head('GET http://localhost/a.txt HTTP/1.1'))).toContain('hello')
    expect(await raw(head('GET /a.txt?x=/../.. HTTP/1.1'))).toContain('hello')
    expect(statusOf(await raw(head('GET http://evil.example/a.txt HTTP/1.1')))).toBe(403)
    expect(statusOf(await raw(head('GET * HTTP/1.1')))).toBe(404)
    expect(statusOf(await raw(head('GET a.txt HTTP/1.1')))).toBe(400)
    expect(statusOf(await raw(head(`GET /${'a'.repeat(300)} HTTP/1.1`)))).toBe(414)
    expect(statusOf(await raw(head(`GET /${'a/'.repeat(3000)} HTTP/1.1`)))).toBe(414)
    expect(statusOf(await raw(head(`GET /${'a'.repeat(20_000)} HTTP/1.1`)))).toBe(431)
  })
})

describe('access', () => {
  test.each<[string, readonly string[], number]>([
    ['no token', [], 401],
    ['a wrong token', ['Authorization: Bearer wrong'], 401],
    ['a wrong password', [`Authorization: Basic ${btoa('x:wrong')}`], 401],
    ['an empty password', [`Authorization: Basic ${btoa('x:')}`], 401],
    ['Basic that is not base64', ['Authorization: Basic %%%'], 401],
    ['another scheme', [`Authorization: Digest ${webdavToken}`], 401],
    ['two tokens', [`Authorization: Bearer ${webdavToken}`, 'Authorization: Bearer wrong'], 400],
    [
      'a page of another origin',
      [`Authorization: Bearer ${webdavToken}`, 'Origin: https://evil.example'],
      403,
    ],
  ])('with %s is refused for every method', async (_case, headers, code) => {
    for (const method of ['OPTIONS', 'GET', 'PROPFIND', 'PUT', 'BREW', 'LOCK']) {
      const lines = [`${method} /a.txt HTTP/1.1`, 'Host: localhost', 'Connection: close', ...headers, '', '']
      const answer = await raw(lines.join('\r\n'))
      // Node refuses a method that it does not know.
      expect([method, statusOf(answer)]).toEqual([method, method === 'BREW' ? 400 : code])
      expect(answer).not.toContain(webdavToken)
    }
  })

  test('through another name of the host is refused', async () => {
    const lines = ['GET /a.txt HTTP/1.1', 'Host: evil.example', `Authorization: Bearer ${webdavToken}`]
    expect(statusOf(await raw([...lines, 'Connection: close', '', ''].join('\r\n')))).toBe(403)
  })

  test('with a password asks for it, and takes it with any user name', async () => {
    const refused = await world.ask('GET', '/a.txt', { headers: { authorization: '' } })
    expect(refused.headers.get('www-authenticate')).toMatch(/^Basic realm=/)
    for (const user of ['', 'ann', 'ü'])
      expect(
        await world.ask('GET', '/a.txt', {
          headers: { authorization: `Basic ${Buffer.from(`${user}:${webdavToken}`).toString('base64')}` },
        }),
      ).toMatchObject({ status: 200 })
  })
})

describe('an XML body', () => {
  const nested = (depth: number): string => '<a>'.repeat(depth) + '</a>'.repeat(depth)
  const find = (content: string): string => `<propfind xmlns="DAV:"><prop>${content}</prop></propfind>`
  test.each<[string, string | Uint8Array, number]>([
    [
      'that declares entities',
      '<!DOCTYPE x [<!ENTITY a "aa">]><propfind xmlns="DAV:"><prop/></propfind>',
      400,
    ],
    [
      'that expands entities',
      `<!DOCTYPE x [<!ENTITY a "aaaa">${Array.from({ length: 20 }, (_, n) => `<!ENTITY a${n} "&a;&a;">`).join('')}]>${find('<x>&a19;</x>')}`,
      400,
    ],
    ['with an external entity', '<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>', 400],
    ['with an unknown entity', find('<x>&unknown;</x>'), 400],
    ['that is too large', find(' '.repeat(webdavLimits.xmlBytes)), 413],
    ['that is too deep', find(nested(1000)), 400],
    ['with too many elements', find('<x/>'.repeat(1500)), 400],
    ['with too many properties', find(Array.from({ length: 101 }, (_, n) => `<x${n}/>`).join('')), 400],
    [
      'with too many attributes',
      find(`<x ${Array.from({ length: 101 }, (_, n) => `a${n}=""`).join(' ')}/>`),
      400,
    ],
    [
      'with a long namespace for many properties',
      `<D:propfind xmlns:D="DAV:" xmlns:x='${'"'.repeat(50_000)}'><D:prop>${Array.from({ length: 100 }, (_, n) => `<x:a${n}/>`).join('')}</D:prop></D:propfind>`,
      400,
    ],
    ['of XML 1.1', `<?xml version="1.1"?>${find('<x>&#1;</x>')}`, 400],
    ['that ends early', '<propfind xmlns="DAV:"><prop>', 400],
    ['without a namespace', '<propfind><prop/></propfind>', 400],
    ['with an unbound prefix', '<D:propfind><D:prop/></D:propfind>', 400],
    ['with another root', '<lockinfo xmlns="DAV:"/>', 400],
    ['with two roots', '<propfind xmlns="DAV:"><prop/></propfind><x/>', 400],
    ['that is not XML', 'hello', 400],
    ['that is empty space', '  \n ', 400],
    ['that is not UTF-8', Uint8Array.of(0x3c, 0x61, 0xff, 0x2f, 0x3e), 400],
    ['in UTF-16', Buffer.from(`\ufeff${find('')}`, 'utf16le'), 400],
    ['that says another encoding', `<?xml version="1.0" encoding="latin1"?>${find('')}`, 400],
    ['with NUL', find('<x>\0</x>'), 400],
  ])('%s is refused', async (_case, body, code) => {
    const headers = { depth: '0' }
    expect((await world.ask('PROPFIND', '/a.txt', { headers, body })).status).toBe(code)
    for (const method of ['PROPPATCH', 'LOCK'])
      expect((await world.ask(method, '/a.txt', { headers, body })).status).toBe(code)
  })

  test.each<[string, Asked]>([
    ['that is compressed', { body: 'x', headers: { 'content-encoding': 'gzip' } }],
    ['of unknown encoding', { body: 'x', headers: { 'content-encoding': 'x' } }],
  ])('%s is refused', async (_case, asked) => {
    for (const method of ['PROPFIND', 'PROPPATCH', 'LOCK'])
      expect((await world.ask(method, '/a.txt', asked)).status).toBe(method === 'PROPFIND' ? 403 : 415)
    const shallow = { ...asked, headers: { ...asked.headers, depth: '0' } }
    expect((await world.ask('PROPFIND', '/a.txt', shallow)).status).toBe(415)
  })

  test('cannot put markup into the response', async () => {
    const body =
      '<propfind xmlns="DAV:"><prop><x xmlns="&quot;/>&lt;D:href>/evil&lt;/D:href>"/><__proto__/><constructor/></prop></propfind>'
    const answer = await world.ask('PROPFIND', '/a.txt', { headers: { depth: '0' }, body })
    expect(answer.status).toBe(207)
    expect(answer.body).not.toContain('<D:href>/evil')
    expect(answer.body).toContain('<D:__proto__/><D:constructor/>')
  })

  test('has names whose namespaces are not too long together, also in PROPPATCH', async () => {
    const update = (namespace: string): string =>
      `<D:propertyupdate xmlns:D="DAV:" xmlns:x="${namespace}"><D:set><D:prop>${'<x:a/><x:b/>'.repeat(40)}</D:prop></D:set></D:propertyupdate>`
    const short = await world.ask('PROPPATCH', '/a.txt', { body: update('urn:x') })
    expect([short.status, short.body.split('urn:x').length]).toEqual([207, 3])
    const { status } = await world.ask('PROPPATCH', '/a.txt', {
      body: update('x'.repeat(webdavLimits.nameChars / 2)),
    })
    expect(status).toBe(400)
  })

  test('with names of the namespace of XML has a response that is well-formed', async () => {
    const body = '<propfind xmlns="DAV:"><prop><xml:lang/><x xmlns="a&#10;b"/></prop></propfind>'
    const answer = await world.ask('PROPFIND', '/a.txt', { headers: { depth: '0' }, body })
    expect(answer.body).toContain('<xml:lang/><x xmlns="a&#10;b"/>')
  })

  test('without an end is cut off at its bound', async () => {
    const socket = connect(server.port, '127.0.0.1')
    socket.on('error', () => undefined)
    await once(socket, 'connect')
    socket.write(head('PROPFIND / HTTP/1.1', 'Depth: 0', 'Transfer-Encoding: chunked'))
    const answer = text(socket).catch(() => '')
    const chunk = `4000\r\n${' '.repeat(0x4000)}\r\n`
    let sent = 0
    while (!socket.destroyed && sent < 2000) {
      sent++
      if (!socket.write(chunk))
        await new Promise((resolve) => socket.once('drain', resolve).once('close', resolve))
      await new Promise((resolve) => setImmediate(resolve))
    }
    socket.destroy()
    expect(statusOf(await answer) || 413).toBe(413)
    expect(sent).toBeLessThan(2000)
  })
})

describe('a lock', () => {
  const info = (content: string): string => `<lockinfo xmlns="DAV:">${content}</lockinfo>`
  const exclusive = '<lockscope><exclusive/></lockscope>'
  const write = '<locktype><write/></locktype>'
  test.each<[string, string, Readonly<Record<string, string>>, number]>([
    ['without a scope', info(write), {}, 400],
    ['without a type', info(exclusive), {}, 400],
    ['that is shared', info(`<lockscope><shared/></lockscope>${write}`), {}, 403],
    ['of another type', info(`${exclusive}<locktype><read/></locktype>`), {}, 403],
    ['of depth 1', info(exclusive + write), { depth: '1' }, 400],
    ['with a long owner', info(`${exclusive}${write}<owner>${'a'.repeat(2000)}</owner>`), {}, 400],
    ['with a wrong condition', info(exclusive + write), { if: '(' }, 400],
    ['with a false condition', info(exclusive + write), { if: '(<urn:uuid:none>)' }, 412],
    ['with a condition about another host', info(exclusive + write), { if: '<http://evil/a> (["x"])' }, 412],
    ['with a condition about a hostile path', info(exclusive + write), { if: '</%ff> (["x"])' }, 412],
  ])('%s is refused', async (_case, body, headers, code) => {
    expect((await world.ask('LOCK', '/a.txt', { headers, body })).status).toBe(code)
  })

  test.each(['', 'x', '<', '<>', '<a', `<${'a'.repeat(300)}>`])(
    'is not released with the token %j',
    async (token) => {
      expect((await world.ask('UNLOCK', '/a.txt', { headers: { 'lock-token': token } })).status).toBe(400)
    },
  )
})

test('a listing of a large directory leaves turns to other requests', async () => {
  const large = await WebdavWorld.open(
    Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`/d/${at}`, ''])),
    {},
  )
  let turns = 0
  const timer = setInterval(() => turns++, 1)
  const { status } = await large.ask('PROPFIND', '/d/', { headers: { depth: '1' } })
  clearInterval(timer)
  await large.close()
  expect(status).toBe(207)
  expect(turns).toBeGreaterThan(4)
})

test('a PUT that breaks off changes nothing', async () => {
  const socket = connect(server.port, '127.0.0.1')
  await once(socket, 'connect')
  socket.write(head('PUT /a.txt HTTP/1.1', 'Content-Length: 100') + 'half')
  await new Promise((resolve) => setImmediate(resolve))
  socket.destroy()
  // A later request of another connection is answered, and sees the old content.
  expect(await raw(head('GET /a.txt HTTP/1.1'))).toContain('hello')
})

test('an unexpected failure has no details in the response, and is logged', async () => {
  const broken = await WebdavWorld.open({ '/a.txt': 'x' })
  const { files } = broken.session
  files.stat = () => Promise.reject(new Error('secret path /root'))
  const answer = await broken.ask('GET', '/a.txt')
  expect([answer.status, answer.body]).toEqual([500, 'internal error (INTERNAL)\n'])
  expect(String(broken.logged[0])).toContain('secret path')
  await broken.close()
})

test('a session that was deleted is gone', async () => {
  const other = await WebdavWorld.open({ '/a.txt': 'x' })
  await other.session.delete()
  expect((await other.ask('GET', '/a.txt')).status).toBe(404)
  expect((await other.ask('PROPFIND', '/', { headers: { depth: '1' } })).status).toBe(404)
  expect(other.logged).toEqual([])
  await other.close()
})
