import { cp, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openEngine, type Engine, type Session, type SessionInfo } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { findGarbage } from '../model/garbage.js'
import { ObservedStorage } from '../model/observed-storage.js'
import { requireChecked } from './check.js'
import { runUntilKilled } from './child.js'
import { collectPhases, type CollectPhase, type KillIn } from './collect-phases.js'
import { parseReport } from './expected.js'
import { noKills, type KillOptions, type KillResult } from './kill.js'
import { collectForms, type CollectForm, type WriterArguments } from './protocol.js'
import { openAll, Verifier } from './verifier.js'

type Place = CollectPhase | 'elsewhere'

export interface CollectKillResult extends KillResult {
  /** The number of kills in each phase, by how the collections started. */
  readonly phases: Record<CollectForm, Record<Place, number>>
}

const roundsPerDirectory = 8
/** The share of kills, out of ten, aimed at a chosen phase; the others come at any time. */
const chosen = 8
/** Enough time for a few collections, during which the writer kills itself. */
const mostMs = 6000
/** Only a collection that never ends takes this long. */
const patienceMs = 60_000

/**
 * Kills writers while collections run, in each phase of a collection. After each kill, all acknowledged data must be
 * there, and the next collection must leave exactly the objects that sessions reference.
 */
export async function runCollectKills(options: Omit<KillOptions, 'files'>): Promise<CollectKillResult> {
  const random = randomWords(options.seed)
  const none = (): Record<Place, number> => {
    const counts = Object.fromEntries(collectPhases.map((phase) => [phase, 0]))
    return { ...counts, elsewhere: 0 } as Record<Place, number>
  }
  const phases = Object.fromEntries(collectForms.map((form) => [form, none()]))
  const result = { ...noKills(), phases: phases as CollectKillResult['phases'] }
  while (result.kills < options.kills) {
    const parent = await mkdtemp(join(tmpdir(), 'crash-collect-'))
    const verifier = new Verifier(random, options.onProgress)
    const directory = new Directory(parent, options, random, verifier, result)
    const before = result.acknowledged
    for (let round = 0; round < roundsPerDirectory && result.kills < options.kills; round++) {
      const place = await directory.round(round)
      result.acknowledged = before + verifier.acknowledged
      options.onProgress(
        `${result.kills}/${options.kills} killed in ${place}, ${result.acknowledged} acknowledged`,
      )
      if (verifier.damaged) break
    }
    result.lost += verifier.lost
    result.torn += verifier.torn
    if (verifier.damaged) options.onProgress(`kept for inspection: ${parent}`)
    else await rm(parent, { recursive: true })
  }
  return result
}

/** The phases without a kill. */
export function missedPhases({ phases }: CollectKillResult): string[] {
  return collectForms.flatMap((form) =>
    collectPhases.filter((phase) => phases[form][phase] === 0).map((phase) => `${form} ${phase}`),
  )
}

/** A store that is killed several times. */
class Directory {
  readonly #parent: string
  readonly #options: Omit<KillOptions, 'files'>
  readonly #random: () => number
  readonly #verifier: Verifier
  readonly #result: CollectKillResult

  constructor(
    parent: string,
    options: Omit<KillOptions, 'files'>,
    random: () => number,
    verifier: Verifier,
    result: CollectKillResult,
  ) {
    this.#parent = parent
    this.#options = options
    this.#random = random
    this.#verifier = verifier
    this.#result = result
  }

