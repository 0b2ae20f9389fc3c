import { withSignals } from '../../base/abort.js'
import { TimeSlice } from '../../base/cooperative.js'
import { engineClosed, sharedStore } from '../../base/errors.js'
import { sha256 } from '../../base/hash.js'
import { KeyedMutex } from '../../base/keyed-mutex.js'
import { limits } from '../../base/limits.js'
import { applyPlans } from '../../session/edits/batch.js'
import { pinState, reading, type Core } from '../../session/core.js'
import { eventTypes } from '../../records/event.js'
import type { BaseAtState, LiveSession } from '../../session/table/live.js'
import { TreeBuilder } from '../../session/tree-builder.js'
import { lossCheck } from '../../storage/loss-check.js'
import type { Dir } from '../../tree/node.js'
import { Disk, modified } from './checkout-disk.js'
import type { CheckoutRepository } from './checkout-git.js'
import { Exclusions } from './checkout-exclusions.js'
import { mergeChanges, type Merge } from './checkout-merge.js'
import { nameRule } from './checkout-name-rules.js'
import { Place } from './checkout-place.js'
import { DiskReader, type ReadOptions } from './checkout-read.js'
import type {
  CheckoutSync,
  CheckoutUpdate,
  CheckoutUpdateOptions,
  Layout,
  SyncOptions,
} from './checkout-requests.js'
import { closeShared, openShared } from './checkout-shared.js'
import { Update } from './checkout-update.js'
import type { Host, HostTree } from '../sources/host-ports.js'

/** Directories of the host that sessions are written to and read back from. */
export class Checkouts {
  readonly #host: () => Promise<Host>
  readonly #allowGitNames: boolean
  readonly #repositoryOf: (core: Core, base: BaseAtState) => CheckoutRepository
  readonly #mutex = new KeyedMutex()
  readonly #closing = new AbortController()
  readonly #running = new Set<Promise<unknown>>()

  constructor(
    host: () => Promise<Host>,
    options: {
      readonly allowGitNames: boolean
      readonly repositoryOf: (core: Core, base: BaseAtState) => CheckoutRepository
    },
  ) {
    this.#host = host
    this.#allowGitNames = options.allowGitNames
    this.#repositoryOf = options.repositoryOf
  }

