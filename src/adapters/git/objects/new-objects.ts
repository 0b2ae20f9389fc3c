import { EngineError, type GitObject, type TimeSlice } from '../../../engine/ports.js'
import { gitLimits } from '../limits.js'
import { emptyTreeId, type ObjectFormat } from './object-id.js'
import { entryKind, parseTreeInParts, type RawEntry } from './raw-tree.js'

export interface TreeObjects {
  readonly objects: { get(oid: string, maxBytes?: number): Promise<GitObject | undefined> }
  readonly slice: TimeSlice
  readonly format: ObjectFormat
}

/** A tree or a blob that another tree lacks at the same place. */
export interface NewObject {
  readonly oid: string
  readonly type: 'tree' | 'blob'
}

/** What is compared, and with what. */
interface NewObjectsOptions {
  /** The tree before. Without it, everything is new. */
  readonly before?: string | undefined
  /** Trees that are not read. */
  readonly isSkipped?: (treeId: string) => boolean
  /** Receives the entries of a tree before except submodules, ahead of the new objects of the tree at its place. */
  readonly onBefore?: (oid: string) => void
}

/**
 * Yields a tree and everything below it, without the entries that the tree before it has at the same place. Submodules
 * are left out.
 */
export async function* newObjects(
  from: TreeObjects,
  treeId: string,
  { before, isSkipped = () => false, onBefore }: NewObjectsOptions = {},
): AsyncGenerator<NewObject, void> {
  const unseen: [treeId: string, before: string | undefined][] = [[treeId, before]]
  for (let pair = unseen.pop(); pair !== undefined; pair = unseen.pop()) {
    const [id, old] = pair
    if (id === old || isSkipped(id)) continue
    const known = old === undefined ? undefined : await entriesOf(old, from)
    if (known !== undefined && onBefore !== undefined)
      for (const { mode, oid } of known.values()) if (entryKind(mode) !== 'gitlink') onBefore(oid)
    yield { oid: id, type: 'tree' }
    for (const [name, { mode, oid }] of await entriesOf(id, from)) {
      const same = known?.get(name)
      const kind = entryKind(mode)
      const kindBefore = same === undefined ? undefined : entryKind(same.mode)
      // A submodule has the id of a commit elsewhere, or any other.
      if (kind === 'gitlink' || (same?.oid === oid && kindBefore !== 'gitlink')) continue
      if (kind === 'tree') unseen.push([oid, kindBefore === 'tree' ? same?.oid : undefined])
      else yield { oid, type: 'blob' }
      if (from.slice.over) await from.slice.next()
    }
  }
}

/** The entries of a tree by name. */
export async function entriesOf(
  treeId: string,
  from: Pick<TreeObjects, 'objects' | 'format'> & Partial<Pick<TreeObjects, 'slice'>>,
): Promise<Map<string, RawEntry>> {
  const { body } = await treeObject(treeId, from)
  const entries = new Map<string, RawEntry>()
  let count = 0
  for (const part of parseTreeInParts(body, from.format)) {
    count += part.length
    if (count > gitLimits.directoryEntries)
      throw new EngineError(
        'GIT_TOO_LARGE',
        `the tree ${treeId} has over ${gitLimits.directoryEntries} entries in a directory`,
        { limit: String(gitLimits.directoryEntries) },
      )
    for (const entry of part) entries.set(entry.name, entry)
    if (from.slice?.over === true) await from.slice.next()
  }
  return entries
}

/** Reads a tree. The empty one is not stored. */
export async function treeObject(
  treeId: string,
  { objects, format }: Pick<TreeObjects, 'objects' | 'format'>,
): Promise<GitObject> {
  if (treeId === emptyTreeId(format)) return { oid: treeId, type: 'tree', body: new Uint8Array() }
  return mustGet(treeId, 'tree', objects)
}

/** @throws {EngineError} GIT_CORRUPT when there is no such object of this type */
export async function mustGet(
  oid: string,
  type: GitObject['type'],
  objects: TreeObjects['objects'],
): Promise<GitObject> {
  // An object of another type may be larger than memory.
  const object = await objects.get(oid, type === 'blob' ? undefined : gitLimits.structureBytes)
  if (object?.type === type) return object
  throw new EngineError('GIT_CORRUPT', `the ${type} ${oid}, which a commit of the session needs, is missing`)
}
