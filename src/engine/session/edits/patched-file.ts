import { isUtf8 } from 'node:buffer'
import { runAtOnce, type Steps } from '../../base/cooperative.js'
import { EngineError } from '../../base/errors.js'
import { formatHash, sha256 } from '../../base/hash.js'
import { tooLarge } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { present } from '../../base/present.js'
import { StagedContent } from '../../cas/staging.js'
import { eventTypes, type Redo } from '../../records/event.js'
import { applyHunks } from '../../text/apply-hunks.js'
import { applyV4a } from '../../text/apply-v4a.js'
import { applyBinary } from '../../text/binary-change.js'
import { bytesOf, decodeText, encodeText, type ByteText } from '../../text/byte-text.js'
import type { FilePatch } from '../../text/file-patch.js'
import { invalidPatch } from '../../text/patch-error.js'
import type { PatchWork } from '../../text/patch-work.js'
import { Dir, FileNode, Symlink } from '../../tree/node.js'
import type { Core } from '../core.js'
import { alreadyExists, isADirectory, notFound, resolve, type Location } from '../reads/resolve.js'
import { ComputedText } from './computed-text.js'
import { emptiedPath, entryCount } from './emptied-parents.js'
import { parseTarget } from './links.js'
import { makeParents } from './parents.js'
import type { PatchPaths } from './patch-paths.js'
import type { Plan, PlanState } from './plan.js'
import { planWrite } from './writes.js'

/** A file or symlink that a patch changes. */
export interface PatchedFile {
  /** The path after the patch; for a deleted file, the path before. */
  readonly path: string
  /** The path before the patch, of a renamed or copied file; '' otherwise. */
  readonly oldPath: string
  /** `'created'`, `'deleted'`, `'modified'`, `'renamed'` or `'copied'`. */
  readonly change: PatchChange
  /** `sha256:<hex>` of the new content, or of the target of a symlink; '' for a deleted file. */
  readonly contentHash: string
  /** Lines that the patch adds; 0 for a binary change. */
  readonly addedLineCount: number
  /** Lines that the patch removes; 0 for a binary change. */
  readonly removedLineCount: number
}

/**
 * The kind of a change of a file.
 *
 * @inline
 */
type PatchChange = 'created' | 'deleted' | 'modified' | 'renamed' | 'copied'

export interface PatchContext {
  readonly fuzz: number
  /** The rules of `git apply` for paths: none leads through a symlink, and directories without files go away. */
  readonly isUnified: boolean
  readonly paths: PatchPaths
  /** The bytes that new contents of existing files may still have. */
  readonly budget: { bytesLeft: number }
  readonly work: PatchWork
}

/** The new content of a file, or the new target of a symlink. */
interface NewLeaf {
  /** Undefined for a file whose content stays. */
  readonly staged: StagedContent | undefined
  readonly target: string | undefined
  readonly contentHash: string
  readonly isChanged: boolean
}

/**
 * The change of one file or symlink, carried out in four steps. All parts of a patch take a step before one takes the
 * next: all files are read before one is removed or written.
 */
export class FileChange {
  readonly #core: Core
  readonly #patch: FilePatch
  readonly #context: PatchContext
  readonly #computed: ComputedText<{ readonly text: ByteText }>
  #new: NewLeaf | undefined
  #before: FileNode | Symlink | undefined
  #leavesFirst = false

  constructor(core: Core, patch: FilePatch, context: PatchContext) {
    this.#core = core
    this.#patch = patch
    this.#context = context
    this.#computed = new ComputedText(core, 1, (text) => this.#compute(text))
    if (patch.kind === 'create' && typeof patch.content === 'string')
      this.#new = this.#created(patch.content, patch.leaf)
    if (patch.kind === 'update' && patch.newPath !== undefined && patch.isCopy !== true)
      this.#leavesFirst = context.paths.leavesFirst(patch.path, patch.newPath)
  }

  /** Reads the file, and computes its new content. Changes nothing. */
  prepare(state: PlanState): Plan {
    const patch = this.#patch
    if (patch.kind === 'create') return undefined
    const { path } = patch
    const { node } = this.#resolve(state, path)
    if (node === undefined) throw notFound(path)
    if (node instanceof Dir) throw isADirectory(path)
    this.#checkLeaf(node)
    this.#before = node
    if (patch.change === undefined) return undefined
    this.#new = node instanceof Symlink ? this.#newTarget(node) : this.#newContent(node)
    return undefined
  }

