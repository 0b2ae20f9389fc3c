import { whenLoaded } from '../base/fault.js'
import { checkSignal } from '../base/abort.js'
import { runInSlices } from '../base/cooperative.js'
import { Shape } from '../base/shape.js'
import type { SessionAccess } from '../session/access/session-access.js'
import { reading } from '../session/core.js'
import { FileEdit, type TextEditRequest, type TextEditResult } from '../session/edits/text-edit.js'
import type { PatchedFile } from '../session/edits/patched-file.js'
import { TextPatch, type PatchRequest } from '../session/edits/text-patch.js'
import { findFile } from '../session/reads/lookup.js'
import { notADirectory, notFound, resolve } from '../session/reads/resolve.js'
import {
  findPaths,
  parseGlobRequest,
  type GlobRequest,
  type GlobResult,
} from '../session/search/find-paths.js'
import { grep } from '../session/search/grep.js'
import { loadMatcher } from '../session/search/line-matcher.js'
import {
  parseGrep,
  type SearchOptions,
  type GrepRequest,
  type GrepResult,
} from '../session/search/grep-request.js'
import {
  parseReadLines,
  readLines,
  type ReadLinesRequest,
  type ReadLinesResult,
} from '../session/search/read-lines.js'
import { Dir, Symlink } from '../tree/node.js'

const optionsShape = new Shape<SearchOptions>({ signal: true })

/**
 * The files of a session as text: read lines, search, edit, and apply patches. These are the operations that coding
 * agents call.
 *
 * Files keep their bytes: line ends, a byte order mark, and bytes that are not UTF-8 stay as they are outside of a
 * change. A change is one event, and takes effect as a whole or not at all. Paths follow the rules of
 * {@link SessionFiles}.
 */
export class SessionText {
  readonly #access: SessionAccess

  /** @internal */
  constructor(access: SessionAccess) {
    this.#access = access
  }

