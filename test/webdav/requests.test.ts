import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { webdavHandler } from '../../src/adapters/webdav/index.js'
import { WebdavWorld } from '../support/webdav-world.js'

let world: WebdavWorld
beforeEach(async () => {
  world = await WebdavWorld.open(
    { '/a.txt': 'hello\n', '/src/b.ts': 'b', '/src/deep/c.ts': 'cc', '/ü #?%.txt': 'u' },
    { write: true },
  )
})
afterEach(async () => {
  expect(world.logged).toEqual([])
  await world.close()
})

const status = async (...args: Parameters<WebdavWorld['ask']>): Promise<number> =>
  (await world.ask(...args)).status
const textOf = (path: string): Promise<string> => world.session.fs.promises.readFile(path, 'utf8')
const hrefsOf = ({ body }: { body: string }): string[] =>
  [...body.matchAll(/<D:response><D:href>([^<]*)</g)].map(([, href]) => href ?? '')
const lockBody = (owner = 'ann'): string =>
  `<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner>${owner}</D:owner></D:lockinfo>`
const lock = async (path: string, headers: Readonly<Record<string, string>> = {}): Promise<string> => {
  const answer = await world.ask('LOCK', path, { headers: { depth: '0', ...headers }, body: lockBody() })
  expect([200, 201]).toContain(answer.status)
  return /^<(.*)>$/.exec(answer.headers.get('lock-token') ?? '')?.[1] ?? ''
}

describe('PROPFIND', () => {
  test('lists a directory with paths that clients can follow', async () => {
    const answer = await world.ask('PROPFIND', '/', { headers: { depth: '1' } })
    expect([answer.status, hrefsOf(answer)]).toEqual([
      207,
      ['/', '/a.txt', '/src/', '/%C3%BC%20%23%3F%25.txt'],
    ])
    for (const href of hrefsOf(answer))
      expect(hrefsOf(await world.ask('PROPFIND', href, { headers: { depth: '0' } }))).toEqual([href])
    expect(answer.body).toContain('<D:getcontentlength>6</D:getcontentlength>')
    expect(answer.body).not.toContain('404')
  })

  test('returns the named properties, and says which ones do not exist', async () => {
    const body =
      '<propfind xmlns="DAV:" xmlns:o="urn:other"><prop><getcontentlength/><o:x/><nothing/></prop></propfind>'
    const answer = await world.ask('PROPFIND', '/a.txt', { headers: { depth: '0' }, body })
    expect(answer.body).toContain(
      '<D:propstat><D:prop><D:getcontentlength>6</D:getcontentlength></D:prop><D:status>HTTP/1.1 200 OK',
    )
    expect(answer.body).toContain('<x xmlns="urn:other"/><D:nothing/></D:prop><D:status>HTTP/1.1 404')
    const names = await world.ask('PROPFIND', '/a.txt', {
      headers: { depth: '0' },
      body: '<propfind xmlns="DAV:"><propname/></propfind>',
    })
    expect(names.body).toContain('<D:getetag/>')
    expect(names.body).not.toContain('sha256')
  })

  test('refuses to list everything below a directory', async () => {
    for (const headers of [{}, { depth: 'infinity' }, { depth: 'Infinity' }]) {
      const answer = await world.ask('PROPFIND', '/', { headers })
      expect([answer.status, answer.body]).toEqual([403, expect.stringContaining('propfind-finite-depth')])
    }
  })

  test('lists directories of several pages', async () => {
    await world.session.files.batch(
      Array.from({ length: 600 }, (_, index) => ({ write: { path: `/many/${index}`, content: '' } })),
    )
    const answer = await world.ask('PROPFIND', '/many', { headers: { depth: '1' } })
    expect(new Set(hrefsOf(answer)).size).toBe(601)
  })
})

