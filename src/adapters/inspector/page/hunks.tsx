import { diffWordsWithSpace } from 'diff'
import type { ComponentChildren, VNode } from 'preact'
import { useMemo } from 'preact/hooks'
import { visible } from './file-view.js'
import { Name } from './format.js'
import { pageLimits } from './limits.js'
import { StatusText } from './review-view.js'
import type { Hunk } from './wire.js'
import { VirtualList } from './virtual-list.js'

type Side = 'same' | 'added' | 'removed'

interface Line {
  readonly side: Side
  readonly text: string
  readonly old?: number
  readonly now?: number
  /** The line of the other side with which its words are compared. */
  pair?: Line
}

/** A note of a reviewer. */
export interface Note {
  readonly lineNumber: number
  readonly comment: string
  readonly reviewerId: string
  readonly status: string
}

type Row =
  | { readonly head: string }
  | { readonly note: Note }
  | { readonly line: Line }
  | { readonly left: Line | undefined; readonly right: Line | undefined }

interface HunksProps {
  readonly hunks: readonly Hunk[]
  readonly form: 'unified' | 'split'
  /** Each is shown below its line. */
  readonly notes: readonly Note[]
}

/** The changed lines of a file, in one column or in two. */
export function Hunks({ hunks, form, notes }: HunksProps): VNode {
  const rows = useMemo(() => rowsOf(hunks, form, notes), [hunks, form, notes])
  // Both columns are as wide as the longest line, so that the list scrolls to its end.
  const longest = useMemo(() => longestLine(hunks), [hunks])
  const half = `${longest + numberCharacters}ch`
  const numbers = `${Math.max(3, String(lastLine(hunks)).length) + 1}ch`
  return (
    <VirtualList
      label="Changed lines"
      role="document"
      class={form === 'split' ? 'code diff columns' : 'code diff'}
      count={rows.length}
      rowHeight={20}
      row={(index) => {
        const row = rows[index]
        if (row === undefined) return null
        if ('head' in row) return <span class="hunk">{row.head}</span>
        if ('note' in row)
          return (
            <span class="note">
              <Name text={row.note.reviewerId} /> <Name text={row.note.comment} />
              <StatusText status={row.note.status} />
            </span>
          )
        if ('line' in row)
          return (
            <span class={`line ${row.line.side}`}>
              <span class="number" style={{ width: numbers }}>
                {row.line.old}
              </span>
              <span class="number" style={{ width: numbers }}>
                {row.line.now}
              </span>
              <Text line={row.line} />
            </span>
          )
        return (
          <>
            <Half line={row.left} numbers={numbers} width={half} />
            <Half line={row.right} numbers={numbers} width={half} />
          </>
        )
      }}
    />
  )
}

interface HalfProps {
  readonly line: Line | undefined
  readonly numbers: string
  readonly width: string
}

function Half({ line, numbers, width }: HalfProps): VNode {
  if (line === undefined) return <span class="line none" style={{ minWidth: width }} />
  return (
    <span class={`line ${line.side}`} style={{ minWidth: width }}>
      <span class="number" style={{ width: numbers }}>
        {line.side === 'added' ? line.now : (line.old ?? line.now)}
      </span>
      <Text line={line} />
    </span>
  )
}

const signs: Readonly<Record<Side, string>> = { same: ' ', added: '+', removed: '−' }
const readings: Readonly<Record<Side, string>> = { same: '', added: 'added: ', removed: 'removed: ' }

function Text({ line }: { readonly line: Line }): VNode {
  return (
    <code>
      <span class="sign" aria-hidden="true">
        {signs[line.side]}
      </span>
      <span class="heard">{readings[line.side]}</span>
      <bdi>{words(line)}</bdi>
    </code>
  )
}

