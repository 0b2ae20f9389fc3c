import { checkSignal, withSignals } from '../../base/abort.js'
import { engineClosed } from '../../base/errors.js'
import { sha256 } from '../../base/hash.js'
import { parseText, parseFlag, parseFunction } from '../../base/input.js'
import { Shape } from '../../base/shape.js'
import { KeyedMutex } from '../../base/keyed-mutex.js'
import { limits } from '../../base/limits.js'
import { applyPlans } from '../../session/edits/batch.js'
import { pinState, reading, type Core } from '../../session/core.js'
import { eventTypes } from '../../records/event.js'
import type { LiveSession } from '../../session/table/live.js'
import { treeChanges } from '../../session/tree-changes.js'
import { emptyDirectory, TreeBuilder } from '../../session/tree-builder.js'
import { keys } from '../../storage/keys.js'
import type { EncodedNode } from '../../tree/encoded.js'
import type { TreeChange } from '../../tree/diff.js'
import { Symlink, type Dir } from '../../tree/node.js'
import { Disk, FrozenTree, modified } from './checkout-disk.js'
import { CheckoutIndex } from './checkout-index.js'
import { mergeChanges } from './checkout-merge.js'
import { nameRule, type NameRule } from './checkout-name-rules.js'
import { DiskReader } from './checkout-read.js'
import { CheckoutWriter, type CheckoutProgress } from './checkout-write.js'
import type { Host, HostTree } from '../sources/host-ports.js'
import { checkoutKind, type CheckoutRecord } from '../../records/checkout.js'

/** Options of `session.checkout` and `checkout.update`. */
export interface CheckoutOptions {
  /**
   * Overwrites files in the directory that changed since the last write. Other files that no session wrote stay,
   * unless they are in the way. By default, such a change fails the call with `CHECKOUT_MODIFIED`.
   */
  readonly force?: boolean
  /** Ends the call with the signal's reason. The next update completes an interrupted write. */
  readonly signal?: AbortSignal
  /** Called with the progress after each written file or symlink. */
  readonly onProgress?: (progress: CheckoutProgress) => void
}

/** Options of `checkout.sync`. */
export interface SyncOptions {
  /** Ends the call with the signal's reason. The session has all changes or none. */
  readonly signal?: AbortSignal
}

/** The result of writing a session to a directory. */
export interface CheckoutUpdate {
  /** Number of files, symlinks and directories that were written or changed. */
  readonly written: number
  /** Number of files, symlinks and directories that were removed. */
  readonly removed: number
}

/**
 * The paths that `checkout.sync` changed in the session. An entry whose kind changed is in both `removed` and `added`.
 */
export interface CheckoutSync {
  /** Absolute paths in the session of new entries, sorted. */
  readonly added: string[]
  /** Absolute paths in the session of changed entries, sorted. */
  readonly modified: string[]
  /** Absolute paths in the session of removed entries, sorted. */
  readonly removed: string[]
}

/** Directories of the host that sessions are written to and read back from. */
export class Checkouts {
  readonly #host: () => Promise<Host>
  readonly #allowGitNames: boolean
  readonly #mutex = new KeyedMutex()
  readonly #closing = new AbortController()
  readonly #running = new Set<Promise<unknown>>()

  constructor(host: () => Promise<Host>, { allowGitNames }: { readonly allowGitNames: boolean }) {
    this.#host = host
    this.#allowGitNames = allowGitNames
  }

