/** Opens a store, and reads and writes all of it on request. */
import { send } from 'node:process'
import { checkStore } from '../../src/adapters/level/index.js'
import { openLevelStore } from '../../src/adapters/level/open-level-store.js'
import { EngineError, type Store } from '../../src/engine/ports.js'

export const records = 900

export type Ask = 'open' | 'read' | 'check' | 'write' | 'close' | 'checkClosed'

export interface ReadReport {
  /** Reads that failed or returned data other than was written. */
  readonly wrong: readonly string[]
  /** The objects of findings. */
  readonly found: readonly string[]
}

let store: Store | undefined

process.on('message', ([ask, directory, round]: [Ask, string, number]) => {
  void act(ask, directory, round).then(
    (found) => process.send!({ wrong: [], found }),
    (error: unknown) => process.send!({ wrong: [textOf(error)], found: [] }),
  )
})

async function act(ask: Ask, directory: string, round: number): Promise<string[]> {
  if (ask === 'open') store = await openLevelStore(directory, { durability: 'relaxed', flushEntries: 200 })
  if (ask === 'write') await write(round)
  if (ask === 'read') await read(round)
  if (ask === 'check') return findings()
  if (ask === 'checkClosed') return (await checkStore(directory)).findings.map(({ object }) => object)
  if (ask === 'close') {
    const closing = store!.close()
    store = undefined
    await closing
  }
  return []
}

function keyOf(n: number): string {
  return `key ${n} ${'k'.repeat(n % 60)}`
}

async function write(round: number): Promise<void> {
  const writes: Promise<boolean>[] = []
  for (let n = 0; n < records; n++) writes.push(store!.commit({ put: [[keyOf(n), `value ${n} ${round}`]] }))
  const stored = await Promise.all(writes)
  if (!stored.every(Boolean)) throw new Error('a commit was passed over')
}

async function read(round: number): Promise<void> {
  for (let n = 0; n < records; n++) {
    const expected = `value ${n} ${round}`
    const now = getNow(keyOf(n))
    const later = await store!.get(keyOf(n))
    if (later !== expected || (now !== undefined && now !== expected))
      throw new Error(`${keyOf(n)} was read as ${later} and ${now}`)
  }
  const all = await store!.scan({ gte: 'key', lt: 'kez', limit: Infinity })
  if (all.length !== records) throw new Error(`${all.length} records were listed`)
}

/** Undefined if a synchronous read would have to wait. */
function getNow(key: string): string | undefined {
  try {
    return store!.getSync!(key)
  } catch (error) {
    if (error instanceof EngineError && error.reason === 'WOULD_BLOCK') return undefined
    throw error
  }
}

async function findings(): Promise<string[]> {
  const objects: string[] = []
  for await (const { object } of store!.check!({ signal: undefined })) objects.push(object)
  return objects
}

function textOf(error: unknown): string {
  return error instanceof EngineError ? `${error.reason}: ${error.message}` : String(error)
}

if (send === undefined) throw new Error('this is run by damaged-index')
