import { runAtOnce, runInSlices, type Steps } from '../../base/cooperative.js'
import { invalid } from '../../base/errors.js'
import { Fault } from '../../base/fault.js'
import { given, parseFlag, parseText, readEntries, tooLarge } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { parsePath } from '../../base/path.js'
import { Shape } from '../../base/shape.js'
import { eventTypes } from '../../records/event.js'
import type { FilePatch } from '../../text/file-patch.js'
import { invalidPatch } from '../../text/patch-error.js'
import { PatchWork } from '../../text/patch-work.js'
import { inflateAll } from '../../text/inflate-patch.js'
import { parseUnified } from '../../text/unified-patch.js'
import { isV4a, parseV4a } from '../../text/v4a-patch.js'
import type { Core } from '../core.js'
import { resolve } from '../reads/resolve.js'
import type { LiveSession } from '../table/live.js'
import { applyPlans, tryPlans } from './batch.js'
import { checkGuard } from './guards.js'
import { FileChange, type PatchedFile } from './patched-file.js'
import { PatchPaths } from './patch-paths.js'
import type { PlanStep } from './plan.js'

/** The request of `session.text.applyPatch`. */
export interface PatchRequest {
  /** The patch, at most 4 MiB. */
  readonly patch: string
  /**
   * `'unified'`: as `git diff` and `diff -u` write it. `'v4a'`: the format of OpenAI, which begins with
   * `*** Begin Patch`. `'auto'`, the default, decides by the first line.
   */
  readonly format?: 'auto' | 'unified' | 'v4a'
  /**
   * The number of leading names that are removed from the paths of a unified patch. By default 1 if they begin with
   * `a/` and `b/`, and otherwise 0.
   */
  readonly strip?: number
  /** Lines of context at each end of a unified hunk that may differ, 0 to 3; 0 by default. */
  readonly fuzz?: number
  /** true: returns the result, and changes nothing; false by default. */
  readonly dryRun?: boolean
  /** For a path, the hash `sha256:<hex>` that its content must have; '': the path must not exist. */
  readonly expectedHashes?: Readonly<Record<string, string>>
}

const patchShape = new Shape<PatchRequest>({
  patch: true,
  format: true,
  strip: true,
  fuzz: true,
  dryRun: true,
  expectedHashes: true,
})

/** A request to apply a patch, checked and copied. */
export class TextPatch {
  readonly #core: Core
  readonly #format: 'unified' | 'v4a'
  readonly #text: string
  readonly #strip: number | undefined
  #patches: readonly FilePatch[] | undefined
  readonly #fuzz: number
  readonly #dryRun: boolean
  readonly #guards: readonly (readonly [path: string, hash: string])[]
  #files: readonly FileChange[] | undefined

