import { Buffer } from 'node:buffer'
import { tooLarge } from '../../base/input.js'
import { whenLoaded } from '../../base/fault.js'
import { formatHash, sha256 } from '../../base/hash.js'
import { limits } from '../../base/limits.js'
import { splitPath } from '../../base/path.js'
import type { Core } from '../../session/core.js'
import type { TextMerge } from '../../text/merge-text.js'
import type { LineRange } from '../../text/merge-lines.js'
import { FileNode, kindOf, Symlink, type Dir, type Node, type NodeKind } from '../../tree/node.js'
import { Tree } from '../../tree/tree.js'
import type { ConflictKind, ConflictRecord } from '../../records/merge.js'
import type { MergeTrees, SideName } from './changed-paths.js'
import { mergeBytes, readFile } from './merge-files.js'

/** A file, directory or symlink of one side of a conflict. */
export interface ConflictSide {
  /** Absolute path on this side. It differs from that of the conflict after a rename. */
  readonly path: string
  /** `'file'`, `'directory'` or `'symlink'`. */
  readonly kind: NodeKind
  /** `sha256:<hex>` of the content of a file, or of the target of a symlink; '' for a directory. */
  readonly contentHash: string
  /** Permission bits; 0 for a symlink, which has none. */
  readonly mode: number
}

/** A path that a merge could not merge. A side that does not have the file is absent. */
export interface MergeConflict {
  /** Absolute path in the session, where the conflict is resolved. */
  readonly path: string
  /** The changes of both sides. */
  readonly kind: ConflictKind
  /** The common ancestor. */
  readonly base?: ConflictSide
  /** The target of the merge, as it was before. */
  readonly ours?: ConflictSide
  /** The source of the merge. */
  readonly theirs?: ConflictSide
}

/** Lines that both sides changed. Line numbers start from 1. */
export interface ConflictHunk {
  /** The number of the first line in the base. */
  readonly baseLine: number
  /** The lines in the base, with their endings. */
  readonly base: string
  /** The number of the first line in ours. */
  readonly oursLine: number
  /** The lines in ours, with their endings. */
  readonly ours: string
  /** The number of the first line in theirs. */
  readonly theirsLine: number
  /** The lines in theirs, with their endings. */
  readonly theirs: string
}

/** A conflict with the contents of its sides. */
export interface ConflictContents {
  /** The conflict. */
  readonly conflict: MergeConflict
  /** The bytes of a file, or the target of a symlink, in the base. Absent if the base has neither. */
  readonly base?: Uint8Array
  /** The bytes in the target before the merge. */
  readonly ours?: Uint8Array
  /** The bytes in the source. */
  readonly theirs?: Uint8Array
  /** The conflicting lines; empty for binary and very large files, and for other kinds of conflicts. */
  readonly hunks: ConflictHunk[]
}

const sideNames = ['base', 'ours', 'theirs'] as const

export async function describeConflict(
  core: Core,
  trees: MergeTrees,
  record: ConflictRecord,
): Promise<MergeConflict> {
  const conflict: { -readonly [Key in keyof MergeConflict]: MergeConflict[Key] } = {
    path: record.path,
    kind: record.kind,
  }
  for (const side of sideNames) {
    const path = record[side]
    const node = await sideOf(core, trees, record, side)
    if (path !== undefined && node !== undefined) conflict[side] = await describeSide(core, path, node)
  }
  return conflict
}

/** The node of a side of a conflict. */
export async function sideOf(
  core: Core,
  trees: MergeTrees,
  record: ConflictRecord,
  side: SideName,
): Promise<Node | undefined> {
  const path = record[side]
  return path === undefined ? undefined : findIn(core, trees[side], path)
}

export function findIn(core: Core, root: Dir, path: string): Promise<Node | undefined> {
  return whenLoaded(() => new Tree(root, core.loader).find(splitPath(path)))
}

async function describeSide(core: Core, path: string, node: Node): Promise<ConflictSide> {
  return {
    path,
    kind: kindOf(node),
    contentHash: await hashOf(core, node),
    mode: node instanceof Symlink ? 0 : node.mode,
  }
}

async function hashOf(core: Core, node: Node): Promise<string> {
  if (node instanceof FileNode) return formatHash(await whenLoaded(() => core.contentIds.contentHash(node)))
  return node instanceof Symlink ? formatHash(sha256(node.target)) : ''
}

export async function readConflict(
  core: Core,
  trees: MergeTrees,
  record: ConflictRecord,
): Promise<ConflictContents> {
  const conflict = await describeConflict(core, trees, record)
  const contents: { base?: Uint8Array; ours?: Uint8Array; theirs?: Uint8Array } = {}
  for (const side of sideNames) {
    const bytes = await bytesOf(core, await sideOf(core, trees, record, side))
    if (bytes !== undefined) contents[side] = bytes
  }
  return { conflict, ...contents, hunks: await hunksOf(core, record.kind, contents) }
}

async function bytesOf(core: Core, node: Node | undefined): Promise<Uint8Array | undefined> {
  if (node instanceof Symlink) return Buffer.from(node.target)
  if (!(node instanceof FileNode)) return undefined
  if (node.size > limits.mergeFileBytes) throw tooLarge('path', 'bytes of one side', limits.mergeFileBytes)
  return readFile(core, node)
}

async function hunksOf(
  core: Core,
  kind: ConflictKind,
  { base = new Uint8Array(), ours, theirs }: Partial<Record<SideName, Uint8Array>>,
): Promise<ConflictHunk[]> {
  if (kind !== 'content' && kind !== 'add/add') return []
  if (ours === undefined || theirs === undefined) return []
  const merge = await mergeBytes(core, { base, ours, theirs })
  if (merge === undefined) return []
  return merge.regions.flatMap((region) =>
    region.kind === 'clean'
      ? []
      : [
          {
            baseLine: region.base.start + 1,
            base: textOf(merge, 'base', region.base),
            oursLine: region.ours.start + 1,
            ours: textOf(merge, 'ours', region.ours),
            theirsLine: region.theirs.start + 1,
            theirs: textOf(merge, 'theirs', region.theirs),
          },
        ],
  )
}

/** Lines as text. The merge handles them as latin1, which keeps their bytes. */
function textOf(merge: TextMerge, side: SideName, { start, end }: LineRange): string {
  return Buffer.from(merge[side].slice(start, end).join(''), 'latin1').toString()
}
