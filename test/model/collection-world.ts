import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect } from 'vitest'
import type { Disk } from '../../src/adapters/level/directory/disk.js'
import { openLevelStore } from '../../src/adapters/level/open-level-store.js'
import { systemEnvironment } from '../../src/adapters/system/index.js'
import { prefixEnd } from '../../src/engine/ports.js'
import {
  EngineError,
  openEngine,
  type Budgets,
  type Engine,
  type Session,
  type Store,
} from '../../src/index.js'
import { randomWords, toJSON } from '../../src/testing.js'

/** The expected contents of a session. */
export interface ModelSession {
  readonly id: string
  /** Contents by path. */
  files: Map<string, string>
  /** Files by the label of a checkpoint. */
  readonly checkpoints: Map<string, ReadonlyMap<string, string>>
  readonly cache: Map<string, string>
  readonly secrets: Map<string, string>
  annotations: number
  approvals: number
  locks: number
}

export function modelOf(id: string, files: ReadonlyMap<string, string> = new Map()): ModelSession {
  return {
    id,
    files: new Map(files),
    checkpoints: new Map(),
    cache: new Map(),
    secrets: new Map(),
    annotations: 0,
    approvals: 0,
    locks: 0,
  }
}

const masterKey = { id: 'one', key: new Uint8Array(32).fill(7) }

/** An engine on a small store with an adjustable clock, and the expected contents of its sessions. */
export class CollectionWorld {
  readonly directory = realpathSync(mkdtempSync(join(tmpdir(), 'collection-world-')))
  readonly hostRoot = join(this.directory, 'host')
  readonly sessions = new Map<string, ModelSession>()
  store!: Store
  engine!: Engine
  readonly #budgets: Budgets | undefined
  readonly #disk: Disk | undefined
  #offsetMs = 0

  constructor({ budgets, disk }: { readonly budgets?: Budgets; readonly disk?: Disk } = {}) {
    this.#budgets = budgets
    this.#disk = disk
    mkdirSync(this.hostRoot)
  }

