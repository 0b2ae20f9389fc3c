/** Random sessions and branches of one repository, compared with a model of the commits that each state knows. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { systemEnvironment } from '../../src/adapters/system/index.js'
import { EngineError, memoryStorage, openEngine, type EngineScope, type Session } from '../../src/index.js'
import { itemAt, prefixEnd, type Store } from '../../src/engine/ports.js'
import { sha256 } from '../../src/engine/base/hash.js'
import { decodeSeq, keys, tenantKeyLength } from '../../src/engine/storage/keys.js'
import { MergeRepository } from '../support/git-merge-tree.js'
import { hasGit } from '../support/git-repository.js'
import { runs, seed } from '../support/seed.js'
import { SteppedStorage } from '../support/stepped-storage.js'

const tenant = 'acme'
const mostSessions = 4

const index = fc.nat(99)
const branch = fc.constantFrom('main', 'main', 'topic')
const command = fc.oneof(
  { weight: 3, arbitrary: fc.record({ op: fc.constant('write' as const), of: index }) },
  { weight: 3, arbitrary: fc.record({ op: fc.constant('remove' as const), of: index, file: index }) },
  {
    weight: 4,
    arbitrary: fc.record({ op: fc.constant('push' as const), of: index, branch, rebases: fc.boolean() }),
  },
  { weight: 9, arbitrary: fc.record({ op: fc.constant('rebase' as const), of: index, branch }) },
  {
    weight: 2,
    arbitrary: fc.record({ op: fc.constant('others' as const), branch, file: index, removes: fc.boolean() }),
  },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('revert' as const), branch }) },
  { weight: 4, arbitrary: fc.record({ op: fc.constant('join' as const), branch, from: branch }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('reset' as const), branch }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('create' as const), branch }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('fork' as const), of: index }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('forkOf' as const), of: index, to: index }) },
  { weight: 5, arbitrary: fc.record({ op: fc.constant('merge' as const), of: index, from: index }) },
  { weight: 5, arbitrary: fc.record({ op: fc.constant('checkpoint' as const), of: index }) },
  { weight: 4, arbitrary: fc.record({ op: fc.constant('restore' as const), of: index, to: index }) },
)
type Command = typeof command extends fc.Arbitrary<infer T> ? T : never

/** The changes that led to the files of a state: `+a` if the file a was added, `-a` if it was removed. No file is added twice. */
type Facts = ReadonlySet<string>

const filesOf = (facts: Facts): string[] =>
  [...facts]
    .flatMap((fact) => (fact[0] === '+' && !facts.has(`-${fact.slice(1)}`) ? fact.slice(1) : []))
    .sort()

const union = <T>(...sets: readonly ReadonlySet<T>[]): ReadonlySet<T> =>
  new Set(sets.flatMap((one) => [...one]))

/** A state of a session in the model. */
interface State {
  readonly facts: Facts
  /** Commits whose files the session has, besides those of the states that it comes from. */
  readonly known: ReadonlySet<string>
  /** The states that it comes from, each with its session and number. */
  readonly seen: ReadonlySet<string>
  /** The revisions that the session was moved onto, and the longest such list of itself and the sessions that it merged. */
  readonly own: readonly string[]
  readonly newest: readonly string[]
  /** The revision that it is on. Not that of the session, if that was restored to a state before a rebase. */
  readonly base: string
}

interface Checkpoint {
  readonly label: string
  readonly state: State
  wasRebased: boolean
}

interface Actor {
  readonly session: Session
  state: State
  checkpoints: Checkpoint[]
  /** Its last commits by branch. */
  tips: ReadonlyMap<string, string>
}

interface Commit {
  readonly facts: Facts
  readonly parents: readonly string[]
}

/** A repository with two branches, and sessions that start from its revisions. */
class World {
  readonly #engine: EngineScope
  readonly #repository: MergeRepository
  readonly #path: string
  readonly #actors: Actor[] = []
  readonly #commits = new Map<string, Commit>()
  readonly #branches = new Map<string, string>()
  /** The pushed commits with their states, the newest first, and those that each import found. */
  #pushed: readonly string[] = []
  readonly #contained = new Map<string, readonly string[]>()
  #sourceId = ''
  #made = 0
  /** Whether a file is in a session although a commit before it removed the file. */
  isOver = false

  constructor(engine: EngineScope, path: string) {
    this.#engine = engine
    this.#repository = new MergeRepository(path)
    this.#path = path
  }

  async start(): Promise<void> {
    this.#commit('main', new Set(['+base']), [])
    this.#point('topic', this.#tip('main'))
    ;({ sourceId: this.#sourceId } = await this.#engine.sources.create({
      displayName: 'r',
      gitRepository: { path: this.#path },
    }))
    await this.#create('main')
    await this.#create('main')
  }

