import * as z from 'zod'
import { limits } from '../../base/limits.js'
import {
  bytes,
  extension,
  flag,
  hash,
  inBytes,
  int64,
  integer,
  mode as modeBits,
  named,
  nextPageToken,
  nodeKind,
  nothing,
  number,
  pageRequest,
  path,
  pathPrefix,
  sessionId,
  text,
} from './wire-types.js'
import { defineSchemas } from './operation-schemas.js'
import { casExtent } from './sessions.js'

const inSession = { sessionId }
const atPath = { ...inSession, path }
/** Of what writes. */
const expectedHash = hash
  .describe('What the content has to be now; empty: nothing must be there. Absent: whatever is there.')
  .exactOptional()
/** Of what deletes. */
const hashToDelete = hash
  .describe('What the content has to be now. Absent or empty: whatever it is.')
  .exactOptional()
const mode = modeBits
  .describe(
    'Permission bits as a decimal number. Absent: those of the file, or 420 (0644) of one that is made.',
  )
  .exactOptional()
const option = flag.meta({ default: false }).exactOptional()
const exclusive = flag
  .meta({ default: false, description: 'true: refused when something is there already.' })
  .exactOptional()
const createParents = flag
  .meta({ default: true, description: 'false: refused when the parent is missing.' })
  .exactOptional()
const followSymlinks = flag
  .meta({ default: true, description: 'false: a symlink at the path is meant itself.' })
  .exactOptional()
/** What is not there on the wire is empty, or 0. */
const content = bytes.prefault('')
const size = int64.prefault('0')
const logicalSize = int64
  .describe(
    `The size of the file afterwards, in bytes, at most ${inBytes(limits.fileBytes)} by default. No chunk may end ` +
      'behind it. Absent: what it was, or more where a chunk ends behind that.',
  )
  .exactOptional()

/** A chunk has exactly one key; others are refused. */
const chunk = z
  .strictObject({
    data: z.object({ offset: size, content }).exactOptional(),
    hole: z.object({ offset: size, length: size }).exactOptional(),
    borrowed: z
      .object({ offset: size, length: size, hash, casOffset: int64.exactOptional() })
      .exactOptional(),
  })
  .meta({
    id: 'SegmentChunk',
    minProperties: 1,
    maxProperties: 1,
    description:
      'A range of a file, from `offset` on: `data` writes bytes, `hole` makes zeros, `borrowed` takes `length` bytes ' +
      'from `casOffset` on of content that the session or its base holds. Offsets and lengths are bytes.',
  })

const segmentWrite = named(
  'SegmentWrite',
  z.object({
    path,
    segments: z
      .array(chunk)
      .describe(
        `In any order; where they overlap the later one counts. At most ${limits.segments} in a request.`,
      )
      .prefault([]),
    logicalSize,
    expectedHash,
    mode,
  }),
)

/** An operation has exactly one key; others are refused. */
const batchOperation = z
  .strictObject({
    write: z.object({ path, content, expectedHash, mode: extension(mode) }).exactOptional(),
    delete: z.object({ path, expectedHash: hashToDelete }).exactOptional(),
    segmentWrite: segmentWrite.exactOptional(),
  })
  .meta({
    id: 'BatchOperation',
    minProperties: 1,
    maxProperties: 1,
    description: 'Exactly one of the three.',
  })

const xattrName = text.describe(`1 to ${limits.xattrNameBytes} bytes.`)

