/** The permissions of narrowed handles, and the data that they reveal. */
import { Buffer } from 'node:buffer'
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  capabilitiesOf,
  openEngine,
  type EngineError,
  type Action,
  type Capability,
  type Engine,
  type EngineScope,
  type Session,
} from '../../src/index.js'
import { callOperation, openRepository, operations } from '../../src/engine/contract.js'
import { nativeActions } from '../../src/engine/operations/native.js'
import { capabilities, type Condition, type Needs } from '../../src/engine/operations/operation.js'
import { formatted } from '../support/http-examples.js'

const table: Readonly<Record<string, Needs>> = { ...operations, ...nativeActions }

let engine: Engine
let session: Session
let directory: string

beforeEach(async () => {
  directory = realpathSync(mkdtempSync(join(tmpdir(), 'permissions-')))
  engine = await openEngine({
    hostPaths: { roots: [directory] },
    exec: { directory: join(directory, 'exec'), path: '/usr/bin:/bin' },
  })
  session = await engine.sessions.create({ files: { '/a': 'secret', '/d/b': 'two' } })
  await session.checkpoint({ checkpointLabel: 'one' })
  await session.files.write({ path: '/new', content: 'new' })
})

afterEach(async () => {
  await engine.close()
  rmSync(directory, { recursive: true, force: true })
})

const denied = (action: string, capability: Capability): object =>
  expect.objectContaining({
    reason: 'PERMISSION_DENIED',
    details: { action, capability },
    message: `${action} needs the capability ${capability}, which this handle does not have`,
  }) as object

async function pictureOf(of: Session): Promise<unknown> {
  const { manifestHash } = await of.manifest()
  const { headHash, eventCount } = await of.events.verify()
  const { sessions } = await engine.sessions.list()
  return { manifestHash, headHash, eventCount, sessions: sessions.length, host: readdirSync(directory) }
}

async function drain(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of stream) chunks.push(chunk)
  return Buffer.concat(chunks)
}

const hashOf = (path: string): Promise<string> => session.files.contentHash(path)

/** Actions that are only available in process, each as a permitted handle performs it. */
const natively: Readonly<
  Record<keyof typeof nativeActions, (handle: Session, scope: EngineScope) => Promise<unknown>>
> = {
  contentHash: ({ files }) => files.contentHash('/a'),
  exportTar: (handle) => drain(handle.exportTar()),
  exportRevision: async (_handle, scope) => {
    const { sourceId } = await engine.sources.create({ displayName: 's', uploadedSnapshot: {} })
    const job = await engine.sources.startImport(sourceId, {
      uploadedSnapshot: { files: { '/a': 'secret' } },
    })
    await engine.sources.waitForJob(job)
    return drain(scope.sources.exportTar({ sourceId }))
  },
  exportBundle: (handle) => drain(handle.exportBundle()),
  // The session has no commit yet.
  exportCommits: (handle) =>
    drain(handle.commits.exportBundle()).catch((error: unknown) => {
      if ((error as { readonly reason?: string }).reason !== 'COMMIT_NOT_FOUND') throw error
    }),
  fetchRepository: async (handle, scope) => (await openRepository(scope, handle.id)).head(),
  pushRepository: async (handle, scope) => (await openRepository(scope, handle.id)).checkPush(),
  checkout: (handle) => handle.checkout(join(directory, 'out')),
  syncCheckout: async (handle) => {
    // A checkout is synced by the handle that made it: permission to check out alone is not enough.
    const checkout = await handle.checkout(join(directory, 'out'))
    return checkout.sync()
  },
  exec: (handle) => handle.exec({ command: 'true' }),
  'fs.read': ({ fs }) => fs.promises.readFile('/a'),
  'fs.write': ({ fs }) => fs.promises.writeFile('/a', 'changed'),
}

const withheld = Object.entries(nativeActions).flatMap(([action, needs]: [string, Needs]) =>
  needs.capabilities.map((capability) => [action as keyof typeof nativeActions, capability] as const),
)

