import { given } from '../base/input.js'
import { compareUtf8 } from '../base/order.js'
import { present } from '../base/present.js'
import { splitPath, type PathNames } from '../base/path.js'
import { invalid } from '../base/errors.js'
import { Dir, type Node } from './node.js'
import type { NodeLoader } from './node-loader.js'
import { resolveEntry } from './links.js'
import { findName, lowerBound, pageIndex } from './page.js'

/** A range of a tree in manifest order: depth first, names by their UTF-8 bytes, a directory before its children. */
export interface TreeRange {
  /** A literal prefix of the whole path. '' and '/' select everything. */
  readonly prefix: string
  /** Only paths after this one. */
  readonly after: string | undefined
}

/** Calls `visit` for each path of the range except the root, until it returns false. */
export function visitPaths(
  root: Dir,
  range: TreeRange,
  loader: NodeLoader,
  visit: (path: string, node: Node) => boolean,
): void {
  const { dirNames, namePrefix } = splitPrefix(range.prefix)
  let dir = root
  for (const name of dirNames) {
    const child = findName(dir, name, loader)
    if (!(child instanceof Dir)) return
    dir = child
  }
  const after = range.after === undefined ? undefined : splitPath(range.after)
  const base = dirNames.length === 0 ? '' : `/${dirNames.join('/')}`
  if (after !== undefined) {
    // A token from outside the range comes before or after the whole range.
    const order = compareToRange(after, dirNames)
    if (order > 0) return
    if (order < 0) return void walk(dir, base, undefined, 0, namePrefix)
  }
  walk(dir, base, after, dirNames.length, namePrefix)

  function walk(
    current: Dir,
    path: string,
    from: PathNames | undefined,
    depth: number,
    prefix: string,
  ): boolean {
    const pages = current.pages ?? loader.loadDir(current)
    const resumeName = from?.[depth]
    const start = resumeName !== undefined && compareUtf8(resumeName, prefix) > 0 ? resumeName : prefix
    let i = start === '' ? 0 : pageIndex(pages, start, current.wide)
    let j = -1
    for (; i < pages.length; i++) {
      const page = present(pages[i], 'a page')
      const names = page.names ?? loader.loadPage(page)
      j = j < 0 && start !== '' ? lowerBound(names, start, current.wide) : 0
      for (; j < names.length; j++) {
        const name = present(names[j], 'a name')
        if (prefix !== '' && !name.startsWith(prefix)) return true
        const node = present(page.nodes[j], 'a node')
        const childPath = `${path}/${name}`
        const resumed = name === resumeName
        if (!resumed && !visit(childPath, resolveEntry(node, root, loader))) return false
        if (node instanceof Dir && !walk(node, childPath, resumed ? from : undefined, depth + 1, ''))
          return false
      }
    }
    return true
  }
}

/**
 * Calls `visit` for each name in a directory of the tree, or for each name after `after`, until it returns
 * false.
 */
export function visitNames(
  dir: Dir,
  { root, after = '' }: { readonly root: Dir; readonly after: string | undefined },
  loader: NodeLoader,
  visit: (name: string, node: Node) => boolean,
): void {
  const pages = dir.pages ?? loader.loadDir(dir)
  for (let i = after === '' ? 0 : pageIndex(pages, after, dir.wide); i < pages.length; i++) {
    const page = present(pages[i], 'a page')
    const names = page.names ?? loader.loadPage(page)
    for (let j = after === '' ? 0 : lowerBound(names, after, dir.wide); j < names.length; j++) {
      if (names[j] !== after && !visit(names[j]!, resolveEntry(page.nodes[j]!, root, loader))) return
    }
  }
}

/** Checks a prefix: '' or a literal prefix of absolute paths. */
export function parsePrefix(prefix: unknown): string {
  if (prefix === '') return ''
  if (typeof prefix !== 'string' || !prefix.startsWith('/'))
    throw invalid('pathPrefix', `must be absolute, such as "/src"; it is ${given(prefix)}`)
  if (!prefix.isWellFormed() || prefix.includes('\0'))
    throw invalid('pathPrefix', 'contains a lone surrogate or a NUL character')
  return prefix
}

function splitPrefix(prefix: string): { dirNames: PathNames; namePrefix: string } {
  if (prefix === '') return { dirNames: [], namePrefix: '' }
  const cut = prefix.lastIndexOf('/')
  return { dirNames: splitPath(prefix.slice(0, cut) || '/'), namePrefix: prefix.slice(cut + 1) }
}

/** 0 if `names` is below `dirNames`, negative if it comes before that range, positive if it comes after. */
function compareToRange(names: PathNames, dirNames: PathNames): number {
  for (const [i, dirName] of dirNames.entries()) {
    const name = names[i]
    if (name === undefined) return -1
    const order = compareUtf8(name, dirName)
    if (order !== 0) return order
  }
  return names.length > dirNames.length ? 0 : -1
}
