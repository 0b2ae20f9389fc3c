import { invalid } from '../base/errors.js'
import { kindOf, readEntries, shown } from '../base/input.js'
import { joinPath, parsePath } from '../base/path.js'
import { TimeSlice } from '../base/cooperative.js'
import { toBytes } from '../cas/staging.js'
import type { Dir } from '../tree/node.js'
import type { Core } from './core.js'
import { manifestHash } from './reads/manifest.js'
import type { Baseline } from '../records/baseline.js'
import { emptyDirectory, TreeBuilder } from './tree-builder.js'
import type { FileContent } from './edits/writes.js'

/** The empty tree that all blank sessions of an engine share. */
export class BlankBaseline {
  #saved: Promise<[Baseline, Dir]> | undefined
  #pin: Disposable | undefined
  /** See `losses` of a store. */
  #losses: number | undefined

  get(core: Core): Promise<[Baseline, Dir]> {
    const losses = core.store.losses?.()
    // The store may have lost the tree since.
    if (this.#saved === undefined || this.#losses !== losses) {
      const root = emptyDirectory(core)
      this.#pin?.[Symbol.dispose]()
      this.#pin = core.pins.pin({ roots: [root] })
      this.#losses = losses
      this.#saved = saveBaseline(core, root)
      // If the tree could not be stored, the next call builds it again.
      const saved = this.#saved
      saved.catch(() => {
        if (this.#saved === saved) this.#saved = undefined
      })
    }
    return this.#saved
  }
}

/** Stores a tree of paths and contents as a baseline. Missing parents are created. */
export async function filesBaseline(core: Core, files: readonly CopiedFile[]): Promise<[Baseline, Dir]> {
  await core.store.counted?.()
  const placed = await placeFiles(core, files, 'files')
  const builder = new TreeBuilder(core)
  await addFiles(core, builder, placed)
  return saveBaseline(core, await builder.finish())
}

/** A path and its new content. */
export type CopiedFile = readonly [path: string, content: string | Uint8Array]

/**
 * Copies paths and contents, so that later changes to the caller's bytes have no effect.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the files have the wrong form.
 */
export function copyFiles(files: Readonly<Record<string, FileContent>>, field: string): CopiedFile[] {
  const expected = 'must be an object of paths and contents, such as { "/a.txt": "hello" }'
  return readEntries(field, files, expected).map(([path, content]) => [
    path,
    typeof content === 'string' ? content : new Uint8Array(contentOf(path, content, field)),
  ])
}

function contentOf(path: string, content: unknown, field: string): Uint8Array {
  const name = `${field}[${JSON.stringify(shown(path))}]`
  // As in other libraries, a directory could be an object of its files.
  if (kindOf(content) === 'an object')
    throw invalid(
      name,
      'must be a string or a Uint8Array; it is an object. For a file in a directory, pass its whole path, such as "/src/a.ts"; for JSON, pass JSON.stringify(value)',
    )
  return toBytes(content, name)
}

/**
 * Checks that the paths of files form a tree. Returns the files with their paths in normal form.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the paths cannot form a tree.
 * @throws {EngineError} NAME_TOO_LONG when a path or name is too long.
 */
export async function placeFiles(
  core: Core,
  files: Iterable<CopiedFile>,
  field: string,
): Promise<CopiedFile[]> {
  const placed: CopiedFile[] = []
  const paths = new Set<string>()
  const directories = new Set<string>()
  const slice = new TimeSlice(core.environment)
  for (const [given, content] of files) {
    if (slice.over) await slice.next()
    const names = namesOf(given, field)
    if (names.length === 0) throw invalid(field, 'the root is a directory')
    const path = joinPath(names)
    // If a directory is known, all its parents are known too.
    for (let depth = names.length - 1; depth > 0; depth--) {
      const parent = joinPath(names.slice(0, depth))
      if (directories.has(parent)) break
      if (paths.has(parent)) throw invalid(field, `${parent} is given both as a file and as a directory`)
      directories.add(parent)
    }
    if (directories.has(path)) throw invalid(field, `${path} is given both as a file and as a directory`)
    if (paths.has(path)) throw invalid(field, `${path} is given twice`)
    paths.add(path)
    placed.push([path, content])
  }
  return placed
}

/** The names of a path. An error names the key of the object. */
function namesOf(path: string, field: string): readonly string[] {
  try {
    return parsePath(path, field)
  } catch {
    return parsePath(path, `${field}[${JSON.stringify(shown(path))}]`)
  }
}

/** Adds files to an empty tree. Missing parents are created. */
export async function addFiles(core: Core, builder: TreeBuilder, files: Iterable<CopiedFile>): Promise<void> {
  const mtimeMs = core.environment.wallClockMs()
  const slice = new TimeSlice(core.environment)
  for (const [path, content] of files) {
    if (slice.over) await slice.next()
    await builder.file(path, toBytes(content), { mode: 0o644, mtimeMs })
  }
}

export async function saveBaseline(core: Core, root: Dir): Promise<[Baseline, Dir]> {
  const fingerprint = await manifestHash(core, root)
  return [{ fingerprint, root: await core.roots.save(root) }, root]
}