describe('actions in process', () => {
  test.each(withheld.filter(([action]) => action !== 'syncCheckout'))(
    'reject %s without %s and change nothing',
    async (action, capability) => {
      const before = await pictureOf(session)
      const without = [capability]
      const attempt = natively[action](session.narrow({ without }), engine.narrow({ without }))
      // In the fs view the engine's error is the cause.
      const thrown = (await attempt.catch((error: unknown) => error)) as Error
      expect(action.startsWith('fs.') ? thrown.cause : thrown).toEqual(denied(action, capability))
      expect(await pictureOf(session)).toEqual(before)
      const rest = { without: capabilities.filter((one) => !table[action]!.capabilities.includes(one)) }
      await natively[action](session.narrow(rest), engine.narrow(rest))
    },
  )

  test('a checkout can only be synced by a handle that may change files', async () => {
    const target = join(directory, 'out')
    const reader = await session.narrow({ without: ['files.write'] }).checkout(target)
    const before = await session.manifest()
    rmSync(join(target, 'a'))
    await expect(reader.sync()).rejects.toEqual(denied('syncCheckout', 'files.write'))
    expect(await session.manifest()).toEqual(before)
    const rest = capabilities.filter((one) => !capabilitiesOf('syncCheckout').includes(one))
    const checkout = await session.narrow({ without: rest }).checkout(target, { force: true })
    rmSync(join(target, 'a'))
    expect(await checkout.sync()).toMatchObject({ removed: ['/a'] })
  })
})

/** Requests that meet a condition, by action and condition. */
const conditional: Readonly<Record<string, (handle: Session, scope: EngineScope) => Promise<unknown>>> = {
  'createSession source': async (_handle, scope) => {
    const { sourceId } = await engine.sources.create({ displayName: 's', uploadedSnapshot: {} })
    const files = { '/a': 'secret' }
    await engine.sources.waitForJob(
      await engine.sources.startImport(sourceId, { uploadedSnapshot: { files } }),
    )
    return scope.sessions.create({ sourceRef: { sourceId } })
  },
  'forkSession checkpoint': (handle) => handle.fork({ checkpointLabel: 'one' }),
  'diff checkpoint': (handle) => handle.diff({ checkpointLabel: 'one' }).paths(),
  'diff otherSession': async (handle) => {
    const other = await engine.sessions.create({ files: { '/other': '' } })
    return handle.diff({ sessionId: other.id }).paths()
  },
  'resolveState checkpoint': (handle) => handle.at({ checkpointLabel: 'one' }),
  'readFileAt checkpoint': ({ id }, scope) =>
    callOperation(scope, 'readFileAt', { sessionId: id, at: { checkpointLabel: 'one' }, path: '/a' }),
  'statPathAt checkpoint': ({ id }, scope) =>
    callOperation(scope, 'statPathAt', { sessionId: id, at: { checkpointLabel: 'one' }, path: '/a' }),
  'listDirectoryAt checkpoint': ({ id }, scope) =>
    callOperation(scope, 'listDirectoryAt', { sessionId: id, at: { checkpointLabel: 'one' }, path: '/' }),
  'getManifestAt checkpoint': ({ id }, scope) =>
    callOperation(scope, 'getManifestAt', { sessionId: id, at: { checkpointLabel: 'one' } }),
  'mergeSession checkpoint': (handle) => handle.merge({ sessionId: handle.id, checkpointLabel: 'one' }),
  'mergeSession otherSession': async (handle) => {
    const { id } = await (await engine.sessions.open(handle.id)).fork()
    return handle.merge({ sessionId: id })
  },
  'diffFiles checkpoint': ({ id }, scope) =>
    callOperation(scope, 'diffFiles', { sessionId: id, from: { checkpointLabel: 'one' } }),
  'diffFiles otherSession': async ({ id }, scope) => {
    const other = await engine.sessions.create({ files: { '/other': '' } })
    return callOperation(scope, 'diffFiles', { sessionId: id, from: { sessionId: other.id } })
  },
  'exportTar checkpoint': (handle) => drain(handle.exportTar({ checkpointLabel: 'one' })),
  'applyBatch borrowed': async ({ files }) => {
    const borrowed = { offset: 0, length: 6, hash: await hashOf('/a') }
    await files.batch([{ segmentWrite: { path: '/copy', segments: [{ borrowed }] } }])
  },
  'patchSegments borrowed': async ({ files }) => {
    const borrowed = { offset: 0, length: 6, hash: await hashOf('/a') }
    await files.patchSegments({ mutations: [{ path: '/copy', segments: [{ borrowed }] }] })
  },
}