test('a time outside of the range of dates counts as 1970', async () => {
  await world.session.files.setAttributes({ path: '/a.txt', mtimeMs: 1e17 })
  const answer = await world.ask('PROPFIND', '/', { headers: { depth: '1' } })
  expect(answer.body).toContain('Thu, 01 Jan 1970 00:00:00 GMT')
  expect((await world.ask('GET', '/a.txt')).headers.get('last-modified')).toContain('1970')
})

describe('symlinks', () => {
  beforeEach(async () => {
    const { promises } = world.session.fs
    await promises.symlink('src', '/link')
    await promises.symlink('/none', '/broken')
    await promises.symlink('loop', '/loop')
    await promises.symlink('../../../etc', '/up')
  })

  test('are followed inside the session, and those that lead to nothing are not listed', async () => {
    const answer = await world.ask('PROPFIND', '/', { headers: { depth: '1' } })
    expect(hrefsOf(answer)).toEqual(['/', '/a.txt', '/link/', '/src/', '/%C3%BC%20%23%3F%25.txt'])
    expect(await world.ask('GET', '/link/b.ts')).toMatchObject({ status: 200, body: 'b' })
    for (const path of ['/broken', '/loop', '/loop/x', '/up/passwd'])
      expect(await status('GET', path)).toBe(404)
    expect(await status('PUT', '/loop', { body: 'x' })).toBe(409)
    expect(await status('PUT', '/loop/x', { body: 'x' })).toBe(409)
  })

  test('are removed, and not their targets', async () => {
    for (const path of ['/link', '/broken', '/loop']) expect(await status('DELETE', path)).toBe(204)
    expect(await textOf('/src/b.ts')).toBe('b')
    expect(await world.session.fs.promises.readdir('/')).toEqual(['a.txt', 'src', 'up', 'ü #?%.txt'])
  })

  test('protect the entries of their targets from a recursive removal', async () => {
    for (const path of ['/link/b.ts', '/link/deep']) expect(await status('DELETE', path)).toBe(403)
    expect(await status('DELETE', '/link/')).toBe(204)
    expect(await textOf('/src/b.ts')).toBe('b')
    expect(await textOf('/src/deep/c.ts')).toBe('cc')
  })

  test('share the locks of their targets', async () => {
    const token = await lock('/link/b.ts')
    expect(await status('PUT', '/src/b.ts', { body: 'x' })).toBe(423)
    expect(await status('PUT', '/src/b.ts', { body: 'x', headers: { if: `(<${token}>)` } })).toBe(204)
  })

  test('do not hide that a destination contains its source', async () => {
    await world.session.fs.promises.symlink('/src', '/src/deep/up')
    const headers = { destination: '/src/deep/up/deep' }
    for (const method of ['MOVE', 'COPY']) expect(await status(method, '/src', { headers })).toBe(403)
    expect(await status('MOVE', '/src/deep/c.ts', { headers })).toBe(403)
    expect(await textOf('/src/deep/c.ts')).toBe('cc')
  })
})

