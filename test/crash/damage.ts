import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { levelStorage } from '../../src/adapters/level/index.js'
import { EngineError, openEngine, type Engine, type Session } from '../../src/index.js'
import { describeSession } from '../model/run-step.js'
import { requireChecked } from './check.js'
import { Verifier } from './verifier.js'
import { Workload } from './workload.js'

/** The outcome of damaging a copy of a store. */
export type Fate = 'refused' | 'reported' | 'harmless' | 'wrong'

const cacheEntries = 20
const reads = ['sessions', 'tree', 'contents', 'checkpoints', 'cache', 'annotations'] as const

/** A closed store with known contents of every kind, and copies of it to damage. */
export class Victim {
  readonly directory: string
  /** The result of each read on the undamaged store. */
  readonly #truth: Map<string, string>
  readonly #parent: string
  #copies = 0

  private constructor(parent: string, truth: Map<string, string>) {
    this.#parent = parent
    this.directory = join(parent, 'whole')
    this.#truth = truth
  }

  /** Calls `onHalf` with the directory while the store is closed, half filled. */
  static async make(
    random: () => number,
    { calls, onHalf }: { readonly calls: number; readonly onHalf?: (directory: string) => Promise<void> },
  ): Promise<Victim> {
    const parent = await mkdtemp(join(tmpdir(), 'damage-'))
    const directory = join(parent, 'whole')
    const verifier = new Verifier(random, () => undefined)
    const workload = new Workload(verifier, random)
    for (let half = 0; half < 2; half++) {
      const engine = await openEngine({ storage: levelStorage(directory, { durability: 'relaxed' }) })
      await workload.open(engine)
      await workload.run(calls / 2, 8)
      const { sessions } = await engine.sessions.list({ pageSize: 1 })
      await fill(await engine.sessions.open(sessions[0]!.id), half)
      await engine.close()
      if (half === 0) await onHalf?.(directory)
    }
    const engine = await openEngine({ storage: levelStorage(directory, { durability: 'relaxed' }) })
    const truth = await readAll(engine)
    await engine.close()
    return new Victim(parent, truth)
  }

  async remove(): Promise<void> {
    await rm(this.#parent, { recursive: true })
  }

  /** Copies the store, damages the copy, and classifies the results of reading it. */
  async damage(change: (directory: string) => Promise<void>): Promise<{ fate: Fate; text: string }> {
    const directory = join(this.#parent, `copy-${this.#copies++}`)
    await cp(this.directory, directory, { recursive: true })
    await change(directory)
    const found = await this.#look(directory)
    await rm(directory, { recursive: true })
    return found
  }

  async #look(directory: string): Promise<{ fate: Fate; text: string }> {
    let engine: Engine
    try {
      engine = await openEngine({ storage: levelStorage(directory, { durability: 'relaxed' }) })
    } catch (error) {
      if (isCoded(error)) return { fate: 'refused', text: `${error.reason}: ${error.message}` }
      return { fate: 'wrong', text: `opening failed without a code: ${String(error)}` }
    }
    try {
      const found = await readAll(engine)
      let loss = ''
      for (const [what, text] of this.#truth) {
        const other = found.get(what) ?? (found.get('sessions') === lost ? lost : undefined)
        if (other === text) continue
        if (other !== lost) return { fate: 'wrong', text: `${what}: ${difference(text, other)}` }
        loss ||= what
      }
      if (loss === '') await requireChecked(engine).catch(() => (loss = 'check'))
      return loss === '' ? { fate: 'harmless', text: '' } : { fate: 'reported', text: loss }
    } finally {
      await engine.close().catch(() => undefined)
    }
  }
}

const lost = 'DATA_LOSS'

async function fill(session: Session, half: number): Promise<void> {
  for (let i = 0; i < cacheEntries; i++)
    await session.cache.put({ key: `${half} ${i}`, value: Buffer.from(`value ${i}`) })
  await session.files.write({ path: `/large-${half}`, content: Buffer.alloc(300_000, `large ${half} `) })
  await session.bus.publish({ topic: 'n', payload: Buffer.from(`message ${half}`) })
  await session.annotations.add({
    filePath: `/large-${half}`,
    lineNumber: 1,
    expectedContentHash: await session.files.contentHash(`/large-${half}`),
    comment: `comment ${half}`,
  })
}

/** Everything readable, by read call. Losses that the store reports are recorded as reported. */
async function readAll(engine: Engine): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  const note = async (what: string, read: () => Promise<unknown>): Promise<void> => {
    found.set(what, await read().then(JSON.stringify, failureOf))
  }
  const ids: string[] = []
  await note('sessions', async () => {
    const { sessions } = await engine.sessions.list({ pageSize: 1000 })
    ids.push(...sessions.map(({ id }) => id))
    return sessions.map(({ id, tags }) => [id, tags])
  })
  for (const id of ids) {
    const opened = engine.sessions.open(id)
    for (const read of reads) {
      await note(`${read} of ${id}`, async () => {
        const session = await opened
        return readers[read](session)
      })
    }
  }
  return found
}

const readers: Record<(typeof reads)[number], (session: Session) => Promise<unknown>> = {
  sessions: async (session) => session.id,
  tree: (session) => describeSession(session),
  contents: async (session) => {
    const contents: string[] = []
    for (const { path, fileType } of (await session.manifest({ pageSize: 1000 })).nodes) {
      if (fileType !== 'VFS_FILE_TYPE_FILE') continue
      contents.push(path, Buffer.from(await session.files.read({ path })).toString('base64'))
    }
    return contents
  },
  checkpoints: async (session) => {
    const { checkpoints } = await session.listCheckpoints({ pageSize: 1000 })
    return checkpoints.map(({ checkpointLabel }) => checkpointLabel)
  },
  cache: async (session) => {
    const values: unknown[] = []
    for (let half = 0; half < 2; half++)
      for (let i = 0; i < cacheEntries; i++) values.push(await session.cache.get({ key: `${half} ${i}` }))
    return values
  },
  annotations: (session) => session.annotations.list({}),
}

function failureOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof EngineError ? error.cause : error
  return isCoded(cause) && cause.reason === 'DATA_LOSS' ? lost : `failed: ${String(cause)}`
}

function isCoded(error: unknown): error is EngineError {
  return error instanceof EngineError && error.reason !== 'INTERNAL'
}

function difference(expected: string, found: string | undefined): string {
  if (found === undefined) return 'missing'
  let at = 0
  while (at < expected.length && expected[at] === found[at]) at++
  const part = (text: string): string => text.slice(Math.max(0, at - 20), at + 60)
  return `${part(expected)} was read as ${part(found)}`
}
