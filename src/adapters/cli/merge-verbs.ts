import type { ConflictSideName, MergeConflict, MergePolicyRule, MergeResult } from '../../engine/index.js'
import type { Context } from './context.js'
import { ExitCode, Failure, UsageError } from './failure.js'
import { openInput } from './input.js'
import { cliLimits } from './limits.js'
import { printableName } from './printable.js'

interface MergeFlags {
  readonly policy?: readonly string[]
  readonly dryRun?: boolean
}

interface ResolveFlags {
  readonly ours?: boolean
  readonly theirs?: boolean
  readonly base?: boolean
  readonly content?: string
  readonly deleted?: boolean
  readonly all?: boolean
}

const letters = { added: 'A', removed: 'D', modified: 'M' } as const

/** Merges one session into another. The exit code is 1 if conflicts remain. */
export async function mergeSessions(
  context: Context,
  [source, target]: [string, string],
  { policy, dryRun = false }: MergeFlags,
): Promise<number> {
  const policies = parsePolicies(policy)
  const session = await context.session(target)
  const result = await session.merge({ sessionId: await context.sessionId(source) }, { policies, dryRun })
  return printMerge(context, result)
}

/** Moves a session onto another revision of its source. The exit code is 1 if conflicts remain. */
export async function rebaseSession(
  context: Context,
  [prefix, revisionId]: [string, string | undefined],
  { policy, dryRun = false }: MergeFlags,
): Promise<number> {
  const policies = parsePolicies(policy)
  const session = await context.session(prefix)
  return printMerge(
    context,
    await session.rebase({ policies, dryRun, ...(revisionId !== undefined && { revisionId }) }),
  )
}

/** Lists the unresolved conflicts of a session. */
export async function listConflicts(context: Context, [prefix]: [string]): Promise<void> {
  const { conflicts } = await context.session(prefix)
  for (let pageToken = ''; ;) {
    const page = await conflicts.list({ pageToken })
    for (const conflict of page.conflicts) await printConflict(context, conflict)
    pageToken = page.nextPageToken
    if (pageToken === '') return
  }
}

/** Resolves one conflict or all of them, and prints the number of conflicts that are left. */
export async function resolveConflicts(
  context: Context,
  [prefix, path]: [string, string | undefined],
  flags: ResolveFlags,
): Promise<void> {
  const use = parseResolution(path, flags)
  const { conflicts } = await context.session(prefix)
  const result =
    path === undefined
      ? await conflicts.resolveAll({ use: use ?? 'ours' })
      : await conflicts.resolve({ path: absolute(path), ...(await resolution(context, use, flags)) })
  await context.out.line(String(result.conflictCount), result)
}

/** Restores the files from before a merge or rebase with unresolved conflicts. */
export async function abortMerge(context: Context, [prefix]: [string]): Promise<void> {
  const session = await context.session(prefix)
  await session.conflicts.abort()
  if (context.out.json) await context.out.line('', { id: session.id })
}

async function printMerge(context: Context, result: MergeResult): Promise<number> {
  const { out } = context
  const { merged, changes, changeCount, conflicts } = result
  if (out.json) await out.line('', result)
  else {
    for (const { change, path } of changes)
      await out.line(out.paint(change, `${letters[change]} ${printableName(path)}`), undefined)
    if (changeCount > changes.length) context.note(`${changeCount - changes.length} more paths changed`)
    for (const conflict of conflicts) await printConflict(context, conflict)
    if (!merged) context.note('there is nothing to merge')
  }
  return conflicts.length === 0 ? ExitCode.ok : ExitCode.failure
}

function printConflict({ out }: Context, conflict: MergeConflict): Promise<void> {
  return out.line(() => out.paint('removed', `C ${conflict.kind} ${printableName(conflict.path)}`), conflict)
}

/** Parses `<glob>=<policy>`. The engine checks both parts. */
function parsePolicies(rules: readonly string[] = []): MergePolicyRule[] {
  return rules.map((rule) => {
    const at = rule.lastIndexOf('=')
    if (at < 1) throw new UsageError(`--policy takes <glob>=<policy>, but got '${rule}'`)
    return { glob: rule.slice(0, at), policy: rule.slice(at + 1) as MergePolicyRule['policy'] }
  })
}

/** Checks that the flags name one resolution. Returns the side, if they name one. */
function parseResolution(path: string | undefined, flags: ResolveFlags): ConflictSideName | undefined {
  const { all = false, content, deleted = false } = flags
  if (all === (path !== undefined)) throw new UsageError('pass the path of one conflict, or --all')
  const sides = (['ours', 'theirs', 'base'] as const).filter((side) => flags[side] === true)
  if (sides.length + Number(content !== undefined) + Number(deleted) !== 1)
    throw new UsageError('pass exactly one of --ours, --theirs, --base, --content and --deleted')
  const [side] = sides
  if (all && side === undefined) throw new UsageError('--all needs --ours, --theirs or --base')
  return side
}

async function resolution(
  context: Context,
  use: ConflictSideName | undefined,
  { content }: ResolveFlags,
): Promise<{ use: ConflictSideName } | { content: Uint8Array } | { deleted: true }> {
  if (use !== undefined) return { use }
  return content === undefined ? { deleted: true } : { content: await readContent(context, content) }
}

async function readContent(context: Context, name: string): Promise<Uint8Array> {
  const input = await openInput(name, context.world)
  try {
    if (input.size > cliLimits.resolvedBytes)
      throw new Failure(
        `the resolved file has ${input.size} bytes, and the limit is ${cliLimits.resolvedBytes}; pass --ours or --theirs, and write it with "forkspace put"`,
      )
    return await input.head(input.size)
  } finally {
    await input.close()
  }
}

function absolute(path: string): string {
  return path.startsWith('/') ? path : `/${path}`
}
