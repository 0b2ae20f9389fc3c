import type { SessionApi } from '../../engine/index.js'
import { itemAt } from '../../engine/ports.js'
import type { Context } from './context.js'
import { Failure } from './failure.js'
import { cliLimits } from './limits.js'
import { printableName } from './printable.js'
import { drawGraph, type GraphSession } from './session-graph.js'

/** One or several events of a session, as `--json` prints them. */
interface LogPoint {
  readonly sessionId: string
  readonly time: string
  readonly principal: string
  /** The last part of the event type, such as `ForkSession`; `Changes` for changes of files. */
  readonly operation: string
  readonly firstEventId: string
  readonly lastEventId: string
  readonly count: number
  readonly details: Readonly<Record<string, unknown>>
  readonly mergedFrom?: string
}

/** An event, in process or from a server. */
type AnyEvent = Awaited<ReturnType<SessionApi['events']['list']>>['events'][number]

/** Sessions with their forks and events, with the parent first. */
interface Family {
  readonly sessions: FamilyMember[]
  events: number
}

interface FamilyMember {
  readonly id: string
  readonly events: readonly AnyEvent[]
  readonly parent?: { readonly id: string; readonly eventId: string }
}

/** Prints a session, its ancestors and all of their forks as a graph, the newest event first. */
export async function showGraph(context: Context, session: SessionApi): Promise<void> {
  const { out } = context
  const family = await readFamily(context, await oldestAncestor(context, session))
  for (const { lanes, point } of drawGraph(graphOf(family))) {
    if (point === undefined) {
      if (!out.json) await out.line(lanes, undefined)
      continue
    }
    const text = (): string => {
      const columns = [
        out.paint('quiet', point.time),
        ...(point.principal === '' ? [] : [printableName(point.principal)]),
        labelOf(point, (name) => out.paint('heading', name)),
      ]
      return `${lanes}  ${columns.join('  ')}`
    }
    await out.line(text, point)
  }
}

async function oldestAncestor(context: Context, session: SessionApi): Promise<SessionApi> {
  const { sessions } = await context.workspaces()
  let oldest = session
  for (let count = 0; count < cliLimits.graphSessions; count++) {
    const { parent } = await oldest.lineage({ pageSize: 1 })
    if (parent?.exists !== true) break
    oldest = await sessions.open(parent.sessionId)
  }
  return oldest
}

async function readFamily(context: Context, root: SessionApi): Promise<Family> {
  const { sessions } = await context.workspaces()
  const family: Family = { sessions: [], events: 0 }
  const waiting: { readonly session: SessionApi; readonly parent?: FamilyMember['parent'] }[] = [
    { session: root },
  ]
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const { session, parent } = next
    const events = await eventsOf(family, session)
    family.sessions.push({ id: session.id, events, ...(parent !== undefined && { parent }) })
    for (let pageToken = ''; ;) {
      const page = await session.lineage({ pageToken })
      for (const { sessionId, eventId } of page.children) {
        if (family.sessions.length + waiting.length >= cliLimits.graphSessions)
          throw tooLarge(`${cliLimits.graphSessions} related sessions`)
        waiting.push({ session: await sessions.open(sessionId), parent: { id: session.id, eventId } })
      }
      pageToken = page.nextPageToken
      if (pageToken === '') break
    }
  }
  return family
}

async function eventsOf(family: Family, session: SessionApi): Promise<AnyEvent[]> {
  const events: AnyEvent[] = []
  for (let pageToken = ''; ;) {
    const page = await session.events.list({ pageToken })
    events.push(...page.events)
    family.events += page.events.length
    if (family.events > cliLimits.graphEvents) throw tooLarge(`${cliLimits.graphEvents} events`)
    pageToken = page.nextPageToken
    if (pageToken === '') return events
  }
}

function tooLarge(what: string): Failure {
  return new Failure(
    `the graph would have more than ${what}; use "log <session>" for the events of one session, and "lineage <session>" for its forks`,
  )
}

/** Groups successive changes of files into one point, unless a fork starts between them. */
function graphOf({ sessions }: Family): GraphSession<LogPoint>[] {
  const forkedAfter = new Set(
    sessions.flatMap(({ parent }) => (parent === undefined ? [] : [parent.eventId])),
  )
  const pointsBefore = new Map<string, number>()
  return sessions.map(({ id, events, parent }) => {
    const points: LogPoint[] = []
    let mayJoin = false
    for (const event of events) {
      const point = pointOf(id, event)
      const last = points.at(-1)
      if (mayJoin && last !== undefined && canJoin(last, point))
        points[points.length - 1] = joined(last, point)
      else points.push(point)
      mayJoin = !forkedAfter.has(event.eventId)
      if (!mayJoin) pointsBefore.set(event.eventId, points.length)
    }
    return {
      id,
      points,
      ...(parent !== undefined && {
        parent: { id: parent.id, points: pointsBefore.get(parent.eventId) ?? 0 },
      }),
    }
  })
}

function pointOf(sessionId: string, event: AnyEvent): LogPoint {
  // A server does not send the principal.
  const { eventId, eventType, timestamp, principal = '', details } = event
  const [, service = '', operation = ''] = eventType.split('.')
  const source = operation === 'MergeSession' ? details['sourceSessionId'] : undefined
  return {
    sessionId,
    time: timestamp,
    principal,
    operation: service === 'FileSystemService' ? 'Changes' : operation,
    firstEventId: eventId,
    lastEventId: eventId,
    count: 1,
    details,
    ...(typeof source === 'string' && { mergedFrom: source }),
  }
}

function canJoin(one: LogPoint, next: LogPoint): boolean {
  return one.operation === 'Changes' && next.operation === 'Changes' && one.principal === next.principal
}

function joined(one: LogPoint, next: LogPoint): LogPoint {
  const { time, lastEventId } = next
  return { ...one, time, lastEventId, count: one.count + 1, details: {} }
}

function labelOf(point: LogPoint, strong: (text: string) => string): string {
  const { operation, details, count, sessionId, mergedFrom } = point
  const text = (name: string): string => {
    const value = details[name]
    return typeof value === 'string' ? printableName(value) : ''
  }
  switch (operation) {
    case 'CreateSession':
      return `${strong('session')} ${sessionId}`
    case 'ForkSession':
      return `${strong('fork')} ${sessionId}`
    case 'CreateCheckpoint':
      return `${strong('checkpoint')} ${text('label') || text('checkpointId')}`
    case 'MergeSession':
      return `${strong('merge')} ${mergedFrom ?? ''}`
    case 'Commit':
      return `${strong('commit')} ${text('commitId')} ${text('branchName')}`.trimEnd()
    case 'Changes':
      return count > 1 ? `${count} changes` : pathsOf(details)
    default:
      return strong(operation.replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' ').toLowerCase())
  }
}

/** The path of a change, or the first of several paths. */
function pathsOf(details: Readonly<Record<string, unknown>>): string {
  const { path, srcPath, paths } = details
  const all = Array.isArray(paths) ? paths : [path ?? srcPath]
  const known = all.filter((one): one is string => typeof one === 'string')
  if (known.length === 0) return '1 change'
  const first = printableName(itemAt(known, 0))
  return known.length === 1 ? `change ${first}` : `change ${first} and ${known.length - 1} more`
}