  async run(command: Command): Promise<void> {
    switch (command.op) {
      case 'write':
        return this.#write(this.#actor(command.of))
      case 'remove':
        return this.#remove(this.#actor(command.of), command.file)
      case 'push':
        if (command.rebases) await this.#rebase(this.#actor(command.of), command.branch)
        return this.isOver ? undefined : this.#push(this.#actor(command.of), command.branch)
      case 'rebase':
        return this.#rebase(this.#actor(command.of), command.branch)
      case 'others': {
        const facts = this.#factsOf(command.branch)
        const file = command.removes ? this.#file(facts, command.file) : undefined
        const fact = file === undefined ? `+${this.#name()}` : `-${file}`
        return this.#commit(command.branch, union(facts, new Set([fact])), [this.#tip(command.branch)])
      }
      case 'revert': {
        // The files are those of an earlier revision.
        const { branch } = command
        const name = this.#name()
        this.#commit(branch, union(this.#factsOf(branch), new Set([`+${name}`])), [this.#tip(branch)])
        return this.#commit(branch, union(this.#factsOf(branch), new Set([`-${name}`])), [this.#tip(branch)])
      }
      case 'join': {
        const { branch, from } = command
        if (branch === from) return
        const facts = union(this.#factsOf(branch), this.#factsOf(from))
        return this.#commit(branch, facts, [this.#tip(branch), this.#tip(from)])
      }
      case 'reset': {
        const parent = this.#commits.get(this.#tip(command.branch))?.parents[0]
        if (parent !== undefined) this.#point(command.branch, parent)
        return
      }
      case 'create':
        return this.#create(command.branch)
      case 'fork': {
        if (this.#actors.length >= mostSessions) return
        const { session, state, tips } = this.#actor(command.of)
        return this.#add({ session: await session.fork(), state, checkpoints: [], tips })
      }
      case 'forkOf': {
        const { session, checkpoints, tips } = this.#actor(command.of)
        const checkpoint = checkpoints[command.to % checkpoints.length]
        if (checkpoint === undefined || this.#actors.length >= mostSessions) return
        const { label, state, wasRebased } = checkpoint
        const fork = await session.fork({ checkpointLabel: label })
        return this.#add({ session: fork, state, checkpoints: [], tips: wasRebased ? new Map() : tips })
      }
      case 'merge':
        return this.#merge(this.#actor(command.of), this.#actor(command.from))
      case 'checkpoint': {
        const { session, state, checkpoints } = this.#actor(command.of)
        const label = this.#name()
        await session.checkpoint({ checkpointLabel: label })
        checkpoints.push({ label, state, wasRebased: false })
        return this.#moved(this.#actor(command.of), {})
      }
      case 'restore':
        return this.#restore(this.#actor(command.of), command.to)
    }
  }

  async #write(actor: Actor): Promise<void> {
    const name = this.#name()
    await actor.session.files.write({ path: `/${name}`, content: name })
    await this.#moved(actor, { facts: union(actor.state.facts, new Set([`+${name}`])) })
  }

  async #remove(actor: Actor, at: number): Promise<void> {
    const name = this.#file(actor.state.facts, at)
    if (name === undefined) return
    await actor.session.files.delete({ path: `/${name}` })
    await this.#moved(actor, { facts: union(actor.state.facts, new Set([`-${name}`])) })
  }

  async #push(actor: Actor, branch: string): Promise<void> {
    // The commit would take the changes of the base back.
    if (isBeforeBase(actor.state)) return
    const before = this.#tip(branch)
    const state = await stateOf(actor.session)
    const commitId = await actor.session.commit({ message: 'mine', gitBranch: { branchName: branch } }).then(
      (commit) => commit.commitId,
      (error: unknown) => {
        if (error instanceof EngineError && error.reason === 'BRANCH_MOVED') return undefined
        throw error
      },
    )
    if (commitId === undefined) return
    if (!this.#commits.has(commitId))
      this.#commits.set(commitId, { facts: actor.state.facts, parents: [before] })
    if (commitId !== actor.tips.get(branch)) this.#pushed = [`${commitId} ${state}`, ...this.#pushed]
    this.#branches.set(branch, commitId)
    actor.tips = new Map(actor.tips).set(branch, commitId)
    await this.#moved(actor, { known: union(actor.state.known, this.#before(commitId)) })
    // A restore to such a state removes the files that the commit added.
    actor.checkpoints = actor.checkpoints.filter(({ wasRebased }) => wasRebased)
  }

  async #rebase(actor: Actor, branch: string): Promise<void> {
    const { facts, known, seen, own, newest } = actor.state
    const wasRestored = isBeforeBase(actor.state)
    const target = this.#tip(branch)
    const contained = this.#before(target)
    // A rebase onto a revision without the base takes the changes of the base back.
    if (![own, newest].every((bases) => contained.has(bases.at(-1) ?? ''))) return
    const { merged, conflicts } = await actor.session.rebase({ revisionId: await this.#refresh(branch) })
    expect(conflicts).toEqual([])
    const theirs = this.#factsOf(branch)
    const ofStates = this.#pushed.flatMap((text) =>
      seen.has(text.slice(text.indexOf(' ') + 1)) ? idOf(text) : [],
    )
    const common = [...union(known, new Set(ofStates))].filter((one) => contained.has(one))
    const base = new Set(
      filesOf(union(...common.map((one) => this.#commits.get(one)?.facts ?? new Set<string>()))),
    )
    const inBase = this.#before(own.at(-1) ?? '')
    const isKnown = this.#pushed.map(idOf).some((one) => common.includes(one) && !inBase.has(one))
    if (!isKnown && !wasRestored && own.at(-1) === newest.at(-1)) {
      // A file of the last commits that the revision has too is in the base, as after a squash merge.
      const last = [...actor.tips.values()].map((one) => this.#commits.get(one)?.facts ?? new Set<string>())
      for (const name of last.flatMap(filesOf)) if (filesOf(theirs).includes(name)) base.add(name)
    }
    const [mine, others] = [new Set(filesOf(facts)), new Set(filesOf(theirs))]
    const kept = [...union(mine, others)].filter(
      (name) => (mine.has(name) && others.has(name)) || !base.has(name),
    )
    expect(actor.session.fs.readdirSync('/')).toEqual(kept.sort())
    expect(merged).toBe(wasRestored || own.at(-1) !== target)
    if (!merged) return
    const bases = [...(wasRestored ? [this.#name()] : own), target]
    await this.#moved(actor, {
      facts: union(facts, theirs),
      known: union(known, contained),
      own: bases,
      newest: bases,
      base: target,
    })
    actor.tips = new Map()
    for (const checkpoint of actor.checkpoints) checkpoint.wasRebased = true
    // One side has removed a file, and did not know that the other one has the same file.
    if (kept.join() !== filesOf(actor.state.facts).join()) this.isOver = true
  }

  async #merge(actor: Actor, from: Actor): Promise<void> {
    const [a, b] = [actor.state, from.state]
    // It is not known which base is newer.
    if (
      isBeforeBase(a) ||
      isBeforeBase(b) ||
      (!startsWith(a.newest, b.newest) && !startsWith(b.newest, a.newest))
    )
      return
    const facts = union(a.facts, b.facts)
    const planned = await actor.session.merge(from.session, { dryRun: true }).catch((error: unknown) => {
      if (error instanceof EngineError && error.reason === 'NO_COMMON_ANCESTOR') return undefined
      throw error
    })
    if (planned?.merged !== true || planned.conflicts.length > 0) return
    const files = new Set(filesOf(a.facts))
    for (const { path, change } of planned.changes)
      if (change === 'removed') files.delete(path.slice(1))
      else files.add(path.slice(1))
    // A merge knows no commits.
    if ([...files].sort().join() !== filesOf(facts).join()) return
    await actor.session.merge(from.session)
    await this.#moved(actor, {
      facts,
      known: union(a.known, b.known),
      seen: union(a.seen, b.seen),
      newest: a.newest.length < b.newest.length ? b.newest : a.newest,
    })
  }

  async #restore(actor: Actor, at: number): Promise<void> {
    const checkpoint = actor.checkpoints[at % actor.checkpoints.length]
    if (checkpoint === undefined) return
    const { label, state } = checkpoint
    await actor.session.restore({ checkpointLabel: label })
    await this.#moved(actor, { ...state, own: actor.state.own })
    expect(actor.session.fs.readdirSync('/')).toEqual(filesOf(state.facts))
  }

  async #create(branch: string): Promise<void> {
    if (this.#actors.length >= mostSessions) return
    const revisionId = await this.#refresh(branch)
    const session = await this.#engine.sessions.create({
      sourceRef: { sourceId: this.#sourceId, revisionId },
    })
    const tip = this.#tip(branch)
    const known = this.#before(tip)
    const state = {
      facts: this.#factsOf(branch),
      known,
      seen: new Set<string>(),
      own: [tip],
      newest: [tip],
      base: tip,
    }
    await this.#add({ session, state, checkpoints: [], tips: new Map() })
  }

  async #add(actor: Actor): Promise<void> {
    this.#actors.push(actor)
    await this.#moved(actor, {})
  }

