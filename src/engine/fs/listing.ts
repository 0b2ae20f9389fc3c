import { itemAt } from '../base/present.js'
import { runLoaded, whenPresent, type LoadingSteps } from '../base/cooperative.js'
import type { LiveSession } from '../session/table/live.js'
import { Dir, Symlink } from '../tree/node.js'
import { encodeName, type Encoding } from './arguments.js'
import { Dirent } from './stats.js'

export interface ListOptions {
  readonly encoding?: Encoding
  readonly recursive?: boolean | undefined
  readonly withFileTypes?: boolean | undefined
}

export type Listed = string | Buffer | Dirent

/**
 * Lists the entries of a directory, in UTF-8 byte order. With `recursive`, it lists everything below too: a
 * directory's own entries come before those of its subdirectories. Symlinks are not followed. `given` is the
 * path of the directory as the entries report it.
 */
export function listDirectory(live: LiveSession, dir: Dir, given: string, options: ListOptions): Listed[] {
  return runLoaded(listInSteps(live, dir, given, options))
}

/** Like {@link listDirectory}, with a pause after each page of a directory. */
export function* listInSteps(
  live: LiveSession,
  dir: Dir,
  given: string,
  options: ListOptions,
): LoadingSteps<Listed[]> {
  const { encoding, recursive = false, withFileTypes = false } = options
  const { loader } = live.tree
  const listed: Listed[] = []
  const pending: [parent: string, dir: Dir][] = [['', dir]]
  for (const [parent, current] of pending) {
    for (const page of yield* whenPresent(() => current.pages ?? loader.loadDir(current))) {
      const names = yield* whenPresent(() => page.names ?? loader.loadPage(page))
      for (const [index, name] of names.entries()) {
        const node = itemAt(page.nodes, index)
        const kind = node instanceof Dir ? 'directory' : node instanceof Symlink ? 'symlink' : 'file'
        if (withFileTypes) listed.push(new Dirent(encodeName(name, encoding), joinTo(given, parent), kind))
        else listed.push(encodeName(parent === '' ? name : `${parent}/${name}`, encoding))
        if (recursive && node instanceof Dir) pending.push([parent === '' ? name : `${parent}/${name}`, node])
      }
      yield
    }
  }
  return listed
}

/** Joins the listed directory's path and the relative path of a directory below it. */
export function joinTo(base: string, parent: string): string {
  if (parent === '') return base
  return base.endsWith('/') ? `${base}${parent}` : `${base}/${parent}`
}
