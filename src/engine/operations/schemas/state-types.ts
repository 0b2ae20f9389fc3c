import * as z from 'zod'
import { flag, named, nodeKind, text, time } from './wire-types.js'

/** At most one of these fields is set. Without any, it is the current state. */
export const state = {
  checkpointId: text.exactOptional(),
  checkpointLabel: text.exactOptional(),
  eventId: text.describe('The state after this event.').exactOptional(),
  time: time.describe('The state at this time.').exactOptional(),
  base: flag
    .meta({
      default: false,
      description:
        'true: the files that the session started from. For a fork, the files that its first ancestor started from.',
    })
    .exactOptional(),
}
export const oneState =
  'At most one of `checkpointId`, `checkpointLabel`, `eventId`, `time` and `base`. Without any: the current state.'

export const change = named(
  'Change',
  z.object({ path: text, change: z.enum(['added', 'removed', 'modified']), kind: nodeKind }),
)