  async open(): Promise<void> {
    const storage = {
      open: async () =>
        (this.store = await openLevelStore(join(this.directory, 'data'), {
          durability: 'relaxed',
          segmentBytes: 2 ** 18,
          flushEntries: 200,
          flushBytes: 2 ** 18,
          ...(this.#disk && { disk: this.#disk }),
        })),
    }
    this.engine = await openEngine({
      storage,
      environment: {
        wallClockMs: () => Date.now() + this.#offsetMs,
        monotonicMs: () => performance.now() + this.#offsetMs,
        randomFill: (bytes) => systemEnvironment.randomFill(bytes),
      },
      memoryBudgetBytes: 2 ** 20,
      secrets: { masterKey },
      hostPaths: { roots: [this.hostRoot] },
      ...(this.#budgets && { budgets: this.#budgets }),
    })
  }

  /** Takes the current contents of sessions as the expected ones, which requires that all referenced data can be read. */
  async adopt(): Promise<void> {
    this.sessions.clear()
    for (const id of await this.#listed()) {
      const session = await this.engine.sessions.open(id)
      const model = this.add(session, await filesOf(session))
      for (const { checkpointLabel } of (await session.listCheckpoints()).checkpoints) {
        const fork = await session.fork({ checkpointLabel })
        model.checkpoints.set(checkpointLabel, await filesOf(fork))
        await fork.delete()
      }
      for await (const key of session.cache) {
        const { value } = await session.cache.get({ key })
        model.cache.set(key, Buffer.from(value).toString())
      }
      for (const { secretName } of (await session.secrets.list()).secrets)
        model.secrets.set(secretName, (await session.secrets.get({ secretName })).secretValue.reveal())
      model.annotations = (await session.annotations.list()).annotations.length
      model.approvals = (await session.approvals.list()).approvals.length
      model.locks = (await session.fileLocks.list()).locks.length
    }
  }

  async reopen(): Promise<void> {
    await this.engine.close()
    await this.open()
  }

  async remove(): Promise<void> {
    await this.engine.close().catch(() => undefined)
    rmSync(this.directory, { recursive: true, force: true })
  }

  advance(ms: number): void {
    this.#offsetMs += ms
  }

  add(session: Session, files?: ReadonlyMap<string, string>): ModelSession {
    const model = modelOf(session.id, files)
    this.sessions.set(session.id, model)
    return model
  }

  /** Requires that sessions have their expected contents and that the store lacks nothing. */
  async verify(): Promise<void> {
    for (const model of this.sessions.values()) await expectSession(this.engine, model)
    expect((await this.#listed()).sort()).toEqual([...this.sessions.keys()].sort())
    expect((await this.engine.check({ readData: true })).findings).toEqual([])
  }

  async #listed(): Promise<string[]> {
    const listed: string[] = []
    for (let pageToken = ''; ;) {
      const page = await this.engine.sessions.list({ pageToken })
      listed.push(...page.sessions.map(({ id }) => id))
      pageToken = page.nextPageToken
      if (pageToken === '') return listed
    }
  }

  /** Deletes all sessions; the data left after a collection belongs to imports and checkouts. */
  async deleteAll(): Promise<void> {
    for (const id of this.sessions.keys()) await this.engine.sessions.delete(id)
    this.sessions.clear()
    await this.engine.collect()
    await this.verify()
    await expectOnlyImported(this.store)
  }
}

export async function filesOf(session: Session): Promise<Map<string, string>> {
  const files = new Map<string, string>()
  for (const [path, content] of Object.entries(await toJSON(session)))
    if (content !== null) files.set(path, content)
  return files
}

async function expectSession(engine: Engine, model: ModelSession): Promise<void> {
  const session = await engine.sessions.open(model.id)
  expectFiles(await filesOf(session), model.files, model.id)
  for (const [label, files] of model.checkpoints) {
    const fork = await session.fork({ checkpointLabel: label })
    expectFiles(await filesOf(fork), files, `${model.id} at ${label}`)
    await fork.delete()
  }
  const { entries } = await session.cache.batchGet({ keys: [...model.cache.keys()] })
  for (const { key, value, found } of entries) {
    expect(found, key).toBe(true)
    expect(Buffer.from(value).toString() === model.cache.get(key), key).toBe(true)
  }
  for (const [secretName, value] of model.secrets)
    expect((await session.secrets.get({ secretName })).secretValue.reveal()).toBe(value)
  expect((await session.annotations.list()).annotations.length).toBe(model.annotations)
  expect((await session.approvals.list()).approvals.length).toBe(model.approvals)
  expect((await session.fileLocks.list()).locks.length).toBe(model.locks)
  await session.events.verify()
}

const all = (store: Store, prefix: string): ReturnType<Store['scan']> =>
  store.scan({ gte: prefix, lt: prefixEnd(prefix), limit: Number.MAX_SAFE_INTEGER })

/** Computed from the hashes in records, independently of the engine's own marking. */
async function expectOnlyImported(store: Store): Promise<void> {
  const nodes = new Map((await all(store, 'n')).map(([key, json]) => [key.slice(1), json]))
  const blobs = new Set<string>()
  const reached = new Set<string>()
  const visit = (json: string): void => {
    for (const hash of hashesIn(json, 64)) blobs.add(hash)
    for (const address of hashesIn(json, 40)) {
      const node = nodes.get(address)
      if (node === undefined || reached.has(address)) continue
      reached.add(address)
      visit(node)
    }
  }
  for (const prefix of ['d', 'f', 'g', 'm', 's']) for (const [, json] of await all(store, prefix)) visit(json)
  const stored = await store.listBlobs!('', Number.MAX_SAFE_INTEGER)
  expect([...nodes.keys()].filter((address) => !reached.has(address))).toEqual([])
  expect(stored.map(({ hash }) => hash).filter((hash) => !blobs.has(hash))).toEqual([])
  for (const prefix of ['r', 'k', 'v', 'l', 'a', 'p', 'c', 'u', 'h', 'x', 't', 'q', 'i'])
    expect(await all(store, prefix), prefix).toEqual([])
  for (const [key] of await all(store, 's')) {
    const id = key.slice(-36)
    expect(await store.lastEvent(id), id).toBeUndefined()
  }
}

function hashesIn(json: string, digits: number): string[] {
  return (json.match(/"[0-9a-f]+"/g) ?? [])
    .map((text) => text.slice(1, -1))
    .filter(({ length }) => length === digits)
}

/** Compares contents by their first bytes only. */
export function expectFiles(
  found: ReadonlyMap<string, string>,
  wanted: ReadonlyMap<string, string>,
  of: string,
): void {
  const differing = (files: ReadonlyMap<string, string>, others: ReadonlyMap<string, string>): string[] =>
    [...files]
      .filter(([path, content]) => others.get(path) !== content)
      .map(([path, content]) => `${path} ${content.length} ${content.slice(0, 40)}`)
      .sort()
  expect(differing(found, wanted), of).toEqual(differing(wanted, found))
}

/** Random choices, reproducible from a seed. */
export class Dice {
  readonly #random: () => number

  constructor(seed: number) {
    this.#random = randomWords(seed)
  }

  below(count: number): number {
    return this.#random() % count
  }

  chance(percent: number): boolean {
    return this.below(100) < percent
  }

  pick<T>(from: Iterable<T>): T | undefined {
    const all = [...from]
    return all.length === 0 ? undefined : all[this.below(all.length)]
  }

  /** Usually short, occasionally several blocks long. */
  text(): string {
    const word = `${this.#random().toString(36)} `
    const bytes = this.chance(60) ? 20 + this.below(300) : this.chance(90) ? this.below(30_000) : 1_200_000
    return word.repeat(Math.ceil(bytes / word.length))
  }

  /** A few turns of the event loop, or none. */
  async pause(): Promise<void> {
    for (let turns = this.below(4); turns > 0; turns--) await nextTurn()
  }
}

/** The reason of a failure if it is one of these; rethrows other errors. */
export async function reasonAmong(reasons: readonly string[], work: Promise<unknown>): Promise<string> {
  try {
    await work
    return ''
  } catch (error) {
    if (error instanceof EngineError && reasons.includes(error.reason)) return error.reason
    throw error
  }
}