export const fileSchemas = defineSchemas({
  createDirectory: {
    request: z.object({
      ...atPath,
      mode: modeBits.describe('Permission bits as a decimal number. Absent: 493 (0755).').exactOptional(),
      recursive: extension(
        option.describe('true: missing parents are made, and the directory may be there.'),
      ),
    }),
    response: nothing,
  },
  removeDirectory: {
    request: z.object({
      ...atPath,
      recursive: extension(option.describe('true: with everything below it.')),
    }),
    response: nothing,
  },
  rename: {
    request: z.object({ ...inSession, sourcePath: path, destinationPath: path }),
    response: nothing,
  },
  deleteFile: { request: z.object({ ...atPath, expectedHash: hashToDelete }), response: nothing },
  applyBatch: {
    request: z.object({
      ...inSession,
      operations: z.array(batchOperation).describe(`At most ${limits.batchOperations}.`),
    }),
    response: nothing,
  },
  patchSegments: {
    request: z.object({
      ...inSession,
      mutations: z.array(segmentWrite).describe(`At most ${limits.batchOperations}.`),
      conflictPolicy: z
        .enum(['SEGMENT_CONFLICT_POLICY_ABORT_ON_CONFLICT', 'SEGMENT_CONFLICT_POLICY_SKIP_ON_CONFLICT'])
        .describe('Absent: `SEGMENT_CONFLICT_POLICY_ABORT_ON_CONFLICT`.')
        .exactOptional(),
    }),
    response: z.object({ skippedPaths: z.array(text) }),
  },
  createSymlink: {
    request: z.object({
      ...inSession,
      linkPath: path,
      target: text.describe(
        `At most ${limits.symlinkTargetBytes} bytes; relative to the directory of the link, or absolute in the session.`,
      ),
    }),
    response: nothing,
  },
  listSymlinks: {
    request: z.object({ ...inSession, pathPrefix: pathPrefix.exactOptional(), ...pageRequest }),
    response: z.object({
      symlinks: z.array(named('Symlink', z.object({ path: text, target: text }))),
      nextPageToken,
    }),
  },
  readSymlink: { request: z.object(atPath), response: z.object({ target: text }) },
  createHardLink: { request: z.object({ ...inSession, srcPath: path, dstPath: path }), response: nothing },
  unlink: { request: z.object({ ...atPath, expectedHash: hashToDelete }), response: nothing },
  getCasExtents: { request: z.object(atPath), response: z.object({ extents: z.array(casExtent) }) },
  readFile: {
    request: z.object({
      ...atPath,
      offset: int64.describe('In bytes; absent: 0.').exactOptional(),
      length: int64.describe('In bytes; absent, or beyond the end: up to the end.').exactOptional(),
    }),
    response: z.object({
      content: bytes,
      contentHash: hash.describe('Of the whole content.'),
      sizeBytes: int64.describe('Of the whole content.'),
    }),
  },
  writeFile: {
    request: z.object({
      ...atPath,
      content,
      expectedHash,
      mode,
      createParents,
      exclusive,
    }),
    response: nothing,
  },
  appendFile: {
    request: z.object({ ...atPath, content, expectedHash, mode, createParents }),
    response: nothing,
  },
  copyFile: {
    request: z.object({ ...inSession, sourcePath: path, destinationPath: path, exclusive }),
    response: nothing,
  },
  setAttributes: {
    request: z.object({
      ...atPath,
      mode: modeBits.exactOptional(),
      mtimeMs: number
        .describe('The time of the last change, in milliseconds since the epoch, with fractions.')
        .exactOptional(),
      followSymlinks,
    }),
    response: nothing,
  },
  statPath: {
    request: z.object({
      ...atPath,
      followSymlinks,
      includeContentHash: option.describe('That of a large file may take a pass over it.'),
    }),
    response: z.object({
      path: text.describe('Without the symlinks that led here.'),
      kind: nodeKind,
      sizeBytes: int64,
      mode: modeBits,
      inode: int64.describe('The same for all names of a file.'),
      nlink: integer.describe('How many names it has.'),
      mtimeMs: number.describe('Of the last change of content, in milliseconds since the epoch.'),
      ctimeMs: number.describe('Of the last change of anything, in milliseconds since the epoch.'),
      birthtimeMs: number.describe('Of its making, in milliseconds since the epoch.'),
      contentHash: hash.describe('Of a file, where it was asked for; else empty.'),
    }),
  },
  listDirectory: {
    request: z.object({
      ...atPath,
      recursive: option.describe('true: all that is below it.'),
      ...pageRequest,
    }),
    response: z.object({
      entries: z.array(
        named(
          'DirectoryEntry',
          z.object({ name: text.describe('Relative to the listed directory.'), kind: nodeKind }),
        ),
      ),
      nextPageToken,
    }),
  },
  setXattr: {
    request: z.object({
      ...atPath,
      name: xattrName,
      value: bytes
        .describe(`At most ${inBytes(limits.xattrValueBytes)}; ${limits.xattrsPerNode} attributes of a path.`)
        .prefault(''),
    }),
    response: nothing,
  },
  getXattr: { request: z.object({ ...atPath, name: xattrName }), response: z.object({ value: bytes }) },
  listXattrs: { request: z.object(atPath), response: z.object({ names: z.array(text) }) },
  removeXattr: { request: z.object({ ...atPath, name: xattrName }), response: nothing },
})