  /** Notes an event of a session, and the state after it. */
  async #moved(actor: Actor, changes: Partial<State>): Promise<void> {
    const state = { ...actor.state, ...changes }
    actor.state = { ...state, seen: union(state.seen, new Set([await stateOf(actor.session)])) }
  }

  async #refresh(gitRef: string): Promise<string> {
    const job = await this.#engine.sources.refresh(this.#sourceId, { gitRef })
    const { revisionId } = await this.#engine.sources.waitForJob(job)
    if (!this.#contained.has(revisionId)) this.#contained.set(revisionId, this.#pushedBefore(revisionId))
    return revisionId
  }

  #pushedBefore(commitId: string): readonly string[] {
    const before = this.#before(commitId)
    return this.#pushed.filter((text) => before.has(idOf(text)))
  }

  /** Compares the stored lists of commits. */
  async check(store: Store): Promise<void> {
    const records = await store.scan({ gte: 'z', lt: prefixEnd('z'), limit: 999 })
    const listOf = (...name: readonly string[]): readonly string[] => {
      const wanted = keys.knownCommits(sha256(tenant).slice(0, tenantKeyLength), sha256(JSON.stringify(name)))
      return JSON.parse(records.find(([key]) => key === wanted)?.[1] ?? '[]') as string[]
    }
    expect(listOf('pushed', '', this.#path)).toEqual(this.#pushed)
    for (const [revisionId, atFirst] of this.#contained) {
      const found = listOf('contained', revisionId)
      expect(found).toEqual(expect.arrayContaining([...atFirst]))
      expect(this.#pushedBefore(revisionId)).toEqual(expect.arrayContaining([...found]))
    }
  }

  /** A commit, and those before it. */
  #before(commitId: string): ReadonlySet<string> {
    const found = new Set([commitId])
    for (const one of found) for (const parent of this.#commits.get(one)?.parents ?? []) found.add(parent)
    return found
  }

  #actor(of: number): Actor {
    return itemAt(this.#actors, of % this.#actors.length)
  }

  /** A file of a state, which is not that of the first commit. */
  #file(facts: Facts, at: number): string | undefined {
    const files = filesOf(facts).filter((name) => name !== 'base')
    return files[at % files.length]
  }

  #name(): string {
    return `f${String(++this.#made).padStart(3, '0')}`
  }

  #tip(branch: string): string {
    return this.#branches.get(branch) ?? ''
  }

  #factsOf(branch: string): Facts {
    return this.#commits.get(this.#tip(branch))?.facts ?? new Set()
  }

  /** A commit of someone else. */
  #commit(branch: string, facts: Facts, parents: readonly string[]): void {
    const files = new Map(filesOf(facts).map((name) => [`/${name}`, `100644 ${name}`] as const))
    const commitId = this.#repository.commit(files, parents, this.#name())
    this.#commits.set(commitId, { facts, parents })
    this.#point(branch, commitId)
  }

  #point(branch: string, commitId: string): void {
    mkdirSync(join(this.#path, 'refs', 'heads'), { recursive: true })
    writeFileSync(join(this.#path, 'refs', 'heads', branch), `${commitId}\n`)
    this.#branches.set(branch, commitId)
  }
}

/** The session and the number of its newest event, as in a list of pushed commits. */
async function stateOf(session: Session): Promise<string> {
  using view = await session.at()
  return `${session.id} ${decodeSeq(view.eventId.slice(-8))}`
}

/** The id of the commit of an entry. */
function idOf(entry: string): string {
  return entry.slice(0, entry.indexOf(' '))
}

function startsWith(list: readonly string[], start: readonly string[]): boolean {
  return start.every((one, at) => list[at] === one)
}

/** Whether a session was restored to a state before a rebase, or is a fork of one that was. A merge can bring the base too. */
function isBeforeBase({ own, newest, base }: State): boolean {
  return base !== own.at(-1) && newest.at(-1) !== own.at(-1)
}

test.runIf(hasGit)(
  `a rebase compares with the commits that both sides have (FORKSPACE_SEED=${seed})`,
  { timeout: 600_000 },
  async () => {
    const root = mkdtempSync(join(tmpdir(), 'rebase-model-'))
    let n = 0
    try {
      const commands = fc.array(command, { minLength: 40, maxLength: 60, size: 'max' })
      await fc.assert(
        fc.asyncProperty(commands, async (commands) => {
          const storage = new SteppedStorage(memoryStorage({ durable: true }))
          await using engine = await openEngine({
            storage,
            hostPaths: { roots: [root] },
            // The time of the commits of others.
            environment: { ...systemEnvironment, wallClockMs: () => 1_700_000_000_000 },
          })
          const world = new World(engine.as({ tenant }), join(root, `${n++}.git`))
          await world.start()
          for (const command of commands) if (!world.isOver) await world.run(command)
          await world.check(storage.store)
          expect(n).toBeGreaterThan(0)
        }),
        { seed, numRuns: runs(200) },
      )
    } finally {
      rmSync(root, { recursive: true, force: true })
    }
  },
)
