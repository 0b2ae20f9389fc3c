import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openEngine, SessionStatus, type Engine, type Session } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { requireChecked } from './check.js'
import { runUntilKilled } from './child.js'
import { noKills, type KillOptions, type KillResult } from './kill.js'
import {
  groups,
  pathsOf,
  type Kind,
  type VersionLine,
  type VersionState,
  type VersionWriterArguments,
} from './versions-protocol.js'

const roundsPerDirectory = 6
/** The newest acknowledged states that are read again after a kill. */
const comparedStates = 12

/** Kills writers that merge, resolve, abort, undo, redo, rebase and restore, and checks the states after each kill. */
export async function runVersionKills(options: KillOptions): Promise<KillResult> {
  const random = randomWords(options.seed)
  const result = noKills()
  while (result.kills < options.kills) {
    const parent = await mkdtemp(join(tmpdir(), 'crash-versions-'))
    const calls = new Calls()
    const before = result.lost + result.torn
    for (let round = 0; round < roundsPerDirectory && result.kills < options.kills; round++) {
      const settings: VersionWriterArguments = {
        directory: join(parent, 'data'),
        report: join(parent, `report-${round}`),
        durability: options.durability,
        seed: random(),
        ...(calls.ids && { ids: calls.ids }),
        firstNumber: round * 1_000_000,
      }
      const delayMs = random() % 1500
      const killed = await runUntilKilled('versions-writer.js', settings, { line: 'ready', delayMs })
      calls.read(await readFile(settings.report, 'utf8'))
      if (killed) result.kills++
      else {
        result.torn++
        options.onProgress(`TORN the writer ended: ${calls.failure}`)
      }
      await new Check(settings, calls, result, options.onProgress).run()
      result.acknowledged += calls.takeAcknowledged()
      options.onProgress(`${result.kills}/${options.kills} killed, ${result.acknowledged} acknowledged`)
      if (result.lost + result.torn > before) break
    }
    if (result.lost + result.torn === before) await rm(parent, { recursive: true })
    else options.onProgress(`kept for inspection: ${parent}`)
  }
  return result
}

/** The calls that the writers made, in order. */
class Calls {
  ids: VersionWriterArguments['ids']
  failure = ''
  /** The call without an acknowledgement, if the last one has none. */
  open: Kind | undefined
  readonly states: VersionState[] = []
  /** The newest event that a check has found, perhaps of a call without an acknowledgement. */
  newest = ''
  #counted = 0

  read(report: string): void {
    this.open = undefined
    // Ignores a last line that the kill truncated.
    for (const text of report.split('\n').slice(0, -1)) {
      const line = JSON.parse(text) as VersionLine
      if ('session' in line) this.ids = line
      else if ('failed' in line) this.failure = line.message
      else if ('done' in line) {
        this.states.push(line.state)
        this.open = undefined
      } else this.open = line.kind
    }
  }

  takeAcknowledged(): number {
    const since = this.states.length - this.#counted
    this.#counted = this.states.length
    return since
  }
}

class Check {
  readonly #settings: VersionWriterArguments
  readonly #calls: Calls
  readonly #result: KillResult
  readonly #onProgress: (line: string) => void

  constructor(
    settings: VersionWriterArguments,
    calls: Calls,
    result: KillResult,
    onProgress: (line: string) => void,
  ) {
    this.#settings = settings
    this.#calls = calls
    this.#result = result
    this.#onProgress = onProgress
  }

  async run(): Promise<void> {
    const { directory, durability } = this.#settings
    const start = performance.now()
    const engine = await openEngine({ storage: levelStorage(directory, { durability }) })
    try {
      await requireChecked(engine)
      const { ids } = this.#calls
      if (ids === undefined) return
      const session = await engine.sessions.open(ids.session)
      this.#result.openMs.push(performance.now() - start)
      await this.#newest(engine, session)
      for (const state of this.#calls.states.slice(-comparedStates)) await this.#state(session, state)
      await session.events.verify()
    } finally {
      await engine.close()
    }
  }

  /** Compares the newest state with the last acknowledged one, or requires that one further call is complete. */
  async #newest(engine: Engine, session: Session): Promise<void> {
    using view = await session.at()
    const { conflicts } = await session.conflicts.list()
    const paths = conflicts.map(({ path }) => path)
    const { status } = await session.get()
    const isOpen = status === SessionStatus.CONFLICT
    if (isOpen !== paths.length > 0) this.#torn(`status ${status} with ${paths.length} conflicts`)
    for (const path of paths) await session.conflicts.read({ path })
    for (const id of [session.id, this.#calls.ids?.fork ?? ''])
      await this.#groups(await engine.sessions.open(id), id === session.id ? paths : [])
    const last = this.#calls.states.at(-1)
    if (last === undefined) return
    const known = last.eventId > this.#calls.newest ? last.eventId : this.#calls.newest
    this.#calls.newest = view.eventId
    if (view.eventId < known) this.#lost(`the event ${known}`)
    if (view.eventId === last.eventId && String(paths) !== String(last.conflicts))
      this.#lost(`the conflicts ${last.conflicts.join(', ')}`)
    if (view.eventId === known) return
    let count = 0
    for await (const { eventId } of session.events) if (eventId > known) count++
    // A call that the report does not have yet cannot have started.
    if (count > 1 || this.#calls.open === undefined)
      this.#torn(`${count} events of ${this.#calls.open ?? 'no call'} after the last known one`)
  }

  async #state(session: Session, { eventId, manifestHash }: VersionState): Promise<void> {
    try {
      using view = await session.at({ eventId })
      const found = (await view.manifest()).manifestHash
      if (found !== manifestHash) this.#torn(`the state after ${eventId}`)
    } catch (error) {
      this.#lost(`the state after ${eventId}: ${String(error)}`)
    }
  }

  /** Requires that the files of each group are equal, except for groups with unresolved conflicts. */
  async #groups({ fs }: Session, conflicts: readonly string[]): Promise<void> {
    for (const group of groups) {
      const paths = pathsOf(group)
      if (paths.some((path) => conflicts.includes(path))) continue
      const contents = new Set<string>()
      for (const path of paths)
        contents.add(await fs.promises.readFile(path, 'utf8').catch(() => 'no such file'))
      if (contents.size !== 1)
        this.#torn(`${group}: ${[...contents].map((content) => content.slice(0, 30)).join(', ')}`)
    }
  }

  #lost(what: string): void {
    this.#result.lost++
    this.#onProgress(`LOST ${what}`)
  }

  #torn(what: string): void {
    this.#result.torn++
    this.#onProgress(`TORN ${what} (${this.#calls.open ?? 'no call'})`)
  }
}
