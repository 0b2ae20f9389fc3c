/** Invalid requests are rejected as in process: by the promise, with the same reason and field. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  connect,
  EngineError,
  type RemoteEngine,
  type RemoteSession,
} from '../../src/adapters/client/index.js'
import type { EngineScope, Session } from '../../src/index.js'
import { openRemote, type Remote } from '../support/remote.js'

let remote: Remote
beforeAll(async () => {
  remote = await openRemote()
})
afterAll(() => remote.close())

type AnyEngine = EngineScope | RemoteEngine
type AnySession = Session | RemoteSession
/** Handles as untyped JavaScript sees them. */
type Untyped = Readonly<Record<string, (...given: unknown[]) => unknown>>

const ofSession: Readonly<Record<string, readonly string[]>> = {
  files:
    'write append read readWithHash stat list delete createDirectory removeDirectory rename copy setMode setAttributes createSymlink patchSegments getCasExtents link unlink setXattr getXattr listXattrs removeXattr'.split(
      ' ',
    ),
  cache: 'put get delete exists metadata compareAndSet batchGet batchSet batchDelete deleteByPrefix'.split(
    ' ',
  ),
  posixLocks: 'get set setBlocking flock funlock'.split(' '),
  fileLocks: 'lock renew unlock forceUnlock'.split(' '),
  annotations: 'add setStatus'.split(' '),
  approvals: 'request grant deny'.split(' '),
  bus: ['publish'],
  health: 'report history'.split(' '),
  secrets: 'put get delete'.split(' '),
  events: ['list'],
}

const calls: readonly (readonly [string, (engine: AnyEngine, session: AnySession) => unknown])[] = [
  ...Object.entries(ofSession).flatMap(([service, names]) =>
    names.flatMap((name) =>
      [null, 5, []].map((request) => {
        const act = (_: AnyEngine, session: AnySession): unknown =>
          (session as unknown as Readonly<Record<string, Untyped>>)[service]![name]!(request)
        return [`${service}.${name}(${JSON.stringify(request)})`, act] as const
      }),
    ),
  ),
  ...['commit', 'fork', 'checkpoint', 'restore', 'manifest'].map(
    (name) =>
      [
        `${name}(null)`,
        (_: AnyEngine, session: AnySession) => (session as unknown as Untyped)[name]!(null),
      ] as const,
  ),
  ['batch of null', (_, { files }) => files.batch([null as never])],
  ['batch of a write of null', (_, { files }) => files.batch([{ write: null as never }])],
  ['patches of null', (_, { files }) => files.patchSegments({ mutations: [null as never] })],
  ['entries of null', (_, { cache }) => cache.batchSet({ entries: [null as never] })],
  ['subscribe', (_, { bus }) => bus.subscribe(null as never).next()],
  ['diff of nothing', (engine) => engine.diff(undefined as never).paths()],
  ['diff of no states', (engine) => engine.diff({} as never).paths()],
  ['sessions of null', ({ sessions }) => sessions.create(null as never)],
  ['files of null', ({ sessions }) => sessions.create({ files: null as never })],
  ['a file of 5', ({ sessions }) => sessions.create({ files: { '/a': 5 as never } })],
  ['sources of null', ({ sources }) => sources.create(null as never)],
  ['an import of null', ({ sources }) => sources.startImport('x', null as never)],
  ['a promotion of nothing', ({ sources }) => sources.promoteSession('x', undefined as never)],
  ['a job of nothing', ({ sources }) => sources.getJob(undefined as never)],
  ['a wait for nothing', ({ sources }) => sources.waitForJob(undefined as never)],
]

test.each(calls)('%s', async (_name, act) => {
  const failures: unknown[] = []
  for (const engine of [remote.engine.as({ tenant: 'acme', principal: 'ann' }), remote.client]) {
    const session = await engine.sessions.create({ files: { '/a': 'x' } })
    // An error thrown synchronously, instead of a rejection, fails the test.
    const failure = await Promise.resolve(act(engine, session)).then(
      () => undefined,
      (error: unknown) => error,
    )
    expect(failure).toBeInstanceOf(EngineError)
    const { reason, code, details } = failure as EngineError
    failures.push({ reason, code, details })
  }
  expect(failures[1]).toEqual(failures[0])
  expect(failures[0]).toMatchObject({ reason: 'INVALID_ARGUMENT' })
})

test.each(['a b', 'line\nbreak', 'é', '\0'])(
  'rejects a token that no header can carry: %j',
  async (token) => {
    const baseUrl = remote.server.url
    const refused = expect.objectContaining({
      reason: 'INVALID_ARGUMENT',
      details: { field: 'token' },
    }) as Error
    expect(() => connect({ baseUrl, token })).toThrow(refused)
    await expect(connect({ baseUrl, token: () => token }).sessions.list()).rejects.toEqual(refused)
  },
)
