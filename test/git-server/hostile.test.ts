/** Requests that break the protocol of git. Each gets an answer with a code, and changes nothing. */
import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { deflateSync, gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { staticTokens } from '../../src/adapters/http/index.js'
import { CommitGraph } from '../../src/adapters/git-server/fetch-plan.js'
import { gitServerLimits } from '../../src/adapters/git-server/limits.js'
import { readPushRequest } from '../../src/adapters/git-server/push-request.js'
import { TimeSlice } from '../../src/engine/ports.js'
import { openEngine, type Engine, type Session } from '../../src/index.js'
import { GitWorld, gitCaller, gitToken } from '../support/git-world.js'
import { hostilePacks } from '../support/hostile-packs.js'
import { isComplete } from '../support/seed.js'
import { commitBody, idOf, makeDelta, idDelta, plainEntry, rawPack, treeBody } from '../support/raw-pack.js'

const zero = '0'.repeat(40)
const other = '1'.repeat(40)

function line(text: string): string {
  return `${(Buffer.byteLength(text) + 4).toString(16).padStart(4, '0')}${text}`
}

let engine: Engine
let world: GitWorld
let session: Session
let head: string

beforeAll(async () => {
  engine = await openEngine()
  const authenticate = staticTokens({
    [gitToken]: gitCaller,
    stranger: { tenant: 'other', principal: 'eve' },
  })
  world = await GitWorld.open(engine, { authenticate, limits: { stalledUploadMs: 300 } })
  session = await engine.sessions.create({ files: { '/a.txt': 'one\n' } })
  head = (await refs()).slice(4, 44)
})
afterAll(async () => {
  await world[Symbol.asyncDispose]()
  await engine.close()
})

interface Asked {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
}

async function ask(
  path: string,
  { method = 'GET', headers = {}, body }: Asked = {},
): Promise<[number, string]> {
  const response = await fetch(`${world.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${gitToken}`, ...headers },
    ...(body !== undefined && { body: Buffer.from(body) }),
  })
  return [response.status, await response.text()]
}

async function refs(): Promise<string> {
  const [, text] = await v2(line('command=ls-refs') + '0001' + line('ref-prefix refs/heads/') + '0000')
  return text
}

const v2 = (
  body: string | Uint8Array,
  headers: Readonly<Record<string, string>> = {},
): Promise<[number, string]> => upload(body, { 'git-protocol': 'version=2', ...headers })

function upload(
  body: string | Uint8Array,
  headers: Readonly<Record<string, string>> = {},
): Promise<[number, string]> {
  return ask(`/sessions/${session.id}.git/git-upload-pack`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-git-upload-pack-request', ...headers },
    body,
  })
}

function push(
  body: string | Uint8Array,
  to: Pick<Session, 'id'> = session,
  headers: Readonly<Record<string, string>> = {},
): Promise<[number, string]> {
  return ask(`/sessions/${to.id}.git/git-receive-pack`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-git-receive-pack-request', ...headers },
    body,
  })
}

function pushOf(commitId: string, pack: Uint8Array, oldId = head): Buffer {
  const command = line(`${oldId} ${commitId} refs/heads/main\0report-status`)
  return Buffer.concat([Buffer.from(`${command}0000`), pack])
}

const fetching = (...lines: readonly string[]): string =>
  `${line('command=fetch')}0001${lines.map(line).join('')}0000`

