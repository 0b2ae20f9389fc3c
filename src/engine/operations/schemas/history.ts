import * as z from 'zod'
import { limits } from '../../base/limits.js'
import { defineSchemas } from './operation-schemas.js'
import { fileSchemas } from './files.js'
import { session, sessionSchemas } from './sessions.js'
import { change, oneState, state } from './state-types.js'
import { statusSchema } from './status.js'
import {
  flag,
  integer,
  jsonObject,
  named,
  nextPageToken,
  pageRequest,
  path,
  sessionId,
  text,
  time,
} from './wire-types.js'

const dryRun = flag
  .meta({ default: false, description: 'true: changes nothing, and lists the paths that would change.' })
  .exactOptional()

const listChanges = flag
  .meta({ default: false, description: 'true: lists the changed paths, which takes as long as a diff.' })
  .exactOptional()

const preview = {
  changes: z
    .array(change)
    .describe(
      'With `listChanges`, the changed paths; with `dryRun`, the paths that would change. Empty otherwise.',
    ),
  isComplete: flag.describe(
    `false: there are more than ${limits.previewChanges} paths, or ${limits.listedPathBytes / 2 ** 20} MiB of them, and only the first ones are listed.`,
  ),
}

const step = {
  request: z.object({
    sessionId,
    count: z.int().meta({ default: 1, minimum: 1, maximum: limits.undoCount }).exactOptional(),
    by: z
      .enum(['event', 'group'])
      .meta({ default: 'event' })
      .describe('What `count` counts: changes, or runs of changes of one group.')
      .exactOptional(),
    dryRun,
    listChanges,
  }),
  response: z.object({
    count: z.int().describe('The number of changes; fewer than requested if there were not as many.'),
    eventId: text.describe('The new event. Empty if nothing was changed.'),
    ...preview,
  }),
}

const changeBatch = named(
  'ChangeBatch',
  z.object({
    eventId: text.describe('Pass it as `afterEventId` to continue after this batch.'),
    changes: z.array(change).describe(`In the order of the manifest; at most ${limits.watchChanges}.`),
  }),
)

const at = { at: z.object(state).describe(oneState) }

export const historySchemas = defineSchemas({
  watchChanges: {
    request: z.object({
      sessionId,
      globs: z
        .array(text)
        .describe('Only paths that match one of these globs, such as `src/**` or `*.ts`. Absent: all.')
        .exactOptional(),
      debounceMs: integer
        .meta({
          default: limits.watchDebounceMs,
          minimum: 0,
          maximum: limits.watchBatchMs,
          description: 'A batch ends when no change has followed for this time, in milliseconds.',
        })
        .exactOptional(),
      afterEventId: text
        .describe('The last batch or event that the caller knows. Absent: the newest event.')
        .exactOptional(),
    }),
    /** An item of the stream: a batch, or the error that ends it. */
    response: named(
      'ChangeBatchItem',
      z
        .union([z.object({ result: changeBatch }), z.object({ error: statusSchema })])
        .describe('A batch of changes, or the error that ends the stream.'),
    ),
  },
  resolveState: {
    request: z.object({ sessionId, ...state }),
    response: z.object({ eventId: text.describe('Empty for the base.') }),
  },
  restoreState: {
    request: z.object({
      sessionId,
      from: z.object(state).describe(`${oneState} One is required.`),
      paths: z
        .array(path)
        .describe(`Only these files, directories and symlinks, up to ${limits.restorePaths}. Absent: all.`)
        .exactOptional(),
      dryRun,
      listChanges,
    }),
    response: z.object({ session, ...preview }),
  },
  readFileAt: {
    request: fileSchemas.readFile.request.extend(at),
    response: fileSchemas.readFile.response,
  },
  statPathAt: {
    request: fileSchemas.statPath.request.extend(at),
    response: fileSchemas.statPath.response,
  },
  listDirectoryAt: {
    request: fileSchemas.listDirectory.request.extend(at),
    response: fileSchemas.listDirectory.response,
  },
  getManifestAt: {
    request: sessionSchemas.getManifest.request.extend(at),
    response: sessionSchemas.getManifest.response,
  },
  listPathHistory: {
    request: z.object({ sessionId, path, ...pageRequest }),
    response: z.object({
      changes: z.array(
        named(
          'PathChange',
          z.object({
            eventId: text,
            timestamp: time,
            eventType: text.describe('`v1.<ServiceName>.<Operation>`'),
            principal: text,
            change: z.enum(['added', 'removed', 'modified', 'renamed']),
            path: text.describe('The path after the event.'),
            previousPath: text.describe('The path before the event; the same unless it was renamed.'),
          }),
        ),
      ),
      nextPageToken,
      isComplete: flag.describe('false, on the last page: earlier changes are no longer kept.'),
    }),
  },
  blame: {
    request: z.object({ sessionId, path, at: at.at.exactOptional() }),
    response: z.object({
      ranges: z.array(
        named(
          'BlameRange',
          z.object({
            startLine: z.int().describe('The first line, from 1.'),
            lineCount: z.int(),
            eventId: text.describe('Empty for lines that the session started with.'),
            timestamp: text.describe('RFC 3339. Empty without an event.'),
            principal: text,
          }),
        ),
      ),
      lineCount: z.int().describe('The number of lines of the file.'),
      isComplete: flag.describe(
        'false: lines without an event may be from changes that are no longer kept, or from a version too large to compare.',
      ),
    }),
  },
  getLineage: {
    request: z.object({
      sessionId,
      with: text.describe('The id of another session, to find the common ancestors with it.').exactOptional(),
      ...pageRequest,
    }),
    response: z.object({
      parent: z
        .object({
          sessionId: text,
          eventId: text.describe('The event of the parent after which the fork started.'),
          exists: flag.describe('false: the parent was deleted.'),
        })
        .describe('Absent for a session that is no fork.')
        .exactOptional(),
      children: z.array(
        named(
          'LineageChild',
          z.object({
            sessionId: text,
            eventId: text.describe('The event of this session after which the fork started.'),
            createdAt: time,
            metadata: jsonObject,
          }),
        ),
      ),
      nextPageToken,
      commonAncestors: z
        .array(
          named(
            'CommonAncestor',
            z.object({
              sessionId: text.describe('Empty for a base.'),
              eventId: text.describe('The event before the state. Empty for a base.'),
              baseFingerprint: text.describe('Of a base. Empty for the state of a session.'),
            }),
          ),
        )
        .describe('With `with`, the newest states from which both sessions come.'),
    }),
  },
  undo: step,
  redo: step,
})
