import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useRef } from 'preact/hooks'
import { messageOf } from './api.js'
import { count, Id, Name, shown, Time } from './format.js'
import type { GraphRow, Point } from './graph-layout.js'
import { pageLimits } from './limits.js'
import { linkTo } from './route.js'
import {
  byId,
  expand,
  expanded,
  isComplete,
  matching,
  rows,
  search,
  sessions,
  sessionsError,
  tagChoices,
  titleOf,
} from './sessions.js'
import { Empty, Failure } from './states.js'
import { VirtualList } from './virtual-list.js'

const rowHeight = 30
const laneWidth = 14

/** The sessions with their forks, checkpoints, merges and commits. */
export function GraphView(): VNode {
  // A name and not an index, because rows are added above it.
  const selected = useSignal('')
  const last = useRef(0)
  const list = rows.value
  const found = list.findIndex((row) => nameOf(row) === selected.value)
  const at = Math.min(found < 0 ? last.current : found, list.length - 1)
  last.current = Math.max(0, at)
  const openRow = (index: number): void => {
    const row = list[index]
    if (row === undefined) return
    location.hash = linkTo(
      ['session', row.sessionId],
      row.point === undefined ? {} : { at: row.point.eventId },
    )
  }
  const lanes = list.reduce((most, row) => Math.max(most, row.lane, row.to ?? 0), 0)
  const width = (Math.min(lanes, pageLimits.lanes) + 1) * laneWidth + 6
  return (
    <main class="graph">
      <h1 class="heard">Sessions</h1>
      <SearchBar />
      {sessionsError.value !== undefined && <Failure error={messageOf(sessionsError.value)} />}
      {isComplete.value && sessions.value.length === 0 ? (
        <Empty title="There are no sessions yet">
          They appear here as soon as a program creates one in this store.
        </Empty>
      ) : isComplete.value && list.length === 0 ? (
        <Empty title="No session matches">Search for a part of an id, or for a tag such as task=42.</Empty>
      ) : (
        <VirtualList
          label="Sessions, the newest first"
          class="graph-list"
          count={list.length}
          rowHeight={rowHeight}
          active={at}
          onMove={(index) => {
            const row = list[index]
            last.current = index
            selected.value = row === undefined ? '' : nameOf(row)
          }}
          onOpen={openRow}
          onKey={(key, index) => {
            const row = list[index]
            if (row === undefined || (key !== 'ArrowRight' && key !== 'ArrowLeft')) return false
            expand(row.sessionId, key === 'ArrowRight')
            return true
          }}
          row={(index) => {
            const row = list[index]
            return row === undefined ? null : <Row row={row} width={width} />
          }}
        />
      )}
    </main>
  )
}

function nameOf({ sessionId, point }: GraphRow): string {
  return `${sessionId} ${point?.eventId ?? ''}`
}

function SearchBar(): VNode {
  const shownCount = matching.value.length
  const all = sessions.value.length
  return (
    <div class="bar" role="search">
      <input
        type="search"
        aria-label="Search sessions by id or tag"
        placeholder="Search by id or tag, such as task=42   ( / )"
        list="tags"
        value={search.value}
        onInput={(event) => {
          search.value = event.currentTarget.value
        }}
      />
      <datalist id="tags">
        {tagChoices.value.map((tag) => (
          <option key={tag} value={tag}>
            {shown(tag)}
          </option>
        ))}
      </datalist>
      <span class="quiet" role="status">
        {shownCount === all
          ? count(all, 'session')
          : `${shownCount.toLocaleString('en')} of ${count(all, 'session')}`}
        {isComplete.value ? '' : ' …'}
      </span>
      <button
        type="button"
        class="plain"
        disabled={shownCount > pageLimits.expandedSessions}
        title={
          shownCount > pageLimits.expandedSessions
            ? `For up to ${pageLimits.expandedSessions} sessions: search first`
            : ''
        }
        onClick={() => matching.value.forEach(({ id }) => expand(id, true))}
      >
        Show all events
      </button>
    </div>
  )
}

const marks: Readonly<Record<string, string>> = {
  checkpoint: 'checkpoint',
  commit: 'commit',
  merge: 'merge',
  restore: 'restore',
  changes: 'changes',
  other: 'event',
}

