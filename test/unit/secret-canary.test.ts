import { randomBytes } from 'node:crypto'
import { tracingChannel } from 'node:diagnostics_channel'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import { memoryStorage, openEngine, type Engine, type Storage } from '../../src/index.js'

const masterKey = randomBytes(32)
/** Contains characters that JSON and URLs encode, and no compressible bytes. */
const canary = `"ä\n${randomBytes(60)
  .toString('latin1')
  .replaceAll(/\p{Cc}/gu, '~')}\\😀`

/** The encodings in which the value, or a key, could be written. */
function formsOf(bytes: Buffer): Buffer[] {
  const base64 = (from: number): Buffer => {
    const text = bytes.subarray(from).toString('base64')
    return Buffer.from(text.slice(0, Math.floor(bytes.subarray(from).length / 3) * 4 - 4))
  }
  const text = bytes.toString()
  return [
    bytes,
    Buffer.from(text, 'utf16le'),
    Buffer.from(text, 'latin1'),
    Buffer.from(bytes.toString('hex')),
    Buffer.from(bytes.toString('hex').toUpperCase()),
    // At each alignment of the preceding bytes.
    ...[0, 1, 2].map(base64),
    ...[0, 1, 2].map((from) =>
      Buffer.from(base64(from).toString().replaceAll('+', '-').replaceAll('/', '_')),
    ),
    Buffer.from(JSON.stringify(text).slice(1, -1)),
    Buffer.from(JSON.stringify(JSON.stringify(text)).slice(3, -3)),
    Buffer.from(encodeURIComponent(text)),
    Buffer.from(JSON.stringify([...bytes]).slice(1, -1)),
    Buffer.from(inspect(text).slice(1, -1)),
  ]
}

const forms = [...formsOf(Buffer.from(canary)), ...formsOf(masterKey)]

function shows(where: Uint8Array | string): boolean {
  const bytes = Buffer.from(where as string)
  return forms.some((form) => bytes.includes(form))
}

/** All visible text of a value. */
function seen(thing: unknown): string {
  return [
    inspect(thing, { depth: null, showHidden: true, maxStringLength: null, maxArrayLength: null }),
    inspect(thing, { depth: null, customInspect: false, maxStringLength: null, maxArrayLength: null }),
    JSON.stringify(thing) ?? '',
    thing instanceof Error ? `${thing.stack ?? ''}${seen(thing.cause)}` : '',
  ].join('\n')
}

function filesOf(directory: string): [name: string, bytes: Buffer][] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== 'LOCK')
    .map((entry) => join(entry.parentPath, entry.name))
    .map((name) => [name, readFileSync(name)])
}

/** Reports every commit. */
function observed(inner: Storage, onCommit: (commit: unknown) => void): Storage {
  return {
    open: async () => {
      const store = await inner.open()
      const commit = store.commit.bind(store)
      return Object.assign(store, {
        commit: (what: Parameters<typeof commit>[0]) => {
          onCommit(what)
          return commit(what)
        },
      })
    },
  }
}

const kinds: [name: string, make: (directory: string) => Storage, durable: boolean][] = [
  ['memory', () => memoryStorage(), false],
  ['durable memory', () => memoryStorage({ durable: true }), true],
  ['level', (directory) => levelStorage(join(directory, 'data')), true],
]

