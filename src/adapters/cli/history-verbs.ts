import type { Change, SessionApi, StateName, UndoResult } from '../../engine/index.js'
import { parseId } from './arguments.js'
import { findCheckpoint } from './checkpoints.js'
import type { Context } from './context.js'
import { UsageError } from './failure.js'
import { cliLimits } from './limits.js'
import { printableName } from './printable.js'

interface StepOptions {
  readonly count?: string
  readonly group?: boolean
  readonly dryRun?: boolean
}

export function undoChanges(context: Context, args: [string], options: StepOptions): Promise<void> {
  return step(context, args, options, 'undo')
}

export function redoChanges(context: Context, args: [string], options: StepOptions): Promise<void> {
  return step(context, args, options, 'redo')
}

/** Prints the number of changes, and with --dry-run the paths. */
async function step(
  context: Context,
  [prefix]: [string],
  { count, group = false, dryRun = false }: StepOptions,
  direction: 'undo' | 'redo',
): Promise<void> {
  const number = count === undefined ? 1 : Number(count)
  if (!Number.isSafeInteger(number) || number < 1)
    throw new UsageError('--count must be a whole number from 1')
  const session = await context.session(prefix)
  const result: UndoResult = await session[direction]({
    count: number,
    by: group ? 'group' : 'event',
    dryRun,
  })
  if (context.out.json) return context.out.line('', result)
  await printChanges(context, result.changes)
  if (!dryRun) await context.out.line(String(result.count), result)
}

/** Restores a state, or with --path some files and directories of it. */
export async function restoreSession(
  context: Context,
  [prefix, which]: [string, string],
  { path: paths, dryRun = false }: { readonly path?: readonly string[]; readonly dryRun?: boolean },
): Promise<void> {
  const session = await context.session(prefix)
  const from = await parseState(session, which)
  const isPlain = from.checkpointId !== undefined && paths === undefined && !dryRun
  const result = await session.restore(
    isPlain ? { checkpointId: from.checkpointId } : { from, dryRun, ...(paths !== undefined && { paths }) },
  )
  if (context.out.json) await context.out.line('', result)
  else await printChanges(context, result.changes)
}

/** Lists a directory, prints a file, or lists all paths of an earlier state. */
export async function showState(
  context: Context,
  [prefix, which, what, path]: [string, string, string, string | undefined],
): Promise<void> {
  const session = await context.session(prefix)
  using view = await session.at(await parseState(session, which))
  if (what === 'cat') {
    if (path === undefined) throw new UsageError('cat needs the path of a file')
    return context.out.bytes(await view.files.read({ path }))
  }
  if (what !== 'ls' && what !== 'manifest')
    throw new UsageError(`the action must be ls, cat or manifest; it is ${printableName(what)}`)
  for (let pageToken = ''; ;) {
    const page =
      what === 'ls'
        ? await view.files.list({ path: path ?? '/', pageToken })
        : await view.manifest({ pathPrefix: path ?? '', pageToken })
    if ('entries' in page)
      for (const entry of page.entries) await context.out.line(printableName(entry.name), entry)
    else
      for (const node of page.nodes)
        await context.out.line(() => `${node.contentHash || '-'}  ${printableName(node.path)}`, node)
    pageToken = page.nextPageToken
    if (pageToken === '') return
  }
}

/** Prints the first line, number of lines, time and principal of each range. */
export async function showBlame(
  context: Context,
  [prefix, path]: [string, string],
  { at }: { readonly at?: string },
): Promise<void> {
  const session = await context.session(prefix)
  const state = at === undefined ? {} : { at: await parseState(session, at) }
  const { ranges } = await session.blame({ path, ...state })
  await context.out.page()
  await context.out.table(
    ranges.map((range) => ({
      cells: [
        range.lineCount === 1
          ? String(range.startLine)
          : `${range.startLine}-${range.startLine + range.lineCount - 1}`,
        range.timestamp || '-',
        printableName(range.principal || '-'),
        range.eventId || '-',
      ],
      value: range,
    })),
  )
}

/** Prints the changes of a path, newest first. */
export async function showPathLog(context: Context, session: SessionApi, path: string): Promise<void> {
  for (let pageToken = ''; ;) {
    const page = await session.history({ path, pageToken })
    await context.out.table(
      page.changes.map((change) => ({
        cells: [
          change.timestamp,
          printableName(change.principal),
          change.change,
          printableName(change.path),
          change.eventId,
        ],
        value: change,
      })),
    )
    pageToken = page.nextPageToken
    if (pageToken === '') return
  }
}

/** Prints the parent, the forks, and the common ancestors with another session. */
export async function showLineage(
  context: Context,
  [prefix, other]: [string, string | undefined],
): Promise<void> {
  const session = await context.session(prefix)
  const related = other === undefined ? {} : { with: await context.sessionId(other) }
  let page = await session.lineage(related)
  if (page.parent !== undefined) {
    const { parent } = page
    const note = parent.exists ? '' : '  deleted'
    await context.out.line(`parent   ${parent.eventId}${note}`, { parent })
  }
  for (const ancestor of page.commonAncestors)
    await context.out.line(`common   ${ancestor.eventId || `base ${ancestor.baseFingerprint}`}`, {
      commonAncestor: ancestor,
    })
  for (;;) {
    for (const child of page.children)
      await context.out.line(() => `fork     ${child.sessionId}  ${child.createdAt}  ${child.eventId}`, {
        child,
      })
    if (page.nextPageToken === '') return
    page = await session.lineage({ pageToken: page.nextPageToken })
  }
}

const letters = { added: 'A', removed: 'D', modified: 'M' } as const

/** Prints the changes of files until the process is interrupted, or with --once the first batch. */
export async function watchChanges(
  context: Context,
  [prefix]: [string],
  {
    glob: globs = [],
    after,
    once = false,
  }: { readonly glob?: readonly string[]; readonly after?: string; readonly once?: boolean },
): Promise<void> {
  const session = await context.session(prefix)
  const batches = session.watch({ globs, ...(after !== undefined && { afterEventId: after }) })
  // A wait for changes of a store in this process does not keep Node running.
  const running = setInterval(() => undefined, cliLimits.watchMs)
  try {
    for await (const batch of batches) {
      if (context.out.json) await context.out.line('', batch)
      else await printChanges(context, batch.changes)
      await context.out.flush()
      if (once) return
    }
  } finally {
    clearInterval(running)
  }
}

async function printChanges(context: Context, changes: readonly Change[]): Promise<void> {
  for (const change of changes)
    await context.out.line(() => `${letters[change.change]} ${printableName(change.path)}`, change)
}

/** A state: `base`, the id of an event, a time, or the label or id of a checkpoint. */
async function parseState(session: SessionApi, which: string): Promise<StateName> {
  if (which === 'base') return { base: true }
  if (which.startsWith(`${session.id}-`)) return { eventId: which }
  if (/^\d{4}-\d{2}-\d{2}[Tt]/.test(which)) return { time: which }
  return { checkpointId: await findCheckpoint(session, parseId(which, 'checkpoint')) }
}
