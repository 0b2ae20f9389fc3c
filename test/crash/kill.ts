import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openEngine, type Engine, type Session, type SessionInfo } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { ModelTree } from '../model/model-tree.js'
import { ObservedStorage } from '../model/observed-storage.js'
import { describeModel, describeSession } from '../model/run-step.js'
import { runUntilKilled } from './child.js'
import { ExpectedSession, parseReport, type Prefix } from './expected.js'
import { forkTag, type WriterArguments } from './protocol.js'

export interface KillOptions {
  readonly kills: number
  readonly seed: number
  readonly durability: 'full' | 'relaxed'
  readonly onProgress: (line: string) => void
}

export interface KillResult {
  kills: number
  acknowledged: number
  /** Acknowledged operations that were not there. */
  lost: number
  /** States that no number of whole operations leads to. */
  torn: number
  slowestOpenMs: number
}

type Random = () => number
type Phase = 'opening' | 'ready' | 'closing'

const roundsPerDirectory = 8
const checkedLabels = 3

/** Kills writers again and again, and checks after each kill what the next opener finds. */
export async function runKills(options: KillOptions): Promise<KillResult> {
  const random = randomWords(options.seed)
  const result: KillResult = { kills: 0, acknowledged: 0, lost: 0, torn: 0, slowestOpenMs: 0 }
  while (result.kills < options.kills) {
    const parent = await mkdtemp(join(tmpdir(), 'crash-'))
    const damageBefore = result.lost + result.torn
    const directory = new Directory(join(parent, 'data'), join(parent, 'report'), options, random, result)
    for (let round = 0; round < roundsPerDirectory && result.kills < options.kills; round++) {
      const phase = await directory.round()
      options.onProgress(
        `${result.kills}/${options.kills} killed while ${phase}, ${result.acknowledged} acknowledged`,
      )
      if (result.lost + result.torn > damageBefore) break
    }
    if (result.lost + result.torn === damageBefore) await rm(parent, { recursive: true })
    else options.onProgress(`kept for inspection: ${parent}`)
  }
  return result
}

/** One store that is killed several times, with what must be in it. */
class Directory {
  readonly #data: string
  readonly #report: string
  readonly #options: KillOptions
  readonly #random: Random
  readonly #result: KillResult
  readonly #sessions = new Map<string, ExpectedSession>()
  #rounds = 0

  constructor(data: string, report: string, options: KillOptions, random: Random, result: KillResult) {
    this.#data = data
    this.#report = report
    this.#options = options
    this.#random = random
    this.#result = result
  }

  async round(): Promise<Phase> {
    const report = `${this.#report}-${this.#rounds}`
    const phase = await this.#killWriter(report)
    await this.#check(report)
    this.#rounds++
    return phase
  }