const conditions = Object.entries(table).flatMap(([action, { when = {} }]) =>
  Object.entries(when).flatMap(([condition, needed]) =>
    needed.map((capability) => [action, condition as Condition, capability] as const),
  ),
)

describe('the conditional requirements of a request', () => {
  test('are tested for every condition of the table', () => {
    expect(new Set(conditions.map(([action, condition]) => `${action} ${condition}`))).toEqual(
      new Set(Object.keys(conditional)),
    )
  })

  test.each(conditions)('reject %s with %s without %s and change nothing', async (...row) => {
    const [action, condition, capability] = row
    const before = await pictureOf(session)
    const without = [capability]
    const attempt = conditional[`${action} ${condition}`]!
    await expect(attempt(session.narrow({ without }), engine.narrow({ without }))).rejects.toEqual(
      denied(action, capability),
    )
    const { sessions: _, ...after } = (await pictureOf(session)) as { sessions: number }
    expect(before).toMatchObject(after)
    const needed = [...table[action]!.capabilities, ...Object.values(table[action]!.when!).flat()]
    const rest = { without: capabilities.filter((one) => !needed.includes(one)) }
    await attempt(session.narrow(rest), engine.narrow(rest))
  })

  test('are checked against the request as it was read', async () => {
    const narrow = session.narrow({ without: ['history'] })
    const fork = <Given extends object>(given?: Given): Given & { readonly checkpointLabel?: string } => {
      let reads = 0
      return Object.defineProperty({ ...given } as Given, 'checkpointLabel', {
        enumerable: true,
        get: () => (reads++ === 0 ? undefined : 'one'),
      })
    }
    expect((await narrow.fork(fork())).fs.existsSync('/new')).toBe(true)
    expect((await drain(narrow.exportTar(fork()))).includes('new')).toBe(true)
    expect((await narrow.diff(fork({ sessionId: session.id })).paths()).added).toEqual([])
  })
})

