import { inBackground } from './background.js'
import { computed, signal } from '@preact/signals'
import { call } from './api.js'
import { eventsOf, pointsOf, refreshEvents } from './events.js'
import { shown } from './format.js'
import { layOut, type GraphRow, type Point } from './graph-layout.js'
import { pageLimits } from './limits.js'
import type { Session, SessionEvent } from './wire.js'

/** The sessions of the tenant, in order of creation. */
export const sessions = signal<readonly Session[]>([])
export const isComplete = signal(false)
export const sessionsError = signal<unknown>(undefined)
/** The search of the graph. */
export const search = signal('')
/** The sessions whose events the graph shows. */
export const expanded = signal<ReadonlySet<string>>(new Set())

/** A page of the listing. */
interface Listed {
  readonly token: string
  readonly sessions: readonly Session[]
}

const pages: Listed[] = [{ token: '', sessions: [] }]
let looks = 0

/** The sessions by their ids. */
export const byId = computed(() => new Map(sessions.value.map((session) => [session.id, session])))

/**
 * Reads new sessions and those of the last page again, and those of one page before it, by turns: 10,000 sessions are
 * ten pages.
 */
export async function refreshSessions(): Promise<void> {
  try {
    const last = pages.length - 1
    if (last > 0) await readPage(looks++ % last)
    for (let index = last; ; index++) {
      const nextToken = await readPage(index)
      if (nextToken === '' || sessions.value.length >= pageLimits.sessions) break
      pages[index + 1] = { token: nextToken, sessions: [] }
    }
    sessionsError.value = undefined
    isComplete.value = true
  } catch (error) {
    sessionsError.value = error
  }
}

/** Reads a page of the listing, and returns the token of the page after it. */
async function readPage(index: number): Promise<string> {
  const { token, sessions: before } = pages[index] ?? { token: '', sessions: [] }
  const answer = await call<{ sessions: Session[]; nextPageToken: string }>('/v1/sessions', {
    query: { pageSize: pageLimits.pageEntries, pageToken: token },
  })
  // A page from which sessions were deleted is filled up with those of the pages after it.
  const later = new Set(pages.slice(index + 1).flatMap((page) => page.sessions.map(({ id }) => id)))
  const listed = later.size === 0 ? answer.sessions : answer.sessions.filter(({ id }) => !later.has(id))
  const known = new Map(before.map((session) => [session.id, session]))
  const changed = listed.filter((session) => {
    const old = known.get(session.id)
    return old?.lastActivityAt !== session.lastActivityAt || old.status !== session.status
  })
  if (changed.length > 0 || known.size !== listed.length) {
    pages[index] = { token, sessions: listed }
    sessions.value = pages.flatMap((page) => page.sessions)
    if (sessions.value.length <= pageLimits.expandedSessions && search.value === '')
      expanded.value = new Set([
        ...expanded.value,
        ...changed.map(({ id }) => id).filter((id) => !collapsed.has(id)),
      ])
    for (const { id } of changed) if (expanded.value.has(id)) inBackground(refreshEvents(id))
  }
  return answer.nextPageToken
}

/** Sessions that the user has collapsed. */
const collapsed = new Set<string>()

/** Shows or hides the events of a session in the graph. */
export function expand(id: string, isExpanded: boolean): void {
  const next = new Set(expanded.value)
  if (isExpanded) {
    next.add(id)
    collapsed.delete(id)
    inBackground(refreshEvents(id))
  } else {
    next.delete(id)
    collapsed.add(id)
  }
  expanded.value = next
}

/** The sessions that match the search: words of a tag, `key=value`, or a part of the id. */
export const matching = computed(() => {
  const words = search.value
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '')
  if (words.length === 0) return sessions.value
  return sessions.value.filter(({ id, tags, status }) => {
    const text = [id, status, ...Object.entries(tags).map(([key, value]) => `${key}=${value}`)]
      .join('\n')
      .toLowerCase()
    return words.every((word) => text.includes(word))
  })
})

const points = new WeakMap<readonly SessionEvent[], Point[]>()

/** The rows of the graph, the newest first. */
export const rows = computed<readonly GraphRow[]>(() => {
  const open = expanded.value
  return layOut(
    matching.value.map(({ id, parent, createdAt }) => {
      let own: Point[] | undefined
      if (open.has(id)) {
        const events = eventsOf(id).events.value
        own = points.get(events)
        if (own === undefined) points.set(events, (own = pointsOf(events)))
      }
      return { id, parentId: parent?.sessionId, createdAt, points: own }
    }),
  )
})

/** Keys of tags with their values, to choose from. */
export const tagChoices = computed(() => {
  const found = new Map<string, number>()
  for (const { tags } of sessions.value)
    for (const [key, value] of Object.entries(tags)) {
      const tag = `${key}=${value}`
      found.set(tag, (found.get(tag) ?? 0) + 1)
    }
  return [...found]
    .sort((one, other) => other[1] - one[1])
    .slice(0, 200)
    .map(([tag]) => tag)
})

/** The name of a session for people: its tag `name` or `task`, or the first of its tags. */
export function titleOf({ tags }: Session): string {
  const { name, title, task, attempt } = tags
  const own = name ?? title
  if (own !== undefined) return shown(own)
  if (task !== undefined || attempt !== undefined)
    return [
      task !== undefined ? `task ${shown(task)}` : '',
      attempt !== undefined ? `attempt ${shown(attempt)}` : '',
    ]
      .filter((part) => part !== '')
      .join(', ')
  const [first] = Object.entries(tags)
  return first === undefined ? '' : `${shown(first[0])} ${shown(first[1])}`
}
