import * as z from 'zod'
import { limits } from '../../base/limits.js'
import { defineSchemas } from './operation-schemas.js'
import { change, oneState, state } from './state-types.js'
import {
  bytes,
  flag,
  hash,
  integer,
  mode,
  named,
  nextPageToken,
  nodeKind,
  nothing,
  pageRequest,
  path,
  sessionId,
  text,
} from './wire-types.js'

const policies = z
  .array(
    named(
      'MergePolicyRule',
      z.object({
        glob: text.describe('A glob for paths, such as `docs/**`.'),
        policy: z.enum(['fail', 'ours', 'theirs', 'union', 'markers']).meta({ id: 'MergePolicy' }),
      }),
    ),
  )
  .describe(
    `What to do with conflicts, by path: the first rule that matches applies. At most ${limits.mergeRules} rules. ` +
      'Without a rule, the file keeps the content of this session, and the conflict is listed.',
  )

const names = z
  .object({ base: text.exactOptional(), ours: text.exactOptional(), theirs: text.exactOptional() })
  .describe('The names after the markers of the policy `markers`.')

const options = {
  policies: policies.exactOptional(),
  dryRun: flag
    .meta({ default: false, description: 'true: returns the result, and changes nothing.' })
    .exactOptional(),
  expectedEventId: text
    .describe('The `eventId` of the newest event of the session. If it is another one, the request fails.')
    .exactOptional(),
  names: names.exactOptional(),
}

const side = named(
  'ConflictSide',
  z.object({
    path: text.describe('The path on this side. It differs from that of the conflict after a rename.'),
    kind: nodeKind,
    contentHash: hash.describe(
      'The hash of the content, or of the target of a symlink. Empty for a directory.',
    ),
    mode,
  }),
)

const conflict = named(
  'MergeConflict',
  z.object({
    path: text.describe('The path at which the conflict is resolved.'),
    kind: z
      .enum([
        'content',
        'delete/modify',
        'add/add',
        'rename/rename',
        'rename/delete',
        'file/directory',
        'mode',
        'symlink',
        'attribute',
      ])
      .meta({ id: 'ConflictKind' }),
    base: side.exactOptional(),
    ours: side.exactOptional(),
    theirs: side.exactOptional(),
  }),
)

const result = named(
  'MergeResult',
  z.object({
    merged: flag.describe('false: the session has all changes already, and nothing changed.'),
    eventId: text.describe('The event of the merge. Empty if nothing changed.'),
    changes: z.array(change).describe(`The changed paths, at most ${limits.mergeListedPaths}.`),
    changeCount: integer.describe('The number of all changed paths.'),
    conflicts: z.array(conflict).describe('The unresolved conflicts.'),
  }),
)

const hunk = named(
  'ConflictHunk',
  z.object({
    baseLine: integer.describe('The number of the first line, from 1.'),
    base: text,
    oursLine: integer,
    ours: text,
    theirsLine: integer,
    theirs: text,
  }),
)

const use = z.enum(['base', 'ours', 'theirs']).describe('The side whose file is taken.')

const remaining = z.object({ conflictCount: integer.describe('The number of conflicts that are left.') })

export const mergeSchemas = defineSchemas({
  mergeSession: {
    request: z.object({
      sessionId: text.describe('The id of the session that gets the changes.'),
      source: z
        .object({ sessionId: text.describe('The id of the session to merge.'), ...state })
        .describe(oneState),
      ...options,
    }),
    response: result,
  },
  rebaseSession: {
    request: z.object({
      sessionId,
      revisionId: text
        .describe('The id or the label of a revision of the source. Absent or empty: the latest.')
        .exactOptional(),
      ...options,
    }),
    response: result,
  },
  listConflicts: {
    request: z.object({ sessionId, ...pageRequest }),
    response: z.object({ conflicts: z.array(conflict), nextPageToken }),
  },
  readConflict: {
    request: z.object({ sessionId, path }),
    response: z.object({
      conflict,
      base: bytes.exactOptional(),
      ours: bytes.exactOptional(),
      theirs: bytes.exactOptional(),
      hunks: z.array(hunk).describe('The lines that both sides changed. Empty for binary files.'),
    }),
  },
  resolveConflict: {
    request: z.object({
      sessionId,
      path,
      use: use.exactOptional(),
      content: bytes.describe('The resolved content.').exactOptional(),
      deleted: flag.describe('true: the file is deleted.').exactOptional(),
    }),
    response: remaining,
  },
  resolveConflicts: { request: z.object({ sessionId, use }), response: remaining },
  abortMerge: { request: z.object({ sessionId }), response: nothing },
})
