import { Buffer } from 'node:buffer'
import { runInSlices, type Steps } from '../../base/cooperative.js'
import { whenLoaded } from '../../base/fault.js'
import { formatHash, sha256 } from '../../base/hash.js'
import { limits } from '../../base/limits.js'
import { present } from '../../base/present.js'
import { hunksOf, type Hunk } from '../../text/hunks.js'
import { Symlink } from '../../tree/node.js'
import type { Core } from '../core.js'
import { ContentComparison, type ContentChange } from './content-change.js'
import { fileChanges, type ComparedRoots, type FileChange, type Leaf } from './file-changes.js'
import type { DiffRules } from './options.js'

/** A file or symlink that differs between two states. */
export interface ChangedFile {
  /** The absolute path in the second state, or in the first one if the file was removed. */
  readonly path: string
  /** The path in the first state, if the file was renamed. */
  readonly oldPath?: string
  /** `renamed`: the file has another path, and may have another content or mode too. */
  readonly change: 'added' | 'removed' | 'modified' | 'renamed'
  /** `'file'` or `'symlink'`. The content of a symlink is its target. */
  readonly kind: 'file' | 'symlink'
  /** Permission bits in the first state; absent if the file was added. */
  readonly oldMode?: number
  /** Permission bits in the second state; absent if the file was removed. */
  readonly mode?: number
  /** The hash of the content in the first state, `sha256:<hex>`; absent if the file was added. */
  readonly oldHash?: string
  /** The hash of the content in the second state, `sha256:<hex>`; absent if the file was removed. */
  readonly hash?: string
  /** Whether one of the contents is not text: it has a NUL in its first 8,000 bytes. */
  readonly isBinary: boolean
  /** Whether the contents were not compared by lines, because they are over a limit. */
  readonly isTruncated: boolean
  /** The number of added lines; 0 for a binary or truncated file. */
  readonly additions: number
  /** The number of removed lines; 0 for a binary or truncated file. */
  readonly deletions: number
  /** The changed lines, if they were requested. Bytes that are not UTF-8 are shown as U+FFFD. */
  readonly hunks?: Hunk[]
}

/** Sums over all changed files. */
export interface DiffStats {
  /** The number of changed files and symlinks. */
  readonly files: number
  /** Added lines. */
  readonly additions: number
  /** Deleted lines. */
  readonly deletions: number
  /** Files that are binary. Their lines are not counted. */
  readonly binaryFiles: number
  /** Files over a limit. Their lines are not counted. */
  readonly truncatedFiles: number
}

/** The numbers of changed paths, directories included. */
export interface DiffCounts {
  /** Files that exist only in the newer state. */
  readonly added: number
  /** Files that exist only in the older state. */
  readonly removed: number
  /** Files whose content, mode or type differs. */
  readonly modified: number
}

/** The changed files, each compared when it is read. */
export async function* changedFiles(
  core: Core,
  roots: ComparedRoots,
  rules: DiffRules,
): AsyncGenerator<ChangedFile, void, undefined> {
  const contents = new ContentComparison(core)
  for await (const change of fileChanges(core, roots, rules))
    yield await describeFile(core, change, { content: await contents.compare(change), rules })
}

/** Sums up the changed files. */
export async function sumFiles(files: AsyncIterable<ChangedFile>): Promise<DiffStats> {
  const sums = { files: 0, additions: 0, deletions: 0, binaryFiles: 0, truncatedFiles: 0 }
  for await (const { additions, deletions, isBinary, isTruncated } of files) {
    sums.files++
    sums.additions += additions
    sums.deletions += deletions
    if (isBinary) sums.binaryFiles++
    if (isTruncated) sums.truncatedFiles++
  }
  return sums
}

export async function describeFile(
  core: Core,
  change: FileChange,
  { content, rules }: { readonly content: ContentChange; readonly rules: DiffRules },
): Promise<ChangedFile> {
  const { path, oldPath, before, after } = change
  return {
    path,
    ...(oldPath !== undefined && { oldPath }),
    change: changeName(change),
    kind: present(after ?? before, 'the changed file') instanceof Symlink ? 'symlink' : 'file',
    ...(before && { oldMode: modeOf(before), oldHash: await hashOf(core, before) }),
    ...(after && { mode: modeOf(after), hash: await hashOf(core, after) }),
    isBinary: content.kind === 'binary' && !content.isTruncated,
    isTruncated: content.kind === 'large' || (content.kind === 'binary' && content.isTruncated),
    ...countLines(content),
    ...(rules.hunks && { hunks: await runInSlices(readableHunks(content, rules.context), core.environment) }),
  }
}

function changeName({ oldPath, before, after }: FileChange): ChangedFile['change'] {
  if (oldPath !== undefined) return 'renamed'
  if (before === undefined) return 'added'
  return after === undefined ? 'removed' : 'modified'
}

function modeOf(node: Leaf): number {
  return node instanceof Symlink ? 0o777 : node.mode
}

async function hashOf(core: Core, node: Leaf): Promise<string> {
  if (node instanceof Symlink) return formatHash(sha256(node.target))
  return formatHash(await whenLoaded(() => core.contentIds.contentHash(node)))
}

function countLines(content: ContentChange): { readonly additions: number; readonly deletions: number } {
  let additions = 0
  let deletions = 0
  if (content.kind === 'text') {
    for (const { aStart, aEnd, bStart, bEnd } of content.changes) {
      additions += bEnd - bStart
      deletions += aEnd - aStart
    }
  }
  return { additions, deletions }
}

function* readableHunks(content: ContentChange, context: number): Steps<Hunk[], undefined> {
  if (content.kind !== 'text') return []
  const hunks = yield* hunksOf(content.before, content.after, content.changes, context)
  const readable: Hunk[] = []
  for (const hunk of hunks) {
    const lines: string[] = []
    for (const line of hunk.lines)
      if (lines.push(Buffer.from(line, 'latin1').toString('utf8')) % limits.linesPerLook === 0) yield
    readable.push({ ...hunk, lines })
    yield
  }
  return readable
}
