import { EngineError, TimeSlice, type CommitReader, type GitBundleRequest } from '../../engine/ports.js'
import { gitLimits } from './limits.js'
import { PackBuilder } from './pack/build-pack.js'
import { formatBundleHeader } from './pack/bundle-header.js'
import { entriesOf, mustGet, newObjects, treeObject } from './objects/new-objects.js'
import { formatOf } from './objects/object-id.js'
import { describeCommit } from './objects/raw-commit.js'
import { RevisionObjects } from './objects/revision-objects.js'
import { walkTree } from './objects/walk-tree.js'
import { formatWorkTree } from './work-tree.js'
import { entryKind } from './objects/raw-tree.js'

/** Reads commits from objects that the engine has. It needs no repository. */
export const commitReader: CommitReader = {
  async describe(commitId, objects) {
    const commit = await objects.get(commitId, gitLimits.structureBytes)
    return commit?.type === 'commit' ? describeCommit(commit) : undefined
  },

  async findFile(treeId, parts, objects) {
    const format = formatOf(treeId)
    let id = treeId
    for (const [depth, part] of parts.entries()) {
      const name = Buffer.from(part).toString('latin1')
      const entry = (await entriesOf(id, { objects, format })).get(name)
      const wanted = depth === parts.length - 1 ? 'file' : 'tree'
      if (entry === undefined || entryKind(entry.mode) !== wanted) return undefined
      id = entry.oid
    }
    const file = parts.length === 0 ? undefined : await objects.get(id)
    return file?.type === 'blob' ? file : undefined
  },

  async readTree({ treeId, baseTreeId, sink, objects, mtimeMs }) {
    await walkTree({
      objects: new RevisionObjects(objects, {
        read: (oid) => Promise.reject(missingObject(oid)),
        readBlob: () => Promise.resolve(undefined),
      }),
      sink,
      signal: new AbortController().signal,
      treeId,
      base: baseTreeId === undefined ? undefined : { treeId: baseTreeId, objects },
      format: formatOf(treeId),
      mtimeMs,
      onFiles: () => undefined,
    })
  },

  bundle: writeBundle,

  workTree: formatWorkTree,
}

function missingObject(oid: string): EngineError {
  return new EngineError('GIT_CORRUPT', `the git object ${oid} of a commit is missing`, { objectId: oid })
}

async function* writeBundle(request: GitBundleRequest): AsyncGenerator<Uint8Array, void> {
  const { commitId, ref, base, objects, signal } = request
  signal?.throwIfAborted()
  const format = formatOf(commitId)
  const slice = new TimeSlice(performance, signal)
  const pack = new PackBuilder(format)
  let isOnBase = false
  const seen = new Set<string>()
  // A client may have pushed merges, so the commits are no chain.
  const unseen = [commitId]
  for (let id = unseen.pop(); id !== undefined; id = unseen.pop()) {
    if (id === base) isOnBase = true
    if (id === base || seen.has(id)) continue
    seen.add(id)
    const commit = await mustGet(id, 'commit', objects)
    await pack.add(commit)
    const { treeId, parentIds } = describeCommit(commit)
    const [parent] = parentIds
    const before = parent === undefined ? undefined : (await commitReader.describe(parent, objects))?.treeId
    const from = { objects, slice, format }
    for await (const { oid, type } of newObjects(from, treeId, { before }))
      await pack.add(type === 'tree' ? await treeObject(oid, from) : await mustGet(oid, 'blob', objects))
    for (const one of parentIds) unseen.push(one)
  }
  yield formatBundleHeader({
    format,
    prerequisites: base !== null && isOnBase ? [base] : [],
    refs: new Map([[ref, commitId]]),
  })
  yield* (await pack.finish(slice)).parts
}