  /** Returns the phase in which the kill happened. */
  async round(number: number): Promise<string> {
    const form = collectForms[this.#random() % collectForms.length]!
    const report = join(this.#parent, `report-${number}`)
    const killIn = this.#random() % 10 < chosen ? this.#chooseIn(form) : undefined
    const settings: WriterArguments = {
      directory: join(this.#parent, 'data'),
      report,
      durability: this.#options.durability,
      seed: this.#random(),
      firstNumber: number * 1_000_000,
      pending: 1 + (this.#random() % 32),
      ...(killIn && { killIn }),
      collects: form,
    }
    const delayMs = killIn ? mostMs : this.#random() % 400
    const killed = await runUntilKilled('writer.js', settings, { line: 'ready', delayMs })
    const text = await readFile(report, 'utf8').catch(() => '')
    const place = placeOf(text)
    if (killed) {
      this.#result.kills++
      this.#result.phases[form][place]++
    }
    this.#verifier.readReport(text)
    await this.#check()
    return `${place} (${form})`
  }

  /** The phase with the fewest kills so far. */
  #chooseIn(form: CollectForm): KillIn {
    const counts = this.#result.phases[form]
    const least = Math.min(...collectPhases.map((phase) => counts[phase]))
    const rare = collectPhases.filter((phase) => counts[phase] === least)
    return {
      phase: rare[this.#random() % rare.length]!,
      part: (this.#random() % 1000) / 1000,
      moment: (['before', 'middle', 'after'] as const)[this.#random() % 3]!,
    }
  }

  async #check(): Promise<void> {
    const data = join(this.#parent, 'data')
    const copy = join(this.#parent, 'copy')
    const storage = this.#storage(data)
    const start = performance.now()
    const engine = await openEngine({ storage })
    await openAll(engine)
    this.#result.openMs.push(performance.now() - start)
    await requireChecked(engine)
    await this.#verifier.check(engine)
    // Skips the snapshots that an orderly close writes.
    await storage.crash()
    // In every other round the next writer continues with the directory as the kill left it.
    const isKept = this.#random() % 2 === 0
    if (isKept) await cp(data, copy, { recursive: true })
    await this.#collect(isKept ? copy : data)
    await rm(copy, { recursive: true, force: true })
  }

  #storage(directory: string): ObservedStorage {
    return new ObservedStorage(levelStorage(directory, { durability: this.#options.durability }))
  }

  /** Collects, and requires that only the garbage of the kill is deleted. */
  async #collect(directory: string): Promise<void> {
    const storage = this.#storage(directory)
    const engine = await openEngine({ storage })
    await engine.collect({ signal: AbortSignal.timeout(patienceMs) })
    const { deletedBlobs, deletedNodes, prunedEvents } = await engine.collect()
    if (deletedBlobs + deletedNodes + prunedEvents > 0) throw new Error('a collection left something')
    const opened = await openAll(engine)
    await requireExact(engine, storage, opened)
    await requireChecked(engine)
    await this.#verifier.check(engine, { restores: false })
    // Sometimes skips the snapshots that an orderly close writes.
    if (this.#random() % 2 === 0) await engine.close()
    else await storage.crash()
  }
}

/** The writer's report records each phase as it starts. */
function placeOf(report: string): Place {
  const last = parseReport(report).findLast((line) => line.kind === 'phase')
  return last?.phase ?? 'elsewhere'
}

/** Requires that the store holds exactly the objects that sessions reference, and that its ledger counts them. */
async function requireExact(
  engine: Engine,
  { stored }: ObservedStorage,
  opened: readonly (readonly [SessionInfo, Session])[],
): Promise<void> {
  const sessions = opened.map(([, session]) => session)
  // Replay may start from a state that nothing refers to.
  const garbage = await findGarbage(stored, sessions, { keepRedo: true })
  for (const [what, found] of Object.entries(garbage))
    if (found.length > 0) throw new Error(`a collection left ${found.length} ${what}: ${found.slice(0, 5)}`)
  const blobs = await stored.listBlobs!('', Number.MAX_SAFE_INTEGER)
  const { objectCount, storedBytes } = await engine.usage.metrics()
  const bytes = blobs.reduce((sum, blob) => sum + blob.bytes, 0)
  if (objectCount !== blobs.length || storedBytes !== bytes)
    throw new Error(
      `the ledger counts ${objectCount} contents of ${storedBytes} bytes instead of ${blobs.length} of ${bytes}`,
    )
}