  /** Makes a directory match the current session. The result also contains its real path. */
  async update(
    core: Core,
    live: LiveSession,
    directory: string,
    { layout, ...options }: CheckoutUpdateOptions & { readonly layout: Layout },
  ): Promise<CheckoutUpdate & { readonly directory: string }> {
    // The state includes all earlier calls.
    const checkLosses = lossCheck(core.store)
    using pinned = pinState(core, live)
    const { root: to, ...base } = await pinned.state
    const repository = layout.git ? this.#repositoryOf(core, base) : undefined
    return await this.#open(core, directory, true, options.signal, async (place, tree, signal) => {
      const shared = await openShared(await this.#host(), tree, layout.shared)
      try {
        const update = new Update(core, new Place(core, place, checkLosses), tree, {
          ...options,
          ...this.#readOptions(core, tree, layout, signal),
          shared,
          repository,
          excludeLines: layout.excludeLines,
        })
        return { ...(await update.run(live.id, to)), directory: tree.directory }
      } finally {
        await closeShared(shared)
      }
    })
  }

  /** Applies the changes in the directory since the last checkout to the session, as one event. */
  async sync(
    core: Core,
    live: LiveSession,
    directory: string,
    { layout, signal: given, dryRun = false }: SyncOptions & { readonly layout: Layout },
  ): Promise<CheckoutSync> {
    return this.#open(core, directory, false, given, (place, tree, signal) =>
      syncDirectory(core, live, new Place(core, place), tree, {
        ...this.#readOptions(core, tree, layout, signal),
        dryRun,
      }),
    )
  }

  /**
   * The real path of a directory, which is made when it is missing. Undefined if it has files, and no session was
   * written there.
   */
  claim(core: Core, directory: string): Promise<string | undefined> {
    return this.#open(core, directory, true, undefined, async (place, tree) => {
      if ((await new Place(core, place).load()) !== undefined) return tree.directory
      const listed = await tree.list('/')
      return listed !== undefined && (listed.entries.length > 0 || listed.skipped > 0)
        ? undefined
        : tree.directory
    })
  }

  /** Removes everything from a directory. */
  clear(core: Core, directory: string): Promise<void> {
    return this.#open(core, directory, false, undefined, (_place, tree) => tree.clear())
  }

  /** Forgets that a session was written to a directory. Its files stay. */
  release(core: Core, directory: string): Promise<void> {
    return this.#open(core, directory, false, undefined, (place) => new Place(core, place).forget())
  }

  /** Aborts running operations, and waits until they have ended. */
  async close(): Promise<void> {
    this.#closing.abort(engineClosed())
    await Promise.allSettled(this.#running)
  }

  #readOptions(core: Core, tree: HostTree, { exclusions, git }: Layout, signal: AbortSignal): ReadOptions {
    const names = nameRule({ platform: tree.platform, allowGitNames: this.#allowGitNames && !git })
    return {
      signal,
      names,
      exclusions: new Exclusions(tree, exclusions, new TimeSlice(core.environment, signal)),
    }
  }

  async #open<T>(
    core: Core,
    directory: string,
    create: boolean,
    signal: AbortSignal | undefined,
    work: (place: string, tree: HostTree, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    if (core.sharing !== undefined)
      throw sharedStore(
        'a checkout',
        'Write the session to an archive, or use an engine that does not share it',
      )
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
      return await this.#mutex.run(`${core.tenantKey}${place}`, () => work(place, tree, signal), signal)
    } finally {
      await tree.close()
    }
  }
}

/** The session changed after its state was read. */
class Moved extends Error {}

async function syncDirectory(
  core: Core,
  live: LiveSession,
  place: Place,
  tree: HostTree,
  { dryRun, ...options }: ReadOptions & { readonly dryRun: boolean },
): Promise<CheckoutSync> {
  const known = await place.load()
  if (known?.sessionId !== live.id)
    throw modified('/', 'belongs to another checkout now; call session.checkout() again')
  const [base, ...others] = known.trees
  if (base === undefined || others.length > 0)
    throw modified('/', 'was written only in part, because an update was interrupted; call update() first')
  const builder = new TreeBuilder(core, base)
  const reader = new DiskReader(new Disk(core, tree, place.index), base, builder, options)
  await reader.read()
  if (reader.skipped > 0)
    core.log('warn', 'names in a directory were skipped', { sessionId: live.id, skipped: reader.skipped })
  if (dryRun) {
    await builder.writer.flush()
    await plan(core, live, reader, base)
  } else if (reader.changes.length > 0) {
    const after = await builder.finish()
    await carryOver(core, live, reader, base, options.signal)
    await place.finish(live.id, after)
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
    const { version, redo, paths } = await plan(core, live, reader, base)
    signal.throwIfAborted()
    const details = { operationCount: paths.length, paths: paths.slice(0, limits.pathsInDetails) }
    const event = { type: eventTypes.applyBatch, details }
    try {
      return await applyPlans(
        core,
        live,
        redo.map((effect) => () => {
          if (live.version !== version) throw new Moved('the session changed during the sync')
          return { ...event, redo: [effect] }
        }),
        () => event,
      )
    } catch (error) {
      if (!(error instanceof Moved)) throw error
    }
  }
}

/** The changes to the current state of the session, and its version. */
async function plan(
  core: Core,
  live: LiveSession,
  reader: DiskReader,
  base: Dir,
): Promise<Merge & Pick<LiveSession, 'version'>> {
  if (live.tail !== undefined) await live.tail
  const { version } = live
  const current = live.tree.freeze()
  const merge = await reading(core, [current], () => mergeChanges(core, reader.changes, base, current))
  return { version, ...merge }
}