describe('a handle without files.read', () => {
  let blind: Session

  beforeEach(() => {
    blind = session.narrow({ without: ['files.read'] })
  })

  test('does not learn the hash of a file when a guard fails', async () => {
    const expectedHash = `sha256:${'0'.repeat(64)}`
    const attempts = [
      (handle: Session) => handle.files.write({ path: '/a', content: '', expectedHash }),
      (handle: Session) => handle.files.append({ path: '/a', content: '', expectedHash }),
      (handle: Session) => handle.files.delete({ path: '/a', expectedHash }),
      (handle: Session) => handle.files.unlink({ path: '/a', expectedHash }),
      (handle: Session) => handle.files.batch([{ write: { path: '/a', content: '', expectedHash } }]),
      (handle: Session) =>
        handle.files.patchSegments({ mutations: [{ path: '/a', segments: [], expectedHash }] }),
    ]
    for (const attempt of attempts) {
      const reason = 'HASH_MISMATCH'
      await expect(attempt(blind)).rejects.toMatchObject({ reason, details: { path: '/a', expectedHash } })
      await expect(attempt(blind)).rejects.not.toMatchObject({
        details: { actualHash: expect.anything() as unknown },
      })
      await expect(attempt(session)).rejects.toMatchObject({ details: { actualHash: await hashOf('/a') } })
    }
  })

  test('does not learn the hash of a file when a guard in a draft fails', async () => {
    const write = { path: '/a', content: '', expectedHash: `sha256:${'0'.repeat(64)}` }
    await using draft = await blind.draft()
    const refused = (await draft.files.write(write).catch((error: unknown) => error)) as EngineError
    expect([refused.reason, refused.details]).toEqual([
      'HASH_MISMATCH',
      { path: '/a', expectedHash: write.expectedHash },
    ])
    await using open = await session.draft()
    await expect(open.files.write(write)).rejects.toMatchObject({
      details: { actualHash: await hashOf('/a') },
    })
  })

  test('cannot read content with node:fs flags that also write', async () => {
    const { fs } = blind
    for (const flag of ['r+', 'a+', 'w+', 'rs+', 'ax+', fs.constants.O_RDONLY | fs.constants.O_CREAT]) {
      expect(() => fs.readFileSync('/a', { flag: flag as string }), String(flag)).toThrow(/EACCES/)
      await expect(fs.promises.readFile('/a', { flag: flag as string })).rejects.toMatchObject({
        code: 'EACCES',
      })
      expect(() => fs.openSync('/a', flag), String(flag)).toThrow(/EACCES/)
    }
    expect(() => fs.copyFileSync('/a', '/copy')).toThrow(/EACCES/)
    await expect(fs.promises.copyFile('/a', '/copy')).rejects.toMatchObject({ code: 'EACCES' })
    await expect(fs.promises.cp('/a', '/copy')).rejects.toMatchObject({ code: 'EACCES' })
    expect(() => fs.cpSync('/a', '/copy')).toThrow(/EACCES/)
    expect(() => fs.watch('/')).toThrow(/EACCES/)
    await expect(fs.promises.watch('/')[Symbol.asyncIterator]().next()).rejects.toMatchObject({
      code: 'EACCES',
    })
    expect(session.fs.readFileSync('/a', 'utf8')).toBe('secret')
    expect(session.fs.readdirSync('/')).toEqual(['a', 'd', 'new'])
  })

  test('can write, and can close files that it opened for writing', async () => {
    const { fs } = blind
    const fd = fs.openSync('/b', 'w')
    fs.writeSync(fd, 'one')
    expect(() => fs.readSync(fd, Buffer.alloc(3))).toThrow(/EACCES/)
    fs.closeSync(fd)
    expect(() => fs.closeSync(fd)).toThrow(/EACCES|EBADF/)
    const handle = await fs.promises.open('/b', 'a')
    await handle.write(new Uint8Array())
    await handle.write('two')
    await handle.close()
    const stream = fs.createWriteStream('/c')
    await new Promise((resolve, reject) => stream.on('error', reject).end('three', () => resolve(undefined)))
    expect(session.fs.readFileSync('/b', 'utf8')).toBe('onetwo')
    expect(session.fs.readFileSync('/c', 'utf8')).toBe('three')
  })

  test('sees neither the base fingerprint nor files in events', async () => {
    expect((await session.get()).baseFingerprint).not.toBe('')
    expect((await blind.restore({ checkpointLabel: 'one' })).baseFingerprint).toBe('')
    for (const { details } of (await blind.events.list()).events) expect(details).toEqual({})
  })
})

describe('events', () => {
  const neededForDetails: Readonly<Record<string, readonly Capability[]>> = {
    WriteFile: ['files.read'],
    AddAnnotation: ['annotations', 'files.read'],
    RequestApproval: ['approvals'],
    LockFile: ['locks'],
    ReportHealth: ['health'],
    PutSecret: ['secrets'],
    CreateSession: ['files.read'],
    CreateCheckpoint: ['files.read'],
  }

  beforeEach(async () => {
    await session.annotations.add({ filePath: '/a', expectedContentHash: await hashOf('/a') })
    await session.approvals.request({ details: { summary: 'hidden' } })
    await session.fileLocks.lock({ path: '/a', timeoutSeconds: 60 })
    await session.secrets.put({ secretName: 'hidden', secretValue: 'x' })
    const reportContent = '<testsuite><testcase name="a"/></testsuite>'
    await session.health.report({ reportFormat: 'junit-xml/v1', reportContent })
  })

  test.each(
    Object.entries(neededForDetails).flatMap(([type, needed]) => needed.map((one) => [type, one] as const)),
  )('hide the details of %s without %s, and only those', async (type, capability) => {
    const { events } = session.narrow({ without: [capability] })
    const all = (await session.events.list()).events
    const shown = (await events.list()).events
    const followed: unknown[] = []
    for await (const event of events.follow()) {
      followed.push(event)
      if (followed.length === all.length) break
    }
    expect(followed).toEqual(shown)
    const known: Readonly<Record<string, readonly Capability[]>> = neededForDetails
    const expected = all.map(({ eventType, details }) =>
      known[eventType.split('.')[2]!]!.includes(capability) ? {} : details,
    )
    expect(shown.map(({ details }) => details)).toEqual(expected)
  })

  test('and listings hide lock ids from a handle that may not release the locks of others', async () => {
    const path = '/a'
    const narrow = session.narrow({ without: ['locks.force'] })
    const [lock] = (await narrow.fileLocks.list()).locks
    expect(lock).toMatchObject({ path, lockId: '', ownerId: 'local' })
    const shown = (await narrow.events.list()).events.find(({ eventType }) => eventType.endsWith('LockFile'))
    expect(shown!.details).toEqual({ path })
    const [whole] = (await session.fileLocks.list()).locks
    await narrow.fileLocks.renew({ path, lockId: whole!.lockId, timeoutSeconds: 1 })
  })
})

