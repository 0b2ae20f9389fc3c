// oxlint-disable vitest/expect-expect -- The commands and the check of the world expect.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { openEngine, type Engine, type Session, type Storage } from '../../src/index.js'
import { fixedEnvironment } from '../../src/testing.js'
import { runs, seed } from '../support/seed.js'
import { fewStorages } from '../support/storages.js'

const path = fc.constantFrom('/a', '/b', '/dir/a', '/dir/b', '/dir/sub/c')
const group = fc.constantFrom(undefined, 'one', 'two')
const command = fc.oneof(
  { weight: 5, arbitrary: fc.record({ op: fc.constant('write' as const), path, text: fc.nat(99), group }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('remove' as const), path, group }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('rename' as const), path, to: path, group }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('link' as const), path, to: path, group }) },
  {
    weight: 1,
    arbitrary: fc.record({ op: fc.constant('mode' as const), path, mode: fc.constantFrom(0o600, 0o755) }),
  },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('checkpoint' as const) }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('restore' as const), state: fc.nat() }) },
  {
    weight: 4,
    arbitrary: fc.record({
      op: fc.constantFrom('undo' as const, 'redo' as const),
      count: fc.integer({ min: 1, max: 3 }),
      by: fc.constantFrom('event' as const, 'group' as const),
    }),
  },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('other' as const), path, text: fc.nat(99) }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constantFrom('merge' as const, 'abort' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      op: fc.constant('resolve' as const),
      use: fc.constantFrom('ours' as const, 'theirs' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ op: fc.constantFrom('reopen' as const, 'collect' as const) }) },
)
type Command = typeof command extends fc.Arbitrary<infer T> ? T : never
/** A change by one call, which one undo undoes. */
type Change = Exclude<
  Command,
  { op: 'undo' | 'redo' | 'reopen' | 'collect' | 'checkpoint' | 'other' | 'merge' | 'abort' }
>

/** A change of files in the reference: the hashes of the states before and after it. */
interface Done {
  readonly group: string | undefined
  readonly before: string
  readonly after: string
}

/** The reference: two stacks of states, and every state by the id of its event. */
class Reference {
  undo: Done[] = []
  redo: Done[] = []
  /** The stack before a merge with conflicts. */
  merging: readonly Done[] | undefined
  readonly states = new Map<string, string>()
  readonly labels: string[] = []

  changed(done: Done): void {
    this.undo.push(done)
    this.redo = []
  }

  /** A merge ends the redo, even if it changed no files. */
  merged(done: Done, isOpen: boolean): void {
    if (isOpen) this.merging = [...this.undo]
    if (done.before !== done.after) this.undo.push(done)
    this.redo = []
  }

  aborted(): void {
    this.undo = [...(this.merging ?? [])]
    this.redo = []
    this.merging = undefined
  }

  /** Moves changes from one stack to the other. Returns their number, and the state afterwards. */
  step(
    direction: 'undo' | 'redo',
    count: number,
    by: 'event' | 'group',
  ): [number: number, hash: string | undefined] {
    const [from, to] = direction === 'undo' ? [this.undo, this.redo] : [this.redo, this.undo]
    let moved = 0
    let hash: string | undefined
    let last: Done | undefined
    for (let units = 0; from.length > 0;) {
      const top = from.at(-1)!
      const isSame = by === 'group' && last?.group !== undefined && top.group === last.group
      if (!isSame && ++units > count) break
      to.push(from.pop()!)
      moved++
      hash = direction === 'undo' ? top.before : top.after
      last = top
    }
    return [moved, hash]
  }
}

class World {
  readonly reference = new Reference()
  readonly #storage: Storage
  readonly #lasting: boolean
  readonly #environment = fixedEnvironment()
  #engine!: Engine
  #session!: Session
  /** A fork, to merge. */
  #other!: Session

  constructor(storage: Storage, lasting: boolean) {
    this.#storage = storage
    this.#lasting = lasting
  }

  async open(): Promise<void> {
    this.#engine = await this.#newEngine()
    this.#session = await this.#engine.sessions.create({ files: { '/a': 'base', '/dir/b': 'base' } })
    this.#other = await this.#session.fork()
    await this.#note()
  }

