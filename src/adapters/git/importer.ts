import {
  EngineError,
  type GitObject,
  type Importer,
  type ImportContext,
  type ImportRequest,
  type ImportResult,
  type TreeSink,
} from '../../engine/ports.js'
import { gitLimits } from './limits.js'
import { emptyTreeId } from './object-id.js'
import type { ObjectSource } from './object-source.js'
import { parseCommit, parseTag } from './raw-commit.js'
import { openRepository, type RepositoryOptions } from './repository.js'
import { resolveRef } from './resolve-ref.js'
import { walkTree } from './walk-tree.js'

export function createImporter(options: RepositoryOptions): Importer {
  return { import: (request, sink, context) => importRevision(options, request, sink, context) }
}

async function importRevision(
  options: RepositoryOptions,
  request: ImportRequest,
  sink: TreeSink,
  context: ImportContext,
): Promise<ImportResult> {
  const { signal } = context
  signal.throwIfAborted()
  const objects = new ObjectBatch(context)
  const repository = await openRepository(request.remote, options)
  try {
    const want = await resolveRef(repository, request.gitRef, signal)
    if (want === undefined) {
      await objects.add({ oid: emptyTreeId, type: 'tree', body: new Uint8Array() })
      await objects.flush()
      return { revisionId: '', treeId: emptyTreeId }
    }
    const progress = { bytesProcessed: 0, filesProcessed: 0 }
    const onBytes = (count: number): void => {
      progress.bytesProcessed += count
      context.onProgress({ ...progress })
    }
    const source = await repository.openObjects({ want, signal, onBytes })
    const root = await findRoot(source, want)
    await walkTree({
      source,
      sink,
      signal,
      treeId: root.treeId,
      mtimeMs: root.mtimeMs,
      onTree: (tree) => objects.add(tree),
      onFiles: (count) => {
        progress.filesProcessed = count
        context.onProgress({ ...progress })
      },
    })
    if (root.commit !== undefined) await objects.add(root.commit)
    await objects.flush()
    return { revisionId: root.commit?.oid ?? root.treeId, treeId: root.treeId }
  } finally {
    repository.close()
  }
}

interface Root {
  readonly commit: GitObject | undefined
  readonly treeId: string
  readonly mtimeMs: number
}

/** Peels annotated tags down to a commit and its tree, or to a tree. */
async function findRoot(source: ObjectSource, want: string): Promise<Root> {
  let object = await source.read(want)
  for (let depth = 0; object.type === 'tag'; depth++) {
    if (depth === gitLimits.tagDepth) {
      throw new EngineError('GIT_TOO_LARGE', `the tag is nested over ${gitLimits.tagDepth} levels`, {
        limit: String(gitLimits.tagDepth),
      })
    }
    object = await source.read(parseTag(object).object)
  }
  if (object.type === 'commit') {
    const { tree, committerSeconds } = parseCommit(object)
    return { commit: object, treeId: tree, mtimeMs: committerSeconds * 1000 }
  }
  if (object.type === 'tree') return { commit: undefined, treeId: object.oid, mtimeMs: 0 }
  throw new EngineError('GIT_NOT_A_TREE', 'the ref names a single file, no commit and no tree', {
    objectId: object.oid,
  })
}

/** Raw objects on their way to the engine's store, in batches. */
class ObjectBatch {
  readonly #context: ImportContext
  #objects: GitObject[] = []
  #bytes = 0

  constructor(context: ImportContext) {
    this.#context = context
  }

  async add(object: GitObject): Promise<void> {
    this.#objects.push(object)
    this.#bytes += object.body.length
    if (this.#objects.length >= gitLimits.putObjects || this.#bytes >= gitLimits.putBytes) await this.flush()
  }

  async flush(): Promise<void> {
    if (this.#objects.length === 0) return
    const objects = this.#objects
    this.#objects = []
    this.#bytes = 0
    await this.#context.objects.put(objects)
  }
}
