import { cp, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openEngine } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { ObservedStorage } from '../model/observed-storage.js'
import { describeSession } from '../model/run-step.js'
import { formatOneFixture } from '../support/format-1.js'
import { runUntilKilled } from './child.js'
import { requireChecked } from './check.js'
import { diskChanges } from './hooked-disk.js'
import { probeTag, type KillAt, type WriterArguments } from './protocol.js'
import { openAll, Verifier } from './verifier.js'

export interface KillOptions {
  readonly kills: number
  readonly seed: number
  readonly durability: 'full' | 'relaxed'
  /** The number of additional files in a session of each store. */
  readonly files?: number
  /** Whether each store is one of format 1, which the first writer migrates. */
  readonly fromFormat1?: boolean
  readonly onProgress: (line: string) => void
}

export interface KillResult {
  kills: number
  acknowledged: number
  /** Acknowledged operations that were missing. */
  lost: number
  /** States that no number of complete operations produces. */
  torn: number
  /** The time of each opening after a kill, with all sessions. */
  readonly openMs: number[]
}

export function noKills(): KillResult {
  return { kills: 0, acknowledged: 0, lost: 0, torn: 0, openMs: [] }
}

type Random = () => number
type Phase = 'opening' | 'ready' | 'closing'

const roundsPerDirectory = 8
const filesPerBatch = 10_000

/** Kills writers repeatedly, and checks the contents that the next opener reads after each kill. */
export async function runKills(options: KillOptions): Promise<KillResult> {
  const random = randomWords(options.seed)
  const result = noKills()
  const base = await baseOf(options)
  while (result.kills < options.kills) {
    const parent = await mkdtemp(join(tmpdir(), 'crash-'))
    if (base !== undefined) await cp(base.directory, join(parent, 'data'), { recursive: true })
    const verifier = new Verifier(random, options.onProgress, base?.sessions)
    const directory = new Directory(parent, options, random, verifier, result)
    const before = result.acknowledged
    for (let round = 0; round < roundsPerDirectory && result.kills < options.kills; round++) {
      const when = await directory.round()
      result.acknowledged = before + verifier.acknowledged
      options.onProgress(
        `${result.kills}/${options.kills} killed ${when}, ${result.acknowledged} acknowledged`,
      )
      if (verifier.damaged) break
    }
    result.lost += verifier.lost
    result.torn += verifier.torn
    if (verifier.damaged) options.onProgress(`kept for inspection: ${parent}`)
    else await rm(parent, { recursive: true })
  }
  if (base !== undefined) await rm(base.directory, { recursive: true })
  return result
}

/** A store to start from, and the contents of those of its sessions that must not change. */
interface Base {
  readonly directory: string
  readonly sessions: ReadonlyMap<string, readonly string[]>
}

async function baseOf({ files, fromFormat1 }: KillOptions): Promise<Base | undefined> {
  if (files !== undefined) return { directory: await makeBase(files), sessions: new Map() }
  return fromFormat1 === true ? formatOneBase() : undefined
}

async function formatOneBase(): Promise<Base> {
  const directory = await mkdtemp(join(tmpdir(), 'crash-base-'))
  const store = join(formatOneFixture, 'store')
  const migrated = join(directory, 'migrated')
  await cp(store, migrated, { recursive: true })
  const engine = await openEngine({ storage: levelStorage(migrated) })
  const sessions = new Map<string, readonly string[]>()
  for (const [{ id }, session] of await openAll(engine)) sessions.set(id, await describeSession(session))
  await engine.close()
  await rm(migrated, { recursive: true })
  await cp(store, directory, { recursive: true })
  return { directory, sessions }
}

/** A store with one session of this many files, which is only required to open. */
async function makeBase(files: number): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'crash-base-'))
  const engine = await openEngine({ storage: levelStorage(directory, { durability: 'relaxed' }) })
  const session = await engine.sessions.create({ initialTags: { [probeTag]: '' } })
  for (let from = 0; from < files; from += filesPerBatch) {
    const numbers = Array.from({ length: Math.min(filesPerBatch, files - from) }, (_, i) => from + i)
    await session.files.batch(numbers.map((n) => ({ write: { path: baseFile(n), content: `${n}` } })))
  }
  await engine.close()
  return directory
}

function baseFile(n: number): string {
  return `/d${n % 1000}/f${n}`
}

/** A store that is killed several times. */
class Directory {
  readonly #parent: string
  readonly #options: KillOptions
  readonly #random: Random
  readonly #verifier: Verifier
  readonly #result: KillResult
  #rounds = 0

  constructor(parent: string, options: KillOptions, random: Random, verifier: Verifier, result: KillResult) {
    this.#parent = parent
    this.#options = options
    this.#random = random
    this.#verifier = verifier
    this.#result = result
  }

  async round(): Promise<string> {
    const report = join(this.#parent, `report-${this.#rounds}`)
    const when = await this.#killWriter(report)
    this.#verifier.readReport(await readFile(report, 'utf8').catch(() => ''))
    await this.#check()
    this.#rounds++
    return when
  }

  async #killWriter(report: string): Promise<string> {
    const choice = this.#random() % 20
    const migrates = this.#options.fromFormat1 === true && this.#rounds === 0
    const phase: Phase = choice < 3 || migrates ? 'opening' : choice < 6 ? 'closing' : 'ready'
    const killAt = this.#random() % 2 === 0 ? this.#chooseCall(phase) : undefined
    const settings: WriterArguments = {
      directory: join(this.#parent, 'data'),
      report,
      durability: this.#options.durability,
      seed: this.#random(),
      firstNumber: this.#rounds * 1_000_000,
      pending: 1 + (this.#random() % 64),
      unchanged: [...this.#verifier.unchanged.keys()],
      ...(phase === 'closing' && { closeAfterMs: this.#random() % 300 }),
      ...(killAt && { killAt }),
    }
    const mostMs = { opening: 40, closing: 15, ready: 300 }[phase]
    // A writer that kills itself gets enough time to reach that point.
    const delayMs = killAt ? 10 * mostMs : (this.#random() % (mostMs * 100)) / 100
    if (await runUntilKilled('writer.js', settings, { line: phase, delayMs })) this.#result.kills++
    return killAt ? `${killAt.moment} ${killAt.operation} ${killAt.call}` : `while ${phase}`
  }

  #chooseCall(phase: Phase): KillAt {
    const moment = (['before', 'middle', 'after'] as const)[this.#random() % 3]!
    const operation = this.#random() % 2 === 0 ? undefined : diskChanges[this.#random() % diskChanges.length]!
    const call = this.#random() % (phase === 'opening' ? 20 : 400)
    return { moment, operation: operation ?? 'change', call, part: (this.#random() % 1000) / 1000 }
  }

  async #check(): Promise<void> {
    const { durability } = this.#options
    const storage = new ObservedStorage(levelStorage(join(this.#parent, 'data'), { durability }))
    const start = performance.now()
    const engine = await openEngine({ storage })
    const opened = await openAll(engine)
    if (this.#options.files !== undefined) {
      const [, base] = opened.find(([{ tags }]) => probeTag in tags)!
      await base.files.read({ path: baseFile(0) })
    }
    this.#result.openMs.push(performance.now() - start)
    await requireChecked(engine)
    await this.#verifier.check(engine)
    // Sometimes skips the snapshots that an orderly close writes.
    if (this.#random() % 2 === 0) await engine.close()
    else await storage.crash()
  }
}
