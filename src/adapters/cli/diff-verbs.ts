import type { StateReference } from '../../engine/index.js'
import type { Context } from './context.js'
import { UsageError } from './failure.js'
import { printableName } from './printable.js'
import { findCheckpoint } from './checkpoints.js'

const letters = { added: 'A', removed: 'D', modified: 'M' } as const
const maxLabels = 2

/**
 * Lists the changes from one state to another: from the first session to the second, from a checkpoint to a
 * second checkpoint or the current state, or from the base of a session to its current state.
 */
export async function showDiff(
  context: Context,
  [first, second]: [string, string | undefined],
  options: { readonly checkpoint?: readonly string[]; readonly patch?: boolean; readonly stat?: boolean },
): Promise<void> {
  const { checkpoint: labels = [], patch = false, stat = false } = options
  if (labels.length > maxLabels) throw new UsageError('--checkpoint takes one or two labels')
  if (labels.length > 0 && second !== undefined)
    throw new UsageError('--checkpoint compares states of one session: omit the second session')
  if (patch && context.out.json) throw new UsageError('--patch and --json cannot be combined')
  if (patch && stat) throw new UsageError('--patch and --stat cannot be combined')
  const session = await context.session(first)
  const other = second === undefined ? undefined : await context.sessionId(second)
  const state = async (label: string): Promise<StateReference> => ({
    sessionId: session.id,
    checkpointId: await findCheckpoint(session, label),
  })
  const [fromLabel, toLabel] = labels
  const now: StateReference = { sessionId: session.id }
  const from =
    other !== undefined ? now : fromLabel === undefined ? { ...now, base: true } : await state(fromLabel)
  const to = other !== undefined ? { sessionId: other } : toLabel === undefined ? now : await state(toLabel)
  if (patch || stat) {
    const { printPatch, printStats } = await import('./patch.js')
    await context.out.page()
    return patch ? printPatch(context, { from, to }) : printStats(context, { from, to })
  }
  const { out } = context
  await out.page()
  for await (const change of (await context.workspaces()).diff({ from, to }))
    await out.line(
      () => out.paint(change.change, `${letters[change.change]} ${printableName(change.path)}`),
      change,
    )
}
