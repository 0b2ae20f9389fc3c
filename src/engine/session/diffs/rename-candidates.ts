import { limits } from '../../base/limits.js'
import { present } from '../../base/present.js'
import type { FileNode, Symlink } from '../../tree/node.js'

/** A file that only one state has. */
export interface Candidate {
  readonly path: string
  readonly node: FileNode | Symlink
}

/** The removed and added files of a diff. */
export class RenameCandidates {
  readonly removed: Candidate[] = []
  readonly added: Candidate[] = []
  #isFull = false

  /** Returns false when there are too many. Then no file counts as renamed. */
  add({
    path,
    before,
    after,
  }: {
    readonly path: string
    readonly before: FileNode | Symlink | undefined
    readonly after: FileNode | Symlink | undefined
  }): boolean {
    if (before !== undefined && after !== undefined) return true
    const list = before === undefined ? this.added : this.removed
    list.push({ path, node: present(before ?? after, 'the changed file') })
    this.#isFull = list.length > limits.diffRenames
    return !this.#isFull
  }

  get mayMatch(): boolean {
    return !this.#isFull && this.removed.length > 0 && this.added.length > 0
  }
}
