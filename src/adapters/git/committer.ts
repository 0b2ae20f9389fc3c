import { createHash } from 'node:crypto'
import {
  EngineError,
  isUnsafeName,
  isUnsafeSymlinkName,
  untilAborted,
  TimeSlice,
  type Committer,
  type CommitRequest,
  type GitObject,
  type GitObjects,
  type PathChange,
} from '../../engine/ports.js'
import { gitLimits } from './limits.js'
import { PackBuilder } from './pack/build-pack.js'
import { emptyTreeId, formatOf, objectId, type ObjectFormat } from './objects/object-id.js'
import { addSignature, formatCommit, parseCommit, type CommitFields } from './objects/raw-commit.js'
import { checkBranchName } from './ref-names.js'
import { type Repository } from './repository.js'
import { openRepository, type RepositoryOptions } from './open-repository.js'
import { addChange, createChangeNode, rewriteTree, type Leaf } from './objects/rewrite-tree.js'

/** Signs the text of a commit. The signature is in the form that git stores in the header of the commit. */
export type Sign = (payload: string) => Promise<string>

export interface CommitterOptions extends RepositoryOptions {
  readonly sign: Sign | undefined
}

export function createCommitter(options: CommitterOptions): Committer {
  return { commit: (request) => commit(options, request) }
}

interface CommitIds {
  readonly commitId: string
  readonly treeId: string
}

async function commit(options: CommitterOptions, request: CommitRequest): Promise<CommitIds> {
  const { push, signal } = request
  signal.throwIfAborted()
  const slice = new TimeSlice(performance, signal)
  if (push === undefined) {
    return build({ request, slice, format: knownFormat(request) ?? 'sha1', sign: options.sign })
  }
  checkBranchName(push.branchName)
  const repository = await openRepository(push.remote, options)
  try {
    await repository.authenticate?.(signal)
    return await buildAndPush(repository, { ...request, push }, slice, options.sign)
  } finally {
    await repository.close()
  }
}

async function buildAndPush(
  repository: Repository,
  request: CommitRequest & Required<Pick<CommitRequest, 'push'>>,
  slice: TimeSlice,
  sign: Sign | undefined,
): Promise<CommitIds> {
  const { push, baseTree, signal } = request
  const format = knownFormat(request) ?? (await repository.format(signal))
  const pack = new PackBuilder(format)
  const ref = `refs/heads/${push.branchName}`
  const isTip = async (commitId: string): Promise<boolean> =>
    (await repository.listRefs({ prefixes: [ref], signal })).refs.get(ref) === commitId
  const ids = await build({ request, slice, format, sign, pack, isTip })
  if (ids.commitId === request.existing) return ids
  await push.onCreated?.(ids.commitId)
  await repository.push({
    ref,
    expectedOid: commitOrNull(push.expectedTip, baseTree),
    newOid: ids.commitId,
    pack: await pack.finish(slice),
    signal,
  })
  return ids
}

/**
 * Returns the object format of the base tree, the parent or the expected tip, or undefined if the request has
 * none of them.
 */
function knownFormat({ baseTree, parent, push }: CommitRequest): ObjectFormat | undefined {
  const id = [baseTree, parent, push?.expectedTip].find(
    (given) => given !== null && given !== undefined && given !== '',
  )
  return id == null ? undefined : formatOf(id)
}

interface Build {
  readonly request: CommitRequest
  readonly format: ObjectFormat
  readonly slice: TimeSlice
  readonly sign: Sign | undefined
  /** Collects the objects to push. */
  readonly pack?: PackBuilder
  /** Whether the branch of the remote points to a commit. Absent if there is no push. */
  isTip?(commitId: string): Promise<boolean>
}

