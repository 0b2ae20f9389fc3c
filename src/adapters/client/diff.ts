import type {
  Change,
  ChangedFile,
  Diff,
  DiffCounts,
  DiffFilesOptions,
  DiffPatchOptions,
  DiffStats,
  DiffStatsOptions,
  PublicOf,
} from '../../engine/index.js'
import {
  parseAtCall,
  Shape,
  type OperationRequest,
  type OperationResponse,
} from '../../engine/client-contract.js'
import { copyOf } from './checked.js'
import { pages } from './pages.js'
import type { Given, Transport } from './transport.js'

type DiffRequest = Given<OperationRequest<'diff'>>

type FileOnWire = OperationResponse<'diffFiles'>['files'][number]

const similarityShape = new Shape<{ readonly similarity: number }>({ similarity: true })
const statsFields = { globs: true, renames: true } as const
const statsShape = new Shape<DiffStatsOptions>(statsFields)
const patchShape = new Shape<DiffPatchOptions>({ ...statsFields, context: true })
const filesShape = new Shape<DiffFilesOptions>({ ...statsFields, context: true, hunks: true })

/** The changes from one state to another. Each page compares the states at the time of its request. */
export class RemoteDiff implements PublicOf<Diff> {
  readonly #transport: Transport
  readonly #request: () => DiffRequest

  /**
   * An error that `request` throws is rethrown when the diff is read.
   *
   * @internal
   */
  constructor(transport: Transport, request: () => DiffRequest) {
    this.#transport = transport
    this.#request = parseAtCall(request)
  }

  /**
   * The changes, in manifest order. It requests one page after the other.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the request is invalid
   * @throws {EngineError} SESSION_NOT_FOUND, CHECKPOINT_NOT_FOUND when a state does not exist
   *
   * @example
   * for await (const { change, path } of fork.diff(session)) console.log(change, path)
   */
  [Symbol.asyncIterator](): AsyncGenerator<Change, void, undefined> {
    return pages(async (page) => {
      const { changes, nextPageToken } = await this.#transport.call('diff', { ...this.#request(), ...page })
      return [changes, nextPageToken]
    })
  }

  async paths(): ReturnType<Diff['paths']> {
    const paths = { added: [] as string[], removed: [] as string[], modified: [] as string[] }
    for await (const { path, change } of this) paths[change].push(path)
    return paths
  }

  /**
   * The changed files and symlinks, with the numbers of their changed lines. Like {@link Diff.files}, page by
   * page.
   *
   * @throws {EngineError} INVALID_ARGUMENT, TOO_LARGE when an option is invalid
   *
   * @example
   * for await (const { path, additions, deletions } of fork.diff(session).files()) console.log(path, additions, deletions)
   */
  files(options: DiffFilesOptions = {}): AsyncGenerator<ChangedFile, void, undefined> {
    return this.#files(parseAtCall(() => wireOptions(filesShape.read(options, 'options'))))
  }

  /**
   * The patch of each changed file, which `git apply` accepts. Like {@link Diff.patch}, page by page.
   *
   * @throws {EngineError} INVALID_ARGUMENT, TOO_LARGE when an option is invalid
   *
   * @example
   * for await (const bytes of fork.diff(session).patch()) console.log(new TextDecoder().decode(bytes))
   */
  patch(options: DiffPatchOptions = {}): AsyncGenerator<Uint8Array, void, undefined> {
    const copy = parseAtCall(() => wireOptions(patchShape.read(options, 'options')))
    return patchesOf(this.#files(() => ({ ...copy(), patch: true })))
  }

  /**
   * The numbers of changed files and lines. It requests one page of files after the other.
   *
   * @throws {EngineError} INVALID_ARGUMENT, TOO_LARGE when an option is invalid
   *
   * @example
   * const { files, additions, deletions } = await fork.diff(session).stats()
   */
  async stats(options: DiffStatsOptions = {}): Promise<DiffStats> {
    const sums = { files: 0, additions: 0, deletions: 0, binaryFiles: 0, truncatedFiles: 0 }
    const copy = parseAtCall(() => wireOptions(statsShape.read(options, 'options')))
    for await (const { additions, deletions, isBinary, isTruncated } of this.#files(copy)) {
      sums.files++
      sums.additions += additions
      sums.deletions += deletions
      if (isBinary) sums.binaryFiles++
      if (isTruncated) sums.truncatedFiles++
    }
    return sums
  }

  /**
   * The numbers of changed paths, directories included. It requests one page of changes after the other.
   *
   * @example
   * const { added, removed, modified } = await fork.diff(session).counts()
   */
  async counts(): Promise<DiffCounts> {
    const counts = { added: 0, removed: 0, modified: 0 }
    for await (const { change } of this) counts[change]++
    return counts
  }

  #files(options: () => WireOptions): AsyncGenerator<FileOnWire, void, undefined> {
    return pages(async (page) => {
      const request = { ...this.#request(), ...options(), ...page }
      const { files, nextPageToken } = await this.#transport.call('diffFiles', request)
      return [files, nextPageToken]
    })
  }

  /**
   * Does nothing, because the server holds the states only during each request.
   *
   * @example
   * using diff = fork.diff(session)
   */
  [Symbol.dispose](): void {}
}

type WireOptions = Omit<Given<OperationRequest<'diffFiles'>>, keyof DiffRequest>

/** Copies the options of one call, and writes a similarity in a field of its own. */
function wireOptions({ renames, globs, ...rest }: DiffFilesOptions): WireOptions {
  return {
    ...rest,
    ...(globs !== undefined && { globs: copyOf(globs, 'globs') }),
    ...(renames !== undefined &&
      (typeof renames === 'object' ? similarityShape.readPart(renames, 'renames') : { renames })),
  }
}

async function* patchesOf(files: AsyncIterable<FileOnWire>): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const { patch } of files) if (patch !== undefined && patch.length > 0) yield patch
}
