import { engineClosed, invalid } from '../../base/errors.js'
import { parseFlag } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import {
  encodePageToken,
  pageNames,
  parsePageSize,
  parsePageToken,
  type PageRequest,
} from '../../base/paging.js'
import { parseAtCall, Shape } from '../../base/shape.js'
import type { Dir } from '../../tree/node.js'
import type { Core } from '../core.js'
import { ChangeList, describeChange, treeChanges, type Change } from '../tree-changes.js'
import {
  changedFiles,
  describeFile,
  sumFiles,
  type ChangedFile,
  type DiffCounts,
  type DiffStats,
} from './changed-file.js'
import { ContentComparison } from './content-change.js'
import { fileChanges, type ComparedRoots, type FileChange } from './file-changes.js'
import { patches, patchOf } from './file-patch.js'
import {
  parseDiffFiles,
  parseDiffPatch,
  parseDiffStats,
  type DiffFilesOptions,
  type DiffPatchOptions,
  type DiffRules,
  type DiffStatsOptions,
} from './options.js'

/**
 * A state that is protected from collections until its pin is disposed of, or until JavaScript frees this
 * object.
 */
export interface PinnedRoot {
  readonly root: Dir
  readonly pin: Disposable
}

let fileChangesOf: (diff: Diff, rules: DiffRules) => AsyncGenerator<FileChange, void, undefined>
let coreOf: (diff: Diff) => Core

/**
 * The changes from one state to another, in manifest order.
 *
 * They are computed while they are read, and equal subtrees cost nothing. The states are those at the time of
 * the call, without later writes.
 *
 * A diff can be read several times. `engine.collect()` therefore keeps the contents of both states until the
 * diff is disposed of, or until JavaScript's garbage collection frees it. `using diff = session.diff()`
 * disposes of it at the end of the block.
 */
export class Diff implements AsyncIterable<Change>, Disposable {
  readonly #core: Core
  readonly #states: Promise<readonly [before: PinnedRoot, after: PinnedRoot]>
  #isDisposed = false

  static {
    fileChangesOf = (diff, rules) => diff.#read((core, roots) => fileChanges(core, roots, rules))
    coreOf = (diff) => diff.#core
  }

  /** @internal */
  constructor(core: Core, states: Promise<readonly [before: PinnedRoot, after: PinnedRoot]>) {
    this.#core = core
    this.#states = states
    // The reader of the diff gets the error; a diff that is not read causes no unhandled rejection.
    states.catch(() => undefined)
  }

  /**
   * The changes one by one, in the order of the manifest. Each iteration computes them again.
   *
   * @throws {EngineError} INVALID_ARGUMENT when a reference has the wrong form, or after the diff was
   * disposed of.
   * @throws {EngineError} SESSION_NOT_FOUND when a session does not exist.
   * @throws {EngineError} CHECKPOINT_NOT_FOUND when a session has no such checkpoint.
   * @throws {EngineError} EVENT_NOT_FOUND when a session has no such event, or did not exist at that time.
   * @throws {EngineError} STATE_NOT_KEPT when a state is no longer kept.
   *
   * @example
   * for await (const { change, path } of fork.diff(session)) console.log(change, path)
   */
  [Symbol.asyncIterator](): AsyncGenerator<Change, void, undefined> {
    return this.#read(changes)
  }

  /**
   * All paths that differ, by the kind of change. The errors are those of the iteration.
   *
   * @example
   * const { added, removed, modified } = await session.diff().paths()
   */
  async paths(): Promise<{
    /** Paths that only the second state has. */
    added: string[]
    /** Paths that only the first state has. */
    removed: string[]
    /** Paths that both states have, with another content, target or mode. */
    modified: string[]
  }> {
    const paths = { added: [] as string[], removed: [] as string[], modified: [] as string[] }
    for await (const { path, change } of this) paths[change].push(path)
    return paths
  }

  /**
   * The changed files and symlinks, in the order of the manifest, with the numbers of their changed lines.
   * Directories are left out. A renamed file is listed once, at its new path. Each content is read when the
   * iteration reaches its file, and each iteration reads it again.
   *
   * A file over 8 MiB, or after 1 GiB of contents, is `isTruncated`: its lines are not compared.
   *
   * @throws {EngineError} INVALID_ARGUMENT, TOO_LARGE when an option is invalid, at the first read.
   *
   * @example
   * for await (const { path, additions, deletions, hunks } of session.diff().files({ hunks: true })) {
   *   console.log(path, additions, deletions)
   *   for (const { lines } of hunks ?? []) console.log(lines.join('\n'))
   * }
   */
  files(options: DiffFilesOptions = {}): AsyncGenerator<ChangedFile, void, undefined> {
    const rules = parseAtCall(() => parseDiffFiles(options))
    return this.#read((core, roots) => changedFiles(core, roots, rules()))
  }

