/** Merges texts, and writes the conflicts as a caller wants them. */
import type { Steps } from '../base/cooperative.js'
import { limits } from '../base/limits.js'
import { itemAt } from '../base/present.js'
import { LineTable, splitLines } from './lines.js'
import { mergeLines, type ConflictRegion, type LineRange, type MergeRegion } from './merge-lines.js'

/** The three versions of a text from `decodeText`. */
export interface TextVersions {
  readonly base: string
  readonly ours: string
  readonly theirs: string
}

/** The names after the markers of a conflict. '' writes a marker without a name. */
export type MarkerNames = TextVersions

/** The lines of three versions, and how they merge. */
export interface TextMerge {
  readonly base: readonly string[]
  readonly ours: readonly string[]
  readonly theirs: readonly string[]
  readonly regions: readonly MergeRegion[]
  /** The number of regions that are conflicts. */
  readonly conflictCount: number
}

/** Merges texts by lines. See `mergeLines`. */
export function* mergeText(
  versions: TextVersions,
  conflicts: 'refined' | 'whole' = 'refined',
): Steps<TextMerge, undefined> {
  const table = new LineTable()
  const base = yield* splitLines(versions.base)
  yield
  const ours = yield* splitLines(versions.ours)
  yield
  const theirs = yield* splitLines(versions.theirs)
  yield
  const ids = {
    base: yield* table.idsOf(base),
    ours: yield* table.idsOf(ours),
    theirs: yield* table.idsOf(theirs),
  }
  yield
  const regions = yield* mergeLines(ids, conflicts)
  const conflictCount = regions.filter(({ kind }) => kind === 'conflict').length
  return { base, ours, theirs, regions, conflictCount }
}

/** The merged text with one side of each conflict, or with both, ours first. */
export function renderSides(merge: TextMerge, take: 'ours' | 'theirs' | 'union'): string {
  return render(merge, (conflict) => {
    if (take !== 'union') return textOf(merge[take], conflict[take])
    const ours = ended(textOf(merge.ours, conflict.ours), endingAt(merge, conflict))
    return ours + textOf(merge.theirs, conflict.theirs)
  })
}

/**
 * The merged text with markers around each conflict, as git writes them. `withBase` also writes the lines of
 * the base; merge with `whole` conflicts for that.
 */
export function renderMarkers(
  merge: TextMerge,
  { names, withBase = false }: { readonly names: MarkerNames; readonly withBase?: boolean },
): string {
  return render(merge, (conflict) => {
    const ending = endingAt(merge, conflict)
    const marker = (character: string, name: string): string =>
      `${character.repeat(limits.conflictMarkerLength)}${name === '' ? '' : ` ${name}`}${ending}`
    const lines = (side: keyof TextVersions): string => ended(textOf(merge[side], conflict[side]), ending)
    return [
      marker('<', names.ours),
      lines('ours'),
      withBase ? marker('|', names.base) + lines('base') : '',
      marker('=', ''),
      lines('theirs'),
      marker('>', names.theirs),
    ].join('')
  })
}

function render(merge: TextMerge, conflictText: (conflict: ConflictRegion) => string): string {
  return merge.regions
    .map((region) =>
      region.kind === 'clean' ? textOf(merge[region.side], region.lines) : conflictText(region),
    )
    .join('')
}

function textOf(lines: readonly string[], { start, end }: LineRange): string {
  return lines.slice(start, end).join('')
}

/** The lines with an ending at the last one. */
function ended(lines: string, ending: string): string {
  return lines === '' || lines.endsWith('\n') ? lines : lines + ending
}

/** The ending of markers. CRLF if the base has it, and neither side has LF before the conflict. */
function endingAt({ base, ours, theirs }: TextMerge, conflict: ConflictRegion): '\n' | '\r\n' {
  const hasLf =
    endingOf(ours, Math.max(conflict.ours.start - 1, 0)) === '\n' ||
    endingOf(theirs, Math.max(conflict.theirs.start - 1, 0)) === '\n'
  return !hasLf && endingOf(base, 0) === '\r\n' ? '\r\n' : '\n'
}

/** The ending of a line, or of the one before it if it has none. */
function endingOf(lines: readonly string[], index: number): '\n' | '\r\n' | undefined {
  for (const at of [index, index - 1]) {
    if (at < 0 || at >= lines.length) return undefined
    const line = itemAt(lines, at)
    if (line.endsWith('\r\n')) return '\r\n'
    if (line.endsWith('\n')) return '\n'
  }
  return undefined
}
