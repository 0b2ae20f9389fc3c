import { spawnSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Engine, EngineError, MergeConflict, Session } from '../../src/index.js'
import type { GitRepository } from '../support/git-repository.js'

/** A session, and what its callers know of it. */
interface KnownSession {
  readonly id: string
  /** Whether callers undo, restore and abort. They may then not expect files to stay. */
  readonly isUndone: boolean
  /** The acknowledged new files, with the time in milliseconds. No call removes them. */
  readonly files: Map<string, number>
  readonly commits: {
    readonly commitId: string
    readonly branch: string
    readonly files: readonly string[]
  }[]
}

interface Options {
  readonly engines: readonly Engine[]
  readonly repository: GitRepository
  readonly random: () => number
  /** How much later an engine sees the writes of another one, in milliseconds. */
  readonly freshnessMillis: number
  /** Whether all sessions are undone and restored, often, and no caller commits or rebases. */
  readonly isUndoing: boolean
}

/** Why a call fails, although nothing is wrong: another call came first. */
const overtaken = new Set([
  'BRANCH_MOVED',
  'CHECKPOINT_NOT_FOUND',
  'CONFLICT_NOT_FOUND',
  'MERGE_TARGET_MOVED',
  'NOTHING_TO_REDO',
  'NOTHING_TO_UNDO',
  'SESSION_MOVED',
  'SESSION_NOT_FOUND',
  'STATE_NOT_KEPT',
  'STORE_LOCKED',
  'UNRESOLVED_CONFLICTS',
])
const maxSessions = 9
const lines = 5

type Call = (caller: Caller) => Promise<void>

/** One call: of a session on one of the engines. */
interface Caller {
  readonly engine: Engine
  readonly session: Session
  readonly known: KnownSession
  /** Files that the session must have. */
  readonly files: readonly string[]
}

/**
 * Sessions of a git source that callers write, fork, merge, rebase, undo and commit at once, while the store is collected.
 * `problems` has each acknowledged file that is missing, and each error that nothing explains.
 */
export class ConcurrentSessions {
  readonly problems: string[] = []
  readonly #options: Options
  readonly #random: () => number
  readonly #known: KnownSession[] = []
  #sourceId = ''
  #made = 0

  readonly #calls: readonly (readonly [name: string, call: Call])[]