  /**
   * The patch of each changed file, which `git apply` accepts: added, removed, renamed and binary files,
   * modes and symlinks. Its lines have the exact bytes of the files. Changes that git does not store, such as
   * directories and extended attributes, have no patch. A truncated file has a line that says that it
   * differs, and `git apply` refuses that patch.
   *
   * @throws {EngineError} INVALID_ARGUMENT, TOO_LARGE when an option is invalid, at the first read.
   *
   * @example
   * for await (const bytes of fork.diff(session).patch()) console.log(new TextDecoder().decode(bytes))
   */
  patch(options: DiffPatchOptions = {}): AsyncGenerator<Uint8Array, void, undefined> {
    const rules = parseAtCall(() => parseDiffPatch(options))
    return this.#read((core, roots) => patches(core, roots, rules()))
  }

  /**
   * The numbers of changed files and lines. It reads the contents of all changed files.
   *
   * @throws {EngineError} INVALID_ARGUMENT, TOO_LARGE when an option is invalid.
   *
   * @example
   * const { files, additions, deletions } = await session.diff().stats()
   */
  stats(options: DiffStatsOptions = {}): Promise<DiffStats> {
    const rules = parseAtCall(() => parseDiffStats(options))
    return sumFiles(this.#read((core, roots) => changedFiles(core, roots, rules())))
  }

  /**
   * The numbers of changed paths, directories included. It reads no contents of files. The errors are those of
   * the iteration.
   *
   * @example
   * const { added, removed, modified } = await session.diff().counts()
   */
  async counts(): Promise<DiffCounts> {
    const counts = { added: 0, removed: 0, modified: 0 }
    for await (const { change } of this) counts[change]++
    return counts
  }

  async *#read<T>(
    read: (core: Core, roots: ComparedRoots) => AsyncGenerator<T, void, undefined>,
  ): AsyncGenerator<T, void, undefined> {
    if (this.#isDisposed) throw invalid('diff', 'was disposed: create another diff')
    if (this.#core.table.isClosed) throw engineClosed()
    const [before, after] = await this.#states
    yield* read(this.#core, { before: before.root, after: after.root })
  }

  /**
   * Releases both states, so that `engine.collect()` can free their contents. A running iteration continues
   * to its end. A later one rejects with INVALID_ARGUMENT. Further calls do nothing.
   *
   * @example
   * using diff = session.diff()
   * for await (const { path } of diff) console.log(path)
   */
  [Symbol.dispose](): void {
    this.#isDisposed = true
    void this.#states.then(
      (states) => {
        for (const { pin } of states) pin[Symbol.dispose]()
      },
      () => undefined,
    )
  }
}

export interface ChangePage {
  readonly changes: Change[]
  readonly nextPageToken: string
}

/**
 * A page of a diff, which this disposes of. Each page is computed from the states at the time of its request,
 * and its position counts from their first change.
 */
export async function listChanges(diff: Diff, name: string, request: PageRequest): Promise<ChangePage> {
  try {
    const pageSize = parsePageSize(request.pageSize)
    const start = Number(parsePageToken(name, request.pageToken) ?? 0)
    const list = new ChangeList(pageSize)
    const { changes } = list
    let index = 0
    for await (const change of diff) {
      if (index++ < start || list.add(change)) continue
      return { changes, nextPageToken: encodePageToken(name, String(start + changes.length)) }
    }
    return { changes, nextPageToken: '' }
  } finally {
    diff[Symbol.dispose]()
  }
}

/** A page of changed files. */
export interface ChangedFilesRequest extends PageRequest, DiffFilesOptions {
  /** true: each file has its patch. */
  readonly patch?: boolean
}

export interface ChangedFilePage {
  readonly files: (ChangedFile & { readonly patch?: Uint8Array })[]
  readonly nextPageToken: string
}

const pageFields = {
  ...pageNames,
  patch: true,
  globs: true,
  renames: true,
  context: true,
  hunks: true,
} as const
const changedFilesShape = new Shape<ChangedFilesRequest>(pageFields)

/**
 * A page of the changed files of a diff, which this disposes of. It ends early after many bytes of contents.
 * See {@link listChanges} for the position.
 */
export async function listChangedFiles(
  diff: Diff,
  name: string,
  request: ChangedFilesRequest,
): Promise<ChangedFilePage> {
  try {
    const { pageSize: size, pageToken, patch, ...options } = changedFilesShape.read(request)
    const rules = parseDiffFiles(options)
    const withPatch = parseFlag('patch', patch, false)
    const pageSize = parsePageSize(size)
    const listing = `files ${name} ${JSON.stringify([options.globs, options.renames])}`
    const start = Number(parsePageToken(listing, pageToken) ?? 0)
    const core = coreOf(diff)
    const contents = new ContentComparison(core)
    const files: ChangedFilePage['files'] = []
    let index = 0
    for await (const change of fileChangesOf(diff, rules)) {
      if (index++ < start) continue
      if (files.length === pageSize || contents.bytesRead > limits.diffPageBytes)
        return { files, nextPageToken: encodePageToken(listing, String(start + files.length)) }
      const content = await contents.compare(change)
      const file = await describeFile(core, change, { content, rules })
      files.push(
        withPatch
          ? { ...file, patch: await patchOf(core, change, { content, context: rules.context }) }
          : file,
      )
    }
    return { files, nextPageToken: '' }
  } finally {
    diff[Symbol.dispose]()
  }
}

async function* changes(
  core: Core,
  { before, after }: ComparedRoots,
): AsyncGenerator<Change, void, undefined> {
  for await (const change of treeChanges(core, before, after)) yield describeChange(change)
}