function Row({ row, width }: { readonly row: GraphRow; readonly width: number }): VNode | null {
  const session = byId.value.get(row.sessionId)
  if (session === undefined) return null
  const { point } = row
  if (point !== undefined)
    return (
      <>
        <LaneCell row={row} width={width} />
        <span class={`mark ${point.kind}`}>{marks[point.kind]}</span>
        <span class="grow clip">
          <bdi>{labelOfPoint(point)}</bdi>
        </span>
        <span class="quiet principal clip">
          <Name text={point.principal} />
        </span>
        <span class="when">
          <Time at={point.at} />
        </span>
      </>
    )
  const title = titleOf(session)
  const isOpen = expanded.value.has(session.id)
  return (
    <>
      <LaneCell row={row} width={width} />
      <span
        class="fold"
        onClick={(event) => {
          event.stopPropagation()
          expand(session.id, !isOpen)
        }}
      >
        {isOpen ? '▾' : '▸'}
      </span>
      <span
        class="title clip"
        onClick={() => {
          location.hash = linkTo(['session', session.id])
        }}
      >
        {title !== '' && <bdi class="strong">{title}</bdi>} <Id id={session.id} />
      </span>
      <Tags tags={session.tags} />
      <Status status={session.status} />
      <span class="grow" />
      <span class="when" title="created">
        <Time at={session.createdAt} />
      </span>
    </>
  )
}

/** A merge names its source as the graph does. */
function labelOfPoint({ label, from }: Point): string {
  const source = from === undefined ? undefined : byId.value.get(from)
  const title = source === undefined ? '' : titleOf(source)
  return title === '' ? label : `merge of ${title}`
}

/** The tags of a session. */
export function Tags({ tags }: { readonly tags: Readonly<Record<string, string>> }): VNode {
  return (
    <span class="tags">
      {Object.entries(tags)
        .slice(0, 6)
        .map(([key, value]) => (
          <span key={key} class="tag">
            <Name text={key} />=<Name text={value} />
          </span>
        ))}
    </span>
  )
}

/** The status of a session, unless it is simply active. */
export function Status({ status }: { readonly status: string }): VNode | null {
  const text = status.replace('SESSION_STATUS_', '').replaceAll('_', ' ').toLowerCase()
  return text === 'active' ? null : <span class="badge warn">{text}</span>
}

/** The lanes of one row. */
function LaneCell({ row, width }: { readonly row: GraphRow; readonly width: number }): VNode {
  const x = (lane: number): number => Math.min(lane, pageLimits.lanes) * laneWidth + laneWidth / 2 + 2
  const middle = rowHeight / 2
  const own = x(row.lane)
  const to = row.to === undefined ? undefined : x(row.to)
  const line = (lane: number): string => `lane lane-${lane % 8}`
  return (
    <svg class="lanes" width={width} height={rowHeight} aria-hidden="true">
      {row.through.map((lane) => (
        <path key={lane} class={line(lane)} d={`M${x(lane)} 0V${rowHeight}`} />
      ))}
      {row.up && <path class={line(row.lane)} d={`M${own} 0V${middle}`} />}
      {row.down && <path class={line(row.lane)} d={`M${own} ${middle}V${rowHeight}`} />}
      {to !== undefined && (
        <path
          class={`${line(row.to ?? 0)} ${row.point === undefined ? '' : 'dashed'}`}
          d={`M${own} ${middle}C${own} ${rowHeight} ${to} ${middle} ${to} ${rowHeight}`}
        />
      )}
      {row.point === undefined ? (
        <circle class={`node ring lane-${row.lane % 8}`} cx={own} cy={middle} r={5} />
      ) : row.point.kind === 'checkpoint' || row.point.kind === 'commit' ? (
        <rect
          class={`node fill lane-${row.lane % 8}`}
          x={own - 4}
          y={middle - 4}
          width={8}
          height={8}
          {...(row.point.kind === 'commit' ? { rx: 1 } : { transform: `rotate(45 ${own} ${middle})` })}
        />
      ) : (
        <circle
          class={`node fill lane-${row.lane % 8}`}
          cx={own}
          cy={middle}
          r={row.point.kind === 'changes' ? 3 : 4}
        />
      )}
    </svg>
  )
}
