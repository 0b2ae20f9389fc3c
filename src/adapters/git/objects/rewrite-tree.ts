import { EngineError, type GitObject, type PathChange, type TimeSlice } from '../../../engine/ports.js'
import { emptyTreeId, type ObjectFormat } from './object-id.js'
import { entryKind, formatTree, isExecutable, parseTree, type RawEntry } from './raw-tree.js'

/** The changes to one name, to the names below it, or to both. */
export interface ChangeNode {
  leaf?: Leaf
  readonly children: Map<string, ChangeNode>
}

export type Leaf =
  | { readonly kind: 'removed' }
  | { readonly kind: 'file'; readonly executable: boolean; readonly oid: string }
  | { readonly kind: 'symlink'; readonly oid: string }

export function createChangeNode(): ChangeNode {
  return { children: new Map() }
}

/** Adds the change of one path. Names are stored as the latin-1 form of their bytes, as in raw trees. */
export function addChange(root: ChangeNode, parts: PathChange['parts'], leaf: Leaf): void {
  let node = root
  for (const part of parts) {
    const name = Buffer.from(part).toString('latin1')
    let child = node.children.get(name)
    if (child === undefined) node.children.set(name, (child = createChangeNode()))
    node = child
  }
  node.leaf = leaf
}

export interface RewriteOptions {
  readonly baseTree: string | null
  readonly format: ObjectFormat
  readonly changes: ChangeNode
  readonly slice: TimeSlice
  getTree(oid: string): Promise<GitObject>
  /** Adds a tree and returns its id. */
  addTree(body: Buffer): Promise<string>
}

/**
 * Rewrites the trees along the changed paths and returns the id of the new root. Unchanged entries keep their
 * mode, name and id byte for byte. Directories that become empty are removed. Only the root may be empty.
 */
export async function rewriteTree(options: RewriteOptions): Promise<string> {
  const { changes, baseTree, format } = options
  const root = await rewrite(options, baseTree, changes)
  return root ?? (baseTree === emptyTreeId(format) ? baseTree : options.addTree(Buffer.alloc(0)))
}

/** Returns the id of the new tree, or null if it is empty. */
async function rewrite(
  options: RewriteOptions,
  base: string | null,
  node: ChangeNode,
): Promise<string | null> {
  const { format } = options
  const isEmpty = base === null || base === emptyTreeId(format)
  const old = isEmpty ? [] : parseTree((await options.getTree(base)).body, format)
  if (node.children.size === 0) return old.length === 0 ? null : base
  const entries = new Map(old.map((entry) => [entry.name, entry]))
  let changed = false
  for (const [name, child] of node.children) {
    const before = entries.get(name)
    const after = await replace(options, name, before, child)
    if (after !== before) {
      changed = true
      if (after === undefined) entries.delete(name)
      else entries.set(name, after)
    }
    if (options.slice.over) await options.slice.next()
  }
  if (entries.size === 0) return null
  return changed ? options.addTree(formatTree(entries.values())) : base
}

async function replace(
  options: RewriteOptions,
  name: string,
  before: RawEntry | undefined,
  { leaf, children }: ChangeNode,
): Promise<RawEntry | undefined> {
  if (leaf !== undefined && leaf.kind !== 'removed') {
    if (hasContent(children))
      throw new EngineError('INTERNAL', 'a changed path is both a file and a directory')
    return { name, mode: leafMode(leaf, before), oid: leaf.oid }
  }
  const removed = leaf !== undefined
  const wasTree = before !== undefined && entryKind(before.mode) === 'tree'
  const tree = await rewrite(options, wasTree && !removed ? before.oid : null, { children })
  if (tree === null) {
    // Removals below an entry that is not a directory do not change that entry.
    return removed || wasTree ? undefined : before
  }
  return wasTree && before.oid === tree ? before : { name, mode: '40000', oid: tree }
}

function hasContent(children: ReadonlyMap<string, ChangeNode>): boolean {
  for (const { leaf, children: below } of children.values()) {
    if ((leaf !== undefined && leaf.kind !== 'removed') || hasContent(below)) return true
  }
  return false
}

function leafMode(leaf: Exclude<Leaf, { kind: 'removed' }>, before: RawEntry | undefined): string {
  if (leaf.kind === 'symlink') return '120000'
  const sameKind = before !== undefined && entryKind(before.mode) === 'file'
  if (sameKind && isExecutable(before.mode) === leaf.executable) return before.mode
  return leaf.executable ? '100755' : '100644'
}
