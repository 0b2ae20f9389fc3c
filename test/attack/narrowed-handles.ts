/**
 * Makes random calls on random narrowed handles, and on the objects that they return. Each capability covers data with
 * distinctive text: no result or error of a handle without the capability may contain that text, and a full handle must
 * find the covered data unchanged.
 */
import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { Readable, type Writable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { inspect, promisify } from 'node:util'
import {
  openEngine,
  type Capability,
  type Engine,
  type Session,
  type SessionDraft,
  type SessionFs,
} from '../../src/index.js'
import { fixedEnvironment } from '../../src/testing.js'
import type { AttackOptions, AttackResult } from './attacks.js'

/** The capabilities to withhold at random, with the texts that must then stay hidden; the session adds more. */
const texts: Readonly<Partial<Record<Capability, readonly string[]>>> = {
  'files.read': ['canary-content', 'canary-name', 'canary-xattr', sha256('canary-content')],
  history: ['canary-label'],
  annotations: ['canary-comment'],
  approvals: ['canary-summary'],
  secrets: ['canary-secret'],
  cache: ['canary-cached'],
  bus: ['canary-message'],
}

const others = [
  'files.write',
  'fork',
  'locks',
  'locks.force',
  'approvals.decide',
  'commit',
  'checkout',
  'exec',
  'health',
  'sessions',
] as const
const withholdable = [...(Object.keys(texts) as Capability[]), ...others]

const callsPerHandle = 80
const itemsTaken = 50

export async function narrowedHandles({ n, seed, onProgress }: AttackOptions): Promise<AttackResult> {
  const environment = fixedEnvironment({ seed })
  const random = (below: number): number => {
    const bytes = new Uint8Array(4)
    environment.randomFill(bytes)
    return new DataView(bytes.buffer).getUint32(0) % below
  }
  const found = new Set<string>()
  let calls = 0
  const engine = await openEngine()
  try {
    for (let i = 0; i < n; i++) {
      const session = await prepared(engine)
      const without = withholdable.filter(() => random(3) === 0)
      const secrets = await hiddenFrom(session, without)
      const before = await pictureOf(session)
      const handles = [session.narrow({ without })]
      for (let call = 0; call < callsPerHandle; call++) {
        const handle = handles[random(handles.length)]!
        const name = callNames[random(callNames.length)]!
        const shown = await outcome(() => attempts[name]!(handle, handles))
        calls++
        for (const text of secrets)
          if (shown.includes(text)) found.add(`${name} without ${without.join(', ')} shows ${text}`)
      }
      const after = await pictureOf(session)
      for (const [capability, covered] of Object.entries(before))
        if (without.includes(capability as Capability) && covered !== after[capability])
          found.add(`a handle without ${without.join(', ')} changed what ${capability} covers`)
      await session.delete()
      if (i % 100 === 99) onProgress(`${i + 1} handles, ${calls} calls, ${found.size} leaks`)
    }
  } finally {
    await engine.close()
  }
  for (const leak of [...found].slice(0, 20)) onProgress(leak)
  return { line: `${n} handles, ${calls} calls, ${found.size} leaks`, failed: found.size > 0 }
}

async function prepared(engine: Engine): Promise<Session> {
  const session = await engine.sessions.create({
    files: { '/known': 'canary-content', '/d/canary-name': 'x', '/e/f': 'y' },
  })
  await session.files.setXattr({ path: '/known', name: 'user.known', value: 'canary-xattr' })
  await session.checkpoint({ checkpointLabel: 'canary-label' })
  const expectedContentHash = await session.files.contentHash('/known')
  await session.annotations.add({ filePath: '/known', expectedContentHash, comment: 'canary-comment' })
  await session.approvals.request({ details: { summary: 'canary-summary' } })
  await session.secrets.put({ secretName: 'known', secretValue: 'canary-secret' })
  await session.cache.put({ key: 'known', value: 'canary-cached' })
  await session.bus.publish({ topic: 'known', payload: 'canary-message' })
  await session.fileLocks.lock({ path: '/known', timeoutSeconds: 3600 })
  session.fs.openSync('/known', 'r')
  return session
}

/** All texts that must be hidden from a handle. */
async function hiddenFrom(session: Session, without: readonly Capability[]): Promise<string[]> {
  const hidden = without.flatMap((one) => texts[one] ?? [])
  if (without.includes('locks.force') || without.includes('locks'))
    for (const { lockId } of (await session.fileLocks.list()).locks) hidden.push(lockId)
  if (without.includes('files.read')) {
    hidden.push((await session.get()).baseFingerprint)
    hidden.push((await session.manifest()).manifestHash.slice('sha256:'.length))
  }
  if (without.includes('history'))
    for (const { id } of (await session.listCheckpoints()).checkpoints) hidden.push(id)
  return hidden
}

/** The data of each capability that protects changes, as a full handle reads it. */
async function pictureOf(session: Session): Promise<Readonly<Record<string, string>>> {
  const { annotations, approvals, cache, fileLocks, health, secrets } = session
  const of = async (look: Promise<unknown>): Promise<string> => inspect(await look, { depth: 9 })
  const locks = (await fileLocks.list()).locks.map(({ lockId }) => lockId)
  return {
    'files.write': (await session.manifest()).manifestHash,
    history: await of(session.listCheckpoints()),
    annotations: await of(annotations.list()),
    approvals: String((await approvals.list()).approvals.length),
    'approvals.decide': await of(
      approvals.list().then(({ approvals: all }) => all.filter(({ decidedBy }) => decidedBy !== '')),
    ),
    cache: await of(cache.batchGet({ keys: ['known', 'mine'] })),
    secrets: await of(secrets.list()),
    health: await of(health.history()),
    locks: locks.join(),
  }
}

type Attempt = (handle: Session, handles: Session[]) => unknown

const guard = `sha256:${'0'.repeat(64)}`
const borrowed = { offset: 0, length: 4, hash: `sha256:${sha256('canary-content')}` }

const attempts: Readonly<Record<string, Attempt>> = {
  narrow: (handle, handles) => handles.push(handle.narrow({ without: [] })),
  fork: async (handle, handles) => handles.push(await handle.fork()),
  'fork of a checkpoint': async (handle, handles) => {
    const [checkpoint] = (await handle.listCheckpoints()).checkpoints
    handles.push(await handle.fork({ checkpointLabel: checkpoint!.checkpointLabel }))
  },
  get: (handle) => handle.get(),
  manifest: (handle) => handle.manifest(),
  analytics: (handle) => handle.analytics(),
  checkpoint: (handle) => handle.checkpoint(),
  listCheckpoints: (handle) => handle.listCheckpoints(),
  pruneCheckpoints: (handle) => handle.pruneCheckpoints({ keepLast: 1 }),
  restore: (handle) => handle.restore({ checkpointLabel: 'canary-label' }).catch(censor),
  diff: (handle) => handle.diff().paths(),
  'diff of handles': (handle, handles) => handle.diff(handles[0]).paths(),
  exportTar: (handle) => handle.exportTar(),
  exportBundle: (handle) => handle.exportBundle(),
  commit: (handle) => handle.commit({ message: 'mine' }),
  summary: (handle) => handle.generateCommitSummary(),
  events: (handle) => handle.events.list(),
  'each event': (handle) => handle.events,
  verify: (handle) => handle.events.verify(),
  read: ({ files }) => files.read({ path: '/known' }),
  readWithHash: ({ files }) => files.readWithHash({ path: '/known' }),
  readStream: ({ files }) => files.readStream({ path: '/known' }),
  'write of a stream': ({ files }) =>
    files.write({ path: '/known', content: Readable.from(['mine']), expectedHash: guard }),
  'each difference': (handle) => handle.diff(),
  contentHash: ({ files }) => files.contentHash('/known'),
  stat: ({ files }) => files.stat({ path: '/known', includeContentHash: true }),
  list: ({ files }) => files.list({ path: '/', recursive: true }),
  write: ({ files }) => files.write({ path: '/mine', content: 'mine' }),
  'guarded write': ({ files }) => files.write({ path: '/known', content: 'mine', expectedHash: guard }),
  'guarded delete': ({ files }) => files.delete({ path: '/known', expectedHash: guard }),
  'guarded batch': ({ files }) =>
    files.batch([{ write: { path: '/known', content: '', expectedHash: guard } }]),
  borrow: ({ files }) =>
    files.batch([{ segmentWrite: { path: '/mine', segments: [{ borrowed }] } }]).catch(censor),
  patch: ({ files }) =>
    files.patchSegments({ mutations: [{ path: '/mine', segments: [{ borrowed }] }] }).catch(censor),
  copy: ({ files }) => files.copy({ sourcePath: '/known', destinationPath: '/copy' }),
  rename: ({ files }) => files.rename({ sourcePath: '/e/f', destinationPath: '/e/g' }),
  link: ({ files }) => files.link({ srcPath: '/known', dstPath: `/linked` }),
  symlink: ({ files }) => files.createSymlink({ linkPath: '/sym', target: 'known' }),
  extents: ({ files }) => files.getCasExtents({ path: '/known' }),
  getXattr: ({ files }) => files.getXattr({ path: '/known', name: 'user.known' }),
  setXattr: ({ files }) => files.setXattr({ path: '/known', name: 'user.mine', value: 'mine' }),
  setMode: ({ files }) => files.setMode({ path: '/e', mode: 0o700 }),
  annotations: ({ annotations }) => annotations.list(),
  annotate: ({ annotations }) =>
    annotations.add({ filePath: '/known', expectedContentHash: guard, comment: 'mine' }),
  approvals: ({ approvals }) => approvals.list(),
  request: ({ approvals }) => approvals.request(),
  grant: async ({ approvals }) =>
    approvals.grant({ approvalId: (await approvals.list()).approvals[0]!.approvalId }),
  secrets: ({ secrets }) => secrets.list(),
  secret: async ({ secrets }) => (await secrets.get({ secretName: 'known' })).secretValue.reveal(),
  putSecret: ({ secrets }) => secrets.put({ secretName: 'mine', secretValue: 'mine' }),
  cached: ({ cache }) => cache.get({ key: 'known' }),
  swap: ({ cache }) => cache.compareAndSet({ key: 'known', newValue: 'mine' }),
  cache: ({ cache }) => cache.put({ key: 'mine', value: 'mine' }),
  publish: ({ bus }) => bus.publish({ topic: 'mine', payload: 'mine' }),
  messages: ({ bus }) => bus.subscribe({ replayLimit: 10, signal: AbortSignal.timeout(1) }),
  locks: ({ fileLocks }) => fileLocks.list(),
  lock: ({ fileLocks }) => fileLocks.lock({ path: '/mine', timeoutSeconds: 60 }),
  unlock: async ({ fileLocks }) => {
    for (const { path, lockId } of (await fileLocks.list()).locks) await fileLocks.unlock({ path, lockId })
  },
  health: ({ health }) => health.get(),
  report: ({ health }) =>
    health.report({ reportFormat: 'junit-xml/v1', reportContent: '<testsuite><testcase/></testsuite>' }),
  'fs.readFile': ({ fs }) => fs.promises.readFile('/known'),
  'fs.readFile r+': ({ fs }) => fs.promises.readFile('/known', { flag: 'r+' }),
  'fs.readFile a+': ({ fs }) => fs.readFileSync('/known', { flag: 'a+' }),
  'fs.readdir': ({ fs }) => fs.readdirSync('/', { recursive: true }),
  'fs.opendir': ({ fs }) => fs.opendirSync('/d').readSync()!.name,
  'fs.glob': ({ fs }) => fs.globSync('**'),
  'fs.stat': ({ fs }) => fs.statSync('/known'),
  'fs.realpath': ({ fs }) => fs.realpathSync('/known'),
  'fs.open': ({ fs }) => readOpened(fs, 'r'),
  'fs.open r+': ({ fs }) => readOpened(fs, 'r+'),
  'fs.open a+': ({ fs }) => readOpened(fs, 'a+'),
  'fs.open a': ({ fs }) => readOpened(fs, 'a'),
  'fs.createReadStream': ({ fs }) => fs.createReadStream('/known'),
  'fs.cp': ({ fs }) => fs.promises.cp('/d', '/copied', { recursive: true }),
  'fs.copyFile': ({ fs }) => fs.copyFileSync('/known', '/copied-file'),
  'fs.writeFile': ({ fs }) => fs.promises.writeFile('/mine', 'mine'),
  'fs.mkdtemp': ({ fs }) => fs.mkdtempSync('/tmp-'),
  'fs.utimes': ({ fs }) => fs.utimesSync('/e', 1, 1),
  'fs.fstat': ({ fs }) => withFd(fs, 'a', (fd) => fs.fstatSync(fd)),
  'fs.readv': ({ fs }) =>
    withFd(fs, 'a', (fd) => {
      const bytes = Buffer.alloc(100)
      fs.readvSync(fd, [bytes], 0)
      return bytes
    }),
  'fs.readFile of a descriptor': ({ fs }) => withFd(fs, 'a', (fd) => fs.readFileSync(fd, 'utf8')),
  'fs.read of a foreign descriptor': ({ fs }) => fs.readSync(foreignFd, Buffer.alloc(100)),
  'FileHandle.readFile': ({ fs }) => withFile(fs, 'a', (file) => file.readFile('utf8')),
  'FileHandle.stat': ({ fs }) => withFile(fs, 'a', (file) => file.stat()),
  'FileHandle.readLines': ({ fs }) => withFile(fs, 'a', (file) => textOf(file.readLines())),
  'FileHandle.createReadStream': ({ fs }) => withFile(fs, 'a', (file) => textOf(file.createReadStream())),
  'fs.createReadStream r+': ({ fs }) => fs.createReadStream('/known', { flags: 'r+' }),
  'fs.createWriteStream r+': ({ fs }) => ended(fs.createWriteStream('/known', { flags: 'r+' })),
  'fs.openAsBlob': async ({ fs }) => (await fs.openAsBlob('/known')).text(),
  'fs.readFile with a callback': ({ fs }) => promisify(fs.readFile)('/known'),
  'fs.readdir with a callback': ({ fs }) =>
    new Promise((resolve) => fs.readdir('/d', (error, names) => resolve(error ?? names))),
  'fs.watch': ({ fs }) => fs.watch('/').close(),
  'fs.watchFile': ({ fs }) => seenBy(fs),
  'fs.promises.watch': ({ fs }) => fs.promises.watch('/', { signal: AbortSignal.timeout(1) }),
  'fs.opendir recursive': ({ fs }) => fs.opendirSync('/', { recursive: true }),
  'fs.truncate': ({ fs }) => fs.promises.truncate('/mine', 2),
  'fs.rename': ({ fs }) => fs.promises.rename('/e', '/e2'),
  'fs.rm': ({ fs }) => fs.rmSync('/e', { recursive: true, force: true }),
  group: (handle, handles) => handles.push(handle.group('mine')),
  withMetadata: (handle, handles) => handles.push(handle.withMetadata({ mine: true })),
  'guarded write of a draft': (handle) =>
    withDraft(handle, ({ files }) => files.write({ path: '/known', content: '', expectedHash: guard })),
  'read of a draft': (handle) => withDraft(handle, ({ fs }) => fs.promises.readFile('/known')),
  'edit of a draft': (handle) => withDraft(handle, ({ text }) => text.edit({ path: '/known', ...unlike })),
  'commit of a draft': (handle) =>
    withDraft(handle, async (draft) => {
      await draft.files.write({ path: '/mine', content: 'mine' })
      return draft.commit()
    }),
  at: async (handle) => (await handle.at()).files.read({ path: '/known' }),
  'fs at': async (handle) => (await handle.at()).fs.readdirSync('/d'),
  'at of a checkpoint': async (handle) => (await handle.at(labelled)).eventId,
  undo: (handle) => handle.undo(),
  redo: (handle) => handle.redo(),
  'undo, tried': (handle) => handle.undo({ dryRun: true }),
  'restore, tried': (handle) => handle.restore({ from: labelled, dryRun: true }).catch(censor),
  'restore of paths': (handle) => handle.restore({ from: labelled, paths: ['/d'] }).catch(censor),
  history: (handle) => handle.history({ path: '/known' }),
  blame: (handle) => handle.blame({ path: '/known' }),
  lineage: (handle) => handle.lineage(),
  watch: (handle) => handle.watch({ signal: AbortSignal.timeout(1) }),
  follow: (handle) => handle.events.follow({ signal: AbortSignal.timeout(1) }),
  merge: (handle, handles) => handle.merge(handles[0]!),
  'merge of a checkpoint': (handle) => handle.merge({ sessionId: handle.id, ...labelled }).catch(censor),
  rebase: (handle) => handle.rebase(),
  conflicts: ({ conflicts }) => conflicts.list(),
  'abort of a merge': ({ conflicts }) => conflicts.abort(),
  commits: ({ commits }) => commits.list(),
  readLines: ({ text }) => text.readLines({ path: '/known' }),
  edit: ({ text }) => text.edit({ path: '/known', ...unlike }),
  applyPatch: ({ text }) => text.applyPatch({ patch: unlikePatch }),
  glob: ({ text }) => text.glob({ patterns: ['**'] }),
  grep: ({ text }) => text.grep({ pattern: 'canary' }),
}

const labelled = { checkpointLabel: 'canary-label' }
/** An edit of a text that the file has almost. An error shows the nearest lines. */
const unlike = { oldText: 'canary-contents', newText: 'mine' }
const unlikePatch = '--- a/known\n+++ b/known\n@@ -1 +1 @@\n-canary-contents\n+mine\n'
/** The number of the first descriptor of each view, which is also that of another handle. */
const foreignFd = 10_000

async function withFile<T>(
  { promises }: SessionFs,
  flag: string,
  use: (file: Awaited<ReturnType<SessionFs['promises']['open']>>) => T,
): Promise<Awaited<T>> {
  const file = await promises.open('/known', flag)
  try {
    return await use(file)
  } finally {
    await file.close()
  }
}

function withFd<T>(fs: SessionFs, flag: string, use: (fd: number) => T): T {
  const fd = fs.openSync('/known', flag)
  try {
    return use(fd)
  } finally {
    fs.closeSync(fd)
  }
}

async function withDraft<T>(handle: Session, use: (draft: SessionDraft) => T): Promise<Awaited<T>> {
  await using draft = await handle.draft()
  return await use(draft)
}

/** The first comparison of a watched file. */
async function seenBy(fs: SessionFs): Promise<unknown> {
  const listener = (): void => undefined
  const watcher = fs.watchFile('/known', { interval: 1, persistent: false }, listener)
  await nextTurn()
  fs.unwatchFile('/known', listener)
  return watcher
}

async function ended(stream: Writable): Promise<void> {
  await once(stream.end(), 'close')
}

const callNames = Object.keys(attempts)

function readOpened(fs: SessionFs, flag: string): string {
  const fd = fs.openSync('/known', flag)
  const bytes = Buffer.alloc(100)
  try {
    return bytes.toString('latin1', 0, fs.readSync(fd, bytes, 0, 100, 0))
  } finally {
    fs.closeSync(fd)
  }
}

/** Replaces results of calls that receive hidden data as arguments: only whether they succeed counts. */
function censor(): string {
  return 'refused'
}

/** Everything that a call reveals, as one text: its result, streamed data, or error. */
async function outcome(call: () => unknown): Promise<string> {
  try {
    return await textOf(await call())
  } catch (error) {
    return inspect(error, { depth: 9, showHidden: true })
  }
}

async function textOf(result: unknown): Promise<string> {
  if (result instanceof Uint8Array) return Buffer.from(result).toString('latin1')
  if (typeof result !== 'object' || result === null) return String(result)
  if (!(Symbol.asyncIterator in result))
    return inspect(result, { depth: 9, maxArrayLength: null }) + bytesIn(result)
  let text = ''
  let taken = 0
  for await (const item of result as AsyncIterable<unknown>) {
    text += await textOf(item)
    if (++taken === itemsTaken) break
  }
  return text
}

/** Bytes in a result, decoded as text. */
function bytesIn(result: object): string {
  return Object.values(result)
    .map((value: unknown) =>
      value instanceof Uint8Array
        ? Buffer.from(value).toString('latin1')
        : typeof value === 'object' && value !== null
          ? bytesIn(value)
          : '',
    )
    .join(' ')
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
