import type { Engine, Session, SessionInfo } from '../../src/index.js'
import { ModelTree } from '../model/model-tree.js'
import { describeModel, describeSession } from '../model/run-step.js'
import { ExpectedSession, parseReport, type Call, type Prefix } from './expected.js'
import { forkTag, probeTag } from './protocol.js'

const checkedLabels = 3

/** Computes the expected contents of a store from the calls that were made, and compares them. */
export class Verifier {
  acknowledged = 0
  /** Acknowledged operations that were missing. */
  lost = 0
  /** States that no number of complete operations produces. */
  torn = 0
  readonly #sessions = new Map<string, ExpectedSession>()
  readonly #random: () => number
  readonly #onProgress: (line: string) => void
  /** Sessions that no writer changes, with their contents. */
  readonly unchanged: ReadonlyMap<string, readonly string[]>

  constructor(
    random: () => number,
    onProgress: (line: string) => void,
    unchanged: ReadonlyMap<string, readonly string[]> = new Map(),
  ) {
    this.#random = random
    this.#onProgress = onProgress
    this.unchanged = unchanged
  }

  get damaged(): boolean {
    return this.lost + this.torn > 0
  }

  expect(sessionId: string): ExpectedSession {
    let session = this.#sessions.get(sessionId)
    if (session === undefined) this.#sessions.set(sessionId, (session = new ExpectedSession(new ModelTree())))
    return session
  }

  /** Adds the calls from the report of a process. */
  readReport(text: string): void {
    const calls = new Map<number, ExpectedSession['calls'][number]>()
    for (const line of parseReport(text)) {
      if (line.kind === 'broken') throw new Error(`the writer failed: ${line.message}`)
      if (line.kind === 'call') {
        const call = { n: line.n, step: line.step }
        calls.set(line.n, call)
        this.expect(line.session).calls.push(call)
      } else if (line.kind === 'settled') {
        calls.get(line.n)!.settled = line.outcome
        if (line.outcome === 'ok') this.acknowledged++
        if (line.forkId !== undefined) this.expect(line.forkId)
      }
    }
  }

  /**
   * Compares all contents, and expects the found state from then on. Occasionally restores a checkpoint, unless the
   * engine belongs to a copy.
   */
  async check(engine: Engine, { restores = true }: { readonly restores?: boolean } = {}): Promise<void> {
    const all = await openAll(engine)
    for (const [id, content] of this.unchanged) {
      const session = all.find(([info]) => info.id === id)?.[1]
      const found = session && (await describeSession(session))
      if (found?.join('\n') !== content.join('\n'))
        this.#damage(id, 'lost', 1, 'an earlier session has changed')
    }
    const opened = all.filter(([{ id, tags }]) => !(probeTag in tags) && !this.unchanged.has(id))
    const forks = new Map<string, ModelTree>()
    for (const [info, session] of opened) await this.#checkSession(info, session, forks)
    for (const [id, { calls }] of this.#sessions) {
      if (opened.some(([info]) => info.id === id)) continue
      const count = Math.max(1, calls.filter(({ settled }) => settled === 'ok').length)
      this.#damage(id, 'lost', count, 'the session is missing')
    }
    for (const [, session] of opened) await this.#checkLabels(engine, session, restores)
  }

  /** Checks parents first, so that the states that forks start from are known. */
  async #checkSession(info: SessionInfo, session: Session, forks: Map<string, ModelTree>): Promise<void> {
    const isNew = !this.#sessions.get(info.id)?.verified
    const expected = this.expect(info.id)
    const tag = info.tags[forkTag]
    if (isNew && tag !== undefined) {
      const start = forks.get(tag)
      if (start === undefined)
        return this.#damage(info.id, 'torn', 1, `a fork is there without what it rests on: ${tag}`)
      expected.tree = start.clone()
    }
    expected.verified = true
    const found = await fingerprint(session)
    for (const calls of expected.histories()) {
      const passed: { position: number; tag: string; tree: ModelTree }[] = []
      let match: Prefix | undefined
      const pass = (position: number, fork: string, tree: ModelTree): number =>
        passed.push({ position, tag: fork, tree })
      for (const prefix of expected.prefixes(calls, pass)) {
        if (modelFingerprint(prefix.tree, prefix.labels.keys()) !== found) continue
        // Takes the last match: rejected calls change nothing, and forks may have been made after them.
        match = { position: prefix.position, tree: prefix.tree.clone(), labels: new Map(prefix.labels) }
      }
      if (match === undefined) continue
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

  async #checkLabels(engine: Engine, session: Session, restores: boolean): Promise<void> {
    const expected = this.expect(session.id)
    const labels = [...expected.labels.keys()]
    if (labels.length === 0) return
    for (let i = 0; i < checkedLabels; i++) {
      const label = labels[this.#random() % labels.length]!
      const fork = await session.fork({ checkpointLabel: label, newTags: { [probeTag]: '' } })
      await this.#compare(fork, expected.labels.get(label)!, `checkpoint ${label}`)
      await fork.delete()
    }
    if (!restores || this.#random() % 4 > 0) return
    const label = labels[this.#random() % labels.length]!
    const call: Call = { n: -1, step: { op: 'restore', label } }
    expected.calls.push(call)
    await session.restore({ checkpointLabel: label })
    call.settled = 'ok'
    expected.settleAt(expected.final())
    await this.#compare(await engine.sessions.open(session.id), expected.tree, `restored ${label}`)
  }

  async #compare(session: Session, tree: ModelTree, what: string): Promise<void> {
    const [found, model] = [(await describeSession(session)).join('\n'), describeModel(tree).join('\n')]
    if (found !== model) this.#damage(session.id, 'torn', 1, `${what}\n${difference(model, found)}`)
  }

  #damage(sessionId: string, kind: 'lost' | 'torn', count: number, message: string): void {
    this[kind] += count
    this.#onProgress(`${kind.toUpperCase()} ${count} in session ${sessionId}: ${message}`)
  }
}

/** Every session of an engine. */
export async function openAll(engine: Engine): Promise<(readonly [SessionInfo, Session])[]> {
  const { sessions } = await engine.sessions.list({ pageSize: 10_000 })
  const opened: (readonly [SessionInfo, Session])[] = []
  for (const info of sessions) opened.push([info, await engine.sessions.open(info.id)])
  return opened
}

async function fingerprint(session: Session): Promise<string> {
  const labels: string[] = []
  for (let pageToken = ''; ;) {
    const page = await session.listCheckpoints({ pageSize: 10_000, pageToken })
    labels.push(...page.checkpoints.map(({ checkpointLabel }) => checkpointLabel))
    if (page.nextPageToken === '') break
    pageToken = page.nextPageToken
  }
  return [...(await describeSession(session)), ...labels].join('\n')
}

function modelFingerprint(tree: ModelTree, labels: Iterable<string>): string {
  return [...describeModel(tree), ...labels].join('\n')
}

/** The first lines in which the model and the store differ. */
function difference(model: string, found: string): string {
  const [expected, actual] = [model.split('\n'), found.split('\n')]
  const missing = expected.filter((line) => !actual.includes(line)).slice(0, 5)
  const surplus = actual.filter((line) => !expected.includes(line)).slice(0, 5)
  return [...missing.map((line) => `- ${line}`), ...surplus.map((line) => `+ ${line}`)].join('\n')
}