test.each(kinds)('the value of a secret is visible nowhere on %s', async (name, make, durable) => {
  const directory = await mkdtemp(join(tmpdir(), 'canary-'))
  const commits: unknown[] = []
  const storage = observed(make(directory), (commit) => commits.push(commit))
  const traces: unknown[] = []
  const recordKeys: string[] = []
  const channel = tracingChannel('forkspace.operation')
  const keep = (context: unknown): void => void traces.push(context)
  const handlers = { start: keep, end: keep, asyncStart: keep, asyncEnd: keep, error: keep }
  channel.subscribe(handlers)
  const shown: [what: string, text: string][] = []
  const show = (what: string, thing: unknown): void => void shown.push([what, seen(thing)])
  const failing = async (what: string, attempt: Promise<unknown>): Promise<void> => {
    const error = await attempt.then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    expect(error, what).toBeInstanceOf(Error)
    show(what, error)
  }
  const open = (key: Uint8Array = masterKey): Promise<Engine> =>
    openEngine({ storage, secrets: { masterKey: { id: 'canary', key } } })
  let engine = await open()
  try {
    const session = await engine.sessions.create({ files: { '/a': 'one' } })
    const secretName = 'CANARY'
    const request = { secretName, secretValue: canary }
    const following = session.events.follow()
    show('put', await session.secrets.put(request))
    show('put again', await session.secrets.put(request))
    const secret = await session.secrets.get({ secretName })
    expect(secret.secretValue.reveal()).toBe(canary)
    show('get', secret)
    show('list', await session.secrets.list())
    await session.checkpoint({ checkpointLabel: 'c' })
    const fork = await session.fork()
    show('fork', await fork.get())
    await failing('of a fork', fork.secrets.get({ secretName }))
    await session.files.write({ path: '/b', content: 'two' })
    await session.restore({ checkpointLabel: 'c' })
    show('manifest', await session.manifest({ includeCasExtents: true }))
    show('fork manifest', await fork.manifest())
    show('diff', await session.diff('base').paths())
    show('commit', await session.commit({ message: 'all' }))
    show('summary', await session.generateCommitSummary())
    show('session', [session, session.secrets, await session.get(), await engine.sessions.list()])
    show('events', (await session.events.list()).events)
    show('followed', (await following.next()).value)
    await following.return()
    const { sourceId } = await engine.sources.create({
      displayName: 'closed',
      gitRemote: { remoteUrl: 'http://127.0.0.1:1/a.git' },
    })
    const job = await engine.sources.startImport(sourceId)
    await failing('job', engine.sources.waitForJob(job))
    show('job record', await engine.sources.getJob(job))
    for (const [what, change] of Object.entries({
      scope: { scope: canary },
      name: { secretName: canary.slice(0, 3) },
      size: { secretValue: canary.repeat(2000) },
      surrogate: { secretValue: `${canary}\ud800` },
    }))
      await failing(what, session.secrets.put({ ...request, ...change } as never))
    const narrow = session.narrow({ without: ['secrets'] })
    await failing('withheld put', narrow.secrets.put(request))
    await failing('withheld get', narrow.secrets.get({ secretName }))
    // The search finds the value where it is present.
    expect(shows(seen({ canary })) && shows(Buffer.from(masterKey).toString('base64'))).toBe(true)
    await engine.close()
    await failing('closed', session.secrets.put(request))
    show('engine', engine)
    if (durable) {
      engine = await open(randomBytes(32))
      const opened = await engine.sessions.open(session.id)
      await failing('another key', opened.secrets.get({ secretName }))
      await failing('rotation', engine.rotateSecrets())
      await opened.secrets.put({ secretName: 'OTHER', secretValue: canary })
      await engine.close()
      const store = await storage.open()
      const records = await store.scan({ gte: '', lt: '\u{10ffff}', limit: 100_000 })
      recordKeys.push(...records.map(([key]) => key))
      show('records', records)
      const events: unknown[] = []
      for await (const page of store.events(session.id, { from: 1, to: 1000 })) events.push(page)
      show('stored events', events)
      await store.close()
    }
    expect(recordKeys.some((key) => key.endsWith(secretName))).toBe(durable)
    expect(shown.filter(([, text]) => shows(text)).map(([what]) => what)).toEqual([])
    expect(traces.length).toBeGreaterThan(20)
    expect(traces.filter((trace) => shows(seen(trace)))).toEqual([])
    for (const trace of traces as { result?: { secretValue?: unknown } }[])
      expect(trace.result?.secretValue).toBeUndefined()
    expect(commits.length).toBeGreaterThan(3)
    expect(commits.filter((commit) => shows(seen(commit)))).toHaveLength(0)
    if (name !== 'level') return
    const files = filesOf(directory)
    expect(files.length).toBeGreaterThan(3)
    expect(files.filter(([, bytes]) => shows(bytes)).map(([file]) => file)).toEqual([])
    // File content is stored as plain bytes, so the search would have found the value.
    engine = await open()
    await engine.sessions.create({ files: { '/canary': canary } })
    await engine.close()
    expect(filesOf(directory).some(([, bytes]) => shows(bytes))).toBe(true)
  } finally {
    channel.unsubscribe(handlers)
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  }
})