describe('a diff', () => {
  test('reveals nothing of a session whose handle may not read it', async () => {
    const other = await engine.sessions.create({ files: { '/other': '' } })
    await expect(session.diff(other.narrow({ without: ['files.read'] })).paths()).rejects.toMatchObject({
      reason: 'PERMISSION_DENIED',
    })
    const confined = session.narrow({ without: ['sessions'] })
    await expect(confined.diff({ sessionId: other.id }).paths()).rejects.toEqual(denied('diff', 'sessions'))
    expect(await confined.diff(other).paths()).toMatchObject({ removed: ['/other'] })
    expect((await confined.diff({ sessionId: session.id, base: true }).paths()).added).toEqual(['/new'])
  })
})

describe('a scope', () => {
  test('reaches no other session by an id that is assigned to it', async () => {
    const other = await session.fork()
    await other.files.write({ path: '/other', content: 'other' })
    const handle = session.narrow({ without: ['sessions'] })
    const fork = await handle.fork()
    const own = { added: ['/new'], removed: [], modified: [] }
    for (const one of [handle, fork]) Object.defineProperty(one, 'id', { value: other.id })
    expect(await handle.diff(fork).paths()).toEqual({ added: [], removed: [], modified: [] })
    expect(await handle.diff('base').paths()).toEqual(own)
    expect(await handle.merge(fork)).toMatchObject({ merged: false })
    expect((await handle.analytics()).sessionId).toBe(session.id)
    await handle.delete()
    await expect(session.get()).rejects.toMatchObject({ reason: 'SESSION_NOT_FOUND' })
    expect((await other.get()).id).toBe(other.id)
  })

  test('imports no approvals and annotations from a bundle that it could not make itself', async () => {
    const request = await session.approvals.request()
    await session.approvals.grant(request)
    const expectedContentHash = await hashOf('/a')
    await session.annotations.add({ filePath: '/a', expectedContentHash, comment: 'note' })
    const bundle = await drain(session.exportBundle())
    const counts = async (scope: EngineScope): Promise<readonly number[]> => {
      const { id } = await scope.sessions.importBundle(bundle)
      const copy = await engine.sessions.open(id)
      const [{ approvals }, { annotations }] = await Promise.all([
        copy.approvals.list(),
        copy.annotations.list(),
      ])
      return [approvals.length, annotations.length]
    }
    expect(await counts(engine.narrow({ without: ['approvals.decide'] }))).toEqual([0, 1])
    expect(await counts(engine.narrow({ without: ['annotations'] }))).toEqual([1, 0])
    expect(await counts(engine.narrow({ without: ['secrets'] }))).toEqual([1, 1])
    await using strict = await openEngine({ authorize: (_caller, action) => action !== 'grantApproval' })
    const { approvals } = await (await strict.sessions.importBundle(bundle)).approvals.list()
    expect(approvals).toEqual([])
  })

  test('that is narrowed returns narrowed handles', async () => {
    const scope = engine.narrow({ without: ['files.write', 'usage'] })
    const made = await scope.sessions.create({ files: { '/a': 'one' } })
    const opened = await scope.sessions.open(session.id)
    for (const handle of [made, opened, await made.fork()])
      await expect(handle.files.delete({ path: '/a' })).rejects.toEqual(denied('deleteFile', 'files.write'))
    expect(() => scope.usage.sent(5)).toThrow(
      expect.objectContaining({ reason: 'PERMISSION_DENIED' }) as Error,
    )
    const narrower = scope.narrow({ without: ['files.read'] })
    await expect(narrower.usage.metrics()).rejects.toEqual(denied('getCasMetrics', 'usage'))
    expect((await narrower.sessions.list()).sessions[0]!.baseFingerprint).toBe('')
  })
})

