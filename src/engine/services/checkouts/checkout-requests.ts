import { checkSignal } from '../../base/abort.js'
import { invalid } from '../../base/errors.js'
import { parseFlag, parseFunction, parseText, readList } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { parsePath } from '../../base/path.js'
import { Shape } from '../../base/shape.js'
import { unsafePart } from '../../base/unsafe-names.js'
import { parseIgnore, type ExclusionOptions } from './checkout-exclusions.js'
import type { CheckoutProgress } from './checkout-write.js'

/** Options of `checkout.update`. */
export interface CheckoutUpdateOptions {
  /**
   * Overwrites files in the directory that changed since the last write. Other files that no session wrote stay,
   * unless they are in the way. By default, such a change fails the call with `CHECKOUT_MODIFIED`.
   */
  readonly force?: boolean
  /** Ends the call with the signal's reason. The next update completes an interrupted write. */
  readonly signal?: AbortSignal
  /** Called with the progress after each written file or symlink. */
  readonly onProgress?: (progress: CheckoutProgress) => void
}

/** The parts of a checkout that are not part of the session. */
export interface LayoutOptions {
  /**
   * Leaves out the files that the files `.gitignore` of the directory name, by the rules of git: `sync` does not
   * bring them back, and an update neither deletes nor overwrites them, even with `force`. As in git, files of the
   * session are never ignored. Off by default.
   */
  readonly gitignore?: boolean
  /**
   * Patterns as in a `.gitignore` of the directory, such as `dist/` or `*.log`, which take precedence over those
   * files. At most 1,000. None by default.
   */
  readonly ignore?: readonly string[]
  /**
   * Directories of the host that appear in the checkout and are not part of the session, such as `node_modules`.
   * None by default.
   */
  readonly sharedDirectories?: readonly SharedDirectory[]
  /**
   * Writes a directory `.git` in which HEAD and the index have the imported commit that the session builds on, so that
   * git shows the changes of the session. It is never synced back. Off by default.
   */
  readonly git?: boolean
}

/** Options of `session.checkout`. Those of the layout hold for all calls of the returned checkout. */
export interface CheckoutOptions extends CheckoutUpdateOptions, LayoutOptions {}

/** A directory of the host that appears in a checkout. */
export interface SharedDirectory {
  /** The absolute path in the session, such as `/node_modules`. The session must have nothing there. */
  readonly path: string
  /** The absolute path of the directory on the host, at or below one of `hostPaths.roots`. */
  readonly from: string
  /**
   * Copies the directory the first time, instead of a symlink to it. Programs then change their own copy. The copy
   * shares its blocks with the original where the file system can. Off by default: programs that write below the
   * symlink change the original.
   */
  readonly copy?: boolean
}

/** Options of `checkout.sync`. */
export interface SyncOptions {
  /** Ends the call with the signal's reason. The session has all changes or none. */
  readonly signal?: AbortSignal
  /** Returns or rejects like a sync, and changes nothing. Off by default. */
  readonly dryRun?: boolean
}

/** The result of writing a session to a directory. */
export interface CheckoutUpdate {
  /** Number of files, symlinks and directories that were written or changed. */
  readonly written: number
  /** Number of files, symlinks and directories that were removed. */
  readonly removed: number
}

/**
 * The paths that `checkout.sync` changed in the session. An entry whose kind changed is in both `removed` and `added`.
 */
export interface CheckoutSync {
  /** Absolute paths in the session of new entries, sorted. */
  readonly added: string[]
  /** Absolute paths in the session of changed entries, sorted. */
  readonly modified: string[]
  /** Absolute paths in the session of removed entries, sorted. */
  readonly removed: string[]
}

/** The parts of a checked-out directory that are not part of the session. */
export interface Layout {
  readonly exclusions: ExclusionOptions
  readonly shared: readonly SharedDirectory[]
  /** Whether the directory has a repository. */
  readonly git: boolean
  /** What the repository ignores: lines as in a `.gitignore`. */
  readonly excludeLines: readonly string[]
}

export const layoutNames = { gitignore: true, ignore: true, sharedDirectories: true, git: true } as const
const updateNames = { force: true, signal: true, onProgress: true } as const
const updateShape = new Shape<CheckoutUpdateOptions>(updateNames)
const checkoutShape = new Shape<CheckoutOptions>({
  ...updateNames,
  ...layoutNames,
})
const sharedShape = new Shape<SharedDirectory>({ path: true, from: true, copy: true })
const syncShape = new Shape<SyncOptions>({ signal: true, dryRun: true })

export function parseCheckout(
  directory: string,
  options: CheckoutOptions,
): { readonly layout: Layout; readonly update: CheckoutUpdateOptions } {
  parseText('directory', directory, limits.pathBytes)
  const { gitignore, ignore, sharedDirectories, git, ...update } = checkoutShape.read(options, 'options')
  checkUpdate(update)
  const layout = parseLayout({ gitignore, ignore, sharedDirectories, git } as LayoutOptions)
  return { layout, update }
}

export function parseLayout(
  { gitignore, ignore, sharedDirectories, ...rest }: LayoutOptions,
  prefix = '',
): Layout {
  const shared = parseShared(`${prefix}sharedDirectories`, sharedDirectories)
  const git = parseFlag(`${prefix}git`, rest.git, false)
  const ignored = parseIgnore(`${prefix}ignore`, ignore)
  const exclusions = {
    gitignore: parseFlag(`${prefix}gitignore`, gitignore, false),
    ignore: ignored.patterns,
    apart: [...shared.map(({ path }) => path), ...(git ? ['/.git'] : [])],
  }
  // A backslash makes a special character literal.
  const paths = shared.map(({ path }) => path.replaceAll(/[*?[\\ ]/g, '\\$&'))
  return { exclusions, shared, git, excludeLines: [...paths, ...ignored.lines] }
}

export function parseUpdate(options: CheckoutUpdateOptions): CheckoutUpdateOptions {
  const copy = updateShape.read(options, 'options')
  checkUpdate(copy)
  return copy
}

function checkUpdate({ force, onProgress, signal }: CheckoutUpdateOptions): void {
  checkSignal(signal)
  parseFlag('force', force, false)
  parseFunction('onProgress', onProgress)
}

export function parseSync(options: SyncOptions): SyncOptions {
  const copy = syncShape.read(options, 'options')
  checkSignal(copy.signal)
  parseFlag('dryRun', copy.dryRun, false)
  return copy
}

function parseShared(name: string, list: unknown): readonly SharedDirectory[] {
  if (list === undefined) return []
  const parsed = readList(name, list, limits.sharedDirectories, 'directories').map(
    (one, index): SharedDirectory => {
      const field = `${name}[${index}]`
      const { path, from, copy } = sharedShape.readPart(one as SharedDirectory, field)
      parsePath(path, `${field}.path`)
      if (path === '/') throw invalid(`${field}.path`, 'must not be "/"')
      if (unsafePart(path, true) !== undefined)
        throw invalid(`${field}.path`, `must not have a name that git takes for ".git"; it is "${path}"`)
      parseText(`${field}.from`, from, limits.pathBytes)
      return { path, from, copy: parseFlag(`${field}.copy`, copy, false) }
    },
  )
  const sorted = parsed.map(({ path }) => `${path}/`).sort()
  for (const [index, path] of sorted.entries())
    if (index > 0 && path.startsWith(sorted[index - 1] ?? ''))
      throw invalid(name, `has "${path.slice(0, -1)}" twice, or inside another one`)
  return parsed
}