describe('GET', () => {
  test('returns a file, a range of it, and its headers', async () => {
    const whole = await world.ask('GET', '/a.txt')
    expect([whole.status, whole.body, whole.headers.get('content-length')]).toEqual([200, 'hello\n', '6'])
    const etag = whole.headers.get('etag') ?? ''
    const ranges: [string, number, string, string | null][] = [
      ['bytes=1-2', 206, 'el', 'bytes 1-2/6'],
      ['bytes=4-', 206, 'o\n', 'bytes 4-5/6'],
      ['bytes=-2', 206, 'o\n', 'bytes 4-5/6'],
      ['bytes=-100', 206, 'hello\n', 'bytes 0-5/6'],
      ['bytes=0-99', 206, 'hello\n', 'bytes 0-5/6'],
      ['bytes=0-1,3-4', 200, 'hello\n', null],
      ['lines=1-2', 200, 'hello\n', null],
    ]
    for (const [range, code, body, contentRange] of ranges) {
      const answer = await world.ask('GET', '/a.txt', { headers: { range } })
      expect([range, answer.status, answer.body, answer.headers.get('content-range')]).toEqual([
        range,
        code,
        body,
        contentRange,
      ])
    }
    for (const range of ['bytes=6-', 'bytes=3-2', 'bytes=-0'])
      expect(await status('GET', '/a.txt', { headers: { range } })).toBe(416)
    expect(await status('GET', '/a.txt', { headers: { 'if-none-match': etag } })).toBe(304)
    const stale = await world.ask('GET', '/a.txt', { headers: { range: 'bytes=1-2', 'if-range': '"old"' } })
    expect(stale.status).toBe(200)
    const head = await world.ask('HEAD', '/a.txt')
    expect([head.status, head.body, head.headers.get('content-length')]).toEqual([200, '', '6'])
    expect(await status('GET', '/src')).toBe(405)
    expect(await status('GET', '/a.txt/')).toBe(404)
    expect(await status('GET', '/a.txt/x')).toBe(404)
  })
})

