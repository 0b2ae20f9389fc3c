import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openLevelStore } from '../../src/adapters/level/open-level-store.js'
import { openRepository } from '../../src/engine/contract.js'
import { keys, prefixEnd, type Store } from '../../src/engine/ports.js'
import {
  kindOf,
  recordKinds,
  sessionRecordKinds,
  type AnyRecordKind,
} from '../../src/engine/records/index.js'
import { textNames } from '../../src/engine/services/bundles/bundle-format.js'
import { keyPrefixes } from '../../src/engine/storage/keys.js'
import type { EncodedNode } from '../../src/engine/tree/encoded.js'
import { encodedReferences } from '../../src/engine/tree/references.js'
import { limits, memoryStorage, openEngine, type Engine } from '../../src/index.js'
import { fixedEnvironment } from '../../src/testing.js'
import { GitRepository, hasGit } from '../support/git-repository.js'

/** Key prefixes without records: nodes and blobs are found from records, events from their session. */
const objects: readonly string[] = [keyPrefixes.node, keyPrefixes.blob, keyPrefixes.event]

/** Too long to be stored in the record itself. */
const large = 'content '.repeat(4096)

/** Larger than one blob, with different blobs. */
const several = Array.from({ length: 2 ** 19 }, (_, at) => String(at).padStart(12, '0')).join('')

describe('the kinds of records', () => {
  test('cover every key prefix', () => {
    const withKind = new Set(recordKinds.map(({ prefix }) => prefix))
    expect([...withKind, ...objects].sort()).toEqual(Object.values(keyPrefixes).sort())
  })

  test('have distinct prefixes and names', () => {
    const prefixes = Object.values(keyPrefixes)
    expect(new Set(prefixes).size).toBe(prefixes.length)
    expect(prefixes.every((prefix) => prefix.length === 1)).toBe(true)
    const names = recordKinds.map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
  })

  test.each(recordKinds.map((kind) => [kind.name, kind] as const))(
    'reject text that is not JSON, and other JSON, as a record of kind %s',
    (name, kind) => {
      const references = { root: () => undefined, blob: () => undefined, record: () => undefined }
      const wrong = ['unfinished job'].includes(name) ? [] : ['', '{', '{"a":']
      if (!['seen directory', 'unfinished job'].includes(name)) wrong.push('null', '"text"', 'true')
      for (const json of wrong)
        expect(() => kind.readReferences(json, 'a key', references), json).toThrow(
          expect.objectContaining({
            reason: 'DATA_LOSS',
            message: expect.stringContaining(`${name} record a key`) as string,
          }),
        )
    },
  )
})

test('each kind of session record declares whether it is in bundles, and each text of a bundle has a kind', () => {
  const isSaid = ({ scope, bundle }: AnyRecordKind): boolean =>
    scope === 'tenant'
      ? bundle === undefined
      : bundle !== undefined && ('text' in bundle || bundle.absent !== '')
  expect(recordKinds.filter((kind) => !isSaid(kind)).map(({ name }) => name)).toEqual([])
  const texts = recordKinds.flatMap(({ bundle }) =>
    bundle !== undefined && 'text' in bundle ? bundle.text : [],
  )
  expect([...texts, 'events'].sort()).toEqual([...textNames].sort())
})