  #newEngine(): Promise<Engine> {
    return openEngine({ storage: this.#storage, environment: this.#environment, memoryBudgetBytes: 2 ** 20 })
  }

  async run(one: Command): Promise<void> {
    switch (one.op) {
      case 'undo':
      case 'redo': {
        if (this.reference.merging !== undefined) {
          await expect(this.#session[one.op]()).rejects.toMatchObject({ reason: 'UNRESOLVED_CONFLICTS' })
          return
        }
        const [count, hash] = this.reference.step(one.op, one.count, one.by)
        const preview = await this.#session[one.op]({ count: one.count, by: one.by, dryRun: true })
        const result = await this.#session[one.op]({ count: one.count, by: one.by })
        expect([preview.count, result.count]).toEqual([count, count])
        if (hash !== undefined) expect(await this.#hash()).toBe(hash)
        break
      }
      case 'reopen': {
        if (!this.#lasting) return
        await this.#engine.close()
        this.#engine = await this.#newEngine()
        this.#session = await this.#engine.sessions.open(this.#session.id)
        this.#other = await this.#engine.sessions.open(this.#other.id)
        return
      }
      case 'collect': {
        await this.#engine.collect({ keepRedo: true })
        return
      }
      case 'checkpoint': {
        const label = String(this.reference.labels.length)
        await this.#session.checkpoint({ checkpointLabel: label })
        this.reference.labels.push(label)
        break
      }
      case 'other':
        // A directory may be in the way.
        await this.#other.files.write({ path: one.path, content: String(one.text).repeat(50) }).catch(() => 0)
        return
      case 'merge':
        if (this.reference.merging === undefined) await this.#merge()
        break
      case 'abort':
        if (this.reference.merging === undefined) return
        await this.#session.conflicts.abort()
        this.reference.aborted()
        break
      default:
        await this.#change(one)
    }
    await this.#note()
  }

  async #merge(): Promise<void> {
    const before = await this.#hash()
    const { merged, conflicts } = await this.#session.merge(this.#other)
    const done = { group: undefined, before, after: await this.#hash() }
    if (merged) this.reference.merged(done, conflicts.length > 0)
  }

  async #change(one: Change): Promise<void> {
    const group = 'group' in one ? one.group : undefined
    const session = group === undefined ? this.#session : this.#session.group(group)
    const before = await this.#hash()
    const { eventCount } = await session.events.verify()
    try {
      await this.#apply(session, one)
    } catch {
      return
    }
    const isChange = (await session.events.verify()).eventCount > eventCount
    const after = await this.#hash()
    if (one.op === 'resolve') {
      this.reference.merging = undefined
      if (before === after) return
    }
    // A restore ends a merge.
    if (one.op === 'restore') this.reference.merging = undefined
    if (isChange) this.reference.changed({ group, before, after })
  }

  async #apply(session: Session, one: Change): Promise<void> {
    const { files } = session
    switch (one.op) {
      case 'write':
        return files.write({ path: one.path, content: String(one.text).repeat(50) })
      case 'remove':
        return session.fs.promises.rm(one.path, { recursive: true })
      case 'rename':
        return files.rename({ sourcePath: one.path, destinationPath: one.to })
      case 'link':
        return files.link({ srcPath: one.path, dstPath: one.to })
      case 'mode':
        return files.setMode({ path: one.path, mode: one.mode })
      case 'resolve':
        await session.conflicts.resolveAll({ use: one.use })
        return
      case 'restore': {
        const checkpointLabel = this.reference.labels[one.state % this.reference.labels.length]!
        await session.restore({ checkpointLabel })
      }
    }
  }

  /** Every recorded state reads the same as when it was the newest. */
  async check(): Promise<void> {
    for (const [eventId, hash] of this.reference.states) {
      using view = await this.#session.at({ eventId })
      expect((await view.manifest({ pageSize: 1 })).manifestHash).toBe(hash)
    }
  }

  async #hash(): Promise<string> {
    return (await this.#session.manifest({ pageSize: 1 })).manifestHash
  }

  async #note(): Promise<void> {
    using view = await this.#session.at()
    this.reference.states.set(view.eventId, await this.#hash())
  }

  close(): Promise<void> {
    return this.#engine.close()
  }
}

test.each(fewStorages)(
  `every state reads as it was, and undo and redo agree with two stacks on %s (FORKSPACE_SEED=${seed})`,
  { timeout: 120_000 },
  async (_name, makeStorage, lasting) => {
    const property = fc.asyncProperty(fc.array(command, { maxLength: 60, size: 'max' }), async (commands) => {
      const directory = await mkdtemp(join(tmpdir(), 'time-'))
      const world = new World(makeStorage(directory), lasting)
      try {
        await world.open()
        for (const one of commands) await world.run(one)
        await world.check()
      } finally {
        await world.close()
        await rm(directory, { recursive: true, force: true })
      }
    })
    await fc.assert(property, { seed, numRuns: runs(400) })
  },
)