  /** Removes a deleted file, and a renamed one whose place another part of the patch uses. */
  remove(state: PlanState): Plan {
    const { kind, path } = this.#patch
    if (kind !== 'delete' && !this.#leavesFirst) return undefined
    const at = this.#resolve(state, path)
    return planOf([['u', this.#emptied(state, at.path)]])
  }

  /** Removes an empty directory in the place of a new file. */
  makeRoom(state: PlanState): Plan {
    const path = this.#newPath
    if (path === undefined || !this.#context.isUnified) return undefined
    const at = this.#resolve(state, path)
    if (!(at.node instanceof Dir) || entryCount(state.tree, at.node) > 0) return undefined
    return planOf([['u', at.path]])
  }

  write(state: PlanState): Plan {
    const patch = this.#patch
    if (patch.kind === 'delete') return undefined
    const { path } = patch
    const leaf = present(this.#new, 'the patched content')
    if (patch.kind === 'create') return this.#put(state, path, leaf, patch.mode)
    if (patch.newPath === undefined) return this.#change(state, leaf, patch.mode)
    if (patch.isCopy === true || this.#leavesFirst) {
      const before = present(this.#before, 'the file before')
      const mode = before instanceof FileNode ? (patch.mode ?? before.mode) : undefined
      return this.#put(state, patch.newPath, leaf, mode)
    }
    // The file changes at its old path, and moves with its new content.
    const changed = this.#change(state, leaf, patch.mode)
    const moved = this.#move(state, path, patch.newPath)
    return planOf([...(changed?.redo ?? []), ...moved], changed?.blobs)
  }

  /** The file for the result. Call it after the steps. */
  described(): PatchedFile {
    const patch = this.#patch
    const counts = countLines(patch)
    if (patch.kind === 'delete')
      return { path: patch.path, oldPath: '', change: 'deleted', contentHash: '', ...counts }
    const { path } = patch
    const contentHash = this.#new?.contentHash ?? ''
    if (patch.kind === 'create') return { path, oldPath: '', change: 'created', contentHash, ...counts }
    const { newPath, isCopy } = patch
    if (newPath === undefined) return { path, oldPath: '', change: 'modified', contentHash, ...counts }
    const change = isCopy === true ? 'copied' : 'renamed'
    return { path: newPath, oldPath: path, change, contentHash, ...counts }
  }

  /** The path of a file that the patch creates, renames or copies. */
  get #newPath(): string | undefined {
    const patch = this.#patch
    if (patch.kind === 'create') return patch.path
    return patch.kind === 'update' ? patch.newPath : undefined
  }

  #resolve(state: PlanState, path: string): Location {
    const at = resolve(state.tree, path, false)
    if (!this.#context.isUnified || at.path === path) return at
    throw invalidPatch(`${path} is beyond a symlink; it leads to ${at.path}, which the patch must name`, {
      file: path,
    })
  }

  #checkLeaf(node: FileNode | Symlink): void {
    const patch = this.#patch
    const leaf = node instanceof Symlink ? 'symlink' : 'file'
    if (leaf === 'symlink' && !this.#context.isUnified)
      throw invalidPatch(`${patch.path} is a symlink in the session; only unified patches change symlinks`, {
        file: patch.path,
      })
    if (patch.leaf === undefined || patch.leaf === leaf) return
    throw new EngineError(
      'NO_MATCH',
      `${patch.path} is a ${leaf} in the session, but a ${patch.leaf} in the patch; make a new patch`,
      { path: patch.path },
    )
  }

  #created(content: ByteText, leaf: 'file' | 'symlink' | undefined): NewLeaf {
    const bytes = bytesOf(content)
    return {
      staged: leaf === 'symlink' ? undefined : new StagedContent(bytes, this.#core),
      target: leaf === 'symlink' ? targetIn(content, this.#patch.path) : undefined,
      contentHash: formatHash(sha256(bytes)),
      isChanged: true,
    }
  }

  #newContent(file: FileNode): NewLeaf {
    const patch = this.#patch
    const isSame =
      patch.kind === 'update' && patch.change.format === 'unified' && patch.change.hunks.length === 0
    if (isSame && patch.isCopy !== true && !this.#leavesFirst) {
      const contentHash = formatHash(this.#core.contentIds.contentHash(file))
      return { staged: undefined, target: undefined, contentHash, isChanged: false }
    }
    return { ...this.#computed.of(file, patch.path), target: undefined }
  }

  #newTarget({ target }: Symlink): NewLeaf {
    const patch = this.#patch
    const before = encodeText(target)
    const { text } = runAtOnce(this.#compute(before))
    return {
      staged: undefined,
      target: patch.kind === 'delete' ? undefined : targetIn(text, patch.path),
      contentHash: formatHash(sha256(bytesOf(text))),
      isChanged: text !== before,
    }
  }

  *#compute(before: ByteText): Steps<{ readonly text: ByteText }, undefined> {
    const { budget, fuzz, work } = this.#context
    if (budget.bytesLeft < 0) throw overBudget()
    const text = yield* patchedText(this.#patch, before, { fuzz, work })
    budget.bytesLeft -= text.length
    if (budget.bytesLeft < 0) throw overBudget()
    return { text }
  }

  /** Changes the file at its old path. */
  #change(state: PlanState, { staged, target, isChanged }: NewLeaf, mode: number | undefined): Plan {
    const { path } = this.#patch
    const at = this.#resolve(state, path)
    if (target !== undefined)
      return isChanged
        ? planOf([
            ['u', at.path],
            ['s', at.path, target, this.#core.ids.newIno()],
          ])
        : undefined
    if (isChanged && staged !== undefined) {
      const bits = mode === undefined ? {} : { mode }
      return planWrite(this.#core, state, { path, ...bits }, staged)
    }
    const isNewMode = mode !== undefined && at.node instanceof FileNode && at.node.mode !== mode
    return isNewMode ? planOf([['c', at.path, mode]]) : undefined
  }

  /** Writes a new file or symlink. */
  #put(state: PlanState, path: string, { staged, target }: NewLeaf, mode: number | undefined): Plan {
    const at = this.#resolve(state, path)
    if (at.node !== undefined) throw alreadyExists(path)
    if (target === undefined) {
      const bits = mode === undefined ? {} : { mode }
      const content = present(staged, 'the new content')
      return planWrite(this.#core, state, { path, ...bits }, content, { parents: 'create', exclusive: true })
    }
    const link: Redo = ['s', at.path, target, this.#core.ids.newIno()]
    return planOf([...makeParents(this.#core, at, path), link])
  }

  #move(state: PlanState, from: string, to: string): Redo[] {
    const source = this.#resolve(state, from)
    const target = this.#resolve(state, to)
    if (target.node !== undefined) throw alreadyExists(to)
    const emptied = this.#emptied(state, source.path)
    return [
      ...makeParents(this.#core, target, to),
      ['m', source.path, target.path],
      ...(emptied === source.path ? [] : [['u', emptied] as const]),
    ]
  }

  /** The path, or the highest directory that has nothing but the path, as `git apply` removes it. */
  #emptied(state: PlanState, path: string): string {
    const { isUnified, paths } = this.#context
    return isUnified ? emptiedPath(state.tree, path, (directory) => paths.hasTargetBelow(directory)) : path
  }
}

function planOf(redo: Redo[], blobs: NonNullable<Plan>['blobs'] = []): Plan {
  return { type: eventTypes.applyPatch, details: {}, redo, blobs }
}

function overBudget(): EngineError {
  return tooLarge('patch', 'bytes in the changed files', limits.patchContentBytes)
}

/** The content of a symlink in git is its target. */
function targetIn(content: ByteText, path: string): string {
  if (content === '' || content.includes('\0') || !isUtf8(bytesOf(content)))
    throw invalidPatch(`${path} is a symlink, whose target must be UTF-8 without NUL, and not empty`, {
      file: path,
    })
  return parseTarget(decodeText(content))
}

function* patchedText(
  patch: FilePatch,
  text: ByteText,
  { fuzz, work }: Pick<PatchContext, 'fuzz' | 'work'>,
): Steps<ByteText, undefined> {
  const { path } = patch
  const change = patch.kind === 'create' ? undefined : patch.change
  if (change === undefined) return text
  const patched =
    change.format === 'v4a'
      ? yield* applyV4a(text, change.sections, { path, work })
      : change.format === 'binary'
        ? yield* applyBinary(text, change, path)
        : yield* applyHunks(text, change.hunks, { fuzz, path, work })
  if (patch.kind !== 'delete' || patched === '') return patched
  throw new EngineError(
    'NO_MATCH',
    `the patch deletes ${path}, but the file has content that the patch lacks; make a new patch`,
    { path },
  )
}

function countLines(patch: FilePatch): { addedLineCount: number; removedLineCount: number } {
  let addedLineCount = 0
  let removedLineCount = 0
  if (patch.kind === 'create') {
    const { content } = patch
    if (typeof content !== 'string' || patch.isBinary === true) return { addedLineCount, removedLineCount }
    for (let at = content.indexOf('\n'); at >= 0; at = content.indexOf('\n', at + 1)) addedLineCount++
    if (content !== '' && !content.endsWith('\n')) addedLineCount++
    return { addedLineCount, removedLineCount }
  }
  const { change } = patch
  if (change === undefined || change.format === 'binary') return { addedLineCount, removedLineCount }
  for (const { lines } of change.format === 'v4a' ? change.sections : change.hunks)
    for (const { kind } of lines) {
      if (kind === '+') addedLineCount++
      else if (kind === '-') removedLineCount++
    }
  return { addedLineCount, removedLineCount }
}