  async #killWriter(report: string): Promise<Phase> {
    const choice = this.#random() % 20
    const phase = choice < 3 ? 'opening' : choice < 6 ? 'closing' : 'ready'
    const settings: WriterArguments = {
      directory: this.#data,
      report,
      durability: this.#options.durability,
      seed: this.#random(),
      firstNumber: this.#rounds * 1_000_000,
      pending: 1 + (this.#random() % 64),
      ...(phase === 'closing' && { closeAfterMs: this.#random() % 300 }),
    }
    const mostMs = { opening: 40, closing: 15, ready: 300 }[phase]
    const delayMs = (this.#random() % (mostMs * 100)) / 100
    if (await runUntilKilled('writer.js', settings, { line: phase, delayMs })) this.#result.kills++
    return phase
  }

  async #check(report: string): Promise<void> {
    this.#readReport(await readFile(report, 'utf8').catch(() => ''))
    const storage = new ObservedStorage(levelStorage(this.#data, { durability: this.#options.durability }))
    const start = performance.now()
    const engine = await openEngine({ storage })
    const { sessions: listed } = await engine.sessions.list({ pageSize: 10_000 })
    const opened: [SessionInfo, Session][] = []
    for (const info of listed) opened.push([info, await engine.sessions.open(info.id)])
    this.#result.slowestOpenMs = Math.max(this.#result.slowestOpenMs, performance.now() - start)

    const forks = new Map<string, ModelTree>()
    for (const [info, session] of opened) await this.#checkSession(info, session, forks)
    for (const [id, { calls }] of this.#sessions) {
      if (listed.some((info) => info.id === id)) continue
      this.#damage(
        id,
        'lost',
        Math.max(1, calls.filter(({ settled }) => settled === 'ok').length),
        'the session is missing',
      )
    }
    for (const [, session] of opened) await this.#checkLabels(engine, session)
    // Sometimes without the snapshots that an orderly end writes.
    if (this.#random() % 2 === 0) await engine.close()
    else await storage.crash()
  }

  #readReport(text: string): void {
    const calls = new Map<number, ExpectedSession['calls'][number]>()
    for (const line of parseReport(text)) {
      if (line.kind === 'broken') throw new Error(`the writer failed: ${line.message}`)
      if (line.kind === 'call') {
        const call = { n: line.n, step: line.step }
        calls.set(line.n, call)
        this.#expect(line.session).calls.push(call)
      } else if (line.kind === 'settled') {
        calls.get(line.n)!.settled = line.outcome
        if (line.outcome === 'ok') this.#result.acknowledged++
        if (line.forkId !== undefined) this.#expect(line.forkId)
      }
    }
  }

  #expect(sessionId: string): ExpectedSession {
    let session = this.#sessions.get(sessionId)
    if (session === undefined) this.#sessions.set(sessionId, (session = new ExpectedSession(new ModelTree())))
    return session
  }

  /** Parents come first, so the states that forks start from are known when the forks are checked. */
  async #checkSession(info: SessionInfo, session: Session, forks: Map<string, ModelTree>): Promise<void> {
    const isNew = !this.#sessions.get(info.id)?.verified
    const expected = this.#expect(info.id)
    const tag = info.tags[forkTag]
    if (isNew && tag !== undefined) {
      const start = forks.get(tag)
      if (start === undefined)
        return this.#damage(info.id, 'torn', 1, `a fork is there without what it rests on: ${tag}`)
      expected.tree = start.clone()
    }
    expected.verified = true
    const found = await fingerprint(session)
    const passed: { position: number; tag: string; tree: ModelTree }[] = []
    let match: Prefix | undefined
    for (const prefix of expected.prefixes((position, fork, tree) =>
      passed.push({ position, tag: fork, tree }),
    )) {
      if (modelFingerprint(prefix.tree, prefix.labels.keys()) !== found) continue
      // The last one that matches: refused calls change nothing, and forks may stand behind them.
      match = { position: prefix.position, tree: prefix.tree.clone(), labels: new Map(prefix.labels) }
    }
    if (match !== undefined) {
      for (const fork of passed) if (fork.position <= match.position) forks.set(fork.tag, fork.tree)
      expected.settleAt(match)
      return
    }
    const earlier = expected.earlierStates().findLastIndex((state) => state === found)
    const count = expected.calls.slice(Math.max(earlier, 0)).filter(({ settled }) => settled === 'ok').length
    const last = expected.final()
    const model = modelFingerprint(last.tree, last.labels.keys())
    this.#damage(info.id, earlier < 0 ? 'torn' : 'lost', earlier < 0 ? 1 : count, difference(model, found))
  }

  async #checkLabels(engine: Engine, session: Session): Promise<void> {
    const expected = this.#expect(session.id)
    const labels = [...expected.labels.keys()]
    if (labels.length === 0) return
    for (let i = 0; i < checkedLabels; i++) {
      const label = labels[this.#random() % labels.length]!
      const fork = await session.fork({ sourceCheckpointLabel: label })
      await this.#compare(fork, expected.labels.get(label)!, `checkpoint ${label}`)
      await fork.delete()
    }
    if (this.#random() % 4 > 0) return
    const label = labels[this.#random() % labels.length]!
    await session.restore({ checkpointLabel: label })
    expected.tree = expected.labels.get(label)!.clone()
    await this.#compare(await engine.sessions.open(session.id), expected.tree, `restored ${label}`)
  }

  async #compare(session: Session, tree: ModelTree, what: string): Promise<void> {
    const [found, model] = [(await describeSession(session)).join('\n'), describeModel(tree).join('\n')]
    if (found !== model) this.#damage(session.id, 'torn', 1, `${what}\n${difference(model, found)}`)
  }

  #damage(sessionId: string, kind: 'lost' | 'torn', count: number, message: string): void {
    this.#result[kind] += count
    this.#options.onProgress(`${kind.toUpperCase()} ${count} in session ${sessionId}: ${message}`)
  }
}

async function fingerprint(session: Session): Promise<string> {
  const labels: string[] = []
  for (let pageToken = ''; ;) {
    const page = await session.listCheckpoints({ pageSize: 10_000, pageToken })
    labels.push(...page.checkpoints.map(({ label }) => label))
    if (page.nextPageToken === '') break
    pageToken = page.nextPageToken
  }
  return [...(await describeSession(session)), ...labels].join('\n')
}

function modelFingerprint(tree: ModelTree, labels: Iterable<string>): string {
  return [...describeModel(tree), ...labels].join('\n')
}

/** The first lines in which the model and what was found differ. */
function difference(model: string, found: string): string {
  const [expected, actual] = [model.split('\n'), found.split('\n')]
  const missing = expected.filter((line) => !actual.includes(line)).slice(0, 5)
  const surplus = actual.filter((line) => !expected.includes(line)).slice(0, 5)
  return [...missing.map((line) => `- ${line}`), ...surplus.map((line) => `+ ${line}`)].join('\n')
}
