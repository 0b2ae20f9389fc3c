import { EngineError, invalid } from '../base/errors.js'
import { formatHash, parseExpectedHash } from '../base/hash.js'
import { parseMode, parseText } from '../base/input.js'
import { limits } from '../base/limits.js'
import { joinPath, parsePath } from '../base/path.js'
import { BlobRef } from '../cas/blob.js'
import { blockAt, ExtentBlock, splice, type LoadedBody } from '../cas/body.js'
import type { StagedContent } from '../cas/staging.js'
import { checkFileSize } from '../cas/staging.js'
import { Dir, FileNode, Symlink, type Node } from '../tree/node.js'
import type { Core } from './core.js'
import { eventTypes, piecesFrom, type Redo, type RedoPiece } from './events.js'
import type { LiveSession } from './live.js'
import { alreadyExists, isADirectory, notADirectory, notFound, resolve, type Location } from './resolve.js'
import type { NewEvent } from './transaction.js'

/**
 * Plans of file operations. A plan checks a request against the newest state and returns the event that
 * would carry it out, or nothing where nothing changes; it changes nothing itself.
 */
export type Plan = NewEvent | undefined

export type FileContent = string | Uint8Array

/** What a guarded operation may ask for. */
export interface HashGuard {
  /** Absent: no guard. `''`: the file must not exist. Else: its content must have this hash. */
  readonly expectedHash?: string
}

export interface WriteRequest extends HashGuard {
  readonly path: string
  readonly content: FileContent
  /** Permission bits; absent keeps them, and gives a new file 0o644. */
  readonly mode?: number
}

export interface WriteOptions {
  /** 'create': missing parents are made (0o755); 'require': they are PATH_NOT_FOUND. */
  readonly parents?: 'create' | 'require'
  /** true: an existing path is ALREADY_EXISTS. */
  readonly exclusive?: boolean
}

export function planWrite(
  core: Core,
  live: LiveSession,
  request: WriteRequest,
  staged: StagedContent,
  options: WriteOptions = {},
): Plan {
  const at = resolve(live.tree, request.path, options.exclusive !== true)
  if (options.exclusive === true && at.node !== undefined) throw alreadyExists(request.path)
  checkGuard(core, request.path, at.node, request.expectedHash)
  const file = fileOrMissing(at, request.path)
  const { path } = at
  const blobs = staged.blobs()
  const single = blobs.length === 1 ? blobs[0]! : 0
  let redo: Redo[]
  if (file === undefined) {
    redo = makeParents(core, at, request.path, options.parents)
    redo.push(['w', path, parseMode(request.mode ?? 0o644), core.ids.newIno(), single])
  } else {
    redo = [['o', path, single]]
    if (request.mode !== undefined && parseMode(request.mode) !== file.mode)
      redo.push(['c', path, request.mode])
  }
  if (blobs.length > 1) redo.push(['p', path, staged.size, piecesFrom(0, blobs)])
  return { type: eventTypes.writeFile, details: { path }, redo, blobs: staged.toCommit() }
}

export function planAppend(
  core: Core,
  live: LiveSession,
  request: WriteRequest,
  staged: StagedContent,
  options: WriteOptions = {},
): Plan {
  const at = resolve(live.tree, request.path, true)
  checkGuard(core, request.path, at.node, request.expectedHash)
  const file = fileOrMissing(at, request.path)
  if (file === undefined) return planWrite(core, live, request, staged, options)
  const { path } = at
  const size = file.size + staged.size
  checkFileSize(size, core.maxFileBytes)
  const pieces = piecesFrom(file.size, staged.blobs())
  const whole = compacted(core, file, size, pieces, staged)
  if (whole !== undefined) pieces.push(whole.piece)
  const blobs = [...staged.toCommit(), ...(whole === undefined ? [] : [whole.blob])]
  const redo: Redo[] = [['p', path, size, pieces]]
  if (request.mode !== undefined && parseMode(request.mode) !== file.mode)
    redo.push(['c', path, request.mode])
  return { type: eventTypes.writeFile, details: { path }, redo, blobs }
}

export interface DeleteRequest {
  readonly path: string
  /** Absent or `''`: no guard. Else: the file's content must have this hash. */
  readonly expectedHash?: string
}

