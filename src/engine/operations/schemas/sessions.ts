import * as z from 'zod'
import {
  anyObject,
  flag,
  hash,
  int64,
  integer,
  nothing,
  pageRequest,
  stringMap,
  text,
  time,
} from './kinds.js'
import { defineSchemas } from './operation-schemas.js'

const sessionId = text

const session = z.object({
  id: text,
  baseFingerprint: text,
  status: z.enum([
    'SESSION_STATUS_ACTIVE',
    'SESSION_STATUS_PENDING_APPROVAL',
    'SESSION_STATUS_ARCHIVING',
    'SESSION_STATUS_ARCHIVED',
    'SESSION_STATUS_HYDRATING',
    'SESSION_STATUS_PENDING_REVIEW',
    'SESSION_STATUS_CONFLICT',
  ]),
  tags: stringMap,
  createdAt: time,
  lastActivityAt: time,
  capabilities: z.object({ commit: flag, approvals: flag, annotations: flag }),
})

export const casExtent = z.object({ offset: int64, length: int64, hash, casOffset: int64 })

const node = z.object({
  path: text,
  fileType: z.enum(['VFS_FILE_TYPE_DIRECTORY', 'VFS_FILE_TYPE_FILE']),
  sizeBytes: int64,
  contentHash: hash,
  mode: integer,
  casExtents: z.array(casExtent),
})

export const sessionSchemas = defineSchemas({
  createSession: {
    request: z.object({
      sourceRef: z.object({ sourceId: text, revisionId: text.exactOptional() }).exactOptional(),
      /** A blank workspace, which is what it is without `sourceRef` too. */
      empty: nothing.exactOptional(),
      initialTags: stringMap.exactOptional(),
    }),
    response: session,
  },
  getSession: { request: z.object({ sessionId }), response: session },
  listSessions: {
    request: z.object({ filter: text.exactOptional(), ...pageRequest }),
    response: z.object({ sessions: z.array(session), nextPageToken: text }),
  },
  deleteSession: { request: z.object({ sessionId }), response: nothing },
  getManifest: {
    request: z.object({
      sessionId,
      pathPrefix: text.exactOptional(),
      includeCasExtents: flag.exactOptional(),
      ...pageRequest,
    }),
    response: z.object({ nodes: z.array(node), nextPageToken: text, manifestHash: hash }),
  },
  forkSession: {
    request: z.object({
      sourceSessionId: text,
      sourceCheckpointLabel: text.exactOptional(),
      newTags: stringMap.exactOptional(),
    }),
    response: session,
  },
  createCheckpoint: {
    request: z.object({ sessionId, label: text.exactOptional() }),
    response: z.object({ id: text, sessionId: text, label: text, createdAt: time }),
  },
  restoreCheckpoint: {
    request: z.object({
      sessionId,
      checkpointId: text.exactOptional(),
      checkpointLabel: text.exactOptional(),
    }),
    response: session,
  },
  listEvents: {
    request: z.object({
      sessionId,
      startTime: time.exactOptional(),
      endTime: time.exactOptional(),
      ...pageRequest,
    }),
    response: z.object({
      events: z.array(z.object({ eventId: text, timestamp: time, eventType: text, details: anyObject })),
      nextPageToken: text,
    }),
  },
})
