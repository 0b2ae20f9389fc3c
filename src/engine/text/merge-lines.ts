/** Merges two changed versions of one list of lines. */
import type { Steps } from '../base/cooperative.js'
import { limits } from '../base/limits.js'
import { diffLines, type LineChange } from './line-diff.js'
import { renumber, type LineIds } from './lines.js'

/** A range of the lines of one version. The end is exclusive. */
export interface LineRange {
  readonly start: number
  readonly end: number
}

/** Lines that a merge takes from one version. Lines that all versions have are taken from ours. */
export interface CleanRegion {
  readonly kind: 'clean'
  readonly side: 'ours' | 'theirs'
  readonly lines: LineRange
}

/** Lines that both versions changed, in different ways. */
export interface ConflictRegion {
  readonly kind: 'conflict'
  /** Conflicts that were cut out of one overlap have the same lines of the base. */
  readonly base: LineRange
  readonly ours: LineRange
  readonly theirs: LineRange
}

/** A region of the result. All regions in order are the whole result. */
export type MergeRegion = CleanRegion | ConflictRegion

export interface MergedVersions {
  readonly base: LineIds
  readonly ours: LineIds
  readonly theirs: LineIds
}

/**
 * Merges by lines, as `git merge` does. Changes that at least one line of the base separates do not conflict.
 * Equal changes are merged once.
 *
 * `refined`, the default, takes equal lines out of a conflict and joins conflicts with at most three lines
 * between them. `whole` keeps each overlap with all of its lines, for markers with the lines of the base.
 */
export function* mergeLines(
  versions: MergedVersions,
  conflicts: 'refined' | 'whole' = 'refined',
): Steps<MergeRegion[], undefined> {
  const ours = yield* diffLines(versions.base, versions.ours)
  yield
  const theirs = yield* diffLines(versions.base, versions.theirs)
  yield
  const edits = combine(ours, theirs, versions)
  yield
  return regionsOf(conflicts === 'refined' ? joinNear(yield* refine(edits, versions)) : edits, versions)
}

/** A change of the merged text, with its lines in all three versions. */
interface Edit {
  readonly taken: 'ours' | 'theirs' | 'neither'
  readonly base: LineRange
  readonly ours: LineRange
  readonly theirs: LineRange
}

/** The changes of both sides in order. Changes of both sides that touch become one conflict. */
function combine(
  ourChanges: readonly LineChange[],
  theirChanges: readonly LineChange[],
  versions: MergedVersions,
): Edit[] {
  const edits: Edit[] = []
  const ours = new ChangeCursor(ourChanges)
  const theirs = new ChangeCursor(theirChanges)
  for (;;) {
    const [our, their] = [ours.change, theirs.change]
    if (our === undefined && their === undefined) return edits
    if (their === undefined || (our !== undefined && our.aEnd < their.aStart)) {
      if (our !== undefined) append(edits, editOf('ours', our, ours, theirs))
      ours.next()
    } else if (our === undefined || their.aEnd < our.aStart) {
      append(edits, editOf('theirs', their, ours, theirs))
      theirs.next()
    } else {
      if (!isSameChange(our, their, versions)) append(edits, overlapOf(our, their))
      if (our.aEnd >= their.aEnd) theirs.next()
      if (their.aEnd >= our.aEnd) ours.next()
    }
  }
}

/** A position in the changes of one side. */
class ChangeCursor {
  readonly #changes: readonly LineChange[]
  #index = 0

  constructor(changes: readonly LineChange[]) {
    this.#changes = changes
  }

  get change(): LineChange | undefined {
    return this.#changes[this.#index]
  }

  next(): void {
    this.#index++
  }

  /** The lines of this side at unchanged lines of the base before the current change. */
  at(base: LineRange): LineRange {
    const next = this.#changes[this.#index]
    const last = this.#changes[this.#index - 1]
    const shift =
      next !== undefined ? next.bStart - next.aStart : last !== undefined ? last.bEnd - last.aEnd : 0
    return { start: base.start + shift, end: base.end + shift }
  }
}

function editOf(
  taken: 'ours' | 'theirs',
  { aStart, aEnd, bStart, bEnd }: LineChange,
  ours: ChangeCursor,
  theirs: ChangeCursor,
): Edit {
  const base = { start: aStart, end: aEnd }
  const changed = { start: bStart, end: bEnd }
  return taken === 'ours'
    ? { taken, base, ours: changed, theirs: theirs.at(base) }
    : { taken, base, ours: ours.at(base), theirs: changed }
}

