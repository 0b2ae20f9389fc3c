import { signal, type Signal } from '@preact/signals'
import { call, ofSession } from './api.js'
import { shown, shortId } from './format.js'
import type { Point } from './graph-layout.js'
import { pageLimits } from './limits.js'
import type { SessionEvent } from './wire.js'

/** The events of a session that the page knows. */
export interface EventLog {
  readonly events: Signal<readonly SessionEvent[]>
  /** Why the events could not be read. */
  readonly error: Signal<unknown>
  readonly isLoaded: Signal<boolean>
}

interface OpenLog extends EventLog {
  /** The token of the page with the newest events. */
  token: string
  /** The number of events before that page. */
  before: number
  running: Promise<void> | undefined
  /** Whether events may have been added since the running read began. */
  isStale: boolean
}

const logs = new Map<string, OpenLog>()

/** The log of a session. It is empty until {@link refreshEvents} has read it. */
export function eventsOf(id: string): EventLog {
  return open(id)
}

function open(id: string): OpenLog {
  let log = logs.get(id)
  if (log === undefined) {
    log = {
      events: signal<readonly SessionEvent[]>([]),
      error: signal<unknown>(undefined),
      isLoaded: signal(false),
      token: '',
      before: 0,
      running: undefined,
      isStale: false,
    }
    logs.set(id, log)
  }
  return log
}

/** Reads the events that were added since the last call. */
export function refreshEvents(id: string): Promise<void> {
  const log = open(id)
  log.isStale = true
  log.running ??= readAll(id, log).finally(() => {
    log.running = undefined
  })
  return log.running
}

async function readAll(id: string, log: OpenLog): Promise<void> {
  while (log.isStale) {
    log.isStale = false
    await read(id, log)
  }
}

async function read(id: string, log: OpenLog): Promise<void> {
  try {
    for (;;) {
      const { events, nextPageToken } = await call<{ events: SessionEvent[]; nextPageToken: string }>(
        ofSession(id, '/events'),
        { query: { pageSize: pageLimits.pageEntries, pageToken: log.token } },
      )
      const known = log.events.value
      if (log.before + events.length !== known.length)
        log.events.value = [...known.slice(0, log.before), ...events]
      if (nextPageToken === '' || log.events.value.length >= pageLimits.events) break
      log.token = nextPageToken
      log.before = log.events.value.length
    }
    log.error.value = undefined
  } catch (error) {
    log.error.value = error
  }
  log.isLoaded.value = true
}

/** The id of the newest event that the page knows. */
export function newestOf(id: string): string | undefined {
  return open(id).events.value.at(-1)?.eventId
}

/** The last part of the type of an event, such as `WriteFile`. */
export function operationOf({ eventType }: SessionEvent): string {
  return eventType.split('.').at(-1) ?? eventType
}

/** Whether the event changes files one by one. */
export function changesFiles({ eventType }: SessionEvent): boolean {
  return eventType.startsWith('v1.FileSystemService.')
}

/** The paths that the details of an event name. */
export function pathsOf({ details }: SessionEvent): string[] {
  const { path, srcPath, dstPath, sourcePath, destinationPath, linkPath, paths } = details
  const all = Array.isArray(paths)
    ? (paths as unknown[])
    : [path, srcPath, sourcePath, linkPath, dstPath, destinationPath]
  return [...new Set(all.filter((one): one is string => typeof one === 'string'))]
}

/** An event in a few words. */
export function labelOf(event: SessionEvent): string {
  const { details } = event
  const operation = operationOf(event)
  const text = (name: string): string => {
    const value = details[name]
    return typeof value === 'string' ? shown(value) : ''
  }
  switch (operation) {
    case 'CreateSession':
      return 'session created'
    case 'ForkSession':
      return `fork of ${shortId(text('sourceSessionId'))}`
    case 'CreateCheckpoint':
      return `checkpoint ${text('label') || shortId(text('checkpointId'))}`
    case 'MergeSession':
      return `merge of ${shortId(text('sourceSessionId'))}`
    case 'Commit':
      return `commit ${text('commitId').slice(0, 10)} ${text('branchName')}`.trimEnd()
    default:
      return operation.replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' ').toLowerCase()
  }
}

const kinds: Readonly<Record<string, Point['kind']>> = {
  CreateCheckpoint: 'checkpoint',
  Commit: 'commit',
  MergeSession: 'merge',
  RebaseSession: 'merge',
  RestoreCheckpoint: 'restore',
  RestoreState: 'restore',
  Undo: 'restore',
  Redo: 'restore',
}

/** The points of a session in the graph. Successive changes of files by one principal are one point. */
export function pointsOf(events: readonly SessionEvent[]): Point[] {
  const points: Point[] = []
  let changes: SessionEvent[] = []
  const flush = (): void => {
    const last = changes.at(-1)
    if (last === undefined) return
    const paths = new Set(changes.flatMap(pathsOf))
    const [first = ''] = paths
    const label =
      changes.length === 1 && paths.size === 1
        ? `${labelOf(last)} ${shown(first)}`
        : summary(changes.length, paths)
    points.push({
      eventId: last.eventId,
      kind: 'changes',
      label,
      at: last.timestamp,
      principal: last.principal ?? '',
    })
    changes = []
  }
  for (const event of events) {
    const operation = operationOf(event)
    if (operation === 'CreateSession' || operation === 'ForkSession') continue
    if (changesFiles(event)) {
      if (changes.length > 0 && changes[0]?.principal !== event.principal) flush()
      changes.push(event)
      continue
    }
    flush()
    const from = event.details['sourceSessionId']
    points.push({
      eventId: event.eventId,
      kind: kinds[operation] ?? 'other',
      label: labelOf(event),
      at: event.timestamp,
      principal: event.principal ?? '',
      ...(operation === 'MergeSession' && typeof from === 'string' && { from }),
    })
  }
  flush()
  return points
}

function summary(changes: number, paths: ReadonlySet<string>): string {
  return paths.size === 0
    ? `${changes} changes`
    : `${changes} changes of ${paths.size} ${paths.size === 1 ? 'path' : 'paths'}`
}
