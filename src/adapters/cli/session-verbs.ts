import type { JsonObject, SessionInfo } from '../../engine/index.js'
import { parseAuthor, parsePairs, parseValues } from './arguments.js'
import type { Context } from './context.js'
import { checkpointsOf } from './checkpoints.js'
import { UsageError } from './failure.js'
import { printableName } from './printable.js'
import { pairs } from './source-verbs.js'

export async function createSession(
  context: Context,
  _: [],
  options: { readonly source?: string; readonly revision?: string; readonly tag?: readonly string[] },
): Promise<void> {
  const { source, revision } = options
  const initialTags = parsePairs('--tag', options.tag)
  if (revision !== undefined && source === undefined) throw new UsageError('--revision needs --source')
  const { sessions } = await context.workspaces({ create: source === undefined })
  const sourceRef =
    source === undefined
      ? {}
      : {
          sourceRef: {
            sourceId: await context.sourceId(source),
            ...(revision !== undefined && { revisionId: revision }),
          },
        }
  const session = await sessions.create({ initialTags, ...sourceRef })
  await context.out.line(session.id, await session.get())
}

export async function listSessions(
  context: Context,
  _: [],
  options: { readonly filter?: string; readonly metadata?: readonly string[] },
): Promise<void> {
  const { sessions } = await context.workspaces()
  const filter = options.filter === undefined ? {} : { filter: options.filter }
  for (let pageToken = ''; ;) {
    const page = await sessions.list({ ...filter, ...metadataOf(options), pageToken })
    await context.out.table(
      page.sessions.map((session) => ({
        cells: [session.id, shortStatus(session), session.createdAt, pairs(session.tags)],
        value: session,
      })),
    )
    pageToken = page.nextPageToken
    if (pageToken === '') return
  }
}

/** Shows a session and its checkpoints. */
export async function showSession(context: Context, [prefix]: [string]): Promise<void> {
  const session = await context.session(prefix)
  const info = await session.get()
  const { manifestHash } = await session.manifest({ pageSize: 1 })
  const checkpoints = await checkpointsOf(session)
  const { out } = context
  if (out.json) {
    await out.line('', { ...info, manifestHash, checkpoints })
    return
  }
  await out.line(`id           ${info.id}`, '')
  await out.line(`status       ${shortStatus(info)}`, '')
  await out.line(`created      ${info.createdAt}`, '')
  await out.line(`last used    ${info.lastActivityAt}`, '')
  await out.line(`base         ${info.baseFingerprint}`, '')
  await out.line(`tree         ${manifestHash}`, '')
  for (const [key, value] of Object.entries(info.tags))
    await out.line(`tag          ${printableName(`${key}=${value}`)}`, '')
  for (const { id, checkpointLabel, createdAt } of checkpoints)
    await out.line(`checkpoint   ${id}  ${createdAt}  ${printableName(checkpointLabel)}`.trimEnd(), '')
}

export async function forkSession(
  context: Context,
  [prefix]: [string],
  options: {
    readonly checkpoint?: string
    readonly tag?: readonly string[]
    readonly metadata?: readonly string[]
  },
): Promise<void> {
  const newTags = parsePairs('--tag', options.tag)
  const session = await context.session(prefix)
  const label = options.checkpoint === undefined ? {} : { checkpointLabel: options.checkpoint }
  const fork = await session.fork({ ...label, newTags, ...metadataOf(options) })
  await context.out.line(fork.id, await fork.get())
}

export async function removeSessions(context: Context, [prefixes]: [string[]]): Promise<void> {
  const { sessions } = await context.workspaces()
  const ids: string[] = []
  for (const prefix of prefixes) ids.push(await context.sessionId(prefix))
  for (const id of ids) {
    await sessions.delete(id)
    if (context.out.json) await context.out.line('', { id })
  }
}

export async function showCommits(
  context: Context,
  [prefix]: [string],
  { branch }: { readonly branch?: string },
): Promise<void> {
  const { out } = context
  const { commits } = await context.session(prefix)
  for (let pageToken = ''; ;) {
    const page = await commits.list({ pageToken, ...(branch !== undefined && { branchName: branch }) })
    for (const commit of page.commits) {
      const text = (): string => {
        const [subject = ''] = commit.message.split('\n', 1)
        const columns = [
          out.paint('heading', commit.commitId),
          out.paint('quiet', commit.committedAt),
          printableName(commit.author.name),
          ...(commit.branchName === '' ? [] : [`(${printableName(commit.branchName)})`]),
          printableName(subject),
        ]
        return columns.join('  ')
      }
      await out.line(text, commit)
    }
    pageToken = page.nextPageToken
    if (pageToken === '') return
  }
}

/**
 * Prints the event log, oldest first: time, principal (not with a server), operation, details. With a path, prints
 * its changes, newest first. With `graph`, prints the graph of related sessions.
 */
export async function showLog(
  context: Context,
  [prefix]: [string],
  { path, graph = false }: { readonly path?: string; readonly graph?: boolean },
): Promise<void> {
  const { out } = context
  const session = await context.session(prefix)
  await out.page()
  if (graph) return (await import('./graph-verbs.js')).showGraph(context, session)
  if (path !== undefined) return (await import('./history-verbs.js')).showPathLog(context, session, path)
  for (let pageToken = ''; ;) {
    const page = await session.events.list({ pageToken })
    for (const event of page.events) {
      const text = (): string => {
        const details = Object.entries(event.details)
          .map(([key, value]) =>
            printableName(`${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`),
          )
          .join(' ')
        const { principal = '' } = event
        const columns = [
          out.paint('quiet', event.timestamp),
          ...(principal === '' ? [] : [printableName(principal)]),
          out.paint('heading', operationOf(event.eventType)),
          details,
        ]
        return columns.join('  ').trimEnd()
      }
      await out.line(text, event)
    }
    pageToken = page.nextPageToken
    if (pageToken === '') return
  }
}

export async function makeCheckpoint(
  context: Context,
  [prefix, checkpointLabel]: [string, string | undefined],
  options: { readonly metadata?: readonly string[] },
): Promise<void> {
  const session = await context.session(prefix)
  const label = checkpointLabel === undefined ? {} : { checkpointLabel }
  const checkpoint = await session.checkpoint({ ...label, ...metadataOf(options) })
  await context.out.line(checkpoint.id, checkpoint)
}

export async function commitSession(
  context: Context,
  [prefix]: [string],
  options: {
    readonly message: string
    readonly branch?: string
    readonly author?: string
    readonly allowEmpty?: boolean
  },
): Promise<void> {
  const { message, branch, author, allowEmpty = false } = options
  const identity = author === undefined ? {} : { author: parseAuthor(author) }
  const session = await context.session(prefix)
  const commit = await session.commit({
    message,
    ...identity,
    ...(branch !== undefined && { gitBranch: { branchName: branch } }),
    ...(allowEmpty && { allowEmpty }),
  })
  await context.out.line(commit.commitId, commit)
}

/** The metadata of the options --metadata: values of JSON, or otherwise text. */
function metadataOf({ metadata }: { readonly metadata?: readonly string[] }): {
  readonly metadata?: JsonObject
} {
  if (metadata === undefined) return {}
  return { metadata: parseValues('--metadata', metadata) }
}

/** Returns the operation of an event type: `writeFile` for `v1.FileSystemService.WriteFile`. */
function operationOf(eventType: string): string {
  const name = eventType.slice(eventType.lastIndexOf('.') + 1)
  return name.charAt(0).toLowerCase() + name.slice(1)
}

function shortStatus({ status }: SessionInfo): string {
  return status.replace('SESSION_STATUS_', '').toLowerCase()
}
