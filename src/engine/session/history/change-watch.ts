import { runInSlices } from '../../base/cooperative.js'
import { checkSignal, onAbort } from '../../base/abort.js'
import { limits } from '../../base/limits.js'
import { Shape } from '../../base/shape.js'
import { EngineError } from '../../base/errors.js'
import type { Core } from '../core.js'
import { SearchedFiles } from '../search/file-filter.js'
import { parseCount, readGlobs } from '../search/search-input.js'
import { positionedState } from '../states.js'
import type { LiveSession } from '../table/live.js'
import { describeChange, treeChanges, type Change } from '../tree-changes.js'
import type { Dir } from '../../tree/node.js'
import { eventIdOf, parseEventId } from './event-ids.js'
import { QuietFeed } from './quiet-feed.js'

/** Changes of files that belong together. */
export interface ChangeBatch {
  /** Pass it as `afterEventId` to continue after this batch. */
  readonly eventId: string
  /** The paths that differ from the batch before, in the order of the manifest. */
  readonly changes: Change[]
}

/** The batches of `session.watch`: iterate them once. */
export interface ChangeWatch extends AsyncIterableIterator<ChangeBatch, undefined> {
  /**
   * The `eventId` after which the changes start. Rejects with the error of the first `next` if the watch cannot start.
   * Callers need not await or handle it.
   */
  readonly startsAfter: Promise<string>
  /** Ends the watch. Leaving a loop over it does the same. */
  return(value?: undefined): Promise<IteratorResult<ChangeBatch, undefined>>
}

/** Options of `session.watch`. */
export interface ChangeWatchOptions {
  /** Only paths that match one of these globs, such as `src/**` or `*.ts`; at most 100. By default all. */
  readonly globs?: readonly string[]
  /** A batch ends when no change has followed for this time; 0 to 5,000 milliseconds, by default 50. */
  readonly debounceMs?: number
  /** The `eventId` of the last batch or event that the caller knows. By default, the newest event at the call. */
  readonly afterEventId?: string
  /** Ends the iteration with the signal's reason. */
  readonly signal?: AbortSignal
}

const watchShape = new Shape<ChangeWatchOptions>({
  globs: true,
  debounceMs: true,
  afterEventId: true,
  signal: true,
})

export interface ParsedWatch {
  /** Undefined for all paths. */
  readonly wanted: SearchedFiles | undefined
  readonly debounceMs: number
  readonly afterEventId: string | undefined
  readonly signal: AbortSignal | undefined
}

/**
 * Returns a checked copy of the options.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option has the wrong form.
 */
export function parseWatch(options: ChangeWatchOptions): ParsedWatch {
  const { globs: list, debounceMs, afterEventId, signal } = watchShape.read(options, 'options')
  checkSignal(signal)
  const globs = readGlobs('globs', list)
  return {
    wanted:
      globs.length === 0 ? undefined : new SearchedFiles({ globs, excludeGlobs: [], nameEnds: [] }, '/'),
    debounceMs: parseCount('debounceMs', debounceMs, {
      least: 0,
      most: limits.watchBatchMs,
      fallback: limits.watchDebounceMs,
    }),
    afterEventId,
    signal,
  }
}

/** A state that the reader knows. It is protected from collections until its pin is disposed of. */
export interface WatchedState {
  readonly root: Dir
  readonly seq: number
  readonly pin: Disposable
}

/** The state from which to watch. Without `afterEventId`, it is the state of the call. */
export async function watchedState(
  core: Core,
  live: LiveSession,
  { afterEventId }: ParsedWatch,
): Promise<WatchedState> {
  if (afterEventId === undefined) {
    const { root, seq } = newestFinal(live)
    return pinned(core, root, seq)
  }
  const seq = parseEventId('afterEventId', live.id, afterEventId)
  const { root } = await positionedState(core, live, { eventId: afterEventId })
  return pinned(core, root, seq)
}

function pinned(core: Core, root: Dir, seq: number): WatchedState {
  // A watch that is never read ends the pin with this object.
  const state = { root, seq }
  return Object.assign(state, { pin: core.pins.pin({ roots: [root], owner: state }) })
}

/**
 * Yields the differences between the last state that the reader has and the newest one, whenever the session was
 * quiet. The states are compared only when the reader asks for the next batch, so that a slow reader costs no
 * memory, and no event can be missed. Equal subtrees cost nothing.
 */
export async function* watchChanges(
  core: Core,
  live: LiveSession,
  start: WatchedState,
  { wanted, debounceMs, signal }: ParsedWatch,
): AsyncGenerator<ChangeBatch, undefined, undefined> {
  let from = start
  using feed = new QuietFeed(live, debounceMs)
  signal?.throwIfAborted()
  const release = signal && onAbort(signal, () => feed.wake())
  // The last batch of a deleted session can still be read.
  const reader: { pin?: Disposable } = {}
  if (live.discarded === undefined)
    reader.pin = core.pins.pin({ states: { sessionId: live.id, seqs: [] }, owner: reader })
  try {
    if (newestFinal(live).seq !== from.seq) feed.event()
    for (;;) {
      await feed.quiet(signal)
      signal?.throwIfAborted()
      const { ended } = feed
      if (ended?.error !== undefined) throw ended.error
      if (live.discarded === 'closed') return undefined
      feed.reset()
      const before = from
      const newest = newestFinal(live)
      from = pinned(core, newest.root, newest.seq)
      using _ = before.pin
      // Only stored changes are reported.
      await live.acknowledged
      for await (const batch of batches(core, live, { before, after: from }, wanted)) {
        signal?.throwIfAborted()
        yield batch
      }
      if (ended !== undefined && newestFinal(live).seq === from.seq) return undefined
    }
  } catch (error) {
    // A slow reader may find the store closed before it has read all changes.
    if (!isClosed(live) || !(error instanceof EngineError) || error.reason !== 'STORE_CLOSED') throw error
    return undefined
  } finally {
    release?.()
    from.pin[Symbol.dispose]()
    reader.pin?.[Symbol.dispose]()
  }
}

/** The newest state that no other engine can replace. */
function newestFinal(live: LiveSession): Pick<WatchedState, 'root' | 'seq'> {
  return live.shared?.stored ?? { root: live.tree.freeze(), seq: live.seq }
}

function isClosed({ discarded }: LiveSession): boolean {
  return discarded === 'closed'
}

/**
 * The changes between two states. Only the last batch has the newer event, because a reader that continues after
 * another one must get the rest again.
 */
async function* batches(
  core: Core,
  live: LiveSession,
  { before, after }: { readonly before: WatchedState; readonly after: WatchedState },
  wanted: SearchedFiles | undefined,
): AsyncGenerator<ChangeBatch> {
  let changes: Change[] = []
  for await (const change of treeChanges(core, before.root, after.root)) {
    const path = change.path.slice(1)
    const isWanted = wanted?.hasFile(path, path.slice(path.lastIndexOf('/') + 1))
    if (isWanted !== undefined && !(await runInSlices(isWanted, core.environment))) continue
    if (changes.length === limits.watchChanges) {
      yield { eventId: eventIdOf(live.id, before.seq), changes }
      changes = []
    }
    changes.push(describeChange(change))
  }
  if (changes.length > 0) yield { eventId: eventIdOf(live.id, after.seq), changes }
}
