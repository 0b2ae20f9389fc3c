import { itemAt } from '../../base/present.js'
import { formatTime } from '../../base/environment.js'
import { EngineError, invalid } from '../../base/errors.js'
import { whenLoaded } from '../../base/fault.js'
import { limits } from '../../base/limits.js'
import { Shape } from '../../base/shape.js'
import { runInSlices, TimeSlice, type Steps } from '../../base/cooperative.js'
import { diffLines } from '../../text/line-diff.js'
import { byteTextOf, hasManyLines, isBinary } from '../../text/byte-text.js'
import { LineTable, splitLines, type LineIds } from '../../text/lines.js'
import { FileNode } from '../../tree/node.js'
import type { Core } from '../core.js'
import { isADirectory, notFound, resolve } from '../reads/resolve.js'
import { newestState, positionedState, stateNameShape, type StateName } from '../states.js'
import type { LiveSession } from '../table/live.js'
import { eventIdOf } from './event-ids.js'
import { shownTime } from './event-times.js'
import type { WalkedEvent } from './event-walk.js'
import { PathWalk } from './path-walk.js'

/** The request of `session.blame`. */
export interface BlameRequest {
  /** Absolute path of a text file in the session, such as `/src/a.ts`. Symlinks are followed. */
  readonly path: string
  /** The state of the file: after an event, at a time, or of a checkpoint; absent: the newest. */
  readonly at?: StateName
}

/** Consecutive lines that the same event last changed. */
export interface BlameRange {
  /** The number of the first line, from 1. */
  readonly startLine: number
  /** The number of lines. */
  readonly lineCount: number
  /** The id of the event; '' for lines from before the session's first change, or before its kept history. */
  readonly eventId: string
  /** The time of the event: RFC 3339, UTC, milliseconds; '' without an event. */
  readonly timestamp: string
  /** The principal that changed the lines; '' without an event. */
  readonly principal: string
}

/** The events that last changed each line of a file. */
export interface Blame {
  /** In the order of the file. Together they have all of its lines. */
  readonly ranges: BlameRange[]
  /** The number of lines of the file. */
  readonly lineCount: number
  /** false: lines without an event may be from changes that are no longer kept. */
  readonly isComplete: boolean
}

export interface ParsedBlame {
  readonly path: string
  readonly at: StateName
}

const blameShape = new Shape<BlameRequest>({ path: true, at: true })

export function parseBlame(request: BlameRequest): ParsedBlame {
  const { path, at } = blameShape.read(request)
  return { path, at: at === undefined ? newestState : stateNameShape.readPart(at, 'at') }
}

/**
 * The event that last changed each line. A line that an undo or restore brought back counts as changed by its
 * original event.
 */
export function blameFile(core: Core, live: LiveSession, request: ParsedBlame): Promise<Blame> {
  return core.pins.whileReading(blame(core, live, request))
}

async function blame(core: Core, live: LiveSession, { path, at }: ParsedBlame): Promise<Blame> {
  const { root, seq = 0 } = await positionedState(core, live, at)
  using _ = core.pins.pin({ roots: [root] })
  await live.acknowledged
  const found = await whenLoaded(() => resolve({ root, loader: core.loader }, path, true))
  if (found.node === undefined) throw notFound(path)
  if (!(found.node instanceof FileNode)) throw isADirectory(path)
  const table = new LineTable()
  const lines = await linesOf(core, table, found.node)
  if (lines === 'binary') throw invalid('path', `must be a text file; ${path} is binary`)
  if (lines === 'large') throw tooLarge(path, found.node.size)
  const origins = new LineOrigins(lines)
  const isComplete = await attribute(core, live, { origins, table, seq, path: found.path })
  return { ranges: rangesOf(live, origins.events), lineCount: lines.length, isComplete }
}

function tooLarge(path: string, size: number): EngineError {
  const isLong = size <= limits.blameBytes
  const limit = isLong ? limits.diffFileLines : limits.blameBytes
  const message = isLong
    ? `${path} has over ${limit} lines; blame reads files up to that`
    : `${path} has ${size} bytes; blame reads files up to 16 MiB`
  return new EngineError('TOO_LARGE', message, { limit: String(limit) })
}