describe('changes', () => {
  test('are events of the session', async () => {
    expect(await status('PUT', '/n.txt', { body: 'one' })).toBe(201)
    expect(await status('PUT', '/n.txt', { body: 'two' })).toBe(204)
    expect(await status('MKCOL', '/d/')).toBe(201)
    expect(await status('MOVE', '/n.txt', { headers: { destination: 'http://localhost/d/m.txt' } })).toBe(201)
    expect(await status('COPY', '/d/m.txt', { headers: { destination: '/a.txt' } })).toBe(204)
    expect(await status('DELETE', '/src/')).toBe(204)
    expect(await textOf('/a.txt')).toBe('two')
    expect(await world.session.fs.promises.readdir('/')).toEqual(['a.txt', 'd', 'ü #?%.txt'])
    expect(await world.events()).toEqual([
      'WriteFile',
      'WriteFile',
      'CreateDirectory',
      'Rename',
      'WriteFile',
      'RemoveDirectory',
    ])
  })

  test('without the option write are refused', async () => {
    const readOnly = webdavHandler(world.session, { token: 'other' })
    const methods = ['PUT', 'DELETE', 'MKCOL', 'COPY', 'MOVE', 'PROPPATCH', 'LOCK', 'UNLOCK']
    for (const method of methods) {
      const response = await readOnly.fetch(
        new Request('http://localhost/a.txt', { method, headers: { authorization: 'Bearer other' } }),
      )
      expect([method, response.status, await response.text()]).toEqual([
        method,
        403,
        expect.stringContaining('--write'),
      ])
    }
    const options = await readOnly.fetch(
      new Request('http://localhost/', { method: 'OPTIONS', headers: { authorization: 'Bearer other' } }),
    )
    expect([options.headers.get('dav'), options.headers.get('allow')]).toEqual([
      '1',
      'OPTIONS, GET, HEAD, PROPFIND',
    ])
    expect(await world.events()).toEqual([])
  })

  test.each<[string, string, string, Readonly<Record<string, string>>, number]>([
    ['PUT without a parent', 'PUT', '/none/a', {}, 409],
    ['PUT below a file', 'PUT', '/a.txt/a', {}, 409],
    ['PUT to a directory', 'PUT', '/src', {}, 405],
    ['PUT with a slash at the end', 'PUT', '/x/', {}, 409],
    ['PUT of a part', 'PUT', '/a.txt', { 'content-range': 'bytes 0-1/6' }, 400],
    ['PUT of compressed content', 'PUT', '/a.txt', { 'content-encoding': 'gzip' }, 415],
    ['PUT of a new file that exists', 'PUT', '/a.txt', { 'if-none-match': '*' }, 412],
    ['PUT over another content', 'PUT', '/a.txt', { 'if-match': '"sha256:0"' }, 412],
    ['MKCOL of a path that exists', 'MKCOL', '/src', {}, 405],
    ['MKCOL without a parent', 'MKCOL', '/none/a', {}, 409],
    ['DELETE of nothing', 'DELETE', '/none', {}, 404],
    ['DELETE of a file that must not exist', 'DELETE', '/a.txt', { 'if-none-match': '*' }, 412],
    ['DELETE of a file whose lock is missing', 'DELETE', '/a.txt', { if: '(<urn:uuid:none>)' }, 412],
    ['DELETE of the root', 'DELETE', '/', {}, 403],
    ['DELETE of a directory alone', 'DELETE', '/src', { depth: '0' }, 400],
    ['MOVE of the root', 'MOVE', '/', { destination: '/x' }, 403],
    ['MOVE into itself', 'MOVE', '/src', { destination: '/src/deep/x' }, 403],
    ['MOVE to itself', 'MOVE', '/src', { destination: '/src' }, 403],
    ['MOVE over a parent', 'MOVE', '/src/deep', { destination: '/src' }, 403],
    ['MOVE over the root', 'MOVE', '/src/deep', { destination: '/' }, 403],
    ['MOVE without a parent', 'MOVE', '/a.txt', { destination: '/none/a' }, 409],
    ['MOVE without a destination', 'MOVE', '/a.txt', {}, 400],
    ['MOVE to another host', 'MOVE', '/a.txt', { destination: 'http://evil.example/x' }, 502],
    ['MOVE to another scheme', 'MOVE', '/a.txt', { destination: 'file:///etc/x' }, 400],
    ['MOVE to an encoded parent', 'MOVE', '/a.txt', { destination: '/src/%2e%2e/x' }, 400],
    ['MOVE over a file that must stay', 'MOVE', '/src/b.ts', { destination: '/a.txt', overwrite: 'F' }, 412],
    ['COPY of nothing', 'COPY', '/none', { destination: '/x' }, 404],
    ['COPY with a wrong depth', 'COPY', '/src', { destination: '/x', depth: '1' }, 400],
  ])('refuses %s, and changes nothing', async (_case, method, path, headers, code) => {
    const body = method === 'PUT' ? { body: 'x' } : {}
    expect(await status(method, path, { headers, ...body })).toBe(code)
    expect(await world.events()).toEqual([])
  })

  test('take a condition that a lock is missing', async () => {
    expect(await status('DELETE', '/a.txt', { headers: { if: '(Not <urn:uuid:none>)' } })).toBe(204)
  })

  test('replace directories by files, and files by directories', async () => {
    expect(await status('MOVE', '/a.txt', { headers: { destination: '/src/' } })).toBe(204)
    expect(await textOf('/src')).toBe('hello\n')
    expect(await status('MKCOL', '/d')).toBe(201)
    expect(await status('MOVE', '/d', { headers: { destination: '/src' } })).toBe(204)
    expect(await world.session.fs.promises.readdir('/src')).toEqual([])
  })

  test('move an entry over the symlink, or the directory with the symlink, that its path leads through', async () => {
    const { promises } = world.session.fs
    await promises.symlink('/src', '/link')
    expect(await status('MOVE', '/link/deep', { headers: { destination: '/link' } })).toBe(204)
    expect(await promises.readdir('/link')).toEqual(['c.ts'])
    await promises.mkdir('/d')
    await promises.symlink('/src', '/d/link')
    expect(await status('MOVE', '/d/link/b.ts', { headers: { destination: '/d' } })).toBe(204)
    expect(await textOf('/d')).toBe('b')
    expect(await promises.readdir('/src')).toEqual([])
  })

  test('copy directories with their symlinks', async () => {
    await world.session.fs.promises.symlink('b.ts', '/src/deep/link')
    expect(await status('COPY', '/src', { headers: { destination: '/copy' } })).toBe(201)
    expect(await world.session.fs.promises.readdir('/copy', { recursive: true })).toEqual([
      'b.ts',
      'deep',
      'deep/c.ts',
      'deep/link',
    ])
    expect(await world.session.fs.promises.readlink('/copy/deep/link')).toBe('b.ts')
    expect(await status('COPY', '/src', { headers: { destination: '/flat', depth: '0' } })).toBe(201)
    expect(await world.session.fs.promises.readdir('/flat')).toEqual([])
  })

  test('with If-Match fail when another writer is faster, even while the body arrives', async () => {
    const etag = (await world.ask('HEAD', '/a.txt')).headers.get('etag') ?? ''
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await world.session.files.write({ path: '/a.txt', content: 'faster' })
        controller.enqueue(new TextEncoder().encode('slower'))
        controller.close()
      },
    })
    const request = new Request('http://localhost/a.txt', {
      method: 'PUT',
      headers: { authorization: `Bearer webdav-secret`, 'if-match': etag },
      body,
      duplex: 'half',
    })
    expect((await world.handler.fetch(request)).status).toBe(412)
    expect(await textOf('/a.txt')).toBe('faster')
  })
})

