import {
  EngineError,
  type Committer,
  type CommitRequest,
  type GitObject,
  type PathChange,
} from '../../engine/ports.js'
import { PackBuilder } from './build-pack.js'
import { emptyTreeId, objectId } from './object-id.js'
import { createPacer, type Pacer } from './pacer.js'
import { formatCommit } from './raw-commit.js'
import { checkBranchName } from './ref-names.js'
import { openRepository, type RepositoryOptions } from './repository.js'
import { addChange, createChangeNode, rewriteTree, type Leaf } from './rewrite-tree.js'
import { isUnsafeName } from './tree-names.js'

export function createCommitter(options: RepositoryOptions): Committer {
  return { commit: (request) => commit(options, request) }
}

interface CommitIds {
  readonly commitId: string
  readonly treeId: string
}

async function commit(options: RepositoryOptions, request: CommitRequest): Promise<CommitIds> {
  const { push, signal } = request
  signal.throwIfAborted()
  const pacer = createPacer(signal)
  if (push === undefined) return build(request, pacer, undefined)
  checkBranchName(push.branchName)
  const repository = await openRepository(push.remote, options)
  try {
    const pack = new PackBuilder()
    const ids = await build(request, pacer, pack)
    await repository.push({
      ref: `refs/heads/${push.branchName}`,
      expectedOid: commitOrNull(push.expectedTip, request.baseTree),
      newOid: ids.commitId,
      pack: await pack.finish(pacer),
      signal,
    })
    return ids
  } finally {
    repository.close()
  }
}

/** Makes the objects, all of them for the pack, and stores commit and trees. */
async function build(
  request: CommitRequest,
  pacer: Pacer,
  pack: PackBuilder | undefined,
): Promise<CommitIds> {
  const { baseTree, objects, signal } = request
  const changes = createChangeNode()
  for await (const change of request.changes) {
    addChange(changes, change.parts, await leafOf(change, pack))
    if (pacer.due()) await pacer.rest()
  }

  const stored: GitObject[] = []
  const add = async (type: 'commit' | 'tree', body: Buffer): Promise<string> => {
    const object = toObject(type, body)
    stored.push(object)
    await pack?.add(object)
    return object.oid
  }
  const treeId = await rewriteTree({
    baseTree,
    changes,
    pacer,
    getTree: async (oid) => {
      const tree = await objects.get(oid)
      if (tree?.type === 'tree') return tree
      throw new EngineError('GIT_CORRUPT', `the tree ${oid} of the base revision is missing`)
    },
    addTree: (body) => add('tree', body),
  })
  const { author, timestampSeconds, message } = request
  const parent = commitOrNull(request.parent, baseTree)
  // Without a parent the remote may lack even the empty tree.
  if (treeId === emptyTreeId && stored.length === 0) await add('tree', Buffer.alloc(0))
  const commitId = await add(
    'commit',
    formatCommit({ tree: treeId, parent, author, timestampSeconds, message }),
  )
  signal.throwIfAborted()
  await objects.put(stored)
  return { commitId, treeId }
}

async function leafOf(change: PathChange, pack: PackBuilder | undefined): Promise<Leaf> {
  if (change.kind === 'removed') return { kind: 'removed' }
  checkParts(change.parts)
  const body = change.kind === 'file' ? await change.read() : Buffer.from(change.target)
  const blob = toObject('blob', body)
  await pack?.add(blob)
  return change.kind === 'file'
    ? { kind: 'file', executable: change.executable, oid: blob.oid }
    : { kind: 'symlink', oid: blob.oid }
}

function checkParts(parts: readonly string[]): void {
  const unsafe = parts.length === 0 ? '' : parts.find(isUnsafeName)
  if (unsafe === undefined) return
  throw new EngineError('GIT_UNSAFE_PATH', `git must not hold the name ${JSON.stringify(unsafe)}`, {
    path: `/${parts.join('/')}`,
  })
}

/** A revision without a commit, of an empty repository or of a bare tree, starts a history: it is no parent. */
function commitOrNull(id: string | null, baseTree: string | null): string | null {
  return id === '' || id === baseTree ? null : id
}

function toObject(type: GitObject['type'], body: Uint8Array): GitObject {
  return { oid: objectId(type, body), type, body }
}