  /** Makes a directory match the current session. The result also contains its real path. */
  async update(
    core: Core,
    live: LiveSession,
    directory: string,
    options: CheckoutOptions,
  ): Promise<CheckoutUpdate & { readonly directory: string }> {
    // The state includes all earlier calls.
    using pinned = pinState(core, live)
    const to = await pinned.state
    return await this.#open(core, directory, true, options.signal, async (place, tree, signal) => {
      const update = new Update(core, new Place(core, place), tree, {
        ...options,
        signal,
        names: this.#namesOn(tree),
      })
      return { ...(await update.run(live.id, to)), directory: tree.directory }
    })
  }

  /** Applies the changes in the directory since the last checkout to the session, as one event. */
  async sync(core: Core, live: LiveSession, directory: string, options: SyncOptions): Promise<CheckoutSync> {
    return this.#open(core, directory, false, options.signal, (place, tree, signal) =>
      syncDirectory(core, live, new Place(core, place), tree, { signal, names: this.#namesOn(tree) }),
    )
  }

  /** Aborts running operations, and waits until they have ended. */
  async close(): Promise<void> {
    this.#closing.abort(engineClosed())
    await Promise.allSettled(this.#running)
  }

  #namesOn({ platform }: HostTree): NameRule {
    return nameRule({ platform, allowGitNames: this.#allowGitNames })
  }

  async #open<T>(
    core: Core,
    directory: string,
    create: boolean,
    signal: AbortSignal | undefined,
    work: (place: string, tree: HostTree, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const running = withSignals([signal, this.#closing.signal], (ends) =>
      this.#opened(core, directory, create, ends, work),
    )
    this.#running.add(running)
    try {
      return await running
    } finally {
      this.#running.delete(running)
    }
  }

  async #opened<T>(
    core: Core,
    directory: string,
    create: boolean,
    signal: AbortSignal,
    work: (place: string, tree: HostTree, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const host = await this.#host()
    const tree = await host.open(directory, { create })
    using _ = core.pins.pin({ writesSince: 'now' })
    try {
      const place = sha256(`checkout ${tree.directory}`).slice(0, 16)
      return await this.#mutex.run(`${core.tenantKey}${place}`, () => {
        signal.throwIfAborted()
        return work(place, tree, signal)
      })
    } finally {
      await tree.close()
    }
  }
}

/** The stored state of one directory. */
class Place {
  readonly index: CheckoutIndex
  readonly #core: Core
  readonly #key: string

  constructor(core: Core, place: string) {
    this.#core = core
    this.#key = keys.hostEntries(core.tenantKey, place, '')
    this.index = new CheckoutIndex(core, place)
  }

  async load(): Promise<{ sessionId: string; trees: Dir[] } | undefined> {
    const json = await this.#core.store.get(this.#key)
    if (json === undefined) return undefined
    const { sessionId, trees } = checkoutKind.parse(json)
    return { sessionId, trees: trees.map((root) => this.#core.roots.load(root)) }
  }

  /** Resolves when the trees are stored. The index of the files is stored first. */
  async store(sessionId: string, trees: readonly Dir[]): Promise<void> {
    const encoded: EncodedNode[] = []
    for (const root of trees) encoded.push(await this.#core.roots.save(root))
    await this.index.flush()
    const record: CheckoutRecord = { sessionId, trees: encoded }
    this.#core.roots.retainFor(this.#key, trees)
    await this.#core.store.commit({ put: [[this.#key, record]] })
  }
}

interface UpdateOptions extends CheckoutOptions {
  readonly signal: AbortSignal
  readonly names: NameRule
}

/** One write of a tree to a directory. */
class Update {
  readonly #core: Core
  readonly #place: Place
  readonly #tree: HostTree
  readonly #options: UpdateOptions

  constructor(core: Core, place: Place, tree: HostTree, options: UpdateOptions) {
    this.#core = core
    this.#place = place
    this.#tree = tree
    this.#options = options
  }

  async run(sessionId: string, to: Dir): Promise<CheckoutUpdate> {
    const { force = false, signal, names, onProgress = () => undefined } = this.#options
    const known = await this.#place.load()
    const first = await this.#firstName()
    if (known === undefined && first !== undefined && !force)
      throw modified(
        first,
        'already exists in the directory; check out into an empty directory, or overwrite it with { force: true }',
      )
    // If the directory was emptied, this is a new checkout.
    const nothing = emptyDirectory(this.#core)
    const trees = first === undefined || known === undefined ? [nothing] : known.trees
    const writer = new CheckoutWriter(new Disk(this.#core, this.#tree, this.#place.index), {
      bases: trees.map((root) => new FrozenTree(this.#core, root)),
      to: new FrozenTree(this.#core, to),
      force,
      empty: first === undefined,
      signal,
      onProgress,
      onFirstChange: () => this.#place.store(sessionId, [...trees.slice(-limits.checkoutInterruptions), to]),
    })
    // All names that will be written are checked before the first change.
    for (const base of force ? [nothing] : trees)
      for await (const change of this.#changes(base, to)) checkWritten(change, names)
    if (!force && first !== undefined) for (const base of trees) await writer.check(this.#changes(base, to))
    if (force) {
      for (const base of trees) await writer.write(removalsOf(this.#changes(base, to)))
      await writer.write(this.#changes(nothing, to))
    } else for (const base of trees) await writer.write(this.#changes(base, to))
    if (writer.differing > 0 || known?.sessionId !== sessionId || trees.length > 1)
      await this.#place.store(sessionId, [to])
    else await this.#place.index.flush()
    return { written: writer.written, removed: writer.removed }
  }

  #changes(before: Dir, after: Dir): AsyncGenerator<TreeChange> {
    return treeChanges(this.#core, before, after)
  }

  /** The first name in the directory; undefined if the directory is empty. */
  async #firstName(): Promise<string | undefined> {
    const listed = await this.#tree.list('/')
    const [first] = listed?.entries ?? []
    if (first !== undefined) return `/${first.name}`
    return listed !== undefined && listed.skipped > 0 ? '/' : undefined
  }
}

/** @throws {EngineError} UNSAFE_PATH when an entry to write has a forbidden name */
function checkWritten({ path, after }: TreeChange, names: NameRule): void {
  if (after !== undefined) names(path, after instanceof Symlink)
}

async function* removalsOf(changes: AsyncIterable<TreeChange>): AsyncGenerator<TreeChange> {
  for await (const change of changes) if (change.after === undefined) yield change
}

/** The session changed after its state was read. */
class Moved extends Error {}

async function syncDirectory(
  core: Core,
  live: LiveSession,
  place: Place,
  tree: HostTree,
  { signal, names }: { readonly signal: AbortSignal; readonly names: NameRule },
): Promise<CheckoutSync> {
  const known = await place.load()
  if (known?.sessionId !== live.id)
    throw modified('/', 'belongs to another checkout now; call session.checkout() again')
  const [base, ...others] = known.trees
  if (base === undefined || others.length > 0)
    throw modified('/', 'was written only in part, because an update was interrupted; call update() first')
  const builder = new TreeBuilder(core, base)
  const reader = new DiskReader(new Disk(core, tree, place.index), base, builder, { signal, names })
  await reader.read()
  if (reader.skipped > 0)
    core.log('warn', 'names in a directory were skipped', { sessionId: live.id, skipped: reader.skipped })
  if (reader.changes.length > 0) {
    const after = await builder.finish()
    await carryOver(core, live, reader, base, signal)
    await place.store(live.id, [after])
  } else await place.index.flush()
  return { added: reader.added.sort(), modified: reader.modified.sort(), removed: reader.removed.sort() }
}

/**
 * Plans the changes on the current state of the session. Repeats this until the session does not change
 * meanwhile.
 */
async function carryOver(
  core: Core,
  live: LiveSession,
  reader: DiskReader,
  base: Dir,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    if (live.tail !== undefined) await live.tail
    const { seq } = live
    const current = live.tree.freeze()
    const { redo, paths } = await reading(core, [current], () =>
      mergeChanges(core, reader.changes, base, current),
    )
    signal.throwIfAborted()
    const details = { operationCount: paths.length, paths: paths.slice(0, limits.pathsInDetails) }
    const event = { type: eventTypes.applyBatch, details }
    try {
      return await applyPlans(
        core,
        live,
        [
          ({ seq: now }) => {
            if (now !== seq) throw new Moved('the session changed during the sync')
            return { ...event, redo }
          },
        ],
        () => event,
      )
    } catch (error) {
      if (!(error instanceof Moved)) throw error
    }
  }
}

const checkoutShape = new Shape<CheckoutOptions>({ force: true, signal: true, onProgress: true })

const syncShape = new Shape<SyncOptions>({ signal: true })

export function parseCheckout(directory: string, options: CheckoutOptions): CheckoutOptions {
  parseText('directory', directory, limits.pathBytes)
  const copy = checkoutShape.read(options, 'options')
  const { force, onProgress, signal } = copy
  checkSignal(signal)
  parseFlag('force', force, false)
  parseFunction('onProgress', onProgress)
  return copy
}

export function parseSync(options: SyncOptions): SyncOptions {
  const copy = syncShape.read(options, 'options')
  checkSignal(copy.signal)
  return copy
}
