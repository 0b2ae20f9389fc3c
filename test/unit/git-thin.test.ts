/** Packs of a remote whose deltas are based on objects that they must not use. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openPackInMemory } from '../../src/adapters/git/pack/memory-pack.js'
import { memoryBytes } from '../../src/adapters/git/pack/random-bytes.js'
import { memoryStorage, openEngine, type Engine, type EngineScope } from '../../src/index.js'
import { failure } from '../support/git-harness.js'
import {
  commitBody,
  idDelta,
  idOf,
  makeDelta,
  offsetDelta,
  plainEntry,
  rawPack,
  treeBody,
  type TreeLine,
} from '../support/raw-pack.js'
import { openRawRemote, type RawRemote } from '../support/raw-remote.js'

interface Revision {
  readonly want: string
  readonly pack: Buffer
}

/** A commit of these lines, and the entries after it. */
function revision(lines: readonly TreeLine[], entries: readonly Buffer[]): Revision {
  const tree = treeBody(lines)
  const commit = commitBody(idOf('tree', tree))
  const all = [plainEntry('commit', commit), plainEntry('tree', tree), ...entries]
  return { want: idOf('commit', commit), pack: rawPack(all) }
}

const line = (name: string, body: Buffer): TreeLine => ['100644', name, idOf('blob', body)]
const blob = (body: Buffer): Buffer => plainEntry('blob', body)
const longer = (body: Buffer, end = '!'): Buffer => Buffer.concat([body, Buffer.from(end)])

/** A delta that makes its base longer or shorter. */
function deltaOf(base: Buffer, result: Buffer): Buffer {
  const end = result.subarray(base.length)
  return makeDelta(base.length, result.length, [[0, Math.min(base.length, result.length)], end])
}
const delta = (base: Buffer, result: Buffer): Buffer => idDelta(idOf('blob', base), deltaOf(base, result))

const known = Buffer.from('a file of the source that is refreshed')
const knownTree = treeBody([line('file', known)])
const foreign = Buffer.from('a file of another tenant')
const absent = Buffer.from('a file of no one')
const held = delta(absent, longer(absent))

const missing = (base: Buffer): string => `has the base ${idOf('blob', base)}`

/** The packs of a remote, and the expected errors in an import and in a refresh; undefined if it succeeds. */
const sent: Readonly<Record<string, readonly [Revision, inImport?: string, inRefresh?: string]>> = {
  'a base that is nowhere': [revision([line('a', longer(absent))], [held]), missing(absent), missing(absent)],
  'a base that another tenant has': [
    revision([line('a', longer(foreign))], [delta(foreign, longer(foreign))]),
    missing(foreign),
    missing(foreign),
  ],
  'a file that another tenant has': [
    revision([line('a', foreign)], []),
    `did not send the object ${idOf('blob', foreign)}`,
    `did not send the object ${idOf('blob', foreign)}`,
  ],
  'a base of another size': [
    revision([line('a', known)], [idDelta(idOf('blob', known), makeDelta(5, 5, [[0, 5]]))]),
    missing(known),
    'a delta is for another base',
  ],
  'a tree as the base of a file': [
    revision(
      [line('a', longer(knownTree))],
      [idDelta(idOf('tree', knownTree), deltaOf(knownTree, longer(knownTree)))],
    ),
    `has the base ${idOf('tree', knownTree)}`,
    `did not send the object ${idOf('blob', longer(knownTree))}`,
  ],
  'a tree as a file': [
    revision([['100644', 'a', idOf('tree', knownTree)]], [plainEntry('tree', knownTree), blob(known)]),
    'as a file, but it is a tree',
    'as a file, but it is a tree',
  ],
  'a known tree as a file': [
    revision([['100644', 'a', idOf('tree', knownTree)]], []),
    `did not send the object ${idOf('tree', knownTree)}`,
    'as a file, but it is a tree',
  ],
  'a file as a directory': [
    revision([['40000', 'a', idOf('blob', known)]], []),
    `did not send the object ${idOf('blob', known)}`,
    `${idOf('blob', known)} is not a tree`,
  ],
  'a base that comes twice': [
    revision([line('a', longer(known))], [blob(known), delta(known, longer(known)), blob(known)]),
  ],
  'a chain whose first base is known': [
    revision(
      [line('a', longer(known, '!!'))],
      [delta(longer(known), longer(known, '!!')), delta(known, longer(known))],
    ),
    'which is missing',
  ],
  'a chain whose first base is nowhere': [
    revision(
      [line('a', longer(absent, '!!'))],
      [held, offsetDelta(held.length, deltaOf(longer(absent), longer(absent, '!!')))],
    ),
    missing(absent),
    missing(absent),
  ],
  'a delta that makes its base': [revision([line('a', known)], [delta(known, known)]), missing(known)],
  'deltas that make the base of each other': [
    revision([line('a', known)], [delta(known, longer(known)), delta(longer(known), known)]),
    missing(known),
  ],
  'deltas that make the base of each other, which is nowhere': [
    revision([line('a', absent)], [held, delta(longer(absent), absent)]),
    missing(absent),
    missing(absent),
  ],
}

