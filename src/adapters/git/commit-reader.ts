import {
  EngineError,
  TimeSlice,
  type CommitReader,
  type GitBundleRequest,
  type GitObject,
  type GitObjects,
} from '../../engine/ports.js'
import { PackBuilder } from './pack/build-pack.js'
import { formatBundleHeader } from './pack/bundle-header.js'
import { emptyTreeId, formatOf, type ObjectFormat } from './objects/object-id.js'
import { describeCommit } from './objects/raw-commit.js'
import { formatWorkTree } from './work-tree.js'
import { entryKind, parseTree, type RawEntry } from './objects/raw-tree.js'

/** Reads commits from objects that the engine has. It needs no repository. */
export const commitReader: CommitReader = {
  async describe(commitId, objects) {
    const commit = await objects.get(commitId)
    return commit?.type === 'commit' ? describeCommit(commit) : undefined
  },

  async findFile(treeId, parts, objects) {
    const format = formatOf(treeId)
    let id = treeId
    for (const [depth, part] of parts.entries()) {
      const name = Buffer.from(part).toString('latin1')
      const entry = (await entriesOf(id, objects, format)).get(name)
      const wanted = depth === parts.length - 1 ? 'file' : 'tree'
      if (entry === undefined || entryKind(entry.mode) !== wanted) return undefined
      id = entry.oid
    }
    const file = parts.length === 0 ? undefined : await objects.get(id)
    return file?.type === 'blob' ? file : undefined
  },

  bundle: writeBundle,

  workTree: formatWorkTree,
}

async function* writeBundle(request: GitBundleRequest): AsyncGenerator<Uint8Array, void> {
  const { commitId, ref, base, objects, signal } = request
  signal?.throwIfAborted()
  const format = formatOf(commitId)
  const slice = new TimeSlice(performance, signal)
  const pack = new PackBuilder(format)
  // Any commits of one session form a chain.
  for (let next: string | undefined = commitId; next !== undefined && next !== base;) {
    const commit = await must(next, 'commit', objects)
    await pack.add(commit)
    const { treeId, parentIds } = describeCommit(commit)
    const [parent] = parentIds
    const before = parent === undefined ? undefined : (await commitReader.describe(parent, objects))?.treeId
    await addTree({ pack, objects, slice, format }, treeId, before)
    next = parent
  }
  yield formatBundleHeader({
    format,
    prerequisites: base === null ? [] : [base],
    refs: new Map([[ref, commitId]]),
  })
  yield* (await pack.finish(slice)).parts
}

interface Addition {
  readonly pack: PackBuilder
  readonly objects: GitObjects
  readonly slice: TimeSlice
  readonly format: ObjectFormat
}

/** Adds a tree and everything below it, without the entries that the tree before it has at the same place. */
async function addTree(addition: Addition, treeId: string, before: string | undefined): Promise<void> {
  const { pack, objects, slice, format } = addition
  const unseen: [treeId: string, before: string | undefined][] = [[treeId, before]]
  for (let pair = unseen.pop(); pair !== undefined; pair = unseen.pop()) {
    const [id, old] = pair
    if (id === old) continue
    const known = old === undefined ? undefined : await entriesOf(old, objects, format)
    await pack.add(await treeObject(id, objects, format))
    for (const [name, { mode, oid }] of await entriesOf(id, objects, format)) {
      const same = known?.get(name)
      const kind = entryKind(mode)
      if (same?.oid === oid || kind === 'gitlink') continue
      if (kind === 'tree')
        unseen.push([oid, same !== undefined && entryKind(same.mode) === 'tree' ? same.oid : undefined])
      else await pack.add(await must(oid, 'blob', objects))
      if (slice.over) await slice.next()
    }
  }
}

async function entriesOf(
  treeId: string,
  objects: GitObjects,
  format: ObjectFormat,
): Promise<Map<string, RawEntry>> {
  const { body } = await treeObject(treeId, objects, format)
  return new Map(parseTree(body, format).map((entry) => [entry.name, entry]))
}

/** Reads a tree. The empty one is not stored. */
async function treeObject(treeId: string, objects: GitObjects, format: ObjectFormat): Promise<GitObject> {
  if (treeId === emptyTreeId(format)) return { oid: treeId, type: 'tree', body: new Uint8Array() }
  return must(treeId, 'tree', objects)
}

async function must(oid: string, type: GitObject['type'], objects: GitObjects): Promise<GitObject> {
  const object = await objects.get(oid)
  if (object?.type === type) return object
  throw new EngineError('GIT_CORRUPT', `the ${type} ${oid}, which a commit of the session needs, is missing`)
}