describe('PROPPATCH', () => {
  const patch = (properties: string): Promise<{ status: number; body: string }> =>
    world.ask('PROPPATCH', '/a.txt', {
      body: `<propertyupdate xmlns="DAV:" xmlns:A="http://apache.org/dav/props/"><set><prop>${properties}</prop></set></propertyupdate>`,
    })

  test('sets whether a file is executable', async () => {
    expect(await patch('<A:executable>T</A:executable>')).toMatchObject({
      status: 207,
      body: expect.stringContaining('200 OK'),
    })
    expect((await world.session.fs.promises.stat('/a.txt')).mode & 0o777).toBe(0o755)
    await patch('<A:executable>F</A:executable>')
    expect((await world.session.fs.promises.stat('/a.txt')).mode & 0o777).toBe(0o644)
  })

  test('changes nothing if one property is protected', async () => {
    const { body } = await patch('<A:executable>T</A:executable><getetag>x</getetag>')
    expect(body).toMatch(/executable[^]*424 Failed Dependency[^]*getetag[^]*403 Forbidden/)
    expect(await world.events()).toEqual([])
  })
})

describe('LOCK', () => {
  test('keeps other clients from changes until UNLOCK', async () => {
    const token = await lock('/src', { depth: 'infinity' })
    const held = { headers: { if: `(<${token}>)` } }
    for (const [method, path] of [
      ['PUT', '/src/b.ts'],
      ['PUT', '/src/new'],
      ['DELETE', '/src/b.ts'],
      ['DELETE', '/src'],
      ['MKCOL', '/src/d'],
      ['PROPPATCH', '/src/b.ts'],
    ] as const) {
      const body =
        method === 'PUT'
          ? { body: 'x' }
          : method === 'PROPPATCH'
            ? { body: '<propertyupdate xmlns="DAV:"><set><prop><x/></prop></set></propertyupdate>' }
            : {}
      expect([method, path, await status(method, path, body)]).toEqual([method, path, 423])
    }
    expect(await status('MOVE', '/a.txt', { headers: { destination: '/src/x' } })).toBe(423)
    expect(await status('COPY', '/src/b.ts', { headers: { destination: '/copy.ts' } })).toBe(201)
    expect(await status('PUT', '/src/b.ts', { body: 'x', ...held })).toBe(204)
    expect(await status('LOCK', '/src/b.ts', { body: lockBody() })).toBe(423)
    expect(await status('LOCK', '/', { body: lockBody() })).toBe(423)
    const discovered = await world.ask('PROPFIND', '/src/b.ts', { headers: { depth: '0' } })
    expect(discovered.body).toContain(`<D:locktoken><D:href>${token}</D:href></D:locktoken>`)
    expect(await status('UNLOCK', '/src', { headers: { 'lock-token': '<urn:uuid:other>' } })).toBe(409)
    expect(await status('UNLOCK', '/src', { headers: { 'lock-token': `<${token}>` } })).toBe(204)
    expect(await status('PUT', '/src/b.ts', { body: 'y' })).toBe(204)
  })

  test('of a path without a file creates an empty one', async () => {
    const token = await lock('/new')
    expect(await textOf('/new')).toBe('')
    expect(await status('PUT', '/new', { body: 'x' })).toBe(423)
    expect(await status('PUT', '/new', { body: 'x', headers: { if: `</new> (<${token}>)` } })).toBe(204)
    expect(await status('PUT', '/new', { body: 'x', headers: { if: '(<urn:uuid:other>)' } })).toBe(412)
    expect(await status('LOCK', '/none/new', { body: lockBody() })).toBe(409)
    expect(await status('LOCK', '/none/', { body: lockBody() })).toBe(409)
    expect(await status('DELETE', '/new', { headers: { if: `(<${token}>)` } })).toBe(204)
    expect(await status('PUT', '/new', { body: 'x' })).toBe(201)
  })

  test('of a directory alone keeps other clients from changes of its names', async () => {
    await lock('/src', { depth: '0' })
    expect(await status('PUT', '/src/new', { body: 'x' })).toBe(423)
    expect(await status('DELETE', '/src/b.ts')).toBe(423)
    expect(await status('PUT', '/src/b.ts', { body: 'x' })).toBe(204)
    expect(await status('PUT', '/src/deep/new', { body: 'x' })).toBe(201)
  })

  test('without a body refreshes a lock', async () => {
    const token = await lock('/a.txt')
    const headers = { if: `(<${token}>)`, timeout: 'Second-60' }
    const answer = await world.ask('LOCK', '/a.txt', { headers })
    expect([answer.status, answer.body]).toEqual([200, expect.stringContaining('Second-60')])
    expect(await status('LOCK', '/src/b.ts', { headers })).toBe(412)
    expect(await status('LOCK', '/a.txt')).toBe(400)
  })

  test('shows markup in its owner as text', async () => {
    const answer = await world.ask('LOCK', '/a.txt', { body: lockBody('&lt;script&gt;&amp;<href>x</href>') })
    expect(answer.body).toContain('<D:owner>&lt;script&gt;&amp;</D:owner>')
  })
})

