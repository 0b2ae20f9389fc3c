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
/** The condition of writes. */
const expectedHash = hash
  .describe('The required hash of the current content. Empty: the path must not exist. Absent: no condition.')
  .exactOptional()
/** The condition of deletions. */
const hashToDelete = hash
  .describe('The required hash of the current content. Absent or empty: no condition.')
  .exactOptional()
const mode = modeBits
  .describe('Permission bits as a decimal number. Absent: unchanged, or 420 (0644) for a new file.')
  .exactOptional()
const option = flag.meta({ default: false }).exactOptional()
const exclusive = flag
  .meta({ default: false, description: 'true: fails if the path already exists.' })
  .exactOptional()
const createParents = flag
  .meta({ default: true, description: 'false: fails if the parent does not exist.' })
  .exactOptional()
const followSymlinks = flag
  .meta({ default: true, description: 'false: applies to a symlink at the path itself.' })
  .exactOptional()
/** The wire form may omit these. `content` is then empty, and a size is 0. */
const content = bytes.prefault('')
const size = int64.prefault('0')
const logicalSize = int64
  .describe(
    `The new size of the file, in bytes, at most ${inBytes(limits.fileBytes)} by default. No chunk may end ` +
      'after it. Absent: the size grows if a chunk ends after the current end, and otherwise stays unchanged.',
  )
  .exactOptional()

/** A chunk has exactly one of these keys. Unknown keys are rejected. */
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
      'A range of a file that starts at `offset`. `data` writes bytes. `hole` writes zeros. `borrowed` writes `length` ' +
      'bytes of stored content of the session or its base, starting at `casOffset`. Offsets and lengths are in bytes.',
  })

const segmentWrite = named(
  'SegmentWrite',
  z.object({
    path,
    segments: z
      .array(chunk)
      .describe(
        `In any order. Where chunks overlap, the later one wins. At most ${limits.segments} in a request.`,
      )
      .prefault([]),
    logicalSize,
    expectedHash,
    mode,
  }),
)

/** An operation has exactly one of these keys. Unknown keys are rejected. */
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
    description: 'Has exactly one of these fields.',
  })

const xattrName = text.describe(`1 to ${limits.xattrNameBytes} bytes.`)

export const fileSchemas = defineSchemas({
  createDirectory: {
    request: z.object({
      ...atPath,
      mode: modeBits.describe('Permission bits as a decimal number. Absent: 493 (0755).').exactOptional(),
      recursive: extension(
        option.describe('true: creates missing parents, and succeeds if the directory exists.'),
      ),
    }),
    response: nothing,
  },
  removeDirectory: {
    request: z.object({
      ...atPath,
      recursive: extension(option.describe('true: also removes everything below the directory.')),
    }),
    response: nothing,
  },
  rename: {
    request: z.object({
      ...inSession,
      sourcePath: path,
      destinationPath: path,
      exclusive: extension(exclusive),
      createParents: extension(option.describe('true: creates missing parents of the destination.')),
    }),
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
        `At most ${limits.symlinkTargetBytes} bytes. Relative to the directory of the link, or absolute within the session.`,
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
      offset: int64.describe('In bytes. Absent: 0.').exactOptional(),
      length: int64.describe('In bytes. Absent, or beyond the end: up to the end.').exactOptional(),
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
        .describe('The time of the last change, in milliseconds since the epoch. May have a fraction.')
        .exactOptional(),
      followSymlinks,
    }),
    response: nothing,
  },
  statPath: {
    request: z.object({
      ...atPath,
      followSymlinks,
      includeContentHash: option.describe(
        'true: returns `contentHash`. For a large file this may read the whole file.',
      ),
    }),
    response: z.object({
      path: text.describe('The path with symlinks resolved.'),
      kind: nodeKind,
      sizeBytes: int64,
      mode: modeBits,
      inode: int64.describe('The same for all hard links of a file.'),
      nlink: integer.describe('The number of hard links.'),
      mtimeMs: number.describe('The last change of the content, in milliseconds since the epoch.'),
      ctimeMs: number.describe('The last change of content or metadata, in milliseconds since the epoch.'),
      birthtimeMs: number.describe('The creation, in milliseconds since the epoch.'),
      contentHash: hash.describe('The hash of a file, if requested; otherwise empty.'),
    }),
  },
  listDirectory: {
    request: z.object({
      ...atPath,
      recursive: option.describe('true: lists everything below the directory.'),
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
        .describe(
          `At most ${inBytes(limits.xattrValueBytes)}. A path has at most ${limits.xattrsPerNode} attributes.`,
        )
        .prefault(''),
    }),
    response: nothing,
  },
  getXattr: { request: z.object({ ...atPath, name: xattrName }), response: z.object({ value: bytes }) },
  listXattrs: { request: z.object(atPath), response: z.object({ names: z.array(text) }) },
  removeXattr: { request: z.object({ ...atPath, name: xattrName }), response: nothing },
})
