import { untilAborted } from '../../base/abort.js'
import { sha256 } from '../../base/hash.js'
import { isBytes } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { ContentWriter, type ContentIn } from '../../cas/content-writer.js'
import { addFiles, saveBaseline } from '../../session/baselines.js'
import type { Core } from '../../session/core.js'
import { TreeBuilder } from '../../session/tree-builder.js'
import { countTree, type CountedTree } from '../../session/usage/tree-counts.js'
import type { TreeCounts } from '../../records/baseline.js'
import { keys } from '../../storage/keys.js'
import type { Dir } from '../../tree/node.js'
import { GitObjectStore, type MemoryGitObjects } from './git-objects.js'
import type { GitRemote, Importer } from './git-ports.js'
import { GitTreeBuilder } from './git-trees.js'
import type { Host } from './host-ports.js'
import { HostIndexRecords } from './host-index.js'
import type { JobRecords } from './job-records.js'
import type { JobContext, JobProgress } from './jobs.js'
import type { Archives, ReadContext } from './source-ports.js'
import type { CountedBaseline, RevisionRecord } from '../../records/revision.js'
import type { SourceRecord } from '../../records/source.js'
import type { ImportInput } from './source-requests.js'
import {
  containedCommitsKey,
  pushedCommitsKey,
  pushedCommitsRecord,
  readCommitIds,
  readPushedCommits,
  type PushedCommit,
} from './commit-ids.js'

/** The readers of sources, loaded on first use. */
export interface ImportPorts {
  readonly importer: () => Promise<Importer>
  readonly archives: () => Promise<Archives>
  readonly host: () => Promise<Host>
  /** The git objects of a store that keeps none. */
  readonly gitObjects: MemoryGitObjects | undefined
}

/** A tree that was read, stored and counted, and the records to be stored together with its revision. */
export interface Imported extends JobRecords {
  readonly revisionId: string
  readonly baseline: CountedBaseline
  readonly git?: NonNullable<RevisionRecord['revision']>['git']
  readonly root: Dir
  /** The fields of the source's record that the import changes. */
  readonly source?: Partial<SourceRecord>
}

/** Reads the content that an import requests, according to the kind of the source. */
export async function importTree(
  core: Core,
  ports: ImportPorts,
  source: SourceRecord,
  input: ImportInput,
  context: JobContext,
  findRevision: (revisionId: string) => Promise<RevisionRecord | undefined>,
): Promise<Imported> {
  if ('remote' in input) return importGit(core, ports, source, input, context, findRevision)
  if ('path' in input) return scanHost(core, ports, source, input.path, context, findRevision)
  const builder = new TreeBuilder(core)
  if ('files' in input) {
    await addFiles(core, builder, input.files)
    context.onProgress({ ...processed(builder), bytesTransferred: builder.given.bytes })
  } else {
    const { content } = input
    const archives = await ports.archives()
    await fromOutside(context, builder.writer, () =>
      archives.read(incoming(content, context), builder, readContext(context, builder)),
    )
  }
  return finished(core, builder)
}