  /**
   * Reads lines by their numbers, with facts about the whole file. The first read of a large file goes through all of
   * it; later ones read only the blocks with the lines.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} IS_A_DIRECTORY when the path is a directory.
   * @throws {EngineError} TOO_LARGE when the file has over 1 GiB.
   *
   * @example
   * const { lines, totalLines } = await session.text.readLines({ path: '/src/a.ts', startLine: 1, endLine: 20 })
   */
  async readLines(request: ReadLinesRequest): Promise<ReadLinesResult> {
    const { core } = this.#access
    const range = parseReadLines(request)
    return this.#access.look('readLines', (live) => {
      const root = live.tree.freeze()
      return reading(core, [root], async () => {
        const file = await whenLoaded(() => findFile({ tree: { root, loader: core.loader } }, range.path))
        return readLines(core, file, range)
      })
    })
  }

  /**
   * Replaces text in a file. The old text must be in the file exactly once, unless `all` is true. The new text is
   * literal. Several edits are one change: each sees the result of those before it, and all take effect or none.
   *
   * In a file with CRLF, LF in an edit means CRLF. With `whitespace: 'tolerant'`, whole lines also match without regard
   * to white space at their ends, and then to their indentation; the new text gets the indentation of the file.
   *
   * @throws {EngineError} NO_MATCH when the old text is not in the file; the error shows the nearest lines.
   * @throws {EngineError} NOT_UNIQUE when the old text is in the file several times; the error has the line numbers.
   * @throws {EngineError} HASH_MISMATCH when the content does not have the `expectedHash`.
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} IS_A_DIRECTORY when the path is a directory.
   * @throws {EngineError} TOO_LARGE when the file has over 16 MiB, or a text over 1 MiB.
   *
   * @example
   * await session.text.edit({ path: '/src/a.ts', oldText: 'const a = 1', newText: 'const a = 2' })
   */
  edit(request: TextEditRequest): Promise<TextEditResult> {
    try {
      const edit = new FileEdit(this.#access.core, request)
      return this.#access.run('editFile', (live) => edit.apply(live))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /**
   * Applies a patch to all of its files as one change. A patch is in the unified format, as `git diff` writes it, or in
   * the format V4A of OpenAI. Unified hunks apply by the rules of `git apply`: at the place nearest to their line where
   * all old lines match. Binary changes need their data and full ids, as `git diff --binary --full-index` writes them.
   * A unified patch can also change symlinks, and replace a directory by a file and back. Directories that it empties
   * are removed.
   *
   * @throws {EngineError} NO_MATCH when a hunk does not match; the error has the file, the hunk and the nearest lines.
   * Also when the old content of a binary change has another id, or a file is a symlink in the patch or the reverse.
   * @throws {EngineError} INVALID_PATCH when the patch is malformed, cut off, or a binary change has no data or damaged
   * data.
   * @throws {EngineError} HASH_MISMATCH when a content does not have its hash in `expectedHashes`.
   * @throws {EngineError} PATH_NOT_FOUND when a file of the patch does not exist.
   * @throws {EngineError} ALREADY_EXISTS when the patch creates a file that exists.
   * @throws {EngineError} IS_A_DIRECTORY when a file of the patch is a directory.
   * @throws {EngineError} TOO_LARGE when the patch has over 4 MiB or 10,000 files, a file has over 16 MiB, or binary
   * changes have over 64 MiB.
   * @throws {EngineError} NAME_TOO_LONG when the target of a symlink has over 4,095 bytes.
   *
   * @example
   * const patch = '--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1 +1 @@\n-export const a = 1\n+export const a = 2\n'
   * const { files } = await session.text.applyPatch({ patch, dryRun: true })
   */
  applyPatch(request: PatchRequest): Promise<{
    /** The changed files, in the order of the patch. */
    files: PatchedFile[]
  }> {
    try {
      const patch = new TextPatch(this.#access.core, request)
      return this.#access.run('applyPatch', (live) => patch.apply(live))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /**
   * Finds paths by globs. Symlinks in the tree are not followed.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the directory does not exist.
   * @throws {EngineError} NOT_A_DIRECTORY when `path` is not a directory.
   * @throws {EngineError} INVALID_ARGUMENT when a glob is malformed.
   *
   * @example
   * const { entries } = await session.text.glob({ patterns: ['src/*.ts'], order: 'modified' })
   */
  async glob(request: GlobRequest, options: SearchOptions = {}): Promise<GlobResult> {
    const { core } = this.#access
    const parsed = parseGlobRequest(request)
    const signal = signalOf(options)
    return this.#access.look('globPaths', (live) => {
      const root = live.tree.freeze()
      return reading(core, [root], async () => {
        const state = { root, loader: core.loader }
        const { node, path } = await whenLoaded(() => resolve(state, parsed.path, true))
        if (node === undefined) throw notFound(parsed.path)
        if (!(node instanceof Dir)) throw notADirectory(parsed.path)
        return runInSlices(findPaths({ ...state, directory: path }, parsed), core.environment, signal)
      })
    })
  }

  /**
   * Searches the text of files. A regular expression takes time in proportion to the text, whatever its form. Binary
   * files, which have a NUL in their first 8,000 bytes, are skipped. The engine remembers the results by content, so
   * that the same search on a fork reads only the files that changed.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the pattern is no regular expression of RE2.
   * @throws {EngineError} PATH_NOT_FOUND when `path` does not exist.
   *
   * @example
   * const { lines } = await session.text.grep({ pattern: 'TODO|FIXME', fileTypes: ['ts'], context: 2 })
   * console.log(formatMatches(lines))
   */
  async grep(request: GrepRequest, options: SearchOptions = {}): Promise<GrepResult> {
    const { core } = this.#access
    const parsed = parseGrep(request)
    const signal = signalOf(options)
    return this.#access.look('grepFiles', (live) => {
      // The state at the time of the call.
      const root = live.tree.freeze()
      return reading(core, [root], async () => {
        await loadMatcher(parsed.query)
        signal?.throwIfAborted()
        const at = await whenLoaded(() => resolve({ root, loader: core.loader }, parsed.path, true))
        const { node, path } = at
        if (node === undefined) throw notFound(parsed.path)
        if (node instanceof Symlink) throw notFound(parsed.path)
        return runInSlices(grep(core, { root, node, path }, parsed), core.environment, signal)
      })
    })
  }
}

function signalOf(options: SearchOptions): AbortSignal | undefined {
  const { signal } = optionsShape.read(options, 'options')
  checkSignal(signal)
  signal?.throwIfAborted()
  return signal
}
