import type { Steps } from '../base/cooperative.js'
import { itemAt } from '../base/present.js'
import { noMatch, type PatchedText } from './apply-hunks.js'
import { byteOrderMark, usualLineEnd, withoutMark, type ByteText } from './byte-text.js'
import type { V4aSection } from './file-patch.js'
import { findRuns } from './find-all.js'
import { nearestLines } from './nearest-lines.js'
import { comparisons, LineNumbers } from './tolerant-match.js'

/**
 * Applies the sections of a V4A patch, in order. The lines of a section match exactly, or else without white space at
 * their ends, or else without white space around them. The first place after the section before is taken. Lines of
 * context and a byte order mark stay as they are in the file.
 *
 * @throws {EngineError} NO_MATCH when a section does not match.
 */
export function* applyV4a(
  file: ByteText,
  sections: readonly V4aSection[],
  path: string,
): Steps<PatchedText, undefined> {
  if (!file.startsWith(byteOrderMark)) return yield* applySections(file, sections, path)
  const { text, offsets } = yield* applySections(withoutMark(file), sections.map(withoutMarks), path)
  return { text: byteOrderMark + text, offsets }
}

/** The lines of a patch may have the mark of the file, or not. */
function withoutMarks({ anchors, lines, isAtEnd }: V4aSection): V4aSection {
  return {
    anchors: anchors.map(withoutMark),
    lines: lines.map(({ kind, text }) => ({ kind, text: withoutMark(text) })),
    isAtEnd,
  }
}

function* applySections(
  text: ByteText,
  sections: readonly V4aSection[],
  path: string,
): Steps<PatchedText, undefined> {
  const isCrlf = usualLineEnd(text) === '\r\n'
  // The last line has no line end. It gets a CR too until the lines are joined.
  const lines = (isCrlf ? `${text}\r` : text).split('\n')
  const bare = lines.map((line) => (line.endsWith('\r') ? line.slice(0, -1) : line))
  const lists = comparisons.map((compared) => {
    const numbers = new LineNumbers(compared)
    return { numbers, list: bare.map((line) => numbers.of(line)) }
  })
  yield
  const parts: ByteText[] = []
  let done = 0
  let from = 0
  for (const [index, section] of sections.entries()) {
    yield
    for (const anchor of section.anchors) {
      const at = yield* findLines(lists, [anchor], { from, isAtEnd: false })
      if (at === undefined) throw yield* mismatch(bare, [anchor], { index, path, at: '(its line after @@)' })
      from = at + 1
    }
    const old = section.lines.filter(({ kind }) => kind !== '+').map((line) => line.text)
    const place = yield* placeOf(lists, old, {
      from,
      isAtEnd: section.isAtEnd,
      hasAnchor: section.anchors.length > 0,
    })
    if (place === undefined) throw yield* mismatch(bare, old, { index, path, at: '(its context)' })
    for (; done < place; done++) parts.push(itemAt(lines, done))
    for (const { kind, text: line } of section.lines) {
      if (kind === '+') {
        parts.push(isCrlf ? `${line}\r` : line)
        continue
      }
      if (kind === ' ') parts.push(itemAt(lines, done))
      done++
    }
    from = done
  }
  for (; done < lines.length; done++) parts.push(itemAt(lines, done))
  const joined = parts.join('\n')
  return { text: isCrlf && joined.endsWith('\r') ? joined.slice(0, -1) : joined, offsets: [] }
}

interface Lines {
  readonly numbers: LineNumbers
  readonly list: readonly number[]
}

/** Where the old lines of a section are. A section without old lines adds at its anchor, or at the end of the file. */
function* placeOf(
  lists: readonly Lines[],
  old: readonly ByteText[],
  { from, isAtEnd, hasAnchor }: { from: number; isAtEnd: boolean; hasAnchor: boolean },
): Steps<number | undefined, undefined> {
  if (old.length > 0) return yield* findLines(lists, old, { from, isAtEnd })
  const { list, numbers } = itemAt(lists, 0)
  if (hasAnchor && !isAtEnd) return from
  // The text after the last line end is no line.
  return list.at(-1) === numbers.of('') ? list.length - 1 : list.length
}

function* findLines(
  lists: readonly Lines[],
  wanted: readonly ByteText[],
  { from, isAtEnd }: { from: number; isAtEnd: boolean },
): Steps<number | undefined, undefined> {
  const known = lists.map(({ numbers, list }) => ({ list, old: wanted.map((line) => numbers.of(line)) }))
  // As in the reference implementation: every comparison at the end comes before the first one elsewhere.
  for (const { list, old } of isAtEnd ? known : []) {
    const last = list.length - old.length
    for (const start of [last, last - 1]) if (start >= from && matches(list, old, start)) return start
  }
  for (const { list, old } of known) {
    const [start] = yield* findRuns(list, old, { from, limit: 1 })
    if (start !== undefined) return start
  }
  return undefined
}

function matches(list: readonly number[], old: readonly number[], start: number): boolean {
  for (let index = 0; index < old.length; index++) if (list[start + index] !== old[index]) return false
  return true
}

function* mismatch(
  lines: readonly ByteText[],
  wanted: readonly ByteText[],
  place: { index: number; path: string; at: string },
): Steps<Error, undefined> {
  const nearest = yield* nearestLines(lines, wanted)
  return noMatch({ path: place.path, hunk: place.index + 1, at: place.at }, nearest)
}