  constructor(core: Core, request: PatchRequest) {
    const { patch, format, strip, fuzz, dryRun, expectedHashes } = patchShape.read(request)
    this.#core = core
    this.#text = parseText('patch', patch, limits.patchBytes)
    this.#format = parseFormat(format, this.#text)
    this.#strip = strip === undefined ? undefined : parseCount('strip', strip, limits.pathDepth)
    this.#fuzz = parseCount('fuzz', fuzz ?? 0, limits.patchFuzz)
    this.#dryRun = parseFlag('dryRun', dryRun, false)
    this.#guards = parseGuards(expectedHashes)
    // A larger patch is parsed in slices, while later changes of the session wait.
    if (this.#text.length <= limits.computedAtOnceBytes) this.#patches = runAtOnce(this.#parse())
  }

  *#parse(): Steps<readonly FilePatch[], undefined> {
    const patches = yield* this.#format === 'v4a'
      ? parseV4a(this.#text)
      : parseUnified(this.#text, this.#strip)
    checkPaths(patches)
    return patches
  }

  async apply(live: LiveSession): Promise<{ files: PatchedFile[] }> {
    const steps = (): readonly PlanStep[] => this.#steps()
    if (this.#dryRun) await tryPlans(this.#core, live, steps)
    else
      await applyPlans(this.#core, live, steps, () => ({
        type: eventTypes.applyPatch,
        details: {
          fileCount: this.#changed().length,
          paths: this.#changed()
            .slice(0, limits.pathsInDetails)
            .map((file) => file.described().path),
        },
      }))
    return { files: this.#changed().map((file) => file.described()) }
  }

  /** Reads all files, then removes files, then makes room for new ones, then writes. */
  #steps(): readonly PlanStep[] {
    const files = this.#changed()
    const check: PlanStep = (state) => {
      for (const [path, hash] of this.#guards)
        checkGuard(this.#core, path, resolve(state.tree, path, true).node, hash)
      return undefined
    }
    const phase = (name: 'prepare' | 'remove' | 'makeRoom' | 'write'): PlanStep[] =>
      files.map(
        (file): PlanStep =>
          (state) =>
            file[name](state),
      )
    return [check, ...phase('prepare'), ...phase('remove'), ...phase('makeRoom'), ...phase('write')]
  }

  /** Throws a Fault until binary contents are decompressed. */
  #changed(): readonly FileChange[] {
    if (this.#files !== undefined) return this.#files
    const parsed = this.#patches
    if (parsed === undefined)
      throw new Fault(async () => {
        this.#patches = await runInSlices(this.#parse(), this.#core.environment)
      })
    const use = (patches: readonly FilePatch[]): readonly FileChange[] => {
      const context = {
        fuzz: this.#fuzz,
        isUnified: this.#format === 'unified',
        paths: new PatchPaths(patches),
        budget: { bytesLeft: limits.patchContentBytes },
        work: new PatchWork(),
      }
      return (this.#files = patches.map((patch) => new FileChange(this.#core, patch, context)))
    }
    const inflated = inflateAll(parsed)
    if (inflated === undefined) return use(parsed)
    throw new Fault(async () => {
      use(await inflated(this.#core.environment))
    })
  }
}

/** @throws {EngineError} INVALID_PATCH when two parts of a patch change one path. */
function checkPaths(patches: readonly FilePatch[]): void {
  if (patches.length > limits.patchFiles) throw tooLarge('patch', 'files', limits.patchFiles)
  const sources = new Set<string>()
  const targets = new Set<string>()
  const add = (set: Set<string>, path: string): void => {
    parsePath(path, 'patch')
    if (set.has(path))
      throw invalidPatch(`changes ${path} twice; apply the parts one after the other`, { file: path })
    set.add(path)
  }
  for (const patch of patches) {
    const copies = patch.kind === 'update' && patch.isCopy === true
    if (patch.kind !== 'create' && !copies) add(sources, patch.path)
    if (patch.kind === 'create') add(targets, patch.path)
    else if (patch.kind === 'update') add(targets, patch.newPath ?? patch.path)
  }
}

function parseFormat(format: unknown, patch: string): 'unified' | 'v4a' {
  if (format === undefined || format === 'auto') return isV4a(patch) ? 'v4a' : 'unified'
  if (format === 'unified' || format === 'v4a') return format
  throw invalid('format', `must be "auto", "unified" or "v4a"; it is ${given(format)}`)
}

function parseCount(field: string, value: unknown, most: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= most) return value
  throw invalid(field, `must be a whole number from 0 to ${most}; it is ${given(value)}`)
}

function parseGuards(hashes: unknown): [string, string][] {
  if (hashes === undefined) return []
  const entries = readEntries('expectedHashes', hashes, 'must be an object with a hash for each path')
  if (entries.length > limits.patchFiles) throw tooLarge('expectedHashes', 'paths', limits.patchFiles)
  return entries.map(([path, hash]) => {
    parsePath(path, 'expectedHashes')
    return [path, parseText(`expectedHashes[${given(path)}]`, hash, limits.labelBytes)]
  })
}
