import { onlyItem, present } from '../../base/present.js'
import { parseFlag, parseMode } from '../../base/input.js'
import { Shape } from '../../base/shape.js'
import { sha256Stream } from '../../base/hash.js'
import type { BlobRef } from '../../cas/blob.js'
import { checkFileSize, type StagedBlobs } from '../../cas/staging.js'
import { Dir, FileNode } from '../../tree/node.js'
import { patched } from '../apply.js'
import { compact, type Patch } from './compaction.js'
import type { Core } from '../core.js'
import { eventTypes, piecesFrom, type FileTarget, type Redo } from '../../records/event.js'
import { checkGuard, guardNames, type HashGuard } from './guards.js'
import { currentFile, FileReference, targetOf } from '../file-references.js'
import type { LiveSession } from '../table/live.js'
import { makeParents, requireParents, type Parents } from './parents.js'
import { sharedParts } from './shared-parts.js'
import type { Plan, PlanState } from './plan.js'
import { alreadyExists, isADirectory, notFound, resolve, type Location } from '../reads/resolve.js'
import { eventTime } from '../mutation-queue.js'
import { admitAhead } from '../usage/session-bytes.js'

/**
 * Content to write: text, which is stored as UTF-8, or bytes. Bytes above 8 MiB must not change, or be transferred, before
 * the promise of the write settles.
 */
export type FileContent = string | Uint8Array

/** Content for a plan: its size, its blobs, and the blobs that the commit of the change must contain. */
export type ContentToWrite = Pick<StagedBlobs, 'size' | 'blobs' | 'toCommit'>

/** A whole write of one file in a batch. */
export interface WriteRequest extends HashGuard {
  /** Absolute path in the session, such as `/src/a.ts`. */
  readonly path: string
  /** The content, or for `append` the bytes to add. */
  readonly content: FileContent
  /** Permission bits, 0 to 0o7777; absent keeps them, and gives a new file 0o644. */
  readonly mode?: number
}

/** The request of `session.files.append`. */
export interface FileWriteRequest extends WriteRequest {
  /**
   * true, the default: missing parents are created. false: fails with PATH_NOT_FOUND if a parent is missing.
   */
  readonly createParents?: boolean
}

/** The request of `session.files.write`. */
export interface FileReplaceRequest extends Omit<FileWriteRequest, 'content'> {
  /**
   * Text, bytes, or pieces of bytes, such as a Node stream or a web stream. The engine stores pieces as they
   * arrive. The file changes once all have arrived.
   */
  readonly content: FileContent | AsyncIterable<Uint8Array>
  /** true: fails with ALREADY_EXISTS if the path exists; false by default. */
  readonly exclusive?: boolean
}

const writeNames = { path: true, content: true, mode: true, ...guardNames } as const

export const writeShape = new Shape<WriteRequest>(writeNames)

export const appendShape = new Shape<FileWriteRequest>({ ...writeNames, createParents: true })

export const fileWriteShape = new Shape<FileReplaceRequest>({
  ...writeNames,
  createParents: true,
  exclusive: true,
})

/** The default options. Every option is set, so that none is read from a prototype. */
const usualOptions: WriteOptions = { parents: 'create', exclusive: false }

export interface WriteOptions {
  readonly parents?: Parents
  /** true: fails with ALREADY_EXISTS if the path exists. */
  readonly exclusive?: boolean
  /**
   * Whether the write is a step of a batch. A later step may have a condition on the content. If its hash were computed
   * only then, all steps would run again for each condition.
   */
  readonly isStep?: boolean
}

/** A request's options for parents and for existing files. */
export function parseWriteOptions(
  request: Pick<FileReplaceRequest, 'createParents' | 'exclusive'>,
): WriteOptions {
  return {
    parents: parseFlag('createParents', request.createParents, true) ? 'create' : 'require',
    exclusive: parseFlag('exclusive', request.exclusive, false),
  }
}

