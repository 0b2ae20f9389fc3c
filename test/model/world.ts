import { expect, vi } from 'vitest'
import {
  EngineError,
  memoryStorage,
  openEngine,
  type Engine,
  type Session,
  type Storage,
  type StateReference,
} from '../../src/index.js'
import type { Dir } from '../../src/engine/tree/node.js'
import { Tree } from '../../src/engine/tree/tree.js'
import { fixedEnvironment, randomWords } from '../../src/testing.js'
import {
  compareBytes,
  Content,
  contentOf,
  ModelTree,
  parentOf,
  type Entry,
  type TreeStep,
} from './model-tree.js'
import { ObservedStorage } from './observed-storage.js'
import {
  manyNames,
  type Change,
  type GuardChoice,
  type Operation,
  type PathChoice,
  type StateChoice,
} from './operations.js'
import {
  applyToModel,
  describeFile,
  describeModelFile,
  describeModel,
  describeSession,
  outcomeOf,
  runStep,
  type Outcome,
} from './run-step.js'
import { expectNoGarbage } from './stored-garbage.js'
import { checkTree } from './tree-checks.js'

interface ModelSession {
  readonly id: string
  tree: ModelTree
  readonly base: ModelTree
  readonly checkpoints: { readonly label: string; readonly tree: ModelTree }[]
  deleted: boolean
}

const maxSessions = 6
/** Bounds the memory of a run: files at most double by appending them to themselves, but there may be many. */
const maxFileBytes = 3 << 20

/** An engine and its model. Every operation runs on both, and the outcomes must be equal. */
export class World {
  readonly #storage: ObservedStorage
  readonly #durable: boolean
  readonly #environment = fixedEnvironment()
  #engine!: Engine
  #sessions: ModelSession[] = []
  #handles = new Map<string, Session>()
  #labels = 0

  static async open(storage: Storage, options: { readonly durable: boolean }): Promise<World> {
    const world = new World(storage, options.durable)
    world.#engine = await world.#open()
    await world.#create([])
    return world
  }

  private constructor(storage: Storage, durable: boolean) {
    this.#storage = new ObservedStorage(storage)
    this.#durable = durable
  }

