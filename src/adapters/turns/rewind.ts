import type { SessionApi } from '../../engine/index.js'
import { invalid, Shape } from '../../engine/ports.js'
import { checkMessageId, checkpointOf } from './turn-checkpoints.js'

/** Options of `rewindFiles`. */
export interface RewindOptions {
  /** true: says what would change, and changes nothing; false by default. */
  readonly dryRun?: boolean
}

/** The outcome of `rewindFiles`. */
export interface RewindResult {
  /** Whether there is a checkpoint of the message. Without one, nothing changed. */
  readonly canRewind: boolean
  /** Why there was no rewind. */
  readonly error?: string
  /** The files that the rewind changes, at most 10,000. */
  readonly filesChanged?: string[]
  /** The lines that the rewind adds. */
  readonly insertions?: number
  /** The lines that the rewind removes. */
  readonly deletions?: number
}

const optionsShape = new Shape<RewindOptions>({ dryRun: true })

/** Brings all files back to their state before a user message. */
export async function rewind(
  session: SessionApi,
  userMessageId: string,
  options: RewindOptions,
): Promise<RewindResult> {
  const { dryRun = false } = optionsShape.read(options, 'options')
  if (typeof dryRun !== 'boolean') throw invalid('dryRun', 'must be true or false')
  checkMessageId('userMessageId', userMessageId)
  const checkpointId = await checkpointOf(session, userMessageId)
  if (checkpointId === undefined)
    return { canRewind: false, error: `No checkpoint was taken before the user message ${userMessageId}.` }
  const lines = await linesTo(session, { checkpointId })
  const marked = session.withMetadata({ rewoundTo: userMessageId })
  const { changes } = await marked.restore({ checkpointId, dryRun, listChanges: true })
  const files = new Set(changes.filter(({ kind }) => kind !== 'directory').map(({ path }) => path))
  return { canRewind: true, filesChanged: [...files], ...lines }
}

/** The lines that change on the way from the newest state to a checkpoint. */
async function linesTo(session: SessionApi, checkpoint: { readonly checkpointId: string }) {
  let [insertions, deletions] = [0, 0]
  // The diff leads from the checkpoint to now, and so do its additions.
  for await (const file of session.diff(checkpoint).files({ renames: 'none' })) {
    insertions += file.deletions
    deletions += file.additions
  }
  return { insertions, deletions }
}
