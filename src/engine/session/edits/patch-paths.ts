import type { FilePatch } from '../../text/file-patch.js'

/** The paths that a patch changes, for the order of its steps. */
export class PatchPaths {
  /** Paths that are removed or changed. */
  readonly #sources = new Set<string>()
  /** Paths that are created or changed. */
  readonly #targets = new Set<string>()
  /** In order, so that the paths below a directory are neighbours. */
  readonly #sorted: readonly string[]

  constructor(patches: readonly FilePatch[]) {
    for (const patch of patches) {
      if (patch.kind !== 'create' && !(patch.kind === 'update' && patch.isCopy === true))
        this.#sources.add(patch.path)
      if (patch.kind === 'create') this.#targets.add(patch.path)
      else if (patch.kind === 'update') this.#targets.add(patch.newPath ?? patch.path)
    }
    this.#sorted = [...this.#targets].sort(byCodeUnits)
  }

  /** Whether a renamed file must be gone before files are written: another part of the patch uses one of its places. */
  leavesFirst(path: string, newPath: string): boolean {
    return (
      this.#sources.has(newPath) ||
      this.#targets.has(path) ||
      this.hasTargetBelow(path) ||
      this.#hasTargetAbove(path)
    )
  }

  /** Whether the patch writes a file below a path. */
  hasTargetBelow(path: string): boolean {
    const prefix = `${path}/`
    let low = 0
    let high = this.#sorted.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (byCodeUnits(this.#sorted[middle] ?? '', prefix) < 0) low = middle + 1
      else high = middle
    }
    return this.#sorted[low]?.startsWith(prefix) === true
  }

  #hasTargetAbove(path: string): boolean {
    for (let slash = path.lastIndexOf('/'); slash > 0; slash = path.lastIndexOf('/', slash - 1))
      if (this.#targets.has(path.slice(0, slash))) return true
    return false
  }
}

function byCodeUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