test('the handler refuses wrong options, without a token in the error', () => {
  const make = (options: unknown, session: unknown = world.session): unknown =>
    webdavHandler(session as never, options as never)
  expect(() => make({ token: 'a b secret' })).toThrow(/^(?!.*secret).*token/)
  expect(() => make({ token: '' })).toThrow('token')
  expect(() => make({})).toThrow('token')
  expect(() => make({ token: 'a', write: 'yes' })).toThrow('write')
  expect(() => make({ token: 'a', prefix: 'x' })).toThrow('prefix')
  expect(() => make({ token: 'a' }, {})).toThrow('session')
  expect(() => make({ token: 'a' }, null)).toThrow('session')
})

test('the handler serves below a prefix', async () => {
  const handler = webdavHandler(world.session, { token: 'a', prefix: '/dav' })
  const ask = async (path: string): Promise<[number, string]> => {
    const headers = { authorization: 'Bearer a', depth: '1' }
    const response = await handler.fetch(
      new Request(`http://localhost${path}`, { method: 'PROPFIND', headers }),
    )
    return [response.status, await response.text()]
  }
  expect(await ask('/dav')).toEqual([207, expect.stringContaining('<D:href>/dav/a.txt</D:href>')])
  expect(await ask('/dav/src/')).toEqual([207, expect.stringContaining('<D:href>/dav/src/b.ts</D:href>')])
  expect(await ask('/davx/a.txt')).toEqual([404, expect.anything()])
  expect(await ask('/')).toEqual([404, expect.anything()])
})