/** The text of a line, with the words marked that its pair does not have. */
function words({ text, side, pair }: Line): ComponentChildren {
  // The carriage return of CRLF is shown if only one side has it, because the lines look equal otherwise.
  const end = text.endsWith('\r') && pair?.text.endsWith('\r') !== false ? -1 : undefined
  const line = text.slice(0, end)
  const other = pair?.text.slice(0, end)
  const cut = line.slice(0, pageLimits.lineCharacters)
  if (other === undefined || line.length + other.length > pageLimits.comparedCharacters)
    return visible(cut, true)
  const [old, now] = side === 'removed' ? [line, other] : [other, line]
  const parts = diffWordsWithSpace(old, now)
  const same = parts
    .filter(({ added, removed }) => !added && !removed)
    .reduce((sum, { value }) => sum + value.length, 0)
  // Marks help only if most of the line stays.
  if (same * 3 < Math.max(old.length, now.length)) return visible(cut, true)
  return parts
    .filter(({ added, removed }) => (side === 'removed' ? !added : !removed))
    .map(({ value, added, removed }, index) =>
      added || removed ? <mark key={index}>{visible(value, true)}</mark> : visible(value, true),
    )
}

/** The room of the number and the sign of a line. */
const numberCharacters = 10

function longestLine(hunks: readonly Hunk[]): number {
  let longest = 0
  for (const { lines } of hunks) for (const line of lines) longest = Math.max(longest, line.length)
  return Math.min(longest, pageLimits.lineCharacters)
}

function lastLine(hunks: readonly Hunk[]): number {
  const last = hunks.at(-1)
  return last === undefined ? 0 : Math.max(last.oldStart + last.oldLines, last.newStart + last.newLines)
}

function rowsOf(hunks: readonly Hunk[], form: 'unified' | 'split', notes: readonly Note[]): Row[] {
  const rows: Row[] = notes.filter(({ lineNumber }) => lineNumber === 0).map((note) => ({ note }))
  const byLine = Map.groupBy(notes, ({ lineNumber }) => lineNumber)
  const add = (row: Row, line: Line | undefined): void => {
    rows.push(row)
    if (line?.now !== undefined) for (const note of byLine.get(line.now) ?? []) rows.push({ note })
  }
  for (const hunk of hunks) {
    if (rows.length > pageLimits.hunkLines) {
      rows.push({ head: 'More lines differ than are shown here.' })
      break
    }
    rows.push({ head: `@@ −${hunk.oldStart},${hunk.oldLines} +${hunk.newStart},${hunk.newLines} @@` })
    const lines = linesOf(hunk)
    if (form === 'unified') for (const line of lines) add({ line }, line)
    else for (const row of inColumns(lines)) add(row, row.right)
  }
  return rows
}

function linesOf(hunk: Hunk): Line[] {
  let old = hunk.oldStart
  let now = hunk.newStart
  const lines: Line[] = []
  let removed: Line[] = []
  let added: Line[] = []
  const pairUp = (): void => {
    if (removed.length === added.length)
      for (const [index, line] of removed.entries()) {
        const other = added[index]
        if (other === undefined) continue
        line.pair = other
        other.pair = line
      }
    removed = []
    added = []
  }
  for (const given of hunk.lines) {
    const text = given.slice(1)
    if (given.startsWith('-')) {
      const line: Line = { side: 'removed', text, old: old++ }
      removed.push(line)
      lines.push(line)
    } else if (given.startsWith('+')) {
      const line: Line = { side: 'added', text, now: now++ }
      added.push(line)
      lines.push(line)
    } else if (given.startsWith('\\')) lines.push({ side: 'same', text: `(${text.trim()})` })
    else {
      pairUp()
      lines.push({ side: 'same', text, old: old++, now: now++ })
    }
  }
  pairUp()
  return lines
}

type Columns = Extract<Row, { readonly right: unknown }>

function inColumns(lines: readonly Line[]): Columns[] {
  const rows: Columns[] = []
  let removed: Line[] = []
  let added: Line[] = []
  const flush = (): void => {
    for (let index = 0; index < Math.max(removed.length, added.length); index++)
      rows.push({ left: removed[index], right: added[index] })
    removed = []
    added = []
  }
  for (const line of lines) {
    if (line.side === 'removed') removed.push(line)
    else if (line.side === 'added') added.push(line)
    else {
      flush()
      rows.push({ left: line, right: line.now === undefined ? line : { ...line, old: line.now } })
    }
  }
  flush()
  return rows
}