/** The lines that two touching changes cover together. */
function overlapOf(our: LineChange, their: LineChange): Edit {
  const start = Math.min(our.aStart, their.aStart)
  const end = Math.max(our.aEnd, their.aEnd)
  const cover = ({ aStart, aEnd, bStart, bEnd }: LineChange): LineRange => ({
    start: bStart - (aStart - start),
    end: bEnd + (end - aEnd),
  })
  return { taken: 'neither', base: { start, end }, ours: cover(our), theirs: cover(their) }
}

function isSameChange(our: LineChange, their: LineChange, { ours, theirs }: MergedVersions): boolean {
  const size = our.bEnd - our.bStart
  if (our.aStart !== their.aStart || our.aEnd !== their.aEnd || size !== their.bEnd - their.bStart)
    return false
  for (let i = 0; i < size; i++) if (ours[our.bStart + i] !== theirs[their.bStart + i]) return false
  return true
}

/** Adds an edit. It joins the last one if no line is between them. */
function append(edits: Edit[], edit: Edit): void {
  const last = edits.at(-1)
  if (last === undefined || (edit.ours.start > last.ours.end && edit.theirs.start > last.theirs.end)) {
    edits.push(edit)
    return
  }
  edits[edits.length - 1] = {
    taken: last.taken === edit.taken ? last.taken : 'neither',
    base: through(last.base, edit.base),
    ours: through(last.ours, edit.ours),
    theirs: through(last.theirs, edit.theirs),
  }
}

function through(first: LineRange, last: LineRange): LineRange {
  return { start: first.start, end: last.end }
}

/** Cuts each conflict into the parts where the two sides differ. Drops conflicts between equal lines. */
function* refine(edits: readonly Edit[], { ours, theirs }: MergedVersions): Steps<Edit[], undefined> {
  const refined: Edit[] = []
  for (const edit of edits) {
    if (edit.taken !== 'neither' || isEmpty(edit.ours) || isEmpty(edit.theirs)) {
      refined.push(edit)
      continue
    }
    const [ourStart, theirStart] = [edit.ours.start, edit.theirs.start]
    const [ourLines, theirLines] = renumber(
      ours.subarray(ourStart, edit.ours.end),
      theirs.subarray(theirStart, edit.theirs.end),
    )
    for (const { aStart, aEnd, bStart, bEnd } of yield* diffLines(ourLines, theirLines))
      refined.push({
        ...edit,
        ours: { start: ourStart + aStart, end: ourStart + aEnd },
        theirs: { start: theirStart + bStart, end: theirStart + bEnd },
      })
    yield
  }
  return refined
}

/** Joins conflicts that few lines separate: they read better as one. */
function joinNear(edits: readonly Edit[]): Edit[] {
  const joined: Edit[] = []
  for (const edit of edits) {
    const last = joined.at(-1)
    const isNear =
      last?.taken === 'neither' &&
      edit.taken === 'neither' &&
      edit.ours.start - last.ours.end <= limits.linesBetweenConflicts
    if (!isNear) joined.push(edit)
    else
      joined[joined.length - 1] = {
        taken: 'neither',
        base: through(last.base, edit.base),
        ours: through(last.ours, edit.ours),
        theirs: through(last.theirs, edit.theirs),
      }
  }
  return joined
}

function regionsOf(edits: readonly Edit[], { ours }: MergedVersions): MergeRegion[] {
  const regions: MergeRegion[] = []
  const add = (side: CleanRegion['side'], lines: LineRange): void => {
    if (!isEmpty(lines)) regions.push({ kind: 'clean', side, lines })
  }
  let position = 0
  for (const edit of edits) {
    if (edit.taken === 'ours') continue
    add('ours', { start: position, end: edit.ours.start })
    if (edit.taken === 'theirs') add('theirs', edit.theirs)
    else regions.push({ kind: 'conflict', base: edit.base, ours: edit.ours, theirs: edit.theirs })
    position = edit.ours.end
  }
  add('ours', { start: position, end: ours.length })
  return regions
}

function isEmpty({ start, end }: LineRange): boolean {
  return start === end
}
