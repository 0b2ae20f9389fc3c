import {
  EngineError,
  type GitObject,
  type GitObjects,
  type GitTreeSink,
  type Importer,
  type ImportContext,
  type ImportRequest,
  type ImportResult,
  present,
} from '../../engine/ports.js'
import { gitLimits } from './limits.js'
import { emptyTreeId, formatOf, type ObjectFormat } from './objects/object-id.js'
import { parseCommit, parseTag } from './objects/raw-commit.js'
import { type Repository } from './repository.js'
import { openRepository, type RepositoryOptions } from './open-repository.js'
import { resolveRef } from './resolve-ref.js'
import { containedCommits } from './contained-commits.js'
import { RevisionObjects } from './objects/revision-objects.js'
import { walkTree } from './objects/walk-tree.js'

export function createImporter(options: RepositoryOptions): Importer {
  return { import: (request, sink, context) => importRevision(options, request, sink, context) }
}

interface ReadingContext extends ImportContext {
  /** The amounts that the import has read so far. */
  readonly progress: { bytesTransferred: number; filesProcessed: number }
}

async function importRevision(
  options: RepositoryOptions,
  request: ImportRequest,
  sink: GitTreeSink,
  context: ImportContext,
): Promise<ImportResult> {
  const { objects, signal, transfer } = context
  signal.throwIfAborted()
  const progress = { bytesTransferred: 0, filesProcessed: 0 }
  const repository = await openRepository(request.remote, {
    ...options,
    ...(transfer && { transfer }),
    onBundleBytes: (count) => {
      progress.bytesTransferred += count
      context.onProgress({ ...progress })
    },
  })
  try {
    await repository.authenticate?.(signal)
    const ref = await resolveRef(repository, request.gitRef, signal)
    context.onResolved()
    if (ref === undefined) return await emptyRevision(repository, context)
    const known = await findRoot(ref.target, (oid) => objects.get(oid))
    if (known !== undefined && (await sink.startFrom(known.treeId))) {
      const isImported = context.knownCommits.includes(known.commitId)
      return resultOf(known, isImported ? [] : await containedInKnown(repository, known.commitId, context))
    }
    const { root, contains } = await readRevision(repository, ref.oid, sink, { ...context, progress })
    await objects.flush()
    return resultOf(root, contains)
  } finally {
    await repository.close()
  }
}

/** The pushed commits before one that the engine has from elsewhere, such as from another remote or a commit of a session. */
async function containedInKnown(
  repository: Repository,
  commitId: string,
  context: ImportContext,
): Promise<readonly string[]> {
  const { objects, signal, transfer } = context
  const history = async (sinceSeconds: number): Promise<(oid: string) => Promise<GitObject | undefined>> => {
    const onBytes = (count: number): void => transfer?.received(count)
    const request = { want: commitId, objects, haves: [commitId], signal, onBytes }
    const source = await repository.openObjects(request)
    return (await source.history?.(sinceSeconds)) ?? (() => Promise.resolve(undefined))
  }
  return containedCommits(commitId, { history }, context)
}

async function emptyRevision(repository: Repository, context: ImportContext): Promise<ImportResult> {
  const { objects, signal } = context
  const treeId = emptyTreeId(await repository.format(signal))
  await objects.add({ oid: treeId, type: 'tree', body: new Uint8Array() })
  await objects.flush()
  return { commitId: '', treeId }
}

/**
 * Fetches the objects that the engine lacks, and passes the sink the differences from a tree that the sink
 * has.
 */
async function readRevision(
  repository: Repository,
  want: string,
  sink: GitTreeSink,
  context: ReadingContext,
): Promise<{ readonly root: Root; readonly contains: readonly string[] }> {
  const { objects, signal, progress } = context
  const report = (): void => context.onProgress({ ...progress })
  const bases = await knownCommits(objects, context.knownCommits, formatOf(want))
  const source = await repository.openObjects({
    want,
    objects,
    haves: bases.map(({ oid }) => oid),
    signal,
    onBytes(count) {
      progress.bytesTransferred += count
      context.transfer?.received(count)
      report()
    },
  })
  const revision = new RevisionObjects(objects, source)
  const root = present(await findRoot(want, (oid) => revision.read(oid)), 'the root of a revision')
  const contains = await containedCommits(root.commitId, source, context)
  if (await sink.startFrom(root.treeId)) return { root, contains }
  const base = await firstStart(sink, bases)
  await walkTree({
    objects: revision,
    sink,
    signal,
    treeId: root.treeId,
    base: base === undefined ? undefined : { treeId: base.treeId, objects },
    format: formatOf(root.treeId),
    mtimeMs: root.mtimeMs,
    onFiles(count) {
      progress.filesProcessed = count
      report()
    },
  })
  return { root, contains }
}

interface KnownCommit {
  readonly oid: string
  readonly treeId: string
}

/** The known commits in this object format. The remote may have changed its format since the last import. */
async function knownCommits(
  objects: GitObjects,
  oids: readonly string[],
  format: ObjectFormat,
): Promise<KnownCommit[]> {
  const known: KnownCommit[] = []
  for (const oid of oids.filter((one) => formatOf(one) === format).slice(0, gitLimits.haves)) {
    const commit = await objects.get(oid)
    if (commit?.type === 'commit') known.push({ oid, treeId: parseCommit(commit).tree })
  }
  return known
}

async function firstStart(
  sink: GitTreeSink,
  commits: readonly KnownCommit[],
): Promise<KnownCommit | undefined> {
  for (const commit of commits) if (await sink.startFrom(commit.treeId)) return commit
  return undefined
}

interface Root {
  /** '' for a tree without a commit. */
  readonly commitId: string
  readonly treeId: string
  readonly mtimeMs: number
}

/**
 * Peels annotated tags to a commit with its tree, or to a bare tree. Returns undefined if `read` finds no
 * object.
 */
async function findRoot(
  oid: string,
  read: (oid: string) => Promise<GitObject | undefined>,
): Promise<Root | undefined> {
  let object = await read(oid)
  for (let depth = 0; object?.type === 'tag'; depth++) {
    if (depth === gitLimits.tagDepth) {
      throw new EngineError('GIT_TOO_LARGE', `the tag refers to a chain of over ${gitLimits.tagDepth} tags`, {
        limit: String(gitLimits.tagDepth),
      })
    }
    object = await read(parseTag(object).object)
  }
  if (object === undefined) return undefined
  switch (object.type) {
    case 'commit': {
      const { tree, committerSeconds } = parseCommit(object)
      return { commitId: object.oid, treeId: tree, mtimeMs: committerSeconds * 1000 }
    }
    case 'tree':
      return { commitId: '', treeId: object.oid, mtimeMs: 0 }
    default:
      throw new EngineError('GIT_NOT_A_TREE', 'the ref names a single file, not a commit or a tree', {
        objectId: object.oid,
      })
  }
}

function resultOf({ commitId, treeId }: Root, contains: readonly string[]): ImportResult {
  return { commitId, treeId, ...(contains.length > 0 && { contains }) }
}
