import {
  parseCheckout,
  parseSync,
  type Checkouts,
  type CheckoutOptions,
  type CheckoutSync,
  type CheckoutUpdate,
  type SyncOptions,
} from '../services/checkouts/checkouts.js'
import type { SessionAccess } from '../session/access/session-access.js'

/** Writes a session to a directory of the host. */
export async function checkOut(
  access: SessionAccess,
  checkouts: Checkouts,
  directory: string,
  options: CheckoutOptions = {},
): Promise<Checkout> {
  const copy = parseCheckout(directory, options)
  const { directory: realPath, ...update } = await access.look('checkout', (live) => {
    access.permit('getManifest')
    return checkouts.update(access.core, live, directory, copy)
  })
  return new Checkout(access, checkouts, realPath, update)
}

/**
 * A session in a directory of the host: `update` writes the session's current files there, `sync` brings back files
 * changed there. Their cost is that of the differences: a file is read again only if its size, times or inode number
 * changed.
 *
 * Every file appears whole. `update` writes contents, targets of symlinks, permission bits without those above
 * 0o777, and the time of the last change; equal contents with another time count as equal. The directory itself
 * keeps its mode. Sockets, fifos, devices and names that are not UTF-8 are passed over.
 */
export class Checkout {
  /** The real path of the directory. */
  readonly directory: string
  /** What `session.checkout` did. */
  readonly initial: CheckoutUpdate
  readonly #access: SessionAccess
  readonly #checkouts: Checkouts

  constructor(access: SessionAccess, checkouts: Checkouts, directory: string, initial: CheckoutUpdate) {
    this.directory = directory
    this.initial = initial
    this.#access = access
    this.#checkouts = checkouts
  }

  /**
   * Makes the directory equal to the session, also when another session was written there since, or a write was
   * interrupted. All paths that differ are checked first: CHECKOUT_MODIFIED, with nothing changed, when one of them was
   * changed in the directory since, unless `force`; UNSAFE_PATH as for `session.checkout`. HOST_FAILED, or an abort, in the middle leaves a directory that
   * the next update makes whole.
   */
  async update(options: CheckoutOptions = {}): Promise<CheckoutUpdate> {
    const copy = parseCheckout(this.directory, options)
    return this.#access.look('checkout', async (live) => {
      this.#access.permit('getManifest')
      const { written, removed } = await this.#checkouts.update(this.#access.core, live, this.directory, copy)
      return { written, removed }
    })
  }

  /**
   * Carries the changes made in the directory since over to the session: as one event, or none when nothing
   * changed. CHECKOUT_MODIFIED, with nothing changed, when the session changed one of these paths too, and not to the
   * same; and when another session was written to the directory since. UNSAFE_PATH, with nothing changed, for a path
   * that was added or changed and has a name such as `.git`, unless the engine has `allowGitNames`. LIMIT_EXCEEDED for
   * over 100,000 changed paths.
   */
  async sync(options: SyncOptions = {}): Promise<CheckoutSync> {
    const copy = parseSync(options)
    return this.#access.run('syncCheckout', (live) => {
      this.#access.permit('applyBatch')
      return this.#checkouts.sync(this.#access.core, live, this.directory, copy)
    })
  }
}
