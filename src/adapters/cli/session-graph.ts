/** The text graph of related sessions: one lane for each, as in `git log --graph`. Knows neither engine nor output. */
import { itemAt, present } from '../../engine/ports.js'

/** A line of the graph: one or several events of a session. */
export interface GraphPoint {
  readonly sessionId: string
  /** The time of the newest of its events, in a form that sorts as text. */
  readonly time: string
  /** The session that a merge takes its changes from. */
  readonly mergedFrom?: string
}

/** A session with its points, the oldest first. */
export interface GraphSession<Point extends GraphPoint> {
  readonly id: string
  readonly points: readonly Point[]
  /** The session that it was forked from, and the number of that session's points that are older than the fork. */
  readonly parent?: { readonly id: string; readonly points: number }
}

/** A line of the graph: its lanes, and its point, unless it only connects lanes. */
export interface GraphLine<Point> {
  readonly lanes: string
  readonly point?: Point
}

/**
 * Draws sessions, the newest point first. A point comes before all points that it comes from: a fork before the older
 * points of its parent. Otherwise the times decide.
 */
export function* drawGraph<Point extends GraphPoint>(
  sessions: readonly GraphSession<Point>[],
): Generator<GraphLine<Point>, void> {
  const lanes = new Lanes()
  const open = new Set(sessions.filter(({ points }) => points.length > 0).map(stateOf))
  while (open.size > 0) {
    const next = newest(open)
    const point = newestPoint(next)
    next.left--
    const lane = lanes.of(point.sessionId)
    yield { lanes: lanes.row(lane), point }
    if (next.left > 0) {
      const source = point.mergedFrom
      const isDrawn = source !== undefined && [...open].some(({ session }) => session.id === source)
      if (isDrawn && source !== point.sessionId) yield { lanes: lanes.connect(lane, source) }
      continue
    }
    open.delete(next)
    const { parent } = next.session
    const hasParent = parent !== undefined && [...open].some(({ session }) => session.id === parent.id)
    if (!hasParent) lanes.close(point.sessionId)
    else if (!lanes.has(parent.id)) lanes.continue(point.sessionId, parent.id)
    else {
      yield { lanes: lanes.join(lane, lanes.of(parent.id)) }
      lanes.close(point.sessionId)
    }
  }
}

interface SessionState<Point extends GraphPoint> {
  readonly session: GraphSession<Point>
  /** The number of points that are not drawn yet. */
  left: number
}

function stateOf<Point extends GraphPoint>(session: GraphSession<Point>): SessionState<Point> {
  return { session, left: session.points.length }
}

/** The newest point that is not drawn yet. */
function newestPoint<Point extends GraphPoint>({ session, left }: SessionState<Point>): Point {
  return itemAt(session.points, left - 1)
}

/** The session whose newest point comes next. */
function newest<Point extends GraphPoint>(open: ReadonlySet<SessionState<Point>>): SessionState<Point> {
  let best: SessionState<Point> | undefined
  for (const state of open) {
    const isBlocked = [...open].some(
      ({ session: { parent } }) => parent?.id === state.session.id && parent.points >= state.left,
    )
    if (isBlocked) continue
    if (best === undefined || isBefore(state, best)) best = state
  }
  // Forks form a tree, so the newest fork is never blocked.
  return present(best, 'the next session of the graph')
}

function isBefore<Point extends GraphPoint>(one: SessionState<Point>, other: SessionState<Point>): boolean {
  const [first, second] = [newestPoint(one), newestPoint(other)]
  if (first.time !== second.time) return first.time > second.time
  return first.mergedFrom === other.session.id
}

/** The columns of the graph. Each open lane has the id of its session. */
class Lanes {
  readonly #ids: (string | undefined)[] = []

  has(id: string): boolean {
    return this.#ids.includes(id)
  }

  /** The lane of a session, which is opened if it has none. */
  of(id: string): number {
    const known = this.#ids.indexOf(id)
    if (known >= 0) return known
    const free = this.#ids.indexOf(undefined)
    const lane = free >= 0 ? free : this.#ids.length
    this.#ids[lane] = id
    return lane
  }

  close(id: string): void {
    this.#ids[this.of(id)] = undefined
    while (this.#ids.length > 0 && this.#ids.at(-1) === undefined) this.#ids.pop()
  }

  /** Gives the lane of a fork to its parent, which has none yet. */
  continue(id: string, parentId: string): void {
    this.#ids[this.of(id)] = parentId
  }

  /** A row with a point in one lane. */
  row(at: number): string {
    return this.#cells((lane) => (lane === at ? '*' : undefined))
      .join('')
      .trimEnd()
  }

  /** A row between a merge and the lane of its source, which begins here if it has none yet. */
  connect(from: number, source: string): string {
    const begins = !this.has(source)
    const to = this.of(source)
    return this.#between(from, to, to > from ? '\\' : '/', begins ? to : undefined)
  }

  /** A row in which a lane ends in that of its parent. */
  join(from: number, to: number): string {
    return this.#between(to, from, from > to ? '/' : '\\', from)
  }

  /** A row between two lanes. The lane `cut` is not drawn, because it ends or begins here. */
  #between(from: number, to: number, turn: string, cut?: number): string {
    const [left, right] = [Math.min(from, to), Math.max(from, to)]
    const corner = to > from ? 2 * to - 1 : 2 * to + 1
    const characters = this.#cells((lane) => (lane === cut ? ' ' : undefined))
    for (let at = 2 * left + 1; at < 2 * right; at++)
      if (characters[at] === ' ') characters[at] = at === corner ? turn : '-'
    return characters.join('').trimEnd()
  }

  /** Two characters for each lane. */
  #cells(mark: (lane: number) => string | undefined): string[] {
    return this.#ids.flatMap((id, lane) => [mark(lane) ?? (id === undefined ? ' ' : '|'), ' '])
  }
}