describe('a path', () => {
  const root = (): string => `/sessions/${session.id}.git`
  test.each<[string, () => string, Asked, number, RegExp]>([
    [
      'of no session',
      () => '/sessions/none.git/info/refs?service=git-upload-pack',
      {},
      404,
      /SESSION_NOT_FOUND/,
    ],
    ['with dots', () => '/sessions/%2e%2e/x.git/info/refs?service=git-upload-pack', {}, 404, /NOT_FOUND/],
    [
      'with an encoded slash',
      () => '/sessions/a%2Fb.git/info/refs?service=git-upload-pack',
      {},
      404,
      /NOT_FOUND/,
    ],
    ['with a NUL', () => '/sessions/a%00b.git/info/refs?service=git-upload-pack', {}, 404, /NOT_FOUND/],
    ['that is long', () => `/sessions/${'a'.repeat(5000)}.git/info/refs`, {}, 404, /NOT_FOUND/],
    ['of a file of the repository', () => `${root()}/objects/info/packs`, {}, 404, /NOT_FOUND/],
    ['of HEAD, as dumb clients ask', () => `${root()}/HEAD`, {}, 404, /NOT_FOUND/],
    ['without a service', () => `${root()}/info/refs`, {}, 400, /smart protocol/],
    ['with another service', () => `${root()}/info/refs?service=git-upload-archive`, {}, 400, /service/],
    [
      'with a posted start',
      () => `${root()}/info/refs?service=git-upload-pack`,
      { method: 'POST' },
      405,
      /GET/,
    ],
    ['with a fetch by GET', () => `${root()}/git-upload-pack`, {}, 405, /POST/],
    [
      'without a token',
      () => `${root()}/info/refs?service=git-upload-pack`,
      { headers: { authorization: '' } },
      401,
      /UNAUTHENTICATED/,
    ],
    [
      'with a wrong password',
      () => `${root()}/info/refs?service=git-upload-pack`,
      { headers: { authorization: `Basic ${btoa('git:wrong')}` } },
      401,
      /UNAUTHENTICATED/,
    ],
    [
      'with damaged credentials',
      () => `${root()}/info/refs?service=git-upload-pack`,
      { headers: { authorization: 'Basic !!!' } },
      401,
      /UNAUTHENTICATED/,
    ],
    [
      'of another tenant',
      () => `${root()}/info/refs?service=git-upload-pack`,
      { headers: { authorization: 'Bearer stranger' } },
      404,
      /SESSION_NOT_FOUND/,
    ],
    [
      'from a web page',
      () => `${root()}/info/refs?service=git-upload-pack`,
      { headers: { origin: 'https://evil.example' } },
      403,
      /ORIGIN/,
    ],
  ])('%s is answered', async (_what, path, asked, status, text) => {
    expect(await ask(path(), asked)).toEqual([status, expect.stringMatching(text)])
  })

  test('of a session accepts the token as password and as user name', async () => {
    for (const credentials of [`git:${gitToken}`, `${gitToken}:`])
      expect(
        await ask(`/sessions/${session.id}.git/info/refs?service=git-upload-pack`, {
          headers: { authorization: `Basic ${btoa(credentials)}` },
        }),
      ).toEqual([200, expect.stringContaining(head)])
  })

  test('asks for Basic credentials', async () => {
    const response = await fetch(`${world.url}/sessions/x.git/info/refs?service=git-upload-pack`)
    expect([response.status, response.headers.get('www-authenticate')]).toEqual([
      401,
      'Basic realm="forkspace", charset="UTF-8"',
    ])
  })
})