describe.each([true, false])('in a store that is durable: %s', (durable) => {
  let engine: Engine
  let remote: RawRemote
  let scope: EngineScope

  beforeAll(async () => {
    engine = await openEngine({ git: { allowPrivateAddresses: true }, storage: memoryStorage({ durable }) })
    remote = await openRawRemote()
  })
  afterAll(async () => {
    await engine.close()
    await remote[Symbol.asyncDispose]()
  })

  async function newSource(): Promise<string> {
    const source = { displayName: 's', gitRemote: { remoteUrl: remote.url } }
    return (await scope.sources.create(source)).sourceId
  }

  async function imported({ want, pack }: Revision, sourceId: string): Promise<void> {
    remote.serve(want, pack)
    await scope.sources.waitForJob(await scope.sources.startImport(sourceId, { git: {} }))
  }

  async function filesOf(sourceId: string): Promise<readonly string[]> {
    const { fs } = await scope.sessions.create({ sourceRef: { sourceId } })
    return fs.readdirSync('/').map((name) => `${name}: ${fs.readFileSync(`/${name}`, 'utf8')}`)
  }

  const cases = Object.entries(sent).flatMap(([what, [served, inImport, inRefresh]]) => [
    [what, 'an import', served, inImport] as const,
    [what, 'a refresh', served, inRefresh] as const,
  ])

  test.each(cases)('%s in %s', async (what, when, served, wrong) => {
    const isRefresh = when === 'a refresh'
    scope = engine.as({ tenant: 'other', principal: 'eve' })
    await imported(revision([line('foreign', foreign)], [blob(foreign)]), await newSource())
    scope = engine.as({ tenant: `${what} in ${when}`, principal: 'ann' })
    const sourceId = await newSource()
    const first = revision([line('known', known)], [blob(known), plainEntry('tree', knownTree)])
    if (isRefresh) await imported(first, sourceId)

    const attempt = imported(served, sourceId)
    const error = wrong === undefined ? undefined : await failure(attempt)
    await attempt.catch(() => undefined)
    expect(error?.details['errorCode']).toBe(wrong === undefined ? undefined : 'REMOTE_CORRUPT')
    expect(error?.message ?? '').toContain(wrong ?? '')

    const shown = await filesOf(sourceId).catch((thrown: { reason?: string }) => [thrown.reason ?? ''])
    const before = isRefresh ? `known: ${String(known)}` : 'SOURCE_WITHOUT_REVISION'
    const isBefore = shown.length === 1 && shown[0] === before
    expect(isBefore).toBe(wrong !== undefined)
    // The failed import does not block a later one.
    await imported(first, sourceId)
    expect(await filesOf(sourceId)).toEqual([`known: ${String(known)}`])
  })
})

test.each([
  ['a delta that makes its base', [delta(known, known)]],
  ['deltas that make the base of each other', [delta(known, longer(known)), delta(longer(known), known)]],
])('%s, in a pack with random access', async (_what, entries) => {
  const pack = await openPackInMemory(memoryBytes(rawPack(entries)), 'sha1', {
    signal: new AbortController().signal,
    getBase: (oid) =>
      Promise.resolve(oid === idOf('blob', known) ? { oid, type: 'blob', body: known } : undefined),
  })
  const error = await failure(pack.read(idOf('blob', known)))
  expect(error.reason).toBe('GIT_CORRUPT')
  expect(error.message).toContain('builds on itself')
})