/** A file or symlink; the last symlink of the path is not followed. */
export function planDelete(core: Core, live: LiveSession, request: DeleteRequest): Plan {
  const { path, node } = resolve(live.tree, request.path, false)
  if (node === undefined) throw notFound(request.path)
  if (node instanceof Dir) throw isADirectory(request.path)
  if (request.expectedHash !== undefined && parseExpectedHash(request.expectedHash) !== '') {
    checkGuard(core, request.path, node, request.expectedHash)
  }
  return { type: eventTypes.deleteFile, details: { path }, redo: [['u', path]] }
}

export interface CreateDirectoryRequest {
  readonly path: string
  /** Permission bits, 0o755 by default. */
  readonly mode?: number
}

export function planCreateDirectory(
  core: Core,
  live: LiveSession,
  request: CreateDirectoryRequest,
  recursive = false,
): Plan {
  const mode = parseMode(request.mode ?? 0o755)
  const at = resolve(live.tree, request.path, recursive)
  if (at.node !== undefined) {
    if (recursive && at.node instanceof Dir) return undefined
    throw alreadyExists(request.path)
  }
  const redo = makeParents(core, at, request.path, recursive ? 'create' : 'require', mode)
  const { path } = at
  redo.push(['d', path, mode, core.ids.newIno()])
  return { type: eventTypes.createDirectory, details: { path }, redo }
}

/** Only an empty directory, unless it is to go with all that is below it. */
export function planRemoveDirectory(
  live: LiveSession,
  request: { readonly path: string },
  recursive = false,
): Plan {
  const { path, names, node } = resolve(live.tree, request.path, false)
  if (node === undefined) throw notFound(request.path)
  if (!(node instanceof Dir)) throw notADirectory(request.path)
  if (names.length === 0) throw invalid('path', 'the root cannot be removed')
  if (!recursive) checkEmpty(live, node, request.path)
  return { type: eventTypes.removeDirectory, details: { path }, redo: [['u', path]] }
}

export interface RenameRequest {
  readonly sourcePath: string
  readonly destinationPath: string
}

/** As POSIX has it: replaces a file, or an empty directory by a directory; onto itself nothing happens. */
export function planRename(live: LiveSession, { sourcePath, destinationPath }: RenameRequest): Plan {
  parsePath(sourcePath, 'sourcePath')
  parsePath(destinationPath, 'destinationPath')
  const from = resolve(live.tree, sourcePath, false)
  if (from.parents < from.names.length - 1) throw notFound(sourcePath)
  const to = resolve(live.tree, destinationPath, false)
  if (from.node === undefined) throw notFound(sourcePath)
  if (from.names.length === 0) throw invalid('sourcePath', 'the root cannot be moved')
  requireParents(to, destinationPath)
  if (from.path === to.path) return undefined
  if (from.node instanceof Dir && from.names.every((name, index) => to.names[index] === name)) {
    throw invalid('destinationPath', 'a directory cannot be moved into itself')
  }
  if (to.names.length < from.names.length && to.names.every((name, index) => from.names[index] === name)) {
    throw notEmpty(destinationPath)
  }
  if (from.node instanceof Dir && !fits(live, to.names.length, from.node)) {
    const message = `what is moved would reach below ${limits.pathDepth} levels`
    throw new EngineError('NAME_TOO_LONG', message, { field: 'destinationPath' })
  }
  if (from.node instanceof Dir && to.node !== undefined) {
    if (!(to.node instanceof Dir)) throw notADirectory(destinationPath)
    checkEmpty(live, to.node, destinationPath)
  } else if (to.node instanceof Dir) throw isADirectory(destinationPath)
  const details = { sourcePath: from.path, destinationPath: to.path }
  return { type: eventTypes.rename, details, redo: [['m', from.path, to.path]] }
}

export function planSetMode(live: LiveSession, request: { path: string; mode: number }): Plan {
  const mode = parseMode(request.mode)
  const { path, node } = resolve(live.tree, request.path, true)
  if (node === undefined) throw notFound(request.path)
  if (node instanceof Symlink || node.mode === mode) return undefined
  return { type: eventTypes.setAttributes, details: { path }, redo: [['c', path, mode]] }
}

export interface CreateSymlinkRequest {
  readonly linkPath: string
  /** Any text; it is resolved when it is used, inside the session. */
  readonly target: string
}

