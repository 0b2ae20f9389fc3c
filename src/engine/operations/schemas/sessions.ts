import * as z from 'zod'
import { limits } from '../../base/limits.js'
import {
  anyObject,
  bytes,
  extension,
  filter,
  flag,
  hash,
  int64,
  integer,
  jsonObject,
  labels,
  metadata,
  metadataFilter,
  mode,
  named,
  nextPageToken,
  nothing,
  pageRequest,
  path,
  pathPrefix,
  sessionId,
  stringMap,
  text,
  time,
} from './wire-types.js'
import { defineSchemas } from './operation-schemas.js'
import { change, oneState, state } from './state-types.js'

export const session = named(
  'Session',
  z.object({
    id: text,
    baseFingerprint: text.describe(
      'Hex digits that identify the files that the session started from. A fork has the fingerprint of its parent.',
    ),
    status: z
      .enum([
        'SESSION_STATUS_ACTIVE',
        'SESSION_STATUS_PENDING_APPROVAL',
        'SESSION_STATUS_ARCHIVING',
        'SESSION_STATUS_ARCHIVED',
        'SESSION_STATUS_HYDRATING',
        'SESSION_STATUS_PENDING_REVIEW',
        'SESSION_STATUS_CONFLICT',
      ])
      .meta({ id: 'SessionStatus' }),
    tags: stringMap,
    metadata: extension(jsonObject.describe('The metadata that forkSession set, or an empty object.')),
    parent: extension(
      z
        .object({
          sessionId: text,
          eventId: text.describe('The event of the parent after which the fork started.'),
        })
        .describe('The state that it was forked from. Absent for a session that is no fork.')
        .exactOptional(),
    ),
    createdAt: time,
    lastActivityAt: time,
    capabilities: z
      .object({ commit: flag, approvals: flag, annotations: flag })
      .describe('The operations that the caller may use.'),
  }),
)

export const casExtent = z.object({ offset: int64, length: int64, hash, casOffset: int64 }).meta({
  id: 'CasExtent',
  description: 'The `length` bytes of the file at `offset` equal those of the content `hash` at `casOffset`.',
})

const checkpoint = named(
  'Checkpoint',
  z.object({
    id: text,
    sessionId: text,
    label: text,
    createdAt: time,
    metadata: extension(jsonObject.describe('The metadata of its creation, or an empty object.')),
  }),
)

const node = named(
  'ManifestNode',
  z.object({
    path: text,
    fileType: z.enum(['VFS_FILE_TYPE_DIRECTORY', 'VFS_FILE_TYPE_FILE']).meta({ id: 'VfsFileType' }),
    sizeBytes: int64.describe('0 for a directory.'),
    contentHash: hash.describe('The hash of the whole content. Empty for a directory.'),
    mode,
    casExtents: z.array(casExtent).describe('Empty unless requested.'),
  }),
)

const twoStates = {
  sessionId,
  from: z
    .object({ sessionId: text.describe('Absent: this session.').exactOptional(), ...state })
    .describe(oneState),
  to: z.object(state).describe(`Of this session. ${oneState}`).exactOptional(),
}

const hunk = named(
  'Hunk',
  z.object({
    oldStart: integer.describe('The first line before the change, counted from 1.'),
    oldLines: integer,
    newStart: integer.describe('The first line after the change, counted from 1.'),
    newLines: integer,
    lines: z
      .array(text)
      .describe(
        'Each line without its LF, after a space, `-` or `+`. `\\ No newline at end of file` follows a last ' +
          'line without LF. Bytes that are not UTF-8 are U+FFFD.',
      ),
  }),
)

const changedFile = named(
  'ChangedFile',
  z.object({
    path: text.describe('In the second state, or in the first one if the file was removed.'),
    oldPath: text.describe('The path in the first state, if the file was renamed.').exactOptional(),
    change: z.enum(['added', 'removed', 'modified', 'renamed']),
    kind: z.enum(['file', 'symlink']),
    oldMode: mode.exactOptional(),
    mode: mode.exactOptional(),
    oldHash: hash.exactOptional(),
    hash: hash.exactOptional(),
    isBinary: flag.describe('Whether one of the contents has a NUL in its first 8,000 bytes.'),
    isTruncated: flag.describe('Whether the lines were not compared, because the contents are over a limit.'),
    additions: integer.describe('Added lines; 0 for a binary or truncated file.'),
    deletions: integer.describe('Removed lines; 0 for a binary or truncated file.'),
    hunks: z.array(hunk).describe('If requested.').exactOptional(),
    patch: bytes.describe('If requested. Empty for a change that git does not store.').exactOptional(),
  }),
)

