import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { levelStorage } from '../../src/adapters/level/index.js'
import { EngineError, openEngine, type Engine, type Session, type Store } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import type { AttackOptions, AttackResult } from './attacks.js'

/** A step of a load, repeated until the collection ends. */
type Load = (engine: Engine, base: Session, turn: number) => Promise<unknown>

const loads: Readonly<Record<string, Load>> = {
  writes: (_engine, base, turn) =>
    base.files.write({ path: `/w/${turn % 100}`, content: `content ${turn} `.repeat(20) }),
  forks: async (_engine, base) => base.fork(),
  'forks that write': async (_engine, base, turn) => {
    const fork = await base.fork()
    await fork.files.write({ path: '/forked', content: `fork ${turn}` })
    await base.files.write({ path: '/base', content: `base ${turn}` })
  },
  'sessions that come and go': async (engine, _base, turn) => {
    const session = await engine.sessions.create({ files: { '/a': `${turn}` } })
    await engine.sessions.delete(session.id)
  },
  'forks that come and go': async (engine, base) => engine.sessions.delete((await base.fork()).id),
  imports: async (engine, _base, turn) => {
    const { sourceId } = await engine.sources.create({ displayName: 'load', uploadedSnapshot: {} })
    const files = { '/a': `import ${turn}`, '/b': 'the same' }
    const job = await engine.sources.startImport(sourceId, { uploadedSnapshot: { files } })
    await engine.sources.waitForJob(job)
    await engine.sources.delete(sourceId)
  },
  checkpoints: async (_engine, base, turn) => {
    const checkpointLabel = `load ${turn}`
    await base.checkpoint({ checkpointLabel })
    await base.files.write({ path: '/c', content: `${turn}` })
    await base.restore({ checkpointLabel })
    await base.deleteCheckpoint({ checkpointLabel })
  },
  'cache entries': (_engine, base, turn) =>
    base.cache.put({ key: `${1e9 - turn}`, value: Buffer.alloc(8192, turn), ttlSeconds: 60 }),
}

/** Concurrent calls of a load. */
const atOnce = 8
const garbageBytes = 8 * 2 ** 20
/** Only a collection that never ends takes this long. */
const patienceMs = 60_000

/** Runs requested and automatic collections under each kind of load. Each must end and reclaim the space. */
export async function runCollectStarvation({ n, seed, onProgress }: AttackOptions): Promise<AttackResult> {
  const random = randomWords(seed)
  // The first half covers each load once per durability, so the short form covers both kinds of collection.
  const rounds = [false, true].flatMap((isSwapped) =>
    Object.entries(loads).flatMap((load) =>
      (['relaxed', 'full'] as const).map((durability) => ({
        load,
        durability,
        isAutomatic: (durability === 'full') !== isSwapped,
      })),
    ),
  )
  let longestMs = 0
  let turns = 0
  const failures: string[] = []
  for (let i = 0; i < n; i++) {
    const { load, durability, isAutomatic } = rounds[i % rounds.length]!
    const result = await round(load[1], { durability, isAutomatic }, random)
    longestMs = Math.max(longestMs, result.tookMs)
    turns += result.turns
    const kind = isAutomatic ? 'automatic' : 'called'
    const line = `${load[0]}, ${durability}, ${kind}: ${Math.round(result.tookMs)} ms beside ${result.turns} turns`
    onProgress(result.failure === undefined ? line : `${line}: ${result.failure}`)
    if (result.failure !== undefined) failures.push(load[0])
  }
  return {
    line: `${n} collections beside ${turns} turns of load, the longest ${Math.round(longestMs)} ms, ${failures.length} failed`,
    failed: failures.length > 0,
  }
}

interface Round {
  readonly tookMs: number
  readonly turns: number
  readonly failure: string | undefined
}

interface RoundOptions {
  readonly durability: 'full' | 'relaxed'
  /** true: the engine collects automatically; false: the attack calls `collect()`. */
  readonly isAutomatic: boolean
}

async function round(
  load: Load,
  { durability, isAutomatic }: RoundOptions,
  random: () => number,
): Promise<Round> {
  const directory = await mkdtemp(join(tmpdir(), 'collect-starvation-'))
  const inner = levelStorage(join(directory, 'data'), { durability })
  let store: Store | undefined
  const engine = await openEngine({
    storage: { open: async () => (store = await inner.open()) },
    memoryBudgetBytes: 4 * 2 ** 20,
    ...(isAutomatic && { automaticCollection: { garbageShare: 0.01, garbageBytes: 2 ** 16 } }),
  })
  let ended = false
  try {
    const base = await engine.sessions.create()
    await base.checkpoint({ checkpointLabel: 'before' })
    const garbage = Buffer.from(Uint32Array.from({ length: garbageBytes / 4 }, random).buffer)
    const hash = createHash('sha256')
      .update(garbage.subarray(0, 2 ** 20))
      .digest('hex')
    await base.files.write({ path: '/garbage', content: garbage })
    await base.files.delete({ path: '/garbage' })
    for (let i = 0; i < 200; i++) await base.files.write({ path: `/f${i % 7}`, content: `${i}` })
    await base.deleteCheckpoint({ checkpointLabel: 'before' })
    let turns = 0
    const lane = async (): Promise<void> => {
      while (!ended) await load(engine, base, turns++)
    }
    const lanes = Array.from({ length: atOnce }, lane)
    while (turns < 2 * atOnce) await sleep(1)
    const start = performance.now()
    const isGone = async (): Promise<boolean> =>
      (await store!.blob(hash, { offset: 0, length: 1 })) === undefined
    let failure: string | undefined
    if (isAutomatic) {
      while (!(await isGone()) && performance.now() - start < patienceMs) await sleep(5)
    } else {
      failure = await engine.collect({ signal: AbortSignal.timeout(patienceMs) }).then(
        ({ freedBytes }) => (freedBytes < garbageBytes ? `freed only ${freedBytes} bytes` : undefined),
        (error: Error) => `did not end: ${error.name}`,
      )
    }
    const tookMs = performance.now() - start
    ended = true
    await Promise.all(lanes)
    if (!(await isGone())) failure ??= 'the garbage is still there'
    const { found } = await engine.check()
    if (found > 0) failure ??= `the store has ${found} damaged objects`
    return { tookMs, turns, failure }
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    return { tookMs: 0, turns: 0, failure: `${error.reason}: ${error.message}` }
  } finally {
    ended = true
    await engine.close().catch(() => undefined)
    await rm(directory, { recursive: true, force: true })
  }
}