describe.skipIf(!hasGit)('the records of a store that holds every kind', () => {
  let directory: string
  let engine: Engine
  let store: Store
  const records: (readonly [key: string, json: string])[] = []
  const nodes = new Set<string>()
  const blobs = new Set<string>()

  beforeAll(async () => {
    directory = realpathSync(mkdtempSync(join(tmpdir(), 'records-')))
    const environment = fixedEnvironment({ stepMs: 0 })
    engine = await openEngine({
      environment,
      storage: {
        open: async () => (store = await openLevelStore(join(directory, 'data'), { durability: 'relaxed' })),
      },
      secrets: { masterKey: { id: 'one', key: new Uint8Array(32).fill(7) } },
      hostPaths: { roots: [directory] },
    })
    await useEverything(engine, directory, environment)
    for (const prefix of new Set(recordKinds.map((kind) => kind.prefix))) records.push(...(await all(prefix)))
    for (const [key] of await all(keys.node(''))) nodes.add(key.slice(1))
    for (const { hash } of await store.listBlobs!('', Number.MAX_SAFE_INTEGER)) blobs.add(hash)
  })

  afterAll(async () => {
    await engine.close()
    rmSync(directory, { recursive: true, force: true })
  })

  const all = (prefix: string): ReturnType<Store['scan']> =>
    store.scan({ gte: prefix, lt: prefixEnd(prefix), limit: Number.MAX_SAFE_INTEGER })

  test('include every kind', () => {
    const found = new Set(records.map(([key]) => kindOf(key)?.name))
    // Removed as soon as the job has ended.
    expect(recordKinds.map(({ name }) => name).filter((name) => !found.has(name))).toEqual(['unfinished job'])
    expect(found.has(undefined)).toBe(false)
  })

  test('have keys that match exactly one kind', () => {
    for (const [key] of records)
      expect(
        recordKinds.filter((kind) => kind.isKey(key)),
        key,
      ).toHaveLength(1)
  })

  test('report every blob and node that they reference', () => {
    const named = new Set<string>()
    expect(
      records.some(([key, json]) => kindOf(key)?.name === 'git object' && json.includes('"blobs"')),
    ).toBe(true)
    for (const [key, json] of records) {
      const reported = referencesOf(key, json)
      for (const hash of hashesIn(json)) {
        if (!nodes.has(hash) && !blobs.has(hash)) continue
        expect(reported.has(hash), `${key} names ${hash}`).toBe(true)
        named.add(kindOf(key)!.name)
      }
    }
    expect([...named].sort()).toEqual(
      [
        'cache entry',
        'checkout',
        'git object',
        'git tree',
        'lineage',
        'merge',
        'revision',
        'served commit',
        'session',
        'snapshot',
      ].sort(),
    )
  })

  test('report existing records', async () => {
    const referring = new Set<string>()
    let mostOthers = 0
    for (const [key, json] of records) {
      const others: string[] = []
      kindOf(key)!.readReferences(json, key, {
        root: () => undefined,
        blob: () => undefined,
        record: (other) => others.push(other),
      })
      mostOthers = Math.max(mostOthers, new Set(others).size)
      for (const other of others) {
        expect(await store.get(other), `${key} refers to ${other}`).toBeDefined()
        referring.add(kindOf(key)!.name)
      }
    }
    expect([...referring].sort()).toEqual(['revision label', 'source'])
    expect(mostOthers).toBe(2)
  })

  test('are reported as damaged by a check if a field is missing', async () => {
    const [key, json] = records.find(([one]) => kindOf(one)!.name === 'checkpoint')!
    const { seq: _, ...rest } = JSON.parse(json) as { seq: number }
    await store.commit({ put: [[key, rest]] })
    const { findings } = await engine.check()
    expect(findings).toEqual([
      expect.objectContaining({
        problem: 'damaged',
        object: `record ${key}`,
        message: expect.stringContaining('the field seq is missing or invalid') as string,
      }),
    ])
    await store.commit({ put: [[key, json]] })
    expect((await engine.check()).findings).toEqual([])
  })

  test('are reported as missing by a check if another record refers to them', async () => {
    const source = records.filter(([one]) => kindOf(one)!.name === 'source')
    const { latestRevisionId } = JSON.parse(source[0]![1]) as { latestRevisionId: string }
    const [key, json] = records.find(([one]) => one.endsWith(latestRevisionId))!
    await store.commit({ del: [key] })
    const { findings } = await engine.check()
    expect(findings.some(({ problem, object }) => problem === 'missing' && object === `record ${key}`)).toBe(
      true,
    )
    await store.commit({ put: [[key, json]] })
  })

  test('are in a bundle of their session if their kind says so', async () => {
    const { sessions } = await engine.sessions.list()
    const session = await engine.sessions.open(sessions[0]!.id)
    for (const { approvalId } of (await session.approvals.list()).approvals)
      await session.approvals.grant({ approvalId })
    const imported = await engine.sessions.importBundle(session.exportBundle())
    const kindsOf = async (sessionId: string): Promise<Set<string>> => {
      const found = new Set<string>()
      for (const kind of sessionRecordKinds)
        if ((await all(`${kind.prefix}${sessionId}`)).length > 0) found.add(kind.name)
      return found
    }
    const expected = sessionRecordKinds.filter(({ bundle }) => 'text' in bundle! || bundle!.madeAnew === true)
    expect((await kindsOf(session.id)).size).toBe(sessionRecordKinds.length)
    expect(await kindsOf(imported.id)).toEqual(new Set(expected.map(({ name }) => name)))
    await imported.delete()
  })

  test('stay complete after a collection', async () => {
    await engine.collect()
    expect((await engine.check({ readData: true })).findings).toEqual([])
  })
})

