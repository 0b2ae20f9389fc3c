/**
 * One of several processes that use one schema of PostgreSQL, and collect it. It reports each change before the call and
 * after its promise has settled. It ends when its standard input ends.
 */
import { openSync, writeSync } from 'node:fs'
import { argv, stdin, stdout } from 'node:process'
import { openEngine, type Engine, type EngineError, type Session } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { sharedStorage } from './shared-storage.js'
import type { CollectingLine, CollectingWriterArguments, Files } from './collecting-protocol.js'

const settings = JSON.parse(argv[2] ?? '') as CollectingWriterArguments
const report = openSync(settings.report, 'a')
const random = randomWords(settings.seed)
let ends = false
stdin.resume().on('end', () => (ends = true))

/** Errors of an engine that was suspended, or that met another one. */
const expected = new Set([
  'STORE_FAILED',
  'STORE_TAKEN',
  'STORE_LOCKED',
  'SESSION_NOT_FOUND',
  'SESSION_MOVED',
])
const names = ['/a', '/b', '/c/d', '/c/e'] as const
/** The sessions that only this process changes. */
const own = new Map<string, { files: Files; readonly checkpoints: Map<string, Files> }>()

let engine = await open()
stdout.write('ready\n')
const collecting = collectAgain()
for (let n = 0; !ends; n++) {
  try {
    await step(n)
  } catch (error) {
    await failed(error)
  }
}
await collecting
await engine.close()

function open(): Promise<Engine> {
  return openEngine({ storage: sharedStorage(settings), memoryBudgetBytes: 2 ** 20 })
}

async function collectAgain(): Promise<void> {
  while (!ends) {
    try {
      await engine.collect()
      write({ kind: 'collected' })
    } catch (error) {
      const { reason } = error as EngineError
      if (!expected.has(reason) && reason !== 'STORE_CLOSED') write({ kind: 'error', text: String(error) })
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
}

async function failed(cause: unknown): Promise<void> {
  const { reason } = cause as EngineError
  if (!expected.has(reason)) write({ kind: 'error', text: String((cause as Error).stack) })
  if (reason !== 'STORE_TAKEN') return
  await engine.close().catch(() => undefined)
  engine = await open()
}

async function step(n: number): Promise<void> {
  const ids = [...own.keys()]
  const id = ids[random() % Math.max(1, ids.length)]
  const state = id === undefined ? undefined : own.get(id)
  const kind = random() % 12
  if (id === undefined || state === undefined || (kind === 0 && ids.length < 6)) {
    const files = Object.fromEntries(names.map((name) => [name, `${settings.name} ${n} ${name}`]))
    const session = await engine.sessions.create({ files })
    return add(session.id, files)
  }
  if (kind === 1 && ids.length < 8) {
    // A session of any process, which that process may delete at this moment.
    const { sessions } = await engine.sessions.list({})
    const other = sessions[random() % Math.max(1, sessions.length)]
    if (other === undefined) return
    const fork = await engine.sessions.open(other.id).then((session) => session.fork())
    return add(fork.id, await filesOf(fork))
  }
  const session = await engine.sessions.open(id)
  if (kind === 2 && ids.length > 3) return change(id, null, () => session.delete())
  if (kind === 3) {
    const label = `c${n}`
    await session.checkpoint({ checkpointLabel: label })
    state.checkpoints.set(label, state.files)
    return
  }
  const [label] = [...state.checkpoints.keys()].slice(random() % Math.max(1, state.checkpoints.size))
  const kept = label === undefined ? undefined : state.checkpoints.get(label)
  if (kind === 4 && label !== undefined && kept !== undefined)
    return change(id, kept, () => session.restore({ checkpointLabel: label }))
  if (kind === 5 && label !== undefined && kept !== undefined)
    return add((await session.fork({ checkpointLabel: label })).id, kept)
  if (kind === 6 && label !== undefined) {
    state.checkpoints.delete(label)
    await session.deleteCheckpoint({ checkpointLabel: label })
    return
  }
  const name = names[random() % names.length] ?? '/a'
  // Contents that were garbage for a while are written again.
  const content = String(random() % 9).repeat(1 + (random() % 5))
  await change(id, { ...state.files, [name]: content }, () =>
    session.files.write({ path: name, content, createParents: true }),
  )
}

async function filesOf(session: Session): Promise<Files> {
  const files: Record<string, string> = {}
  for (const name of names) files[name] = await session.fs.promises.readFile(name, 'utf8')
  return files
}

function add(id: string, files: Files): void {
  write({ kind: 'state', id, files })
  own.set(id, { files, checkpoints: new Map() })
}

/** Changes a session. If it is not known whether the change was stored, the session is used no more. */
async function change(id: string, next: Files | null, call: () => Promise<unknown>): Promise<void> {
  const before = own.get(id)
  write({ kind: 'call', id, files: next })
  try {
    await call()
  } catch (error) {
    if ((error as EngineError).details['outcome'] === 'not-applied' && before !== undefined)
      write({ kind: 'state', id, files: before.files })
    else own.delete(id)
    throw error
  }
  write({ kind: 'state', id, files: next })
  if (next === null) own.delete(id)
  else if (before !== undefined) before.files = next
}

function write(line: CollectingLine): void {
  writeSync(report, `${JSON.stringify(line)}\n`)
}
