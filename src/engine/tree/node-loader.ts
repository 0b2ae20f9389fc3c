import type { Dir, FileNode, Page } from './node.js'
import type { Pins } from './pins.js'

/** Loads a part of a node that is null: synchronously, or by throwing a Fault. */
export interface NodeLoader {
  loadDir(dir: Dir): Page[]
  loadPage(page: Page): string[]
  loadBody(file: FileNode): void
  /** Resolves when nodes were unloaded; undefined if they are within their budget. A call that may wait waits for this first. */
  readonly unloading: Promise<void> | undefined
  /** Absent if nothing is ever collected. */
  readonly pins?: Pins | undefined
}