describe('a fetch', () => {
  const bomb = gzipSync(Buffer.alloc(64 * 2 ** 20))
  test.each<[string, string | Uint8Array, number, RegExp, Readonly<Record<string, string>>?]>([
    ['without packets', 'hello', 400, /packets/],
    ['with an odd length', '0003', 400, /packets/],
    ['with a length that is no number', 'zzzz', 400, /packets/],
    ['with a length beyond its end', 'ffff1234', 400, /packets/],
    ['that is cut off', line('command=fetch'), 400, /cut off/],
    ['that is cut off later', `${line('command=fetch')}0001${line('done')}`, 400, /cut off/],
    ['with a delimiter first', '0001', 400, /not a command/],
    ['with another command', `${line('command=push')}0000`, 400, /not a command/],
    ['without a commit', fetching('done'), 400, /wants no commit/],
    ['of no id', fetching('want HEAD', 'done'), 400, /not the id/],
    [
      'of an unknown commit',
      fetching(`want ${other}`, 'done'),
      200,
      /ERR .*has no commit.*GIT_REF_NOT_FOUND/,
    ],
    ['with ids of another form', fetching(`want ${'a'.repeat(64)}`, 'done'), 200, /GIT_REF_NOT_FOUND/],
    ['with an unknown argument', fetching(`want ${other}`, 'filter blob:none'), 200, /ERR .*not supported/],
    ['with a depth of 0', fetching(`want ${other}`, 'deepen 0'), 400, /not a depth/],
    ['with a negative depth', fetching(`want ${other}`, 'deepen -1'), 400, /not a depth/],
    ['with a depth in words', fetching(`want ${other}`, 'deepen all'), 400, /not a depth/],
    ['by time', fetching(`want ${other}`, 'deepen-since 1'), 200, /ERR .*not supported/],
    [
      'of another hash function',
      `${line('command=fetch')}${line('object-format=sha256')}0001${line('done')}0000`,
      400,
      /ids of sha1/,
    ],
    [
      'of too many commits',
      fetching(
        ...Array.from(
          { length: gitServerLimits.wants + 1 },
          (_, at) => `want ${at.toString(16).padStart(40, '0')}`,
        ),
      ),
      400,
      /over 4096 ids/,
    ],
    [
      'with too many known commits',
      fetching(
        ...Array.from(
          { length: gitServerLimits.haves + 1 },
          (_, at) => `have ${at.toString(16).padStart(40, '0')}`,
        ),
      ),
      400,
      /over 65536 ids/,
    ],
    [
      'with too many prefixes',
      `${line('command=ls-refs')}0001${line('ref-prefix a').repeat(gitServerLimits.refPrefixes + 1)}0000`,
      400,
      /too many prefixes/,
    ],
    [
      'that is too long',
      gzipSync(`${line('command=fetch')}0001${line(`have ${other}`).repeat(180_000)}0000`),
      413,
      /BODY_TOO_LARGE/,
      { 'content-encoding': 'gzip' },
    ],
    [
      'with another content type',
      fetching('done'),
      415,
      /content-type/,
      { 'content-type': 'application/json' },
    ],
    ['with another encoding', fetching('done'), 415, /content-encoding/, { 'content-encoding': 'br' }],
    ['with damaged gzip', 'hello', 400, /not valid gzip/, { 'content-encoding': 'gzip' }],
    [
      'with gzip that is cut off',
      gzipSync(fetching('done')).subarray(0, 20),
      400,
      /not valid gzip/,
      { 'content-encoding': 'gzip' },
    ],
    ['that expands without end', bomb, 400, /packets/, { 'content-encoding': 'gzip' }],
    [
      'that expands to flushes without end',
      gzipSync(
        Buffer.concat([
          Buffer.from(`${line('command=ls-refs')}0001`),
          Buffer.alloc(32 * 2 ** 20, '000csymrefs\n'),
        ]),
      ),
      400,
      /too many prefixes/,
      { 'content-encoding': 'gzip' },
    ],
  ])('%s is answered', async (_what, body, status, text, headers = {}) => {
    expect(await v2(body, headers)).toEqual([status, expect.stringMatching(text)])
  })

  test.each<[string, string, number, RegExp]>([
    ['without a commit', `0000`, 200, /^$/],
    ['with nothing', ``, 400, /wants no commit/],
    ['with only known commits', `${line(`have ${other}`)}0000`, 400, /wants no commit/],
    [
      'of an unknown commit',
      `${line(`want ${other} side-band-64k`)}0000${line('done')}`,
      200,
      /GIT_REF_NOT_FOUND/,
    ],
    ['with an unknown word', `${line('hello')}0000`, 200, /ERR .*not supported/],
    ['of another hash function', `${line(`want ${other} object-format=sha256`)}0000`, 400, /ids of sha1/],
    ['with a delimiter', `${line(`want ${other}`)}0001`, 400, /packets/],
  ])('in version 0 %s is answered', async (_what, body, status, text) => {
    expect(await upload(body)).toEqual([status, expect.stringMatching(text)])
  })

  test('of a long history leaves the event loop free', async () => {
    const commit = commitBody(idOf('tree', Buffer.alloc(0)))
    const id = idOf('commit', commit)
    const object = { oid: id, type: 'commit', body: commit } as const
    let seconds = 0
    const slice = new TimeSlice({ now: () => 1000 * ++seconds })
    const objects = {
      get: () => Promise.resolve(object),
      has: () => Promise.resolve(true),
      open: () => Promise.resolve(undefined),
    }
    const graph = new CommitGraph(objects, null, slice)
    await graph.get(id)
    let turns = 0
    setImmediate(() => turns++)
    // The second time, the commit is known.
    await graph.closure([id])
    expect(turns).toBe(1)
  })

  test('lists the refs with one of many prefixes', async () => {
    const labelled = await engine.sessions.create({ files: { '/a': '1' } })
    for (const checkpointLabel of ['one', 'once', 'two']) await labelled.checkpoint({ checkpointLabel })
    const listing = async (...prefixes: readonly string[]): Promise<string[]> => {
      const lines = prefixes.map((prefix) => line(`ref-prefix ${prefix}`))
      const body = `${line('command=ls-refs')}0001${lines.join('')}0000`
      const path = `/sessions/${labelled.id}.git/git-upload-pack`
      const headers = {
        'content-type': 'application/x-git-upload-pack-request',
        'git-protocol': 'version=2',
      }
      const [, text] = await ask(path, { method: 'POST', headers, body })
      return Array.from(text.matchAll(/[\da-f]{40} (\S+)/g), ([, name = '']) => name)
    }
    const many = Array.from({ length: 1000 }, (_, at) => `refs/heads/${at}`)
    expect(await listing('refs/checkpoints/on', ...many)).toEqual([
      'refs/checkpoints/one',
      'refs/checkpoints/once',
    ])
    expect(await listing('refs/checkpoints/two', 'HEAD', ...many)).toEqual(['HEAD', 'refs/checkpoints/two'])
    expect(await listing('refs/checkpoints/two/', 'refs/heads/mainly')).toEqual([])
    expect(await listing('')).toEqual(await listing())
  })

  test('of a file or tree is refused', async () => {
    for (const id of [idOf('blob', Buffer.from('one\n')), idOf('tree', Buffer.alloc(0))])
      expect(await v2(fetching(`want ${id}`, 'done'))).toEqual([
        200,
        expect.stringMatching(/GIT_REF_NOT_FOUND/),
      ])
  })

  test('of a commit of another session is refused', async () => {
    const secret = await engine.sessions.create({ files: { '/secret': 'secret' } })
    const { commitId } = await secret.commit({ message: 'secret' })
    expect(await v2(fetching(`want ${commitId}`, 'done'))).toEqual([
      200,
      expect.stringMatching(/GIT_REF_NOT_FOUND/),
    ])
  })

  test('whose body does not arrive is ended', async () => {
    const socket = connect(world.port, '127.0.0.1')
    socket.write(
      `POST /sessions/${session.id}.git/git-upload-pack HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${gitToken}\r\n` +
        'content-type: application/x-git-upload-pack-request\r\ncontent-length: 100\r\n\r\n0014command',
    )
    const answer = await new Promise<string>((resolve) => {
      socket.once('data', (data: Buffer) => resolve(data.toString()))
    })
    socket.destroy()
    expect(answer).toMatch(/^HTTP\/1.1 408 [\s\S]*REQUEST_TIMEOUT/)
  })
})