  constructor(options: Options) {
    this.#options = options
    this.#random = options.random
    this.#calls = this.#weighted.flatMap(([usual, undoing, name, call]) =>
      Array.from({ length: options.isUndoing ? undoing : usual }, () => [name, call] as const),
    )
  }

  async start(): Promise<void> {
    this.#commitOutside('base')
    const [engine] = this.#options.engines
    if (engine === undefined) throw new Error('no engine')
    const { path } = this.#options.repository
    this.#sourceId = (
      await engine.sources.create({ displayName: 'remote', gitRepository: { path } })
    ).sourceId
    await this.#refresh(engine)
    for (const isUndone of [this.#options.isUndoing, true, true]) {
      const { id } = await engine.sessions.create({ sourceRef: { sourceId: this.#sourceId } })
      this.#known.push({ id, isUndone, files: new Map(), commits: [] })
    }
  }

  /** Makes calls one after the other. Several callers run at the same time. */
  async call(count: number): Promise<void> {
    for (; count > 0 && this.problems.length === 0; count--) {
      await this.#callOnce()
      if (this.#below(3) === 0) await sleep(this.#below(10))
    }
  }

  async #callOnce(): Promise<void> {
    const known = this.#pick(this.#known)
    const engine = this.#pick(this.#options.engines)
    const files = this.#seen(known)
    const [name, call] = this.#pick(this.#calls)
    try {
      await call({ engine, known, files, session: await engine.sessions.open(known.id) })
    } catch (error) {
      const { reason, message } = engineErrorOf(error)
      const isKnown = overtaken.has(reason) || (known.isUndone && reason === 'PATH_NOT_FOUND')
      if (!isKnown) this.problems.push(`${name} of ${known.id}: ${reason} ${message}`)
      if (reason === 'BRANCH_MOVED') await this.#refresh(engine)
    }
  }

  /** The calls, each as often as it is to be made: usually, and with `isUndoing`. */
  readonly #weighted: readonly (readonly [usual: number, undoing: number, name: string, call: Call])[] = [
    [16, 12, 'write', (caller) => this.#write(caller)],
    [8, 4, 'edit', (caller) => this.#edit(caller)],
    [10, 12, 'fork', (caller) => this.#fork(caller)],
    [24, 24, 'merge', (caller) => this.#merge(caller)],
    [8, 0, 'rebase', (caller) => this.#rebase(caller)],
    [8, 0, 'commit', (caller) => this.#commit(caller)],
    [3, 0, 'refresh', ({ engine }) => this.#refreshChanged(engine)],
    [10, 12, 'collect', async ({ engine }) => void (await engine.collect())],
    [2, 6, 'delete', (caller) => this.#delete(caller)],
    [20, 20, 'undo', (caller) => this.#undo(caller)],
    [3, 14, 'restore', (caller) => this.#restore(caller)],
  ]

  async #write({ session, known }: Caller): Promise<void> {
    const path = `/new/${this.#made++}`
    await session.fs.promises.mkdir('/new', { recursive: true })
    await session.fs.promises.writeFile(path, path)
    known.files.set(path, performance.now())
  }

  async #edit({ session }: Caller): Promise<void> {
    const text = (await session.fs.promises.readFile('/lines', 'utf8')).split('\n')
    text[this.#below(lines)] = `edit ${this.#made++}`
    await session.fs.promises.writeFile('/lines', text.join('\n'))
  }

  async #fork({ session, known, files }: Caller): Promise<void> {
    if (this.#known.length >= maxSessions) return
    const fork = await session.fork()
    const at = performance.now()
    const ofFork = { ...known, id: fork.id, commits: [], files: new Map(files.map((path) => [path, at])) }
    this.#known.push(ofFork)
    if (known.isUndone) return
    await this.#expectFiles('the fork', fork, files)
    // Its commit builds on those of the state that it started from.
    if (this.#below(2) === 0) await this.#commitTo(branchOf(fork.id), { session: fork, known: ofFork, files })
  }

  async #merge({ engine, session, known, files }: Caller): Promise<void> {
    const from = this.#pick(this.#known.filter((one) => known.isUndone || !one.isUndone))
    if (from.id === known.id) return
    const merged = [...files, ...this.#seen(from)]
    const policies = this.#pick([
      [],
      [{ glob: '**', policy: 'ours' }],
      [{ glob: '**', policy: 'theirs' }],
    ] as const)
    const { conflicts } = await session.merge({ sessionId: from.id }, { policies })
    const at = performance.now()
    for (const path of merged) if (!known.files.has(path)) known.files.set(path, at)
    await this.#resolve(known, await engine.sessions.open(known.id), conflicts)
  }

  async #rebase({ session, known }: Caller): Promise<void> {
    const { conflicts } = await session.rebase()
    await this.#resolve(known, session, conflicts)
  }

  async #resolve(known: KnownSession, session: Session, found: readonly MergeConflict[]): Promise<void> {
    if (found.length === 0) return
    if (known.isUndone && this.#below(2) === 0) await session.conflicts.abort()
    else await session.conflicts.resolveAll({ use: this.#pick(['ours', 'theirs']) })
  }

  async #commit({ session, known, files }: Caller): Promise<void> {
    if (known.isUndone) return
    const branch = this.#pick(['main', branchOf(known.id), ''])
    if (branch !== '') return this.#commitTo(branch, { session, known, files })
    const { commitId } = await session.commit({ message: `commit ${this.#made++}` })
    const path = files.at(-1)
    // A restore or a collection may have removed the commit again.
    if (path === undefined || !(await isListed(session, commitId))) return
    await session.commits.readFile({ commitId, path })
  }

  async #commitTo(branch: string, { session, known, files }: Omit<Caller, 'engine'>): Promise<void> {
    const message = `commit ${this.#made++}`
    const { commitId } = await session.commit({ message, gitBranch: { branchName: branch } })
    known.commits.push({ commitId, branch, files })
  }

  async #delete({ session, known }: Caller): Promise<void> {
    if (this.#known.length < 5 || this.#known.indexOf(known) < 3) return
    this.#known.splice(this.#known.indexOf(known), 1)
    await session.delete()
  }

  async #undo({ session, known }: Caller): Promise<void> {
    if (!known.isUndone) return
    if (this.#below(3) > 0) await session.undo()
    else await session.redo()
  }

  async #restore({ session, known }: Caller): Promise<void> {
    if (!known.isUndone) return
    const { checkpoints } = await session.listCheckpoints()
    if (checkpoints.length === 0 || this.#below(2) === 0) {
      await session.checkpoint({ checkpointLabel: `label ${this.#made++}` })
      return
    }
    const { checkpointLabel } = this.#pick(checkpoints)
    await session.restore({ checkpointLabel })
  }

  async #refreshChanged(engine: Engine): Promise<void> {
    try {
      if (this.#below(3) === 0) this.#commitOutside(`outside ${this.#made++}`)
    } catch (error) {
      // A commit of a session holds the lock of the branch.
      if (!String(error).includes('cannot lock ref')) throw error
    }
    await this.#refresh(engine)
  }

  async #refresh(engine: Engine): Promise<void> {
    await engine.sources.waitForJob(await engine.sources.refresh(this.#sourceId, { gitRef: 'main' }))
  }

  #commitOutside(text: string): void {
    const { repository } = this.#options
    const content = `${text}\n${Array.from({ length: lines - 1 }, (_, n) => `${n}\n`).join('')}`
    const entries = [
      ['100644', 'lines', content],
      ['100644', `outside/${this.#made++}`, 'x'],
    ] as const
    repository.commitFiles(entries, 'refs/heads/main', text)
  }

  /** The files that a session must have on each engine. */
  #seen({ files, isUndone }: KnownSession): string[] {
    const before = performance.now() - this.#options.freshnessMillis * 2
    return isUndone ? [] : [...files].flatMap(([path, at]) => (at < before ? [path] : []))
  }

  async #expectFiles(name: string, session: Session, files: readonly string[]): Promise<void> {
    if (files.length === 0) return
    const names = new Set(await session.fs.promises.readdir('/new'))
    for (const path of files)
      if (!names.has(path.slice('/new/'.length))) this.problems.push(`${name} ${session.id} lacks ${path}`)
  }

  /** Compares the sessions on all engines with each other, with the acknowledged files, and with their commits. */
  async check(): Promise<void> {
    await sleep(this.#options.freshnessMillis * 3)
    for (const known of this.#known) {
      const sessions = await Promise.all(this.#options.engines.map(({ sessions }) => sessions.open(known.id)))
      const [first, ...others] = await Promise.all(sessions.map(stateOf))
      for (const other of others)
        if (!isDeepStrictEqual(other, first)) this.problems.push(`${known.id} differs between engines`)
      const [session] = sessions
      if (session === undefined) continue
      if (!known.isUndone) await this.#expectFiles('at the end,', session, [...known.files.keys()])
      const { conflictCount } =
        first?.conflicts.length === 0
          ? { conflictCount: 0 }
          : await session.conflicts.resolveAll({ use: 'theirs' })
      if (conflictCount > 0) this.problems.push(`${known.id} still has ${conflictCount} conflicts`)
    }
    this.#checkCommits()
  }

  /** No commit removes a file of its parent, as no caller does. */
  #checkCommits(): void {
    const { repository } = this.#options
    const git = (...args: string[]): string[] => repository.git(args).trim().split('\n')
    const trees = new Map<string, Set<string>>()
    const filesOf = (commit: string): Set<string> => {
      const known = trees.get(commit) ?? new Set(git('ls-tree', '-r', '--name-only', commit))
      trees.set(commit, known)
      return known
    }
    for (const line of git('rev-list', '--all', '--parents')) {
      const [commit = '', ...parents] = line.split(' ')
      for (const parent of parents)
        for (const file of filesOf(parent))
          if (!filesOf(commit).has(file)) this.problems.push(`commit ${commit} lacks ${file} of ${parent}`)
    }
    for (const { id, commits } of this.#known)
      for (const { commitId, branch, files } of commits) {
        if (!git('rev-list', branch).includes(commitId))
          this.problems.push(`commit ${commitId} of ${id} is not in ${branch}`)
        for (const path of files)
          if (!filesOf(commitId).has(path.slice(1)))
            this.problems.push(`commit ${commitId} of ${id} lacks ${path}`)
      }
    const { status, stderr } = spawnSync('git', ['-C', repository.path, 'fsck', '--full', '--strict'])
    if (status !== 0) this.problems.push(`git fsck: ${stderr.toString()}`)
  }

  #pick<T>(items: readonly T[]): T {
    return items[this.#below(items.length)] as T
  }

  #below(count: number): number {
    return this.#random() % count
  }
}

function branchOf(sessionId: string): string {
  return `of-${sessionId}`
}

async function isListed(session: Session, commitId: string): Promise<boolean> {
  const { commits } = await session.commits.list({ pageSize: 1000 })
  return commits.some((commit) => commit.commitId === commitId)
}

async function stateOf(
  session: Session,
): Promise<Record<string, unknown> & { readonly conflicts: readonly MergeConflict[] }> {
  const { conflicts } = await session.conflicts.list()
  const [{ manifestHash }, verified, base] = [
    await session.manifest(),
    await session.events.verify(),
    await session.diff().paths(),
  ]
  return { conflicts, manifestHash, verified, base }
}

/** `session.fs` throws errors of Node, with the engine's error as the cause. */
function engineErrorOf(error: unknown): { readonly reason: string; readonly message: string } {
  const { reason, cause, stack } = error as EngineError & { readonly cause?: EngineError }
  if (reason !== undefined) return error as EngineError
  return cause?.reason === undefined ? { reason: 'none', message: String(stack) } : cause
}