export function planCreateSymlink(core: Core, live: LiveSession, request: CreateSymlinkRequest): Plan {
  parsePath(request.linkPath, 'linkPath')
  const target = parseText('target', request.target, limits.pathBytes)
  if (target === '' || target.includes('\0')) throw invalid('target', 'must not be empty or contain NUL')
  const at = resolve(live.tree, request.linkPath, false)
  if (at.node !== undefined) throw alreadyExists(request.linkPath)
  requireParents(at, request.linkPath)
  const linkPath = at.path
  const redo: Redo[] = [['s', linkPath, target, core.ids.newIno()]]
  return { type: eventTypes.createSymlink, details: { linkPath, target }, redo }
}

function fileOrMissing(at: Location, path: string): FileNode | undefined {
  if (at.node instanceof Dir) throw isADirectory(path)
  return at.node as FileNode | undefined
}

function checkGuard(core: Core, path: string, node: Node | undefined, guard: string | undefined): void {
  if (guard === undefined) return
  const expected = parseExpectedHash(guard)
  // A directory and a symlink have no content hash, so no guard can hold for them.
  const actual =
    node === undefined ? '' : node instanceof FileNode ? core.contentIds.contentHash(node) : undefined
  if (actual === expected) return
  const actualHash = actual === undefined || actual === '' ? '' : formatHash(actual)
  throw new EngineError('HASH_MISMATCH', `${path} is not what was expected`, {
    path,
    expectedHash: guard,
    actualHash,
  })
}

function makeParents(
  core: Core,
  at: Location,
  path: string,
  parents: WriteOptions['parents'] = 'create',
  mode = 0o755,
): Redo[] {
  if (parents === 'require') {
    requireParents(at, path)
    return []
  }
  const redo: Redo[] = []
  for (let depth = at.parents + 1; depth < at.names.length; depth++) {
    redo.push(['d', joinPath(at.names.slice(0, depth)), mode, core.ids.newIno()])
  }
  return redo
}

function requireParents(at: Location, path: string): void {
  if (at.parents < at.names.length - 1) throw notFound(path)
}

/** Whether a directory may stand at a depth. Its height is a bound; only one that is too high is measured. */
function fits(live: LiveSession, depth: number, dir: Dir): boolean {
  if (depth + dir.height > limits.pathDepth) dir.height = measureHeight(live, dir)
  return depth + dir.height <= limits.pathDepth
}

function measureHeight(live: LiveSession, dir: Dir): number {
  let height = 0
  for (const page of dir.pages ?? live.tree.loader.loadDir(dir)) {
    if ((page.names ?? live.tree.loader.loadPage(page)).length > 0) height = Math.max(height, 1)
    for (const node of page.nodes)
      if (node instanceof Dir) height = Math.max(height, 1 + measureHeight(live, node))
  }
  return height
}

function checkEmpty(live: LiveSession, dir: Dir, path: string): void {
  const [first] = dir.pages ?? live.tree.loader.loadDir(dir)
  if ((first!.names ?? live.tree.loader.loadPage(first!)).length === 0) return
  throw notEmpty(path)
}

function notEmpty(path: string): EngineError {
  return new EngineError('DIRECTORY_NOT_EMPTY', `${path} is not empty`, { path })
}

/**
 * The block in which the file ends now, as one blob, when the pieces would give it too many extents:
 * otherwise small appends would make every read of the block slower for ever.
 */
function compacted(
  core: Core,
  file: FileNode,
  size: number,
  pieces: readonly RedoPiece[],
  staged: StagedContent,
): { blob: BlobRef; piece: RedoPiece } | undefined {
  const body = core.contentIds.body(file)
  const blockNumber = Math.floor(file.size / limits.blockBytes)
  const block = blockAt(body, blockNumber)
  if (!(block instanceof ExtentBlock) || block.extents.length < limits.extentsPerBlock) return undefined
  let next: LoadedBody = body
  for (const [offset, length, blob] of pieces) {
    next = splice(next, { offset, length, blob: blob as BlobRef, casOffset: 0 })
  }
  const start = blockNumber * limits.blockBytes
  const length = Math.min(limits.blockBytes, size - start)
  const bytes =
    core.content.readSync(next, start, length) ??
    staged.readAhead(file, () => core.content.read(next, start, length))
  const blob = BlobRef.of(bytes)
  return { blob, piece: [start, length, blob, 0] }
}