/** Creates and stores the objects of the commit, and adds them to the pack. */
async function build(options: Build): Promise<CommitIds> {
  const { request, format, slice, pack } = options
  const { baseTree, objects, signal } = request
  const add: AddObject = async (type, body) => {
    const object: GitObject = { oid: await idOf(type, body, options), type, body }
    await pack?.add(object)
    await objects.add(object)
    signal.throwIfAborted()
    return object.oid
  }
  const changes = createChangeNode()
  for await (const change of request.changes) {
    addChange(changes, change.parts, await leafOf(change, add))
    if (slice.over) await slice.next()
  }

  const treeId = await rewriteTree({
    baseTree,
    format,
    changes,
    slice,
    getTree: async (oid) => {
      const tree = await objects.get(oid)
      if (tree?.type === 'tree') return tree
      throw new EngineError('GIT_CORRUPT', `the tree ${oid} of the base revision is missing`)
    },
    addTree: (body) => add('tree', body),
  })
  const { existing } = request
  if (existing !== undefined && (await treeOf(existing, objects)) === treeId) {
    // Ask the remote only here: nearly every commit changes the tree and needs no request.
    if ((await options.isTip?.(existing)) ?? true) return { commitId: existing, treeId }
  }
  // If the commit has no parent, the remote may lack even the empty tree.
  if (treeId === emptyTreeId(format)) await add('tree', Buffer.alloc(0))
  const { author, timestampSeconds, message, otherParent } = request
  const parent = commitOrNull(request.parent, baseTree)
  const other = otherParent === undefined ? {} : { otherParent }
  const text = await commitText(
    { tree: treeId, parent, ...other, author, timestampSeconds, message },
    options,
  )
  const commitId = await add('commit', Buffer.from(text))
  await objects.flush()
  signal.throwIfAborted()
  return { commitId, treeId }
}

async function treeOf(commitId: string, objects: GitObjects): Promise<string | undefined> {
  const commit = await objects.get(commitId)
  return commit?.type === 'commit' ? parseCommit(commit).tree : undefined
}

async function commitText(fields: CommitFields, { sign, format, request }: Build): Promise<string> {
  const text = formatCommit(fields)
  if (sign === undefined || request.unsigned === true) return text
  return addSignature(text, await untilAborted(sign(text), request.signal), format)
}

/** Hashes large bodies in steps, so that the event loop can run in between. */
async function idOf(type: GitObject['type'], body: Uint8Array, { format, slice }: Build): Promise<string> {
  if (body.length <= gitLimits.hashedBytes) return objectId(type, body, format)
  const hash = createHash(format).update(`${type} ${body.length}\0`)
  for (let at = 0; at < body.length; at += gitLimits.hashedBytes) {
    hash.update(body.subarray(at, at + gitLimits.hashedBytes))
    if (slice.over) await slice.next()
  }
  return hash.digest('hex')
}

/** Adds an object and returns its id. */
type AddObject = (type: GitObject['type'], body: Uint8Array) => Promise<string>

async function leafOf(change: PathChange, add: AddObject): Promise<Leaf> {
  if (change.kind === 'removed') return { kind: 'removed' }
  checkParts(change)
  if (change.kind === 'symlink')
    return { kind: 'symlink', oid: await add('blob', Buffer.from(change.target)) }
  return { kind: 'file', executable: change.executable, oid: await add('blob', await change.read()) }
}

function checkParts({ parts, kind }: PathChange): void {
  const isUnsafe = (name: string, at: number): boolean =>
    kind === 'symlink' && at === parts.length - 1 ? isUnsafeSymlinkName(name) : isUnsafeName(name)
  const unsafe = parts.length === 0 ? '' : parts.find(isUnsafe)
  if (unsafe === undefined) return
  throw new EngineError(
    'GIT_UNSAFE_PATH',
    `git does not allow the name ${JSON.stringify(unsafe)} in a commit`,
    {
      path: `/${parts.join('/')}`,
    },
  )
}

/**
 * Returns null if the id is '' or the id of the base tree. Such a revision has no commit, because it came
 * from an empty repository or a bare tree. It cannot be a parent.
 */
function commitOrNull(id: string | null, baseTree: string | null): string | null {
  return id === '' || id === baseTree ? null : id
}
