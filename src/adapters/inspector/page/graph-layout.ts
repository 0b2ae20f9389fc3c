/**
 * The lanes of the graph: one for each session, from its creation at the bottom to its newest event or fork at the top.
 * A fork leaves the lane of its parent at its creation. The layout takes n log n, unlike the text graph of the command
 * line, which draws each single event of a few sessions.
 */
import { pageLimits } from './limits.js'

/** One or several events of a session. */
export interface Point {
  readonly eventId: string
  readonly kind: 'changes' | 'checkpoint' | 'commit' | 'merge' | 'restore' | 'other'
  readonly label: string
  readonly at: string
  readonly principal: string
  /** The session that a merge takes its changes from. */
  readonly from?: string
}

export interface GraphSession {
  readonly id: string
  readonly parentId: string | undefined
  readonly createdAt: string
  /** Oldest first; undefined if its events are not shown. */
  readonly points: readonly Point[] | undefined
}

export interface GraphRow {
  readonly sessionId: string
  /** Absent for the creation of the session. */
  readonly point?: Point
  readonly lane: number
  /** The lanes that go through the row, apart from those that end or begin in it. */
  readonly through: readonly number[]
  /** Whether the own lane goes on above and below. */
  readonly up: boolean
  readonly down: boolean
  /** The lane of the parent or of the source of a merge. */
  readonly to?: number
}

interface Draft {
  readonly session: number
  readonly at: number
  readonly order: number
  readonly point?: Point
}

/** Sessions in order of creation. */
export function layOut(sessions: readonly GraphSession[]): GraphRow[] {
  const numbers = new Map(sessions.map(({ id }, index) => [id, index]))
  const drafts = draftsOf(sessions)
  const parents = sessions.map(({ parentId }) => (parentId === undefined ? undefined : numbers.get(parentId)))

  // The first row of each lane.
  const tops = new Map<number, number>()
  const begin = (session: number | undefined, row: number): void => {
    if (session !== undefined && !tops.has(session)) tops.set(session, row)
  }
  for (const [row, { session, point }] of drafts.entries()) {
    begin(session, row)
    if (point === undefined) begin(parents[session], row)
    else begin(point.from === undefined ? undefined : numbers.get(point.from), row)
  }

  const lanes = new Lanes()
  return drafts.map(({ session, point }, row) => {
    const sessionId = sessions[session]?.id ?? ''
    const up = lanes.has(session)
    const lane = lanes.of(session)
    const through = lanes.open().filter((other) => other !== lane)
    const down = point !== undefined
    if (!down) lanes.close(session)
    const parent = down ? undefined : parents[session]
    const source = point?.from === undefined ? undefined : numbers.get(point.from)
    let to: number | undefined
    if (parent !== undefined) to = lanes.of(parent)
    else if (source !== undefined && source !== session && (lanes.has(source) || tops.get(source) === row))
      to = lanes.of(source)
    return {
      sessionId,
      lane,
      through,
      up,
      down,
      ...(point !== undefined && { point }),
      ...(to !== undefined && { to }),
    }
  })
}

/** All rows, the newest first. A fork comes before its parent. */
function draftsOf(sessions: readonly GraphSession[]): Draft[] {
  const drafts: Draft[] = []
  for (const [session, { createdAt, points = [] }] of sessions.entries()) {
    const created = Date.parse(createdAt)
    drafts.push({ session, at: created, order: -1 })
    for (const [order, point] of points.entries())
      drafts.push({ session, at: Math.max(created, Date.parse(point.at)), order, point })
  }
  return drafts.sort(
    (one, other) => other.at - one.at || other.session - one.session || other.order - one.order,
  )
}

class Lanes {
  readonly #lanes = new Map<number, number>()
  readonly #used: (number | undefined)[] = []

  has(session: number): boolean {
    return this.#lanes.has(session)
  }

  /** The lane of a session; the first free one if it has none yet. */
  of(session: number): number {
    let lane = this.#lanes.get(session)
    if (lane !== undefined) return lane
    const free = this.#used.indexOf(undefined)
    lane = free < 0 ? this.#used.length : free
    this.#used[lane] = session
    this.#lanes.set(session, lane)
    return lane
  }

  close(session: number): void {
    const lane = this.#lanes.get(session)
    if (lane === undefined) return
    this.#lanes.delete(session)
    this.#used[lane] = undefined
    while (this.#used.length > 0 && this.#used.at(-1) === undefined) this.#used.pop()
  }

  open(): number[] {
    const open: number[] = []
    const end = Math.min(this.#used.length, pageLimits.lanes)
    for (let lane = 0; lane < end; lane++) if (this.#used[lane] !== undefined) open.push(lane)
    return open
  }
}