  async run(operation: Operation): Promise<void> {
    switch (operation.op) {
      case 'change': {
        const started = await this.#start(operation.session, operation.change)
        expect(await started.outcome).toBe(started.expected)
        return
      }
      case 'burst': {
        const chosen = operation.changes.map(({ session }) => this.#session(session))
        for (const model of chosen) await this.#handle(model)
        const collected = operation.collect ? this.#engine.collect() : undefined
        const started = operation.changes.map(({ session, change }) =>
          this.#startNow(this.#session(session), change),
        )
        const parent = chosen.at(-1)!
        const state = parent.tree.clone()
        const forked = operation.fork ? this.#handles.get(parent.id)!.fork() : undefined
        const outcomes = await Promise.all(started.map(({ outcome }) => outcome))
        expect(outcomes).toEqual(started.map(({ expected }) => expected))
        if (forked !== undefined) await this.#add(await forked, state, parent.base)
        await collected
        for (const model of new Set(chosen)) if (!model.deleted) await this.#verify(model)
        return
      }
      case 'fork': {
        const model = this.#session(operation.session)
        const checkpoint =
          operation.checkpoint === undefined ? undefined : pick(model.checkpoints, operation.checkpoint)
        const session = await this.#handle(model)
        const fork = await session.fork(checkpoint && { checkpointLabel: checkpoint.label })
        await this.#add(fork, (checkpoint?.tree ?? model.tree).clone(), model.base)
        return
      }
      case 'create':
        return this.#create(operation.files)
      case 'delete session': {
        const live = this.#living()
        if (live.length < 2) return
        const model = pick(live, operation.session)!
        await (await this.#handle(model)).delete()
        model.deleted = true
        await expectNotFound(this.#engine.sessions.open(model.id))
        await expectNotFound(this.#handles.get(model.id)!.files.write({ path: '/a', content: '' }))
        return
      }
      case 'diff':
        return this.#diff(operation.from, operation.to)
      case 'verify':
        return this.#verify(this.#session(operation.session), operation.pageSize)
      case 'rebuild':
        return this.#rebuild(this.#session(operation.session), operation.shuffle)
      case 'bundle':
        return this.#bundle(this.#session(operation.session), operation.via)
      case 'reopen':
        return this.#reopen(operation.crash)
      case 'collect':
        return this.#collect(operation)
    }
  }

  async #collect({ keepRedo, crashAfter }: Operation & { op: 'collect' }): Promise<void> {
    await this.#engine.collect({ keepRedo })
    for (const model of this.#living()) await (await this.#handle(model)).events.verify()
    if (crashAfter !== undefined) {
      this.#storage.crashAfter(crashAfter)
      await this.#engine.collect({ keepRedo }).catch(() => undefined)
    }
    // From here on no tree in memory can keep data alive.
    await this.#reopen(crashAfter !== undefined)
    await this.#engine.collect({ keepRedo })
    await this.#expectNoGarbage(keepRedo)
  }

  async #expectNoGarbage(keepRedo = false): Promise<void> {
    const sessions: Session[] = []
    for (const model of this.#living()) sessions.push(await this.#handle(model))
    await expectNoGarbage(this.#storage.stored, sessions, { keepRedo })
    for (const model of this.#living()) {
      await this.#verify(model)
      for (const { label, tree } of model.checkpoints) {
        const from = { sessionId: model.id, checkpointLabel: label }
        const changes = []
        for await (const change of this.#engine.diff({ from, to: { sessionId: model.id } }))
          changes.push(change)
        expect(changes).toEqual(tree.diff(model.tree))
      }
    }
  }

  /** Checks that must hold at the end of every run. */
  async finish(): Promise<void> {
    for (const model of this.#living()) await this.#verify(model)
    await this.#rebuild(this.#living()[0]!, 1)
    if (!this.#durable) return
    const live = await this.#dump()
    for (const crash of [true, false, true]) {
      await this.#reopen(crash)
      expect(await this.#dump(), crash ? 'after a crash' : 'after closing').toEqual(live)
    }
    await this.#engine.collect()
    expect(await this.#dump(), 'after a collection').toEqual(live)
    for (const model of this.#living()) await this.#verify(model)
    await this.#reopen(false)
    await this.#engine.collect()
    await this.#expectNoGarbage()
    expect(await this.#dump(), 'after the last collection').toEqual(live)
    for (const model of this.#sessions)
      if (model.deleted) await expectNotFound(this.#engine.sessions.get(model.id))
  }

  close(): Promise<void> {
    return this.#engine.close()
  }

  #open(): Promise<Engine> {
    return openEngine({ storage: this.#storage, environment: this.#environment })
  }

  async #reopen(crash: boolean): Promise<void> {
    if (crash) await this.#storage.crash()
    else await this.#engine.close()
    this.#handles.clear()
    this.#engine = await this.#open()
    const listed: string[] = []
    for (let pageToken = ''; ;) {
      const page = await this.#engine.sessions.list({ pageSize: 2, pageToken })
      listed.push(...page.sessions.map(({ id }) => id))
      if (page.nextPageToken === '') break
      pageToken = page.nextPageToken
    }
    expect(listed).toEqual(this.#living().map(({ id }) => id))
  }

  async #create(files: readonly PathChoice[]): Promise<void> {
    const tree = new ModelTree()
    const contents: Record<string, string> = Object.create(null) as Record<string, string>
    for (const choice of files) {
      const path = choosePath(tree, choice)
      const content = { size: path.length, seed: 1 }
      if (tree.get(path) !== undefined) continue
      if (applyToModel(tree, { op: 'write', path, content }) === 'ok')
        contents[path] = contentOf(content).toString()
    }
    const given = files.length === 0 ? {} : { files: contents }
    await this.#add(await this.#engine.sessions.create(given), tree, tree.clone())
  }

  /** Copies a session through another kind of engine, and requires the same session, including its history. */
  async #bundle(model: ModelSession, via: number): Promise<void> {
    const session = await this.#handle(model)
    const bundle = await bytesOf(session.exportBundle())
    const elsewhere = await openEngine({ storage: pick(kindsOfMemory, via)!() })
    const there = await elsewhere.sessions.importBundle(bundle)
    expect(bundle.equals(await bytesOf(there.exportBundle())), 'the bundle of a copy').toBe(true)
    const copy = await this.#engine.sessions.importBundle(there.exportBundle())
    await elsewhere.close()
    expect(bundle.equals(await bytesOf(copy.exportBundle())), 'the bundle of a copy of it').toBe(true)
    expect((await copy.events.verify()).headHash).toBe((await session.events.verify()).headHash)
    expect(await this.#attributes(copy)).toEqual(await this.#attributes(session))
    const checkpoints = model.checkpoints.map(({ label, tree }) => ({ label, tree: tree.clone() }))
    await this.#add(copy, model.tree.clone(), model.base, checkpoints)
  }

  async #add(
    session: Session,
    tree: ModelTree,
    base: ModelTree,
    checkpoints: ModelSession['checkpoints'] = [],
  ): Promise<void> {
    const living = this.#living()
    if (living.length >= maxSessions) {
      living[0]!.deleted = true
      await (await this.#handle(living[0]!)).delete()
    }
    this.#handles.set(session.id, session)
    this.#sessions.push({ id: session.id, tree, base, checkpoints, deleted: false })
  }

  #living(): ModelSession[] {
    return this.#sessions.filter(({ deleted }) => !deleted)
  }

  #session(choice: number): ModelSession {
    return pick(this.#living(), choice)!
  }

  async #handle(model: ModelSession): Promise<Session> {
    let handle = this.#handles.get(model.id)
    if (handle === undefined) {
      handle = await this.#engine.sessions.open(model.id)
      this.#handles.set(model.id, handle)
    }
    return handle
  }

  async #start(session: number, change: Change): Promise<{ expected: Outcome; outcome: Promise<Outcome> }> {
    const model = this.#session(session)
    await this.#handle(model)
    return this.#startNow(model, change)
  }

  /** Changes the model and makes the call at once, so that the calls of a burst keep the model's order. */
  #startNow(model: ModelSession, change: Change): { expected: Outcome; outcome: Promise<Outcome> } {
    const session = this.#handles.get(model.id)!
    if (change.op === 'checkpoint') {
      const label = change.label === undefined ? `l${++this.#labels}` : `${change.label}`
      const taken = model.checkpoints.some((checkpoint) => checkpoint.label === label)
      if (!taken) model.checkpoints.push({ label, tree: model.tree.clone() })
      return {
        expected: taken ? 'ALREADY_EXISTS' : 'ok',
        outcome: outcomeOf(session.checkpoint({ checkpointLabel: label })),
      }
    }
    if (change.op === 'restore') {
      const checkpoint = pick(model.checkpoints, change.checkpoint)
      if (checkpoint !== undefined) model.tree = checkpoint.tree.clone()
      const checkpointLabel = checkpoint?.label ?? 'missing'
      const outcome = outcomeOf(session.restore({ checkpointLabel }))
      return { expected: checkpoint === undefined ? 'CHECKPOINT_NOT_FOUND' : 'ok', outcome }
    }
    if (change.op === 'drop') {
      const checkpoint = pick(model.checkpoints, change.checkpoint)
      if (checkpoint !== undefined) model.checkpoints.splice(model.checkpoints.indexOf(checkpoint), 1)
      const outcome = outcomeOf(session.deleteCheckpoint({ checkpointLabel: checkpoint?.label ?? 'missing' }))
      return { expected: checkpoint === undefined ? 'CHECKPOINT_NOT_FOUND' : 'ok', outcome }
    }
    const step = stepOf(model.tree, change)
    return { expected: applyToModel(model.tree, step), outcome: outcomeOf(runStep(session, step)) }
  }

  async #diff(from: StateChoice, to: StateChoice): Promise<void> {
    const [before, after] = [this.#state(from), this.#state(to)]
    const changes = []
    for await (const change of this.#engine.diff({ from: before.reference, to: after.reference }))
      changes.push(change)
    expect(changes).toEqual(before.tree.diff(after.tree))
  }

  #state({ session, checkpoint }: StateChoice): { reference: StateReference; tree: ModelTree } {
    const model = this.#session(session)
    const sessionId = model.id
    if (checkpoint === 'base') return { reference: { sessionId, base: true }, tree: model.base }
    const named = checkpoint === undefined ? undefined : pick(model.checkpoints, checkpoint)
    if (named === undefined) return { reference: { sessionId }, tree: model.tree }
    return { reference: { sessionId, checkpointLabel: named.label }, tree: named.tree }
  }

  async #verify(model: ModelSession, pageSize = 1000): Promise<void> {
    const session = await this.#handle(model)
    expect(await describeSession(session, Math.max(pageSize, model.tree.paths().length >> 4))).toEqual(
      describeModel(model.tree),
    )
    for (const [path, entry] of model.tree.inOrder().slice(0, 50)) {
      if (entry.kind !== 'file' || path.length > 2000) continue
      const read = await session.files.read({ path })
      expect(new Content(Buffer.from(read)).hash).toBe(entry.content.hash)
    }
    for (const [path, entry] of [['/', model.tree.get('/')!] as const, ...model.tree.inOrder()]) {
      const special = entry.kind !== 'symlink' && (entry.xattrs.size > 0 || isLinked(entry))
      if (!special || path.length > 2000) continue
      expect([path, await describeFile(session, path)]).toEqual([path, describeModelFile(model.tree, path)])
      const { ino } = await session.fs.promises.stat(path)
      const [first] = model.tree.namesOf(path).filter((name) => name.length <= 2000)
      expect((await session.fs.promises.stat(first!)).ino).toBe(ino)
    }
    const { checkpoints } = await session.listCheckpoints()
    expect(checkpoints.map(({ checkpointLabel }) => checkpointLabel)).toEqual(
      model.checkpoints.map(({ label }) => label),
    )
    await this.#attributes(session)
  }

  /** Builds the same tree in another order and with other changes, and requires the same hash. */
  async #rebuild(model: ModelSession, seed: number): Promise<void> {
    const random = randomWords(seed)
    const engine = await openEngine()
    const other = await engine.sessions.create()
    const entries = model.tree.inOrder().map((entry) => [entry, random()] as const)
    const shuffled = entries.sort((a, b) => a[1] - b[1]).map(([entry]) => entry)
    const made = new Set(['/'])
    const makeDirectory = async (path: string): Promise<void> => {
      if (made.has(path)) return
      made.add(path)
      await makeDirectory(parentOf(path))
      await other.files.createDirectory({ path })
    }
    const setXattrs = async (path: string, entry: Entry): Promise<void> => {
      if (entry.kind === 'symlink') return
      for (const [name, value] of random() % 2 === 0 ? entry.xattrs : [...entry.xattrs].reverse())
        await other.files.setXattr({ path, name, value })
    }
    for (const [path, entry] of shuffled) {
      if (entry.kind === 'directory') {
        await makeDirectory(path)
        await other.files.setMode({ path, mode: entry.mode })
        await setXattrs(path, entry)
        continue
      }
      const parent = parentOf(path)
      await makeDirectory(parent)
      const noise = `${parent === '/' ? '' : parent}/noise`
      const noisy = random() % 4 === 0 && model.tree.get(noise) === undefined
      if (noisy) await other.files.write({ path: noise, content: 'x' })
      if (entry.kind === 'symlink') await other.files.createSymlink({ linkPath: path, target: entry.target })
      else {
        const { bytes } = entry.content
        const cut = bytes.length < 2 ? 0 : random() % bytes.length
        await other.files.write({ path, content: bytes.subarray(0, cut), mode: entry.mode })
        await other.files.append({ path, content: bytes.subarray(cut) })
        await setXattrs(path, entry)
      }
      if (noisy) await other.files.delete({ path: noise })
    }
    const root = model.tree.get('/')!
    if (root.kind === 'directory') await other.files.setMode({ path: '/', mode: root.mode })
    await setXattrs('/', root)
    const expected = (await other.manifest({ pageSize: 1 })).manifestHash
    await engine.close()
    const session = await this.#handle(model)
    expect((await session.manifest({ pageSize: 1 })).manifestHash, 'the hash of an equal tree').toBe(expected)
  }

  async #dump(): Promise<Record<string, unknown>> {
    const dump: Record<string, unknown> = {}
    for (const model of this.#living()) {
      const session = await this.#handle(model)
      const { manifestHash } = await session.manifest({ pageSize: 1 })
      dump[model.id] = { manifestHash, attributes: await this.#attributes(session) }
    }
    return dump
  }

  /** Checks the pages of a session's live tree, and returns it with all inode numbers and times. */
  async #attributes(session: Session): Promise<string[]> {
    const freeze = vi.spyOn(Tree.prototype, 'freeze')
    await session.manifest({ pageSize: 1 })
    const root = freeze.mock.results.at(-1)!.value as Dir
    const tree = freeze.mock.contexts.at(-1) as Tree
    freeze.mockRestore()
    return checkTree(root, tree.loader)
  }
}

const kindsOfMemory: readonly (() => Storage)[] = [
  () => memoryStorage(),
  () => memoryStorage({ durable: true }),
  () => memoryStorage({ durable: true, syncReads: false }),
]

async function bytesOf(content: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  for await (const piece of content) pieces.push(piece)
  return Buffer.concat(pieces)
}

function isLinked(entry: Entry): boolean {
  return entry.kind === 'file' && entry.link !== undefined
}

async function expectNotFound(promise: Promise<unknown>): Promise<void> {
  const error: unknown = await promise.catch((thrown: unknown) => thrown)
  expect(error instanceof EngineError && error.reason).toBe('SESSION_NOT_FOUND')
}

function pick<T>(list: readonly T[], choice: number): T | undefined {
  return list[choice % list.length]
}

function stepOf(
  tree: ModelTree,
  change: Exclude<Change, { op: 'checkpoint' | 'restore' | 'drop' }>,
): TreeStep {
  switch (change.op) {
    case 'write':
    case 'append': {
      const path = choosePath(tree, change.path)
      const known = tree.get(path)
      const room =
        known?.kind === 'file' && known.content.bytes.length > maxFileBytes ? 0 : change.content.size
      const content = { ...change.content, size: room }
      const guard = guardOf(tree, path, change.guard)
      return {
        op: change.op,
        path,
        content,
        ...guard,
        ...(change.op === 'write' && change.mode !== undefined && { mode: change.mode }),
      }
    }
    case 'delete':
    case 'unlink': {
      const path = choosePath(tree, change.path)
      return { op: change.op, path, ...guardOf(tree, path, change.guard) }
    }
    case 'link':
      return { op: 'link', from: choosePath(tree, change.path), to: choosePath(tree, change.to) }
    case 'setXattr':
    case 'removeXattr':
      return { ...change, path: choosePath(tree, change.path) }
    case 'mkdir':
      return {
        op: 'mkdir',
        path: choosePath(tree, change.path),
        ...(change.mode !== undefined && { mode: change.mode }),
      }
    case 'rmdir':
    case 'rm':
      return { op: change.op, path: choosePath(tree, change.path) }
    case 'chmod':
      return { op: 'chmod', path: choosePath(tree, change.path), mode: change.mode }
    case 'rename':
      return { op: 'rename', from: choosePath(tree, change.path), to: choosePath(tree, change.to) }
    case 'symlink': {
      const { target } = change
      const text = typeof target === 'string' ? target : choosePath(tree, target)
      return {
        op: 'symlink',
        path: choosePath(tree, change.path),
        target: text.isWellFormed() && !text.includes('\0') ? text : 'a',
      }
    }
    case 'batch': {
      const steps = change.parts.map((part) => stepOf(tree, part) as TreeStep & { op: 'write' | 'delete' })
      return { op: 'batch', steps }
    }
    case 'fill': {
      const path = choosePath(tree, change.path)
      const names = (change.ends ? manyNames.ends : manyNames.plain).slice(0, change.count)
      const content = { size: 3, seed: 1 }
      return { op: 'batch', steps: names.map((name) => ({ op: 'write', path: join(path, name), content })) }
    }
    default: {
      const path = choosePath(tree, change.path)
      const files = tree
        .paths()
        .filter((other) => parentOf(other) === path && tree.get(other)!.kind !== 'directory')
      const start = files.length === 0 ? 0 : change.from % files.length
      const chosen = files.sort(compareBytes).slice(start, start + change.count)
      return { op: 'batch', steps: chosen.map((file) => ({ op: 'delete', path: file })) }
    }
  }
}

function choosePath(tree: ModelTree, { at, names }: PathChoice): string {
  const base = at === undefined ? '/' : (pick(tree.paths(), at) ?? '/')
  return names.length === 0 ? base : join(base, names.join('/'))
}

function join(path: string, name: string): string {
  return path === '/' ? `/${name}` : `${path}/${name}`
}

function guardOf(tree: ModelTree, path: string, choice: GuardChoice): { guard?: string } {
  if (choice === 'none') return {}
  if (choice === 'absent') return { guard: '' }
  if (choice === 'wrong') return { guard: `sha256:${'0'.repeat(64)}` }
  const hash = tree.hashAt(path)
  return hash === undefined ? {} : { guard: hash }
}
