import { createHttpHandler, staticTokens, type HttpHandler } from '../../src/adapters/http/index.js'
import {
  capabilitiesOf,
  type Capability,
  type Engine,
  type EngineScope,
  type Session,
} from '../../src/index.js'
import { openTestEngine } from '../../src/testing.js'

/** The resources of a tenant and their ids. */
export interface Tenant {
  readonly scope: EngineScope
  readonly session: Session
  readonly token: string
  /** Ids by the names of parameters and fields. */
  readonly ids: Readonly<Record<string, string>>
}

/** An engine with two tenants that own one resource of each kind, and a clock that does not advance. */
export interface World extends AsyncDisposable {
  readonly engine: Engine
  readonly handler: HttpHandler
  /** The same handler with small limits. */
  readonly narrow: HttpHandler
  /** `authorize` refuses calls that need any of these capabilities. */
  readonly withheld: Set<Capability>
  readonly ann: Tenant
  readonly eve: Tenant
}

/** The body limit of {@link World.narrow} in bytes. */
export const narrowBytes = 4096

export async function openWorld(): Promise<World> {
  const withheld = new Set<Capability>()
  const engine = await openTestEngine({
    stepMs: 0,
    authorize: (_caller, action) => !capabilitiesOf(action).some((one) => withheld.has(one)),
  })
  const authenticate = staticTokens({
    'token-of-ann': { tenant: 'acme', principal: 'ann' },
    'token-of-eve': { tenant: 'evil', principal: 'eve' },
  })
  const limits = { bodyBytes: narrowBytes }
  return {
    engine,
    handler: createHttpHandler(engine, { authenticate }),
    narrow: createHttpHandler(engine, { authenticate, limits }),
    withheld,
    ann: await furnish(engine.as({ tenant: 'acme', principal: 'ann' }), 'token-of-ann'),
    eve: await furnish(engine.as({ tenant: 'evil', principal: 'eve' }), 'token-of-eve'),
    [Symbol.asyncDispose]: () => engine.close(),
  }
}

async function furnish(scope: EngineScope, token: string): Promise<Tenant> {
  const { sourceId } = await scope.sources.create({
    displayName: 'App',
    uploadedSnapshot: {},
    labels: { a: 'b' },
  })
  const job = await scope.sources.startImport(sourceId, {
    uploadedSnapshot: { files: { '/base.txt': `base of ${token}` } },
  })
  const { revisionId } = await scope.sources.waitForJob(job)
  const session = await scope.sessions.create({ sourceRef: { sourceId }, initialTags: { a: 'b' } })
  const { files } = session
  await files.batch([
    { write: { path: '/file', content: `content of ${token}` } },
    { write: { path: '/dir/file', content: 'other content' } },
  ])
  await files.createDirectory({ path: '/empty' })
  await files.createSymlink({ linkPath: '/link', target: 'file' })
  await files.setXattr({ path: '/file', name: 'user.a', value: Buffer.from('b') })
  const { id: checkpointId } = await session.checkpoint({ checkpointLabel: 'first' })
  const expectedContentHash = await files.contentHash('/file')
  const { annotation } = await session.annotations.add({ filePath: '/file', expectedContentHash })
  const { approvalId } = await session.approvals.request()
  const { lockId } = await session.fileLocks.lock({ path: '/file', timeoutSeconds: 60 })
  await session.cache.put({ key: 'key', value: Buffer.from('value') })
  await session.secrets.put({ secretName: 'secret', secretValue: 'hidden' })
  await session.bus.publish({ topic: 'topic', payload: Buffer.from('payload') })
  const sessionId = session.id
  return {
    scope,
    session,
    token,
    ids: {
      sessionId,
      sourceSessionId: sessionId,
      sourceId,
      jobId: job.jobId,
      revisionId,
      checkpointId,
      annotationId: annotation.id,
      approvalId,
      lockId,
      key: 'key',
      secretName: 'secret',
      commitId: '0'.repeat(40),
    },
  }
}

/** All data of a tenant; equal results mean that nothing changed. */
export async function everythingOf({ scope, session, ids }: Tenant): Promise<unknown> {
  const { annotations, approvals, cache, events, fileLocks, files, health, posixLocks, secrets } = session
  const owner = { ownerId: 'nobody' }
  const { entryCount, sizeBytes } = await cache.stats()
  const everything = [
    await scope.sessions.list(),
    await scope.sources.list(),
    await scope.sources.getJob({ sourceId: ids['sourceId']!, jobId: ids['jobId']! }),
    await session.manifest({ includeCasExtents: true }),
    await files.listSymlinks(),
    await files.listXattrs({ path: '/file' }),
    await session.listCheckpoints(),
    await events.list(),
    await annotations.list(),
    await approvals.list(),
    await fileLocks.list(),
    await posixLocks.get({ path: '/file', kind: 'POSIX_LOCK_KIND_EXCLUSIVE', owner }),
    [
      entryCount,
      sizeBytes,
      await cache.keys(),
      Buffer.from((await cache.get({ key: 'key' })).value).toString(),
    ],
    await secrets.list(),
    (await secrets.get({ secretName: 'secret' })).secretValue.reveal(),
    await health.history(),
    await session.analytics(),
    await scope.usage.metrics(),
  ]
  return JSON.parse(JSON.stringify(everything))
}