/** Attributes the lines to events. Returns whether the whole history was compared. */
async function attribute(
  core: Core,
  live: LiveSession,
  { origins, table, seq, path }: { origins: LineOrigins; table: LineTable; seq: number; path: string },
): Promise<boolean> {
  const walk = new PathWalk(core, live, { followsRestores: true })
  const slice = new TimeSlice(core.environment)
  let looked = 0
  for await (const { version } of walk.from(seq, path)) {
    if (origins.isDone) return true
    if (version !== undefined) {
      const { before, event } = version
      const lines = before instanceof FileNode ? await linesOf(core, table, before) : 'binary'
      // A new file, or one that replaced something without lines.
      if (lines === 'binary') {
        origins.attributeRest(event)
        return true
      }
      if (lines === 'large') return false
      await runInSlices(origins.stepBack(lines, event), core.environment)
      if (slice.over) await slice.next()
    }
    if (++looked === limits.blameEvents) return false
  }
  return origins.isDone || !walk.endedEarly
}

/** The lines of a version as numbers, unless it has no lines or is too large to compare. */
async function linesOf(core: Core, table: LineTable, file: FileNode): Promise<LineIds | 'binary' | 'large'> {
  if (file.size > limits.blameBytes) return 'large'
  const body = await whenLoaded(() => core.contentIds.body(file))
  const content = await core.content.read(body, 0, file.size)
  if (isBinary(content)) return 'binary'
  return hasManyLines(content)
    ? 'large'
    : runInSlices(numberLines(table, byteTextOf(content)), core.environment)
}

function* numberLines(table: LineTable, text: string): Steps<LineIds, undefined> {
  return yield* table.idsOf(yield* splitLines(text))
}

/** The lines of a file, and the event of each one that is found. */
class LineOrigins {
  readonly events: (WalkedEvent | undefined)[]
  /** The lines of the version that the walk has reached, and for each of the file's lines its place there. */
  #version: LineIds
  #places: Int32Array
  #left: number

  constructor(lines: LineIds) {
    this.events = Array.from({ length: lines.length })
    this.#version = lines
    this.#places = Int32Array.from(lines.keys())
    this.#left = lines.length
  }

  get isDone(): boolean {
    return this.#left === 0
  }

  /** Goes on with the lines before an event. Lines that they do not have are from the event. */
  *stepBack(before: LineIds, event: WalkedEvent): Steps<void, undefined> {
    const earlier = new Int32Array(this.#version.length).fill(-1)
    let place = 0
    let line = 0
    const copyUntil = (end: number): void => {
      while (line < end) earlier[line++] = place++
    }
    for (const { aEnd, bStart, bEnd } of yield* diffLines(before, this.#version)) {
      copyUntil(bStart)
      place = aEnd
      line = bEnd
    }
    copyUntil(this.#version.length)
    yield
    for (let index = 0; index < this.#places.length; index++) {
      const at = itemAt(this.#places, index)
      if (at < 0) continue
      const previous = itemAt(earlier, at)
      if (previous < 0) this.#attribute(index, event)
      this.#places[index] = previous
    }
    this.#version = before
  }

  attributeRest(event: WalkedEvent): void {
    for (let index = 0; index < this.#places.length; index++)
      if (itemAt(this.#places, index) >= 0) this.#attribute(index, event)
  }

  #attribute(index: number, event: WalkedEvent): void {
    this.events[index] = event
    this.#left--
  }
}

function rangesOf(live: LiveSession, events: readonly (WalkedEvent | undefined)[]): BlameRange[] {
  const ranges: BlameRange[] = []
  for (let start = 0; start < events.length;) {
    const event = events[start]
    let end = start + 1
    while (end < events.length && events[end] === event) end++
    ranges.push({ startLine: start + 1, lineCount: end - start, ...describeEvent(live, event) })
    start = end
  }
  return ranges
}

function describeEvent(
  live: LiveSession,
  event: WalkedEvent | undefined,
): Pick<BlameRange, 'eventId' | 'timestamp' | 'principal'> {
  if (event === undefined) return { eventId: '', timestamp: '', principal: '' }
  const { seq, body } = event
  return {
    eventId: eventIdOf(live.id, seq),
    timestamp: formatTime(shownTime(live.record, seq, body[0])),
    principal: body[3],
  }
}
