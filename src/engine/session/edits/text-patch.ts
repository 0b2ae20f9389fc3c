import { EngineError, invalid } from '../../base/errors.js'
import { Fault } from '../../base/fault.js'
import { emptyHash, formatHash, sha256 } from '../../base/hash.js'
import { given, parseFlag, parseText, readEntries, tooLarge } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { parsePath } from '../../base/path.js'
import { present } from '../../base/present.js'
import { Shape } from '../../base/shape.js'
import type { Steps } from '../../base/cooperative.js'
import { StagedContent } from '../../cas/staging.js'
import { eventTypes, type Redo } from '../../records/event.js'
import { applyHunks, type PatchedText } from '../../text/apply-hunks.js'
import { applyV4a } from '../../text/apply-v4a.js'
import { bytesOf, type ByteText } from '../../text/byte-text.js'
import { invalidPatch, type FilePatch, type HunkLine } from '../../text/file-patch.js'
import { loadPatchParser } from '../../text/patch-parser.js'
import { parseWith, readUnified } from '../../text/unified-patch.js'
import { isV4a, parseV4a } from '../../text/v4a-patch.js'
import { Dir, FileNode } from '../../tree/node.js'
import type { Core } from '../core.js'
import { alreadyExists, isADirectory, notFound, resolve } from '../reads/resolve.js'
import type { LiveSession } from '../table/live.js'
import { applyPlans, tryPlans, type PlanStep } from './batch.js'
import { ComputedText, type NewText } from './computed-text.js'
import { planDelete } from './delete.js'
import { checkGuard } from './guards.js'
import { makeParents } from './parents.js'
import type { Plan } from './plan.js'
import { planWrite } from './writes.js'

/** The request of `session.text.applyPatch`. */
export interface PatchRequest {
  /** The patch, at most 4 MiB. */
  readonly patch: string
  /**
   * `'unified'`: as `git diff` and `diff -u` write it. `'v4a'`: the format of OpenAI, which begins with
   * `*** Begin Patch`. `'auto'`, the default, decides by the first line.
   */
  readonly format?: 'auto' | 'unified' | 'v4a'
  /**
   * The number of leading names that are removed from the paths of a unified patch. By default 1 if they begin with
   * `a/` and `b/`, and otherwise 0.
   */
  readonly strip?: number
  /** Lines of context at each end of a unified hunk that may differ, 0 to 3; 0 by default. */
  readonly fuzz?: number
  /** true: returns the result, and changes nothing; false by default. */
  readonly dryRun?: boolean
  /** For a path, the hash `sha256:<hex>` that its content must have; '': the path must not exist. */
  readonly expectedHashes?: Readonly<Record<string, string>>
}

/** A file that a patch changes. */
export interface PatchedFile {
  /** The path after the patch; for a deleted file, the path before. */
  readonly path: string
  /** The path before the patch, of a renamed or copied file; '' otherwise. */
  readonly oldPath: string
  /** `'created'`, `'deleted'`, `'modified'`, `'renamed'` or `'copied'`. */
  readonly change: PatchChange
  /** `sha256:<hex>` of the new content; '' for a deleted file. */
  readonly contentHash: string
  /** Lines that the patch adds. */
  readonly addedLineCount: number
  /** Lines that the patch removes. */
  readonly removedLineCount: number
}

/**
 * The kind of a change of a file.
 *
 * @inline
 */
type PatchChange = 'created' | 'deleted' | 'modified' | 'renamed' | 'copied'

const patchShape = new Shape<PatchRequest>({
  patch: true,
  format: true,
  strip: true,
  fuzz: true,
  dryRun: true,
  expectedHashes: true,
})

/** A request to apply a patch, checked and copied. */
export class TextPatch {
  readonly #core: Core
  readonly #text: string
  readonly #format: 'unified' | 'v4a'
  readonly #strip: number | undefined
  readonly #fuzz: number
  readonly #dryRun: boolean
  readonly #guards: readonly (readonly [path: string, hash: string])[]
  #files: readonly FileChange[] | undefined

