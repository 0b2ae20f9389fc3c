import {
  parseCheckout,
  parseSync,
  parseUpdate,
  type CheckoutOptions,
  type CheckoutSync,
  type CheckoutUpdate,
  type CheckoutUpdateOptions,
  type Layout,
  type SyncOptions,
} from '../services/checkouts/checkout-requests.js'
import type { Checkouts } from '../services/checkouts/checkouts.js'
import type { SessionAccess } from '../session/access/session-access.js'

/** Writes a session to a directory of the host. */
export async function checkOut(
  access: SessionAccess,
  checkouts: Checkouts,
  directory: string,
  options: CheckoutOptions = {},
): Promise<Checkout> {
  const { layout, update } = parseCheckout(directory, options)
  const { directory: realPath, ...initial } = await access.look('checkout', (live) => {
    access.permit('getManifest')
    return access.whileUsed(checkouts.update(access.core, live, directory, { ...update, layout }))
  })
  return new Checkout(access, checkouts, { directory: realPath, layout, initial })
}

/**
 * A session in a directory of the host: `update` writes the current files of the session there, and `sync` brings
 * back files changed there. The cost is that of the differences: a file is read again only if its size, times or
 * inode number changed.
 *
 * Every file appears whole. `update` writes contents, targets of symlinks, permission bits up to 0o777, and the time
 * of the last change; equal contents with another time count as equal. The directory itself keeps its mode. `sync`
 * leaves out sockets, fifos, devices and names that are not UTF-8.
 */
export class Checkout {
  /** The real path of the directory on the host. */
  readonly directory: string
  /** The result of `session.checkout`. */
  readonly initial: CheckoutUpdate
  readonly #access: SessionAccess
  readonly #checkouts: Checkouts
  readonly #layout: Layout

  /** @internal */
  constructor(
    access: SessionAccess,
    checkouts: Checkouts,
    written: { readonly directory: string; readonly layout: Layout; readonly initial: CheckoutUpdate },
  ) {
    this.directory = written.directory
    this.initial = written.initial
    this.#layout = written.layout
    this.#access = access
    this.#checkouts = checkouts
  }

  /**
   * Makes the directory equal to the session, also when another session was written there since, or a write was
   * interrupted. It checks all paths that differ first. A host error or an abort in the middle leaves a directory
   * that the next update completes.
   *
   * @throws {EngineError} CHECKOUT_MODIFIED when a path that differs was changed in the directory, without `force`.
   * Nothing changed.
   * @throws {EngineError} ALREADY_EXISTS when the session has a path of `sharedDirectories`. Nothing changed.
   * @throws {EngineError} UNSAFE_PATH when the session has a path that git commits refuse, such as `/.git/config`,
   * unless the engine has `allowGitNames`. Nothing changed.
   * @throws {EngineError} HOST_PATH_NOT_ALLOWED when the directory was moved outside `hostPaths.roots`.
   * @throws {EngineError} HOST_FAILED when the file system of the host returned an error.
   *
   * @example
   * const checkout = await session.checkout('/work/build')
   * await session.files.write({ path: '/a.txt', content: 'two' })
   * const { written, removed } = await checkout.update()
   */
  async update(options: CheckoutUpdateOptions = {}): Promise<CheckoutUpdate> {
    const copy = { ...parseUpdate(options), layout: this.#layout }
    return this.#access.look('checkout', async (live) => {
      this.#access.permit('getManifest')
      const updated = this.#checkouts.update(this.#access.core, live, this.directory, copy)
      const { written, removed } = await this.#access.whileUsed(updated)
      return { written, removed }
    })
  }

  /**
   * Carries the changes in the directory since the last write over to the session, as one event, or none when nothing
   * changed. With `dryRun` it returns the same, or fails the same, and changes nothing.
   *
   * @throws {EngineError} CHECKOUT_MODIFIED when the session changed one of these paths differently, or another
   * session was written to the directory since. Nothing changed.
   * @throws {EngineError} UNSAFE_PATH when an added or changed path has a name such as `.git`, unless the engine has
   * `allowGitNames`. Nothing changed.
   * @throws {EngineError} LIMIT_EXCEEDED when over 100,000 paths changed, or the files `.gitignore` of one path have
   * over 256 KiB.
   * @throws {EngineError} HOST_FAILED when the file system of the host returned an error.
   *
   * @example
   * const checkout = await session.checkout('/work/build')
   * const { added, modified, removed } = await checkout.sync()
   */
  async sync(options: SyncOptions = {}): Promise<CheckoutSync> {
    const copy = { ...parseSync(options), layout: this.#layout }
    return this.#access.run('syncCheckout', (live) => {
      this.#access.permit('applyBatch')
      return this.#access.whileUsed(this.#checkouts.sync(this.#access.core, live, this.directory, copy))
    })
  }
}