describe('authorize', () => {
  test.each([1, 'yes', {}, Promise.resolve(true)])('allows nothing with the answer %s', async (answer) => {
    await using own = await openEngine({ authorize: () => answer as boolean })
    await expect(own.sessions.create()).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' })
  })

  test('hides the hash of a content without permission to hash it, and lock ids without permission to force locks', async () => {
    const refused = new Set<Action>()
    const own = await openEngine({ authorize: (_caller, action) => !refused.has(action) })
    try {
      const asked = await own.sessions.create({ files: { '/a': 'secret' } })
      await asked.fileLocks.lock({ path: '/a', timeoutSeconds: 60 })
      refused.add('contentHash').add('forceUnlockFile')
      const attempt = asked.files.delete({ path: '/a', expectedHash: `sha256:${'0'.repeat(64)}` })
      const error = (await attempt.catch((thrown: unknown) => thrown)) as { readonly details: object }
      expect(Object.keys(error.details)).toEqual(['path', 'expectedHash'])
      expect((await asked.fileLocks.list()).locks[0]!.lockId).toBe('')
      expect((await asked.events.list()).events.at(-1)!.details).toEqual({ path: '/a' })
    } finally {
      await own.close()
    }
  })

  test('decides by capability about every action with the same effect', async () => {
    const own = await openEngine({
      authorize: (_caller, action) => !capabilitiesOf(action).includes('files.write'),
    })
    try {
      const reader = await own.sessions.create({ files: { '/a': 'secret' } })
      await reader.checkpoint({ checkpointLabel: 'one' })
      const { manifestHash } = await reader.manifest()
      await expect(reader.restore({ checkpointLabel: 'one' })).rejects.toMatchObject({
        reason: 'PERMISSION_DENIED',
      })
      expect(() => reader.fs.copyFileSync('/a', '/b')).toThrow(/EACCES/)
      expect((await reader.manifest()).manifestHash).toBe(manifestHash)
    } finally {
      await own.close()
    }
  })
})

test('narrowing with an unknown capability lists the valid ones', () => {
  for (const handle of [session, engine])
    expect(() => handle.narrow({ without: ['comit' as Capability] })).toThrow(
      `without[0]: unknown capability "comit"; did you mean "commit"? The capabilities are ${capabilities.join(', ')}.`,
    )
})

test('the permissions page lists every capability, and every action with its requirements', async () => {
  const page = readFileSync(new URL('../../docs/permissions.md', import.meta.url), 'utf8')
  const [about, actions] = page.split('## What each action needs')
  const listed = Array.from(about!.matchAll(/^\| `([^`]+)`/gmu), ([, capability]) => capability)
  expect(listed).toEqual(capabilities)

  const code = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(', ')
  const rows = Object.entries(table).map(([action, { capabilities: all, when = {} }]) => {
    const more = Object.entries(when).map(([condition, further]) => `${condition}: ${code(further)}`)
    return `| \`${action}\` | ${code(all)} | ${more.join('; ')} |\n`
  })
  const introduction = actions!.slice(0, actions!.indexOf('\n|'))
  const written = `${about!}## What each action needs${introduction}
| action | needs | with |
| --- | --- | --- |
${rows.join('')}`
  // With `-u` this writes the table: npm run generate.
  await expect(await formatted('permissions.md', written)).toMatchFileSnapshot('../../docs/permissions.md')
})