  constructor(core: Core, request: PatchRequest) {
    const { patch, format, strip, fuzz, dryRun, expectedHashes } = patchShape.read(request)
    this.#core = core
    this.#text = parseText('patch', patch, limits.patchBytes)
    this.#format = parseFormat(format, this.#text)
    this.#strip = strip === undefined ? undefined : parseCount('strip', strip, limits.pathDepth)
    this.#fuzz = parseCount('fuzz', fuzz ?? 0, limits.patchFuzz)
    this.#dryRun = parseFlag('dryRun', dryRun, false)
    this.#guards = parseGuards(expectedHashes)
    // A patch in this format needs no parser that must be loaded.
    if (this.#format === 'v4a') this.#files = this.#changes(parseV4a(this.#text))
  }

  async apply(live: LiveSession): Promise<{ files: PatchedFile[] }> {
    const steps = (): readonly PlanStep[] => this.#steps()
    if (this.#dryRun) await tryPlans(this.#core, live, steps)
    else
      await applyPlans(this.#core, live, steps, () => ({
        type: eventTypes.applyPatch,
        details: {
          fileCount: this.#changed().length,
          paths: this.#changed()
            .slice(0, limits.pathsInDetails)
            .map((file) => file.described().path),
        },
      }))
    return { files: this.#changed().map((file) => file.described()) }
  }

  #steps(): readonly PlanStep[] {
    const files = this.#changed()
    const check: PlanStep = (live) => {
      for (const [path, hash] of this.#guards)
        checkGuard(this.#core, path, resolve(live.tree, path, true).node, hash)
      return undefined
    }
    return [
      check,
      ...files.map(
        (file): PlanStep =>
          (live) =>
            file.prepare(live),
      ),
      ...files.map(
        (file): PlanStep =>
          (live) =>
            file.remove(live),
      ),
      ...files.map(
        (file): PlanStep =>
          (live) =>
            file.write(live),
      ),
    ]
  }

  /** Throws a Fault until the parser is loaded. */
  #changed(): readonly FileChange[] {
    if (this.#files !== undefined) return this.#files
    if (parser === undefined)
      throw new Fault(async () => {
        parser = await loadPatchParser()
      })
    this.#files = this.#changes(readUnified(parseWith(parser, this.#text), this.#strip))
    return this.#files
  }

  #changes(patches: readonly FilePatch[]): readonly FileChange[] {
    if (patches.length > limits.patchFiles) throw tooLarge('patch', 'files', limits.patchFiles)
    const sources = new Set<string>()
    const targets = new Set<string>()
    const add = (set: Set<string>, path: string): void => {
      parsePath(path, 'patch')
      if (set.has(path))
        throw invalidPatch(`changes ${path} twice; apply the parts one after the other`, { file: path })
      set.add(path)
    }
    for (const patch of patches) {
      const copies = patch.kind === 'update' && patch.isCopy === true
      if (patch.kind !== 'create' && !copies) add(sources, patch.path)
      if (patch.kind === 'create') add(targets, patch.path)
      else if (patch.kind === 'update') add(targets, patch.newPath ?? patch.path)
    }
    return patches.map((patch) => new FileChange(this.#core, patch, { fuzz: this.#fuzz, sources, targets }))
  }
}

let parser: Awaited<ReturnType<typeof loadPatchParser>> | undefined

interface PatchContext {
  readonly fuzz: number
  readonly sources: ReadonlySet<string>
  readonly targets: ReadonlySet<string>
}

/** The change of one file, carried out in three steps: all files are read before one is removed or written. */
class FileChange {
  readonly #core: Core
  readonly #patch: FilePatch
  /** Paths that the patch removes or changes. */
  readonly #sources: ReadonlySet<string>
  /** Paths that the patch creates or changes. */
  readonly #targets: ReadonlySet<string>
  readonly #computed: ComputedText<PatchedText>
  readonly #created: StagedContent | undefined
  #new: NewText<PatchedText> | undefined
  #before: FileNode | undefined
  #movesBySteps = false

  constructor(core: Core, patch: FilePatch, { fuzz, sources, targets }: PatchContext) {
    this.#core = core
    this.#patch = patch
    this.#sources = sources
    this.#targets = targets
    this.#computed = new ComputedText(core, 1, (text) => patchedText(patch, text, fuzz))
    this.#created = patch.kind === 'create' ? new StagedContent(bytesOf(patch.content), core) : undefined
  }

  /** Reads the file, and computes its new content. Changes nothing. */
  prepare(live: LiveSession): Plan {
    const { kind, path } = this.#patch
    if (kind === 'create') return undefined
    const { node } = resolve(live.tree, path, false)
    if (node === undefined) throw notFound(path)
    if (node instanceof Dir) throw isADirectory(path)
    if (!(node instanceof FileNode))
      throw invalidPatch(`${path} is a symlink in the session; only changes of files are supported`, {
        file: path,
      })
    this.#before = node
    if (kind === 'delete' && this.#patch.hunks === undefined) return undefined
    this.#new = this.#computed.of(node, path)
    if (kind === 'update' && this.#patch.newPath !== undefined && this.#patch.isCopy !== true)
      this.#movesBySteps = this.#sources.has(this.#patch.newPath) || this.#targets.has(path)
    return undefined
  }

  /** Removes a deleted file, and a renamed one that trades places with another file of the patch. */
  remove(live: LiveSession): Plan {
    if (this.#patch.kind !== 'delete' && !this.#movesBySteps) return undefined
    return planDelete(this.#core, live, { path: this.#patch.path })
  }

  write(live: LiveSession): Plan {
    const patch = this.#patch
    if (patch.kind === 'delete') return undefined
    if (patch.kind === 'create') {
      const mode = patch.mode === undefined ? {} : { mode: patch.mode }
      return this.#createAt(live, patch.path, present(this.#created, 'the new content'), mode)
    }
    const { staged, isChanged } = present(this.#new, 'the patched content')
    const mode = patch.mode === undefined ? {} : { mode: patch.mode }
    if (patch.newPath === undefined) {
      if (!isChanged && patch.mode === undefined) return undefined
      return planWrite(this.#core, live, { path: patch.path, ...mode }, staged)
    }
    if (patch.isCopy === true || this.#movesBySteps) {
      const before = present(this.#before, 'the file before')
      return this.#createAt(live, patch.newPath, staged, { mode: patch.mode ?? before.mode })
    }
    const redo = this.#move(live, patch.path, patch.newPath)
    // The file is written at its old path, and moves with its new content.
    const written =
      isChanged || patch.mode !== undefined
        ? planWrite(this.#core, live, { path: patch.path, ...mode }, staged)
        : undefined
    return {
      type: eventTypes.applyPatch,
      details: {},
      redo: [...(written?.redo ?? []), ...redo],
      blobs: written?.blobs ?? [],
    }
  }

  /** The file for the result. Call it after the steps. */
  described(): PatchedFile {
    const patch = this.#patch
    const counts = countLines(patch)
    if (patch.kind === 'create') {
      const contentHash = formatHash(patch.content === '' ? emptyHash : sha256(bytesOf(patch.content)))
      return { path: patch.path, oldPath: '', change: 'created', contentHash, ...counts }
    }
    if (patch.kind === 'delete')
      return { path: patch.path, oldPath: '', change: 'deleted', contentHash: '', ...counts }
    const { path, newPath, isCopy } = patch
    const contentHash = this.#new?.contentHash ?? ''
    if (newPath === undefined) return { path, oldPath: '', change: 'modified', contentHash, ...counts }
    return {
      path: newPath,
      oldPath: path,
      change: isCopy === true ? 'copied' : 'renamed',
      contentHash,
      ...counts,
    }
  }

  #createAt(live: LiveSession, path: string, staged: StagedContent, mode: { readonly mode?: number }): Plan {
    return planWrite(this.#core, live, { path, ...mode }, staged, { parents: 'create', exclusive: true })
  }

  #move(live: LiveSession, from: string, to: string): Redo[] {
    const source = resolve(live.tree, from, false)
    const target = resolve(live.tree, to, false)
    if (target.node !== undefined) throw alreadyExists(to)
    return [...makeParents(this.#core, target, to), ['m', source.path, target.path]]
  }
}

function* patchedText(patch: FilePatch, text: ByteText, fuzz: number): Steps<PatchedText, undefined> {
  const { path } = patch
  if (patch.kind === 'create') return { text: patch.content, offsets: [] }
  if (patch.kind === 'delete') {
    const left = yield* applyHunks(text, patch.hunks ?? [], { fuzz, path })
    if (left.text === '') return left
    throw new EngineError(
      'NO_MATCH',
      `the patch deletes ${path}, but the file has lines that the patch lacks`,
      {
        path,
      },
    )
  }
  const { change } = patch
  if (change.format === 'v4a') return yield* applyV4a(text, change.sections, path)
  return yield* applyHunks(text, change.hunks, { fuzz, path })
}

function countLines(patch: FilePatch): { addedLineCount: number; removedLineCount: number } {
  if (patch.kind === 'create') {
    const ends = patch.content.split('\n').length - 1
    const isOpen = patch.content !== '' && !patch.content.endsWith('\n')
    return { addedLineCount: ends + (isOpen ? 1 : 0), removedLineCount: 0 }
  }
  const lines: HunkLine[] = []
  const parts =
    patch.kind === 'delete'
      ? (patch.hunks ?? [])
      : patch.change.format === 'v4a'
        ? patch.change.sections
        : patch.change.hunks
  for (const part of parts) for (const line of part.lines) lines.push(line)
  return {
    addedLineCount: lines.filter(({ kind }) => kind === '+').length,
    removedLineCount: lines.filter(({ kind }) => kind === '-').length,
  }
}

function parseFormat(format: unknown, patch: string): 'unified' | 'v4a' {
  if (format === undefined || format === 'auto') return isV4a(patch) ? 'v4a' : 'unified'
  if (format === 'unified' || format === 'v4a') return format
  throw invalid('format', `must be "auto", "unified" or "v4a"; it is ${given(format)}`)
}

function parseCount(field: string, value: unknown, most: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= most) return value
  throw invalid(field, `must be a whole number from 0 to ${most}; it is ${given(value)}`)
}

function parseGuards(hashes: unknown): [string, string][] {
  if (hashes === undefined) return []
  const entries = readEntries('expectedHashes', hashes, 'must be an object with a hash for each path')
  if (entries.length > limits.patchFiles) throw tooLarge('expectedHashes', 'paths', limits.patchFiles)
  return entries.map(([path, hash]) => {
    parsePath(path, 'expectedHashes')
    return [path, parseText(`expectedHashes[${given(path)}]`, hash, limits.labelBytes)]
  })
}
