import type { Dir, FileNode, Page } from './node.js'
import type { Pins } from './pins.js'

/** Loads a part of a node that is null: at once, or by throwing a Fault. */
export interface NodeLoader {
  loadDir(dir: Dir): Page[]
  loadPage(page: Page): string[]
  loadBody(file: FileNode): void
  /** Absent where nothing collects. */
  readonly pins?: Pins | undefined
}
