import { EngineError, limits, present, TimeSlice, type PushContext } from '../../engine/ports.js'
import {
  commitReader,
  emptyTreeId,
  formatOf,
  newObjects,
  readPack,
  gitLimits,
  missingBase,
  RevisionObjects,
  walkTree,
  type ObjectFormat,
} from '../git/parts.js'
import { CommitGraph, parentsFirst, type GraphCommit } from './fetch-plan.js'
import { gitServerLimits } from './limits.js'
import { References, type ServedHistory } from './references.js'

/**
 * Reads the pack of a push, checks that the new commit builds on the head and that nothing is missing, and gives the
 * sink the changes of its files.
 */
export async function readPushed(
  commitId: string,
  pack: AsyncIterable<Uint8Array>,
  context: PushContext,
): Promise<void> {
  const { head, objects, signal } = context
  const slice = new TimeSlice(performance, signal)
  const graph = new CommitGraph(objects, head.base, slice)
  const commits = head.commitId === null ? new Set<string>() : await graph.closure([head.commitId])
  const served: ServedHistory = { commits, graph, objects, slice, format: formatOf(commitId) }
  const references = new References()
  try {
    await readObjects(pack, references, context, served.format)
    await checkObjects(commitId, references, context, served)
  } catch (error) {
    // Other errors may reveal an object that the session does not have.
    await references.check(served)
    throw error
  }
  await references.check(served)
  await giveChanges(commitId, context)
}

async function readObjects(
  pack: AsyncIterable<Uint8Array>,
  references: References,
  { objects, signal }: PushContext,
  format: ObjectFormat,
): Promise<void> {
  await readPack(pack, {
    format,
    signal,
    getBase: (oid) => {
      references.need(oid, () => missingBase(oid))
      return objects.get(oid, gitLimits.deltaBytes)
    },
    onObject: (object, baseOid) => {
      if (object.type === 'commit' && object.body.length > gitServerLimits.commitBytes)
        throw tooLarge('bytes in a commit', gitServerLimits.commitBytes)
      references.push(object.oid, baseOid)
      return objects.add(object)
    },
    onBlob: async (chunks, oid, baseOid) => {
      await objects.addBlob(chunks, oid)
      references.push(oid(), baseOid)
    },
  })
}

/** Checks that the commits and everything in them exist. */
async function checkObjects(
  commitId: string,
  references: References,
  context: PushContext,
  served: ServedHistory,
): Promise<void> {
  const { objects, slice, format } = served
  const commits = await newCommits(commitId, { served, references, context })
  const complete = new Set<string>([emptyTreeId(format)])
  for (const id of await parentsFirst(commits, slice)) {
    const { treeId, parents } = present(commits.get(id), 'a pushed commit')
    const [parent] = parents
    const before = parent === undefined ? undefined : (await commitReader.describe(parent, objects))?.treeId
    const options = {
      before,
      isSkipped: (tree: string) => complete.has(tree),
      onBefore: (oid: string) => references.before(oid),
    }
    for await (const { oid, type } of newObjects(served, treeId, options)) {
      if (complete.has(oid)) continue
      references.need(oid, () => missing(type, oid))
      if (type === 'blob' && (await objects.open(oid))?.type !== 'blob') throw missing('blob', oid)
      complete.add(oid)
      if (complete.size > gitLimits.objects) throw tooLarge('objects', gitLimits.objects)
    }
  }
}

/** The part of a commit that is kept. Its message may be long. */
type PushedCommit = Pick<GraphCommit, 'treeId' | 'parents'>

/** The commits that the session does not have. The push must have sent them. */
async function newCommits(
  commitId: string,
  {
    served: { commits, slice },
    references,
    context: { head, objects },
  }: {
    readonly served: ServedHistory
    readonly references: References
    readonly context: PushContext
  },
): Promise<ReadonlyMap<string, PushedCommit>> {
  if (commits.has(commitId)) throw notFastForward()
  const found = new Map<string, PushedCommit>()
  let parents = 0
  const unseen = [commitId]
  let reachesHead = head.commitId === null
  for (let id = unseen.pop(); id !== undefined; id = unseen.pop()) {
    if (id === head.commitId) reachesHead = true
    if (commits.has(id) || found.has(id)) continue
    if (slice.over) await slice.next()
    const commit = references.isPushed(id) ? await commitReader.describe(id, objects) : undefined
    if (commit === undefined) throw id === commitId ? missing('commit', id) : missingHistory(id)
    const { treeId, parentIds } = commit
    found.set(id, { treeId, parents: parentIds })
    if (found.size > gitServerLimits.commits) throw tooLarge('commits', gitServerLimits.commits)
    parents += parentIds.length
    if (parents > gitServerLimits.parents) throw tooLarge('parents of commits', gitServerLimits.parents)
    for (const parent of parentIds) unseen.push(parent)
  }
  if (!reachesHead) throw notFastForward()
  return found
}

async function giveChanges(commitId: string, { head, objects, sink, signal }: PushContext): Promise<void> {
  const commit = await commitReader.describe(commitId, objects)
  if (commit === undefined) throw missing('commit', commitId)
  const before = head.commitId === null ? undefined : await commitReader.describe(head.commitId, objects)
  await walkTree({
    objects: new RevisionObjects(objects, {
      read: (oid) => Promise.reject(missing('object', oid)),
      readBlob: () => Promise.resolve(undefined),
    }),
    sink: {
      directory: (path, attributes) => {
        if (attributes.xattrs !== undefined)
          throw rejected(`${path} is a submodule, which a push cannot add or change`, path)
        return sink.directory(path, attributes)
      },
      file: (path, blobId, attributes) => sink.file(path, blobId, attributes),
      symlink: (path, target, attributes) => sink.symlink(path, target, attributes),
      remove: (path) => sink.remove(path),
    },
    signal,
    treeId: commit.treeId,
    base: before === undefined ? undefined : { treeId: before.treeId, objects },
    format: formatOf(commitId),
    mtimeMs: commit.timestampSeconds * 1000,
    onOmitted: (path, what) => {
      throw rejected(`${path} ${omitted[what]}`, path)
    },
    onFiles: () => undefined,
  })
}

const omitted = {
  name: 'has a name that a session cannot hold: it must be UTF-8',
  target: `is a symlink whose target a session cannot hold: it must be UTF-8 without NUL, with 1 to ${limits.pathBytes} bytes`,
} as const

function rejected(message: string, path: string): EngineError {
  return new EngineError('GIT_PUSH_REJECTED', message, { path, reason: message, remoteMessage: message })
}

function notFastForward(): EngineError {
  return new EngineError(
    'BRANCH_MOVED',
    'non-fast-forward: the pushed commit does not build on the newest commit of the session; fetch first, then merge or rebase',
    { branch: 'main' },
  )
}

function missing(type: string, oid: string): EngineError {
  return new EngineError('GIT_CORRUPT', `the push refers to the ${type} ${oid}, and has no such ${type}`, {
    objectId: oid,
  })
}

function missingHistory(oid: string): EngineError {
  const message = `the push builds on the commit ${oid}, whose history neither the push nor the session has; rebase onto the newest commit of the session instead`
  return new EngineError('GIT_PUSH_REJECTED', message, {
    objectId: oid,
    reason: message,
    remoteMessage: message,
  })
}

function tooLarge(what: string, limit: number): EngineError {
  return new EngineError('GIT_TOO_LARGE', `the push has over ${limit} ${what}`, { limit: String(limit) })
}