export const sessionSchemas = defineSchemas({
  createSession: {
    request: z.object({
      sourceRef: z
        .object({
          sourceId: text,
          revisionId: text
            .describe('The id or the label of a revision. Absent or empty: the latest.')
            .exactOptional(),
        })
        .exactOptional(),
      empty: nothing
        .describe('Creates an empty session. This is the default without `sourceRef`.')
        .exactOptional(),
      files: extension(
        z
          .array(z.object({ path, content: bytes.prefault('') }))
          .describe('The files that the session starts with, instead of a `sourceRef`.')
          .exactOptional(),
      ),
      initialTags: labels.exactOptional(),
    }),
    response: session,
  },
  getSession: { request: z.object({ sessionId }), response: session },
  listSessions: {
    request: z.object({
      filter: filter.exactOptional(),
      metadata: extension(metadataFilter.exactOptional()),
      ...pageRequest,
    }),
    response: z.object({ sessions: z.array(session), nextPageToken }),
  },
  deleteSession: { request: z.object({ sessionId }), response: nothing },
  getManifest: {
    request: z.object({
      sessionId,
      pathPrefix: pathPrefix.exactOptional(),
      includeCasExtents: flag.meta({ default: false }).exactOptional(),
      ...pageRequest,
    }),
    response: z.object({ nodes: z.array(node), nextPageToken, manifestHash: hash }),
  },
  forkSession: {
    request: z.object({
      sourceSessionId: text.describe('The id of the session to fork.'),
      sourceCheckpointLabel: text
        .describe('A checkpoint to start from. Absent or empty: the current state.')
        .exactOptional(),
      from: extension(
        z.object(state).describe(`The state to start from. ${oneState} The base is refused.`).exactOptional(),
      ),
      newTags: labels
        .describe('Added to the tags of the source session. They replace tags with the same key.')
        .exactOptional(),
      metadata: extension(metadata.exactOptional()),
    }),
    response: session,
  },
  createCheckpoint: {
    request: z.object({
      sessionId,
      label: text
        .describe(`Unique in the session, at most ${limits.labelBytes} bytes. Absent or empty: no label.`)
        .exactOptional(),
      metadata: extension(metadata.exactOptional()),
    }),
    response: checkpoint,
  },
  restoreCheckpoint: {
    request: z.object({
      sessionId,
      checkpointId: text.exactOptional(),
      checkpointLabel: text.exactOptional(),
    }),
    response: session,
  },
  listCheckpoints: {
    request: z.object({ sessionId, metadata: extension(metadataFilter.exactOptional()), ...pageRequest }),
    response: z.object({ checkpoints: z.array(checkpoint), nextPageToken }),
  },
  deleteCheckpoint: {
    request: z.object({
      sessionId,
      checkpointId: text.exactOptional(),
      checkpointLabel: text.exactOptional(),
    }),
    response: nothing,
  },
  diff: {
    request: z.object({
      ...twoStates,
      ...pageRequest,
    }),
    response: z.object({
      changes: z.array(change),
      nextPageToken,
    }),
  },
  diffFiles: {
    request: z.object({
      ...twoStates,
      globs: z
        .array(text)
        .describe('Globs for paths, such as `/src/**` or `*.md`. Absent: all files.')
        .exactOptional(),
      renames: z
        .enum(['exact', 'none'])
        .describe('Whether a removed and an added file of the same content are a rename; `exact` by default.')
        .exactOptional(),
      similarity: integer
        .describe('Instead of `renames`: the least share of equal lines in a rename, 1 to 100 percent.')
        .exactOptional(),
      context: integer
        .describe(
          `Unchanged lines around each change: ${limits.diffContextDefault} by default, at most ` +
            `${limits.diffContextMax}.`,
        )
        .exactOptional(),
      hunks: flag.describe('true: each file has its changed lines.').exactOptional(),
      patch: flag.describe('true: each file has its patch.').exactOptional(),
      ...pageRequest,
    }),
    response: z.object({ files: z.array(changedFile), nextPageToken }),
  },
  listEvents: {
    request: z.object({
      sessionId,
      startTime: time.describe('Events from this time on.').exactOptional(),
      endTime: time.describe('Events before this time.').exactOptional(),
      ...pageRequest,
    }),
    response: z.object({
      events: z.array(
        named(
          'SessionEvent',
          z.object({
            eventId: text.describe('Later events have greater ids.'),
            timestamp: time,
            eventType: text.describe('`v1.<ServiceName>.<Operation>`'),
            details: anyObject.describe('The fields depend on the type.'),
          }),
        ),
      ),
      nextPageToken,
    }),
  },
})
