import { joinPath, parsePath } from '../../base/path.js'
import { Dir } from '../../tree/node.js'
import { findName } from '../../tree/page.js'
import type { Tree } from '../../tree/tree.js'

/**
 * The highest path that a removal of a file empties: the file itself, or a directory in which nothing else is. The
 * directories for which `keeps` is true stay. The path must not lead through symlinks.
 */
export function emptiedPath(
  { root, loader }: Pick<Tree, 'root' | 'loader'>,
  path: string,
  keeps: (directory: string) => boolean,
): string {
  const names = parsePath(path)
  const directories: Dir[] = [root]
  for (const name of names.slice(0, -1)) {
    const next = findName(directories.at(-1) ?? root, name, loader)
    if (!(next instanceof Dir)) return path
    directories.push(next)
  }
  let depth = names.length
  for (; depth > 1; depth--) {
    const directory = directories[depth - 1]
    if (directory === undefined || entryCount({ loader }, directory) !== 1) break
    if (keeps(joinPath(names.slice(0, depth - 1)))) break
  }
  return joinPath(names.slice(0, depth))
}

/** The number of entries of a directory, up to a page. */
export function entryCount({ loader }: Pick<Tree, 'loader'>, directory: Dir): number {
  const pages = directory.pages ?? loader.loadDir(directory)
  let count = 0
  for (const page of pages.slice(0, 2)) count += (page.names ?? loader.loadPage(page)).length
  return count
}
