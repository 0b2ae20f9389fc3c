import { whenLoaded } from '../../base/fault.js'
import { FileNode, Symlink } from '../../tree/node.js'
import type { Core } from '../core.js'
import type { Candidate, RenameCandidates } from './rename-candidates.js'
import { findSimilar } from './similar-files.js'

/** Pairs of a removed and an added file. */
export interface Renames {
  readonly oldPaths: ReadonlySet<string>
  readonly byNewPath: ReadonlyMap<string, { readonly path: string; readonly before: FileNode | Symlink }>
}

/** Finds files of the same content, and with a similarity below 100 percent also similar ones. */
export async function findRenames(
  core: Core,
  candidates: RenameCandidates,
  similarity: number | undefined,
): Promise<Renames> {
  const pairs = new Pairs()
  if (similarity === undefined || !candidates.mayMatch) return pairs
  await matchExact(core, candidates, pairs)
  if (similarity < 100) {
    const removed = candidates.removed.filter(({ path }) => !pairs.oldPaths.has(path))
    const added = candidates.added.filter(({ path }) => !pairs.byNewPath.has(path))
    for (const [old, current] of await findSimilar(core, { removed, added }, similarity))
      pairs.add(old, current)
  }
  return pairs
}

class Pairs implements Renames {
  readonly oldPaths = new Set<string>()
  readonly byNewPath = new Map<string, { readonly path: string; readonly before: FileNode | Symlink }>()

  add(old: Candidate, current: Candidate): void {
    this.oldPaths.add(old.path)
    this.byNewPath.set(current.path, { path: old.path, before: old.node })
  }
}

/** Pairs equal contents: first those with the same name, then in the order of their paths. */
async function matchExact(core: Core, { removed, added }: RenameCandidates, pairs: Pairs): Promise<void> {
  // A content of another size has no partner, so its hash is not needed.
  const sizes = new Set(added.map(({ node }) => sizeKey(node)))
  const bySameName = new Map<string, Candidate[]>()
  const byContent = new Map<string, Candidate[]>()
  for (const one of removed) {
    if (isEmpty(one.node) || !sizes.has(sizeKey(one.node))) continue
    const key = await contentKey(core, one.node)
    listAt(bySameName, nameKey(key, one.path)).push(one)
    listAt(byContent, key).push(one)
  }
  // `pop` takes the last one.
  for (const list of [...bySameName.values(), ...byContent.values()]) list.reverse()
  const removedSizes = new Set(removed.map(({ node }) => sizeKey(node)))
  const left: (readonly [key: string, one: Candidate])[] = []
  for (const one of added) {
    if (isEmpty(one.node) || !removedSizes.has(sizeKey(one.node))) continue
    const key = await contentKey(core, one.node)
    const partner = bySameName.get(nameKey(key, one.path))?.pop()
    if (partner === undefined) left.push([key, one])
    else pairs.add(partner, one)
  }
  for (const [key, one] of left) {
    const list = byContent.get(key) ?? []
    let partner = list.pop()
    while (partner !== undefined && pairs.oldPaths.has(partner.path)) partner = list.pop()
    if (partner !== undefined) pairs.add(partner, one)
  }
}

/** Empty files have the same content without being related. */
function isEmpty(node: FileNode | Symlink): boolean {
  return node instanceof FileNode && node.size === 0
}

function sizeKey(node: FileNode | Symlink): string {
  return node instanceof Symlink ? 'symlink' : String(node.size)
}

async function contentKey(core: Core, node: FileNode | Symlink): Promise<string> {
  if (node instanceof Symlink) return `symlink ${node.target}`
  return whenLoaded(() => core.contentIds.contentId(node))
}

function nameKey(key: string, path: string): string {
  return `${key}\0${path.slice(path.lastIndexOf('/'))}`
}

function listAt(map: Map<string, Candidate[]>, key: string): Candidate[] {
  let list = map.get(key)
  if (list === undefined) map.set(key, (list = []))
  return list
}