test('a fetch does not wait for requests that never arrive', async () => {
  await using slow = await GitWorld.open(engine, { authenticate: staticTokens({ [gitToken]: gitCaller }) })
  const start = (service: string): string =>
    `POST /sessions/${session.id}.git/${service} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${gitToken}\r\n` +
    `content-type: application/x-${service}-request\r\ncontent-length: 100\r\n\r\n0014`
  const services = ['git-receive-pack', 'git-upload-pack']
  const sockets = services.flatMap((service) =>
    Array.from({ length: 100 }, () => {
      const socket = connect(slow.port, '127.0.0.1')
      socket.write(start(service))
      return socket
    }),
  )
  await pause(200)
  const body = `${line('command=fetch\n')}0001${line(`want ${head}\n`)}${line('done\n')}0000`
  const type = 'application/x-git-upload-pack-request'
  const fetched = fetch(`${slow.url}/sessions/${session.id}.git/git-upload-pack`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gitToken}`, 'content-type': type, 'git-protocol': 'version=2' },
    body,
  }).then((response) => response.text())
  const answer = await Promise.race([fetched, pause(2000, 'late')])
  for (const socket of sockets) socket.destroy()
  await fetched
  expect(answer).toContain('packfile')
})

describe('a push', () => {
  const blob = Buffer.from('pushed\n')
  const tree = treeBody([['100644', 'a.txt', idOf('blob', blob)]])
  const commitOn = (parent: string, treeId = idOf('tree', tree)): Buffer =>
    Buffer.from(commitBody(treeId).toString().replace('\nauthor', `\nparent ${parent}\nauthor`))
  const whole = (commit: Buffer): Buffer =>
    rawPack([plainEntry('blob', blob), plainEntry('tree', tree), plainEntry('commit', commit)])

  test.each<[string, () => string | Uint8Array, number, RegExp]>([
    ['of nothing', () => '0000', 200, /^$/],
    ['without packets', () => 'hello', 400, /packets/],
    ['that is cut off', () => line(`${zero} ${other} refs/heads/main`), 400, /cut off/],
    ['of no ids', () => `${line('a b refs/heads/main')}0000`, 400, /wrong form/],
    ['of a ref with a space', () => `${line(`${head} ${other} refs/heads/a b`)}0000`, 400, /wrong form/],
    [
      'of a ref with a long name',
      () => `${line(`${head} ${other} refs/heads/${'a'.repeat(5000)}`)}0000`,
      400,
      /wrong form/,
    ],
    [
      'of longer ids',
      () => `${line(`${'0'.repeat(64)} ${'1'.repeat(64)} refs/heads/main`)}0000`,
      400,
      /ids of sha1/,
    ],
    [
      'of a new id that is longer',
      () => `${line(`${head} ${'1'.repeat(64)} refs/heads/main`)}0000`,
      400,
      /ids of sha1/,
    ],
    [
      'of too many refs',
      () => `${line(`${head} ${other} refs/heads/main`).repeat(gitServerLimits.commands + 1)}0000`,
      400,
      /too many/,
    ],
    [
      'of another branch',
      () => `${line(`${zero} ${other} refs/heads/x\0report-status`)}0000`,
      200,
      /ng refs\/heads\/x .*main alone/,
    ],
    [
      'of a checkpoint',
      () => `${line(`${zero} ${other} refs/checkpoints/x\0report-status`)}0000`,
      200,
      /main alone/,
    ],
    ['of HEAD', () => `${line(`${head} ${other} HEAD\0report-status`)}0000`, 200, /ng HEAD .*main alone/],
    ['that deletes the branch', () => pushOf(zero, Buffer.alloc(0)), 200, /cannot be deleted/],
    ['from another state', () => pushOf(other, rawPack([]), other), 200, /fetch first.*BRANCH_MOVED/],
    ['from no state', () => pushOf(other, rawPack([]), zero), 200, /fetch first.*BRANCH_MOVED/],
    ['without its commit', () => pushOf(other, rawPack([])), 200, /no such commit.*GIT_CORRUPT/],
    ['without a pack', () => pushOf(other, Buffer.alloc(0)), 200, /GIT_CORRUPT/],
    [
      'with bytes that are no pack',
      () => pushOf(other, Buffer.from('hello, this is no pack')),
      200,
      /GIT_CORRUPT/,
    ],
    [
      'with a pack that is cut off',
      () => pushOf(other, whole(commitOn(head)).subarray(0, 60)),
      200,
      /GIT_CORRUPT/,
    ],
    [
      'with a pack that has a wrong checksum',
      () => pushOf(other, Buffer.concat([whole(commitOn(head)).subarray(0, -1), Buffer.of(0)])),
      200,
      /GIT_CORRUPT/,
    ],
    [
      'with more than a pack',
      () => pushOf(other, Buffer.concat([rawPack([]), Buffer.from('more')])),
      200,
      /GIT_CORRUPT/,
    ],
    [
      'with a count that is too large',
      () => pushOf(other, rawPack([], 'sha1', 0xffffffff)),
      200,
      /GIT_TOO_LARGE/,
    ],
    [
      'with a delta without a base',
      () => pushOf(other, rawPack([idDelta('2'.repeat(40), makeDelta(5, 5, [Buffer.from('hello')]))])),
      200,
      /GIT_CORRUPT/,
    ],
    [
      'of a commit that does not build on the head',
      () => {
        const commit = commitBody(idOf('tree', tree))
        return pushOf(idOf('commit', commit), whole(commit))
      },
      200,
      /non-fast-forward.*BRANCH_MOVED/,
    ],
    ['of the head itself', () => pushOf(head, rawPack([])), 200, /BRANCH_MOVED/],
    [
      'of a commit with an unknown parent',
      () => {
        const commit = commitOn('3'.repeat(40))
        return pushOf(idOf('commit', commit), whole(commit))
      },
      200,
      /whose history neither.*GIT_PUSH_REJECTED/,
    ],
    [
      'of a commit without its tree',
      () => {
        const commit = commitOn(head, '4'.repeat(40))
        return pushOf(idOf('commit', commit), rawPack([plainEntry('commit', commit)]))
      },
      200,
      /GIT_CORRUPT/,
    ],
    [
      'of a commit without its file',
      () => {
        const lone = treeBody([['100644', 'a', '5'.repeat(40)]])
        const commit = commitOn(head, idOf('tree', lone))
        return pushOf(
          idOf('commit', commit),
          rawPack([plainEntry('tree', lone), plainEntry('commit', commit)]),
        )
      },
      200,
      /no such blob.*GIT_CORRUPT/,
    ],
    [
      'of earlier commits without their file, in an order that hides it',
      () => {
        const lone = ['100644', 'a', '5'.repeat(40)] as const
        const [some, more] = [treeBody([lone]), treeBody([lone, ['100644', 'b', idOf('blob', blob)]])]
        const first = commitOn(head, idOf('tree', some))
        const second = commitOn(idOf('commit', first), idOf('tree', more))
        const third = commitOn(idOf('commit', second), idOf('tree', some))
        const parents = `${idOf('commit', third)}\nparent ${idOf('commit', second)}`
        const last = commitOn(parents)
        const entries = [
          ...[first, second, third, last].map((commit) => plainEntry('commit', commit)),
          ...[some, more, tree].map((one) => plainEntry('tree', one)),
          plainEntry('blob', blob),
        ]
        return pushOf(idOf('commit', last), rawPack(entries))
      },
      200,
      /no such blob.*GIT_CORRUPT/,
    ],
    [
      'of a commit whose file is a tree',
      () => {
        const wrong = treeBody([['100644', 'a', idOf('tree', tree)]])
        const commit = commitOn(head, idOf('tree', wrong))
        const entries = [
          plainEntry('blob', blob),
          plainEntry('tree', tree),
          plainEntry('tree', wrong),
          plainEntry('commit', commit),
        ]
        return pushOf(idOf('commit', commit), rawPack(entries))
      },
      200,
      /GIT_CORRUPT/,
    ],
    [
      'of an unknown mode',
      () => {
        const odd = treeBody([['777', 'a', idOf('blob', blob)]])
        const commit = commitOn(head, idOf('tree', odd))
        const entries = [plainEntry('blob', blob), plainEntry('tree', odd), plainEntry('commit', commit)]
        return pushOf(idOf('commit', commit), rawPack(entries))
      },
      200,
      /GIT_CORRUPT/,
    ],
    [
      'of a file in the place of a commit',
      () => pushOf(idOf('blob', blob), rawPack([plainEntry('blob', blob)])),
      200,
      /no such commit/,
    ],
    [
      'of a path that leaves its directory',
      () => {
        const up = treeBody([['40000', '..', idOf('tree', tree)]])
        const commit = commitOn(head, idOf('tree', up))
        const entries = [
          plainEntry('blob', blob),
          plainEntry('tree', tree),
          plainEntry('tree', up),
          plainEntry('commit', commit),
        ]
        return pushOf(idOf('commit', commit), rawPack(entries))
      },
      200,
      /GIT_UNSAFE_PATH/,
    ],
    [
      'of a name with a slash',
      () => {
        const odd = treeBody([['100644', 'a/b', idOf('blob', blob)]])
        const commit = commitOn(head, idOf('tree', odd))
        const entries = [plainEntry('blob', blob), plainEntry('tree', odd), plainEntry('commit', commit)]
        return pushOf(idOf('commit', commit), rawPack(entries))
      },
      200,
      /GIT_UNSAFE_PATH/,
    ],
    [
      'of a commit with a long message',
      () => {
        const commit = Buffer.concat([commitOn(head), Buffer.alloc(gitServerLimits.commitBytes, 'm')])
        return pushOf(idOf('commit', commit), whole(commit))
      },
      200,
      /bytes in a commit.*GIT_TOO_LARGE/,
    ],
    [
      'of a lying size',
      () => pushOf(other, rawPack([plainEntry('blob', blob, { size: 3, deflated: deflateSync(blob) })])),
      200,
      /GIT_CORRUPT/,
    ],
  ])('%s is answered', async (_what, body, status, text) => {
    const { events } = await session.events.list()
    expect(await push(body())).toEqual([status, expect.stringMatching(text)])
    expect((await session.events.list()).events).toEqual(events)
    expect((await refs()).slice(4, 44)).toBe(head)
  })

  test('of a commit whose author never ends is taken', async () => {
    // A search for the end of each possible address would exceed the time limit of a test.
    const open = await engine.sessions.create()
    const text = commitBody(idOf('tree', tree)).toString()
    const commit = Buffer.from(text.replace(/(?<=author )[^\n]*/, '<'.repeat(250_000)))
    const body = pushOf(idOf('commit', commit), whole(commit), zero)
    expect(await push(body, open)).toEqual([200, expect.stringMatching(/ok refs/)])
    expect((await open.commits.list()).commits).toMatchObject([{ author: { name: '', email: '' } }])
  })

  test('of a commit in a distant year is taken, with the last time that RFC 3339 can express', async () => {
    const open = await engine.sessions.create()
    const text = commitBody(idOf('tree', tree)).toString()
    const commit = Buffer.from(text.replaceAll(/(?<=> )\d+(?= )/g, '999999999999'))
    const body = pushOf(idOf('commit', commit), whole(commit), zero)
    expect(await push(body, open)).toEqual([200, expect.stringMatching(/ok refs/)])
    expect((await open.commits.list()).commits).toMatchObject([{ committedAt: '9999-12-31T23:59:59.000Z' }])
  })

  test('that expands too much is answered', async () => {
    const zeros = deflateSync(Buffer.alloc(2 ** 20))
    const entries = Array.from({ length: 2000 }, () =>
      plainEntry('blob', Buffer.alloc(0), { size: 2 ** 20, deflated: zeros }),
    )
    const body = gzipSync(pushOf(other, rawPack(entries)))
    expect(await push(body, session, { 'content-encoding': 'gzip' })).toEqual([
      200,
      expect.stringMatching(/BODY_TOO_LARGE/),
    ])
  })

  test('that is compressed is taken', async () => {
    const open = await engine.sessions.create()
    const commit = commitBody(idOf('tree', tree))
    const body = gzipSync(pushOf(idOf('commit', commit), whole(commit), zero))
    expect(await push(body, open, { 'content-encoding': 'gzip' })).toEqual([
      200,
      expect.stringMatching(/ok refs/),
    ])
  })

  describe('that uses an object of another session, of which only the id is known,', () => {
    const secret = Buffer.from('for the eyes of one session only\n')
    const secretId = idOf('blob', secret)
    const secretTree = treeBody([['100644', 'secret', secretId]])
    let secretCommit: string
    beforeAll(async () => {
      const owner = await engine.sessions.create({ files: { '/secret': secret } })
      secretCommit = (await owner.commit({ message: 'secret' })).commitId
    })

    /** Commits on the head with the given trees, the last one the pushed commit. */
    const commitsOf = (...trees: readonly Buffer[]): Buffer[] => {
      let parent = head
      return trees.map((one) => {
        const commit = commitOn(parent, idOf('tree', one))
        parent = idOf('commit', commit)
        return commit
      })
    }
    const pushTrees = (trees: readonly Buffer[], ...entries: readonly Buffer[]): Buffer => {
      const commits = commitsOf(...trees)
      const [last] = commits.slice(-1)
      return pushOf(
        last === undefined ? other : idOf('commit', last),
        rawPack([
          ...entries,
          ...trees.filter((one) => !one.equals(secretTree)).map((one) => plainEntry('tree', one)),
          ...commits.map((one) => plainEntry('commit', one)),
        ]),
      )
    }
    const holder = treeBody([['100644', 'taken', secretId]])
    const without = treeBody([['100644', 'a.txt', idOf('blob', blob)]])
    const copy = idDelta(secretId, makeDelta(secret.length, secret.length, [[0, secret.length]]))

    test.each<[string, () => Buffer, RegExp]>([
      ['a file,', () => pushTrees([holder]), /no such blob/],
      ['a directory,', () => pushTrees([secretTree]), /no such tree/],
      ['a file as the base of a delta,', () => pushTrees([holder], copy), /has the base .* missing/],
      [
        'a directory as the base of a delta,',
        () => {
          const both = treeBody([
            ['100644', 'a', secretId],
            ['100644', 'secret', secretId],
          ])
          const delta = makeDelta(secretTree.length, both.length, [
            both.subarray(0, both.length - secretTree.length),
            [0, secretTree.length],
          ])
          const [commit = Buffer.alloc(0)] = commitsOf(both)
          const entries = [idDelta(idOf('tree', secretTree), delta), plainEntry('commit', commit)]
          return pushOf(idOf('commit', commit), rawPack(entries))
        },
        /no such blob|has the base .* missing/,
      ],
      [
        'a file that the next commit removes,',
        () => pushTrees([holder, without, holder], plainEntry('blob', blob)),
        /no such blob/,
      ],
      [
        'a base of a delta whose result the next commit removes,',
        () => pushTrees([holder, without], copy, plainEntry('blob', blob)),
        /has the base .* missing/,
      ],
      [
        'a file that was a submodule before,',
        () => pushTrees([treeBody([['160000', 'module', secretId]]), holder]),
        /no such blob/,
      ],
      ...(['100644', '120000', '40000'] as const).map((mode): [string, () => Buffer, RegExp] => [
        `an object that was a submodule at the same place, with the mode ${mode},`,
        () => {
          const id = mode === '40000' ? idOf('tree', secretTree) : secretId
          return pushTrees([treeBody([['160000', 'x', id]]), treeBody([[mode, 'x', id]])])
        },
        /no such (?:blob|tree)/,
      ]),
      ['a commit,', () => pushOf(secretCommit, rawPack([])), /no such commit/],
      [
        'a commit as a parent,',
        () => {
          const commit = commitOn(`${head}\nparent ${secretCommit}`)
          return pushOf(idOf('commit', commit), whole(commit))
        },
        /whose history neither/,
      ],
    ])('%s is refused as if there were none', async (_what, body, text) => {
      const { events } = await session.events.list()
      expect(await push(body())).toEqual([200, expect.stringMatching(text)])
      expect((await session.events.list()).events).toEqual(events)
      expect(await session.files.list({ path: '/' })).toMatchObject({ entries: [{ name: 'a.txt' }] })
    })
  })

  test('learns nothing about the base of a delta from its error', async () => {
    const known = Buffer.from('a secret of another session')
    await (await engine.sessions.create({ files: { '/secret': known } })).commit({ message: 'known' })
    const baseId = idOf('blob', known)
    const guess = (text: string, base = baseId): Buffer => {
      const result = Buffer.from(text)
      const one = treeBody([['100644', 'guess', idOf('blob', result)]])
      const commit = commitOn(head, idOf('tree', one))
      const delta = makeDelta(known.length, 5, [Buffer.from('the '), [2, 1]])
      return pushOf(
        idOf('commit', commit),
        rawPack([idDelta(base, delta), plainEntry('tree', one), plainEntry('commit', commit)]),
      )
    }
    const [status, right] = await push(guess('the s'))
    expect(status).toBe(200)
    expect(right).toMatch(/has the base .* missing/)
    expect(await push(guess('the x'))).toEqual([200, right])
    const absent = '7'.repeat(40)
    const [, unknown] = await push(guess('the s', absent))
    expect(unknown.replaceAll(absent, baseId)).toBe(right)
  })

  test('may send a delta before its base, whether another session has the base or not', async () => {
    for (const has of [false, true]) {
      const base = Buffer.from(`the base of a delta, ${has}`)
      if (has) await (await engine.sessions.create({ files: { '/base': base } })).commit({ message: 'base' })
      const result = Buffer.concat([base, Buffer.from(', and more')])
      const delta = makeDelta(base.length, result.length, [[0, base.length], result.subarray(base.length)])
      const both = treeBody([
        ['100644', 'base', idOf('blob', base)],
        ['100644', 'result', idOf('blob', result)],
      ])
      const commit = commitBody(idOf('tree', both))
      const entries = [
        idDelta(idOf('blob', base), delta),
        plainEntry('blob', base),
        plainEntry('tree', both),
        plainEntry('commit', commit),
      ]
      const open = await engine.sessions.create()
      const body = pushOf(idOf('commit', commit), rawPack(entries), zero)
      expect(await push(body, open)).toEqual([200, expect.stringMatching(/ok refs/)])
      expect(open.fs.readFileSync('/result', 'utf8')).toBe(result.toString())
    }
  })

  /** These take seconds, as in an import. */
  const slow = [
    'trees that fan out',
    'many large blobs of little',
    'one huge blob in a small pack',
    'very deep trees',
    'many large results of small deltas',
    'a result that doubles with each delta',
    'many small results of one large base',
  ]
  const packs = Object.entries(hostilePacks).filter(([name]) => isComplete || !slow.includes(name))
  test.each(packs)('of %s is rejected', { timeout: 180_000 }, async (_name, make) => {
    const empty = await engine.sessions.create()
    const { pack, want } = make('sha1')
    const [status, text] = await push(pushOf(want, pack, zero), empty)
    expect([status, text]).toEqual([200, expect.stringMatching(/ng refs\/heads\/main .*\(GIT_[A-Z_]+\)/)])
    expect(await empty.fs.promises.readdir('/')).toEqual([])
  })

  test('whose pack is refused at its start is read to its end', async () => {
    async function* body(): AsyncGenerator<Uint8Array> {
      yield Buffer.from(`${line(`${zero} ${other} refs/heads/main`)}0000PACK`)
      yield Buffer.from('more')
      yield Buffer.from('the end')
    }
    const request = await readPushRequest(body(), 'sha1', performance)
    const pack = request?.pack ?? []
    const read: string[] = []
    for await (const piece of pack) {
      read.push(piece.toString())
      break
    }
    for await (const piece of pack) read.push(piece.toString())
    expect(read).toEqual(['PACK', 'more', 'the end'])
  })

  test('whose client leaves changes nothing', async () => {
    const { events } = await session.events.list()
    const commit = commitOn(head)
    const body = pushOf(idOf('commit', commit), whole(commit))
    const socket = connect(world.port, '127.0.0.1')
    socket.write(
      `POST /sessions/${session.id}.git/git-receive-pack HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${gitToken}\r\n` +
        `content-type: application/x-git-receive-pack-request\r\ncontent-length: ${body.length}\r\n\r\n`,
    )
    socket.write(body.subarray(0, -30))
    await new Promise((resolve) => socket.once('connect', resolve))
    socket.destroy()
    expect(await push(pushOf(other, rawPack([])))).toEqual([200, expect.stringMatching(/no such commit/)])
    expect((await session.events.list()).events).toEqual(events)
  })

  test('is refused without the option push', async () => {
    await using closed = await GitWorld.open(engine, { push: false })
    const path = `/sessions/${session.id}.git/info/refs?service=git-receive-pack`
    const response = await fetch(`${closed.url}${path}`, { headers: { authorization: `Bearer ${gitToken}` } })
    expect([response.status, await response.text()]).toEqual([403, expect.stringMatching(/takes no pushes/)])
  })
})
