/** Random requests, among them many that are wrong. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { runs, seed } from '../support/seed.js'
import { WebdavWorld } from '../support/webdav-world.js'

const parts = [
  'a',
  'b.txt',
  'd',
  'link',
  'loop',
  '',
  '.',
  '..',
  '%2e%2e',
  '%2F',
  '%00',
  '%ff',
  'ü',
  '%C3%BC',
  '*',
  "'",
]
const path = fc.array(fc.constantFrom(...parts), { maxLength: 4 }).map((names) => `/${names.join('/')}`)
const token = fc.constantFrom('urn:uuid:x', '', '<', 'Not', 'DAV:no-lock')
const condition = fc.oneof(
  token.map((one) => `(<${one}>)`),
  path.map((one) => `<${one}> (["x"] Not <y>)`),
  fc.string({ maxLength: 20 }).map((text) => text.replaceAll(/[^ -~]/g, '')),
)
const xml = fc.oneof(
  fc.constantFrom(
    '<propfind xmlns="DAV:"><allprop/></propfind>',
    '<propfind xmlns="DAV:"><prop><getetag/><x xmlns="y"/></prop></propfind>',
    '<propertyupdate xmlns="DAV:" xmlns:A="http://apache.org/dav/props/"><set><prop><A:executable>T</A:executable></prop></set></propertyupdate>',
    '<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype><owner>o</owner></lockinfo>',
  ),
  fc
    .array(
      fc.constantFrom(
        '<a',
        '>',
        '</a>',
        '&amp;',
        '&',
        '"',
        ' xmlns="DAV:"',
        '<![CDATA[',
        ']]>',
        '<?',
        '<!DOCTYPE',
      ),
    )
    .map((pieces) => pieces.join('')),
)
const request = fc.record({
  method: fc.constantFrom(
    'OPTIONS',
    'GET',
    'HEAD',
    'PROPFIND',
    'PUT',
    'MKCOL',
    'DELETE',
    'COPY',
    'MOVE',
    'PROPPATCH',
    'LOCK',
    'UNLOCK',
  ),
  path,
  headers: fc.record(
    {
      depth: fc.constantFrom('0', '1', 'infinity', '2', ''),
      destination: fc.oneof(
        path,
        path.map((one) => `http://localhost${one}`),
        fc.constant('http://evil/x'),
      ),
      overwrite: fc.constantFrom('T', 'F', 'x'),
      if: condition,
      'if-match': fc.constantFrom('*', '"x"', 'W/"x"', ','),
      'if-none-match': fc.constantFrom('*', '"x"', ''),
      range: fc.constantFrom('bytes=0-1', 'bytes=9-', 'bytes=-1', 'bytes=--', 'bytes=1-0'),
      timeout: fc.constantFrom('Second-1', 'Infinite', 'Second-x'),
      'lock-token': token.map((one) => `<${one}>`),
    },
    { requiredKeys: [] },
  ),
  body: fc.option(xml, { nil: undefined }),
})

const readMethods = ['OPTIONS', 'GET', 'HEAD', 'PROPFIND', 'UNLOCK']

test('no request is a defect, and no reading request changes anything', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 30 }), async (requests) => {
      const world = await WebdavWorld.open({ '/a': 'a', '/d/b.txt': 'b' }, { write: true })
      await world.session.fs.promises.symlink('d', '/link')
      await world.session.fs.promises.symlink('loop', '/loop')
      for (const { method, path, headers, body } of requests) {
        const before = (await world.events()).length
        const sends = body !== undefined && method !== 'GET' && method !== 'HEAD'
        const given = Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== undefined))
        const { status } = await world.ask(method, path, { headers: given, ...(sends && { body }) })
        expect([
          200, 201, 204, 206, 207, 400, 403, 404, 405, 409, 412, 413, 415, 416, 423, 502, 304,
        ]).toContain(status)
        const mayChange = status < 400 && !readMethods.includes(method)
        const changes = (await world.events()).length - before
        expect([method, status, mayChange ? 0 : changes]).toEqual([method, status, 0])
      }
      expect(world.logged).toEqual([])
      await world.close()
    }),
    { seed, numRuns: runs(400) },
  )
})