function referencesOf(key: string, json: string): Set<string> {
  const found = new Set<string>()
  const references = {
    node: (address: string) => void found.add(address),
    blob: (hash: string) => void found.add(hash),
    root: (root: EncodedNode) => encodedReferences(root, references),
    record: () => undefined,
  }
  kindOf(key)!.readReferences(json, key, references)
  return found
}

function hashesIn(json: string): string[] {
  return (json.match(/"[0-9a-f]{40}(?:[0-9a-f]{24})?"/g) ?? []).map((text) => text.slice(1, -1))
}

/** Creates a record of each kind. */
async function useEverything(
  engine: Engine,
  directory: string,
  environment: ReturnType<typeof fixedEnvironment>,
): Promise<void> {
  const { sources, sessions } = engine
  const done = async (job: ReturnType<typeof sources.startImport>): Promise<void> =>
    void (await sources.waitForJob(await job))
  const repository = GitRepository.create(join(directory, 'origin.git'))
  const files = [
    ['100644', 'src/a.txt', large],
    ['100644', 'src/several.txt', several],
  ] as const
  repository.commitFiles(files, 'refs/heads/main', 'first')
  const git = await sources.create({
    displayName: 'git',
    gitRepository: { path: repository.path, defaultRef: 'main' },
  })
  await done(sources.startImport(git.sourceId))
  const host = join(directory, 'host')
  mkdirSync(host)
  writeFileSync(join(host, 'b.txt'), large)
  const scanned = await sources.create({ displayName: 'host', hostPath: { path: host } })
  await done(sources.startImport(scanned.sourceId))
  const session = await sessions.create({ sourceRef: { sourceId: git.sourceId } })
  await session.files.write({ path: '/c.txt', content: `${large}c` })
  await session.files.setXattr({ path: '/c.txt', name: 'user.note', value: Buffer.from('note'.repeat(1000)) })
  await session.checkpoint({ checkpointLabel: 'one' })
  await (await openRepository(engine, session.id)).checkpoints()
  const promotion = await sources.promoteSession(git.sourceId, {
    sessionId: session.id,
    revisionLabel: 'v1',
  })
  await sources.waitForJob(promotion)
  await session.commit({
    message: 'kept',
    author: { name: 'Ada', email: 'ada@example.org' },
    gitBranch: { branchName: 'work' },
  })
  await session.cache.batchSet({
    entries: [
      { key: 'small', value: 'x' },
      { key: 'large', value: large.repeat(8) },
    ],
  })
  await session.secrets.put({ secretName: 'token', secretValue: 'hidden' })
  const expectedContentHash = await session.files.contentHash('/c.txt')
  await session.annotations.add({ filePath: '/c.txt', expectedContentHash, comment: 'a note' })
  await session.approvals.request({ details: { summary: 'please' } })
  await session.fileLocks.lock({ path: '/c.txt', timeoutSeconds: 1000 })
  await session.bus.publish({ topic: 't', payload: Buffer.from('message') })
  await session.health.report({
    reportFormat: 'junit-xml/v1',
    reportContent: '<testsuite><testcase name="a"/></testsuite>',
  })
  for (let i = 0; i < limits.eventsPerSnapshot; i++)
    await session.files.write({ path: '/many', content: `${i}` })
  await session.analytics()
  await session.checkout(join(directory, 'out'))
  // The latest revision of the source differs from that of the last scan.
  const other = await sessions.create({ sourceRef: { sourceId: scanned.sourceId } })
  await other.files.write({ path: '/new', content: '' })
  const promoted = { sessionId: other.id, revisionLabel: 'promoted' }
  await done(sources.promoteSession(scanned.sourceId, promoted))
  engine.usage.sent(1000)
  environment.advance(3_600_000)
  await session.files.read({ path: '/c.txt' })
  engine.usage.sent(1000)
  const gone = await sessions.create({ files: { '/x': 'x' } })
  environment.advance(1000)
  await gone.delete()
  await engine.collect()
  const fork = await session.fork()
  await fork.files.write({ path: '/many', content: 'theirs' })
  await session.files.write({ path: '/many', content: 'ours' })
  await session.merge(fork)
}

test('a source without a revision refers to none', async () => {
  await using engine = await openEngine({ storage: memoryStorage({ durable: true }) })
  await engine.sources.create({ displayName: 'empty', uploadedSnapshot: {} })
  expect((await engine.check()).findings).toEqual([])
})
