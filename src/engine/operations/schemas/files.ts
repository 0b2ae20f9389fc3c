import * as z from 'zod'
import { bytes, extension, hash, int64, integer, nothing, pageRequest, text } from './kinds.js'
import { defineSchemas } from './operation-schemas.js'
import { casExtent } from './sessions.js'

const inSession = { sessionId: text }
const atPath = { ...inSession, path: text }
const expectedHash = hash.exactOptional()
const mode = integer.exactOptional()
/** What is not there on the wire is empty, or 0. */
const content = bytes.prefault('')
const size = int64.prefault('0')

/** A chunk has exactly one key; others are refused. */
const chunk = z.strictObject({
  data: z.object({ offset: size, content }).exactOptional(),
  hole: z.object({ offset: size, length: size }).exactOptional(),
  borrowed: z.object({ offset: size, length: size, hash, casOffset: int64.exactOptional() }).exactOptional(),
})

const segmentWrite = z.object({
  path: text,
  segments: z.array(chunk).prefault([]),
  logicalSize: int64.exactOptional(),
  expectedHash,
  mode,
})

/** An operation has exactly one key; others are refused. */
const batchOperation = z.strictObject({
  write: z.object({ path: text, content, expectedHash, mode: extension(mode) }).exactOptional(),
  delete: z.object({ path: text, expectedHash }).exactOptional(),
  segmentWrite: segmentWrite.exactOptional(),
})

export const fileSchemas = defineSchemas({
  createDirectory: { request: z.object({ ...atPath, mode }), response: nothing },
  removeDirectory: { request: z.object(atPath), response: nothing },
  rename: {
    request: z.object({ ...inSession, sourcePath: text, destinationPath: text }),
    response: nothing,
  },
  deleteFile: { request: z.object({ ...atPath, expectedHash }), response: nothing },
  applyBatch: {
    request: z.object({ ...inSession, operations: z.array(batchOperation) }),
    response: nothing,
  },
  patchSegments: {
    request: z.object({
      ...inSession,
      mutations: z.array(segmentWrite),
      conflictPolicy: z
        .enum(['SEGMENT_CONFLICT_POLICY_ABORT_ON_CONFLICT', 'SEGMENT_CONFLICT_POLICY_SKIP_ON_CONFLICT'])
        .exactOptional(),
    }),
    response: z.object({ skippedPaths: z.array(text) }),
  },
  createSymlink: { request: z.object({ ...inSession, linkPath: text, target: text }), response: nothing },
  listSymlinks: {
    request: z.object({ ...inSession, pathPrefix: text.exactOptional(), ...pageRequest }),
    response: z.object({
      symlinks: z.array(z.object({ path: text, target: text })),
      nextPageToken: text,
    }),
  },
  readSymlink: { request: z.object(atPath), response: z.object({ target: text }) },
  createHardLink: { request: z.object({ ...inSession, srcPath: text, dstPath: text }), response: nothing },
  unlink: { request: z.object({ ...atPath, expectedHash }), response: nothing },
  getCasExtents: { request: z.object(atPath), response: z.object({ extents: z.array(casExtent) }) },
  readFile: {
    request: z.object({ ...atPath, offset: int64.exactOptional(), length: int64.exactOptional() }),
    response: z.object({ content: bytes, contentHash: hash, sizeBytes: int64 }),
  },
  setXattr: { request: z.object({ ...atPath, name: text, value: content }), response: nothing },
  getXattr: { request: z.object({ ...atPath, name: text }), response: z.object({ value: bytes }) },
  listXattrs: { request: z.object(atPath), response: z.object({ names: z.array(text) }) },
  removeXattr: { request: z.object({ ...atPath, name: text }), response: nothing },
})