export function planWrite(
  core: Core,
  state: PlanState,
  request: Omit<WriteRequest, 'content'>,
  staged: ContentToWrite,
  options: WriteOptions = usualOptions,
): Plan {
  const at = resolve(state.tree, request.path, options.exclusive !== true)
  if (options.exclusive === true && at.node !== undefined) throw alreadyExists(request.path)
  checkGuard(core, request.path, at.node, request.expectedHash)
  const file = fileOrMissing(at, request.path)
  if (options.parents === 'require') requireParents(at, request.path)
  checkFileSize(staged.size, core.maxFileBytes)
  admitAhead(core, state, staged)
  const { path } = at
  // Large contents are stored here, so all errors of the request come before.
  const blobs = staged.blobs()
  const single = onlyItem(blobs) ?? 0
  const shared = file === undefined ? undefined : sharedParts(core, file, staged)
  let redo: Redo[]
  if (file === undefined) {
    const made = makeParents(core, at, request.path, options.parents)
    const effect: Redo = ['w', path, parseMode(request.mode ?? 0o644), core.ids.newIno(), single]
    redo = made.length === 0 ? [effect] : [...made, effect]
  } else {
    if (shared === undefined) redo = [['o', path, single]]
    else {
      const effect = ['p', path, shared.size, shared.pieces] as const
      if (options.isStep === true)
        core.contentIds.remember(patched(file, effect, eventTime(core, state), core), hashOf(blobs))
      redo = [effect]
    }
    if (request.mode !== undefined && parseMode(request.mode) !== file.mode)
      redo.push(['c', path, request.mode])
  }
  if (shared === undefined && blobs.length > 1) redo.push(['p', path, staged.size, piecesFrom(0, blobs)])
  return { type: eventTypes.writeFile, details: { path }, redo, blobs: shared?.blobs ?? staged.toCommit() }
}

/** The SHA-256 of a content in memory. */
function hashOf(blobs: readonly BlobRef[]): string {
  const hash = sha256Stream()
  for (const { bytes } of blobs) hash.update(present(bytes, 'the new content'))
  return hash.digest('hex')
}

export function planAppend(
  core: Core,
  live: LiveSession,
  request: WriteRequest,
  staged: StagedBlobs,
  options: WriteOptions = usualOptions,
): Plan {
  const at = resolve(live.tree, request.path, true)
  checkGuard(core, request.path, at.node, request.expectedHash)
  const file = fileOrMissing(at, request.path)
  if (file === undefined) return planWrite(core, live, request, staged, options)
  const plan = present(
    planPieces(core, live, { path: at.path }, { file, place: at.path }, { position: 'end', staged }),
    'the plan of an append',
  )
  if (request.mode === undefined || parseMode(request.mode) === file.mode) return plan
  return { ...plan, redo: [...plan.redo, ['c', at.path, request.mode]] }
}

/** A file, by path or as an open file. */
export type WriteTarget = { readonly path: string } | FileReference

interface BytesToWrite {
  readonly position: number | 'end'
  readonly staged: StagedBlobs
}

/** Writes bytes from a position on. The range between the end of the file and the position becomes a hole. */
export function planWriteAt(core: Core, live: LiveSession, target: WriteTarget, bytes: BytesToWrite): Plan {
  return planPieces(core, live, target, locate(live, target), bytes)
}

function planPieces(
  core: Core,
  live: LiveSession,
  target: WriteTarget,
  located: LocatedFile,
  { position, staged }: BytesToWrite,
): Plan {
  const { file, place } = located
  const start = position === 'end' ? file.size : position
  const size = Math.max(file.size, start + staged.size)
  checkFileSize(size, core.maxFileBytes)
  if (place !== undefined) admitAhead(core, live, staged)
  const patch = { size, pieces: piecesFrom(start, staged.blobs()), blobs: staged.toCommit() }
  return planPatch(core, live, target, located, compact(core, file, patch, staged))
}

/** Truncates a file, or extends it with a hole. */
export function planResize(core: Core, live: LiveSession, target: WriteTarget, size: number): Plan {
  const located = locate(live, target)
  checkFileSize(size, core.maxFileBytes)
  return planPatch(core, live, target, located, { size, pieces: [], blobs: [] })
}

function planPatch(
  core: Core,
  live: LiveSession,
  target: WriteTarget,
  { place }: LocatedFile,
  { size, pieces, blobs }: Patch,
): Plan {
  if (place === undefined) {
    // Only its holder can reach the file, so it changes for the holder alone.
    const reference = target as FileReference
    reference.last = patched(
      present(reference.last, 'the referenced file'),
      ['p', reference.ino, size, pieces],
      eventTime(core, live),
      core,
    )
    return undefined
  }
  const details = { path: target.path }
  return { type: eventTypes.writeFile, details, redo: [['p', place, size, pieces]], blobs }
}

interface LocatedFile {
  readonly file: FileNode
  /** How events name the file. Undefined if it has no name any more. */
  readonly place: FileTarget | undefined
}

function locate(live: LiveSession, target: WriteTarget): LocatedFile {
  if (target instanceof FileReference)
    return { file: currentFile(live, target), place: targetOf(live, target) }
  const { node, path } = resolve(live.tree, target.path, true)
  if (node === undefined) throw notFound(target.path)
  if (!(node instanceof FileNode)) throw isADirectory(target.path)
  return { file: node, place: path }
}

export function fileOrMissing(at: Location, path: string): FileNode | undefined {
  if (at.node instanceof Dir) throw isADirectory(path)
  return at.node as FileNode | undefined
}
