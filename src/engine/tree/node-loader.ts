import type { InUse } from './in-use.js'
import type { Dir, FileNode, Page } from './node.js'

/** Loads a part of a node that is null: at once, or by throwing a Fault. */
export interface NodeLoader {
  loadDir(dir: Dir): Page[]
  loadPage(page: Page): string[]
  loadBody(file: FileNode): void
  /** Present on stores that keep nodes. */
  readonly inUse?: InUse | undefined
}