async function importGit(
  core: Core,
  ports: ImportPorts,
  source: SourceRecord,
  { remote, gitRef }: { readonly remote: GitRemote; readonly gitRef: string },
  context: JobContext,
  findRevision: (revisionId: string) => Promise<RevisionRecord | undefined>,
): Promise<Imported> {
  const writer = new ContentWriter(core)
  const objects = new GitObjectStore(core, writer, ports.gitObjects)
  const trees = new GitTreeBuilder(core, objects, writer)
  const knownKey = keys.knownCommits(core.tenantKey, remoteId(source, remote))
  const latest = source.latestRevisionId === '' ? undefined : await findRevision(source.latestRevisionId)
  const lastCommit = latest?.revision?.git?.commitId
  const known = new Set(await readCommitIds(core, knownKey))
  const knownCommits = [...new Set([...(lastCommit === undefined ? [] : [lastCommit]), ...known])]
  let pushed: readonly PushedCommit[] = []
  const pushedCommits = async (): Promise<readonly string[]> => {
    pushed = await readPushedCommits(core, pushedCommitsKey(core, remote))
    return pushed.map((one) => one.commitId)
  }
  const importer = await ports.importer()
  const { bundle } = remote
  const read = bundle === undefined ? remote : { ...remote, bundle: incoming(bundle, context) }
  const { commitId, treeId, contains } = await fromOutside(context, writer, () =>
    importer.import({ remote: read, gitRef }, trees, {
      ...readContext(context, trees),
      onResolved: context.onResolved,
      objects,
      knownCommits: knownCommits.slice(0, limits.knownCommits),
      pushedCommits,
    }),
  )
  const { baseline, root, put } = await trees.finish(treeId)
  const newest = [...new Set([commitId, ...known])].slice(0, limits.knownCommits)
  const learned = commitId !== '' && [...known][0] !== commitId
  const containedKey = containedCommitsKey(core, commitId)
  // Another remote may have given the same commit.
  const contained = contains && [
    ...pushed.filter((one) => contains.includes(one.commitId)),
    ...(await readPushedCommits(core, containedKey)),
  ]
  // An empty repository, or a tag of a tree, has no commit. The id of its revision is then the hash of the
  // tree.
  return {
    revisionId: commitId === '' ? baseline.fingerprint : commitId,
    baseline,
    root,
    put: [
      ...put,
      ...(learned ? [[knownKey, newest] as const] : []),
      ...(contained === undefined ? [] : [[containedKey, pushedCommitsRecord(contained)] as const]),
    ],
    del: [],
    ...(commitId !== '' && { git: { commitId, treeId } }),
  }
}

/**
 * The id of a remote, for its known commits. Sources with the same remote share it; a bundle's id is that of
 * its source.
 */
function remoteId({ sourceId }: SourceRecord, { remoteUrl, repositoryPath }: GitRemote): string {
  return sha256(
    JSON.stringify([remoteUrl ?? '', repositoryPath ?? '', remoteUrl ?? repositoryPath ?? sourceId]),
  )
}

/** Starts from the tree and the index of the last scan, so that only changed files are read. */
async function scanHost(
  core: Core,
  ports: ImportPorts,
  source: SourceRecord,
  path: string,
  context: JobContext,
  findRevision: (revisionId: string) => Promise<RevisionRecord | undefined>,
): Promise<Imported> {
  const { scannedRevisionId } = source
  const last = scannedRevisionId === undefined ? undefined : await findRevision(scannedRevisionId)
  const start = last === undefined ? undefined : core.roots.load(last.root)
  const index = new HostIndexRecords(core, keys.scanPlace(source.sourceId), start !== undefined)
  const builder = new TreeBuilder(core, start)
  const host = await ports.host()
  // A later call may expect changes that are made from now on, so it must not share this scan.
  context.onResolved()
  await fromOutside(context, builder.writer, () =>
    host.scan({ path }, builder, { ...readContext(context, builder), index }),
  )
  const imported = await finished(core, builder, start && { root: start, counts: last?.counts })
  const { put, del } = index.records()
  return { ...imported, put, del, source: { scannedRevisionId: imported.revisionId } }
}

async function finished(core: Core, builder: TreeBuilder, before?: CountedTree): Promise<Imported> {
  const [saved, root] = await saveBaseline(core, await builder.finish())
  const baseline = { ...saved, counts: await countTree(core, root, before) }
  return { revisionId: baseline.fingerprint, baseline, root, put: [], del: [] }
}

/**
 * Calls an adapter, which reads from third parties that may hang for ever. An abort ends the wait at once.
 * The adapter can then store nothing more.
 */
async function fromOutside<T>(
  { signal }: JobContext,
  writer: ContentWriter,
  read: () => Promise<T>,
): Promise<T> {
  signal.throwIfAborted()
  try {
    return await untilAborted(read(), signal)
  } catch (error) {
    await writer.stop(error)
    throw error
  }
}

/** The content of an upload. The sender may stop sending, so the rate is checked. */
function incoming(content: ContentIn, { signal, transfer }: JobContext): ContentIn {
  return isBytes(content) ? content : transfer.pieces(content, signal)
}

function readContext(
  { signal, transfer, onProgress }: JobContext,
  builder: { given: TreeCounts },
): ReadContext {
  return {
    signal,
    transfer,
    onProgress: ({ bytesTransferred }) => onProgress({ ...processed(builder), bytesTransferred }),
  }
}

function processed({
  given: { files, bytes },
}: {
  given: TreeCounts
}): Omit<JobProgress, 'bytesTransferred'> {
  return { filesProcessed: files, bytesProcessed: bytes }
}
