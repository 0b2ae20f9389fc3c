import { itemAt } from '../base/present.js'
import { nextTurn } from '../base/cooperative.js'
import { limits } from '../base/limits.js'
import { prefixEnd } from './keys.js'
import type { Store } from './store.js'

export interface ScanAllOptions {
  /**
   * Scans from the last key to the first. If keys grow with time, the scan does not reach records that are
   * added meanwhile, so these do not prolong it.
   */
  readonly reverse?: boolean
  /** Only records whose keys are less than this one. */
  readonly before?: string
}

/** All records whose keys start with a prefix, in pages of about the same number of bytes. */
export async function* scanAll(
  core: { readonly store: Pick<Store, 'scan'> },
  prefix: string,
  { reverse = false, before = prefixEnd(prefix) }: ScanAllOptions = {},
): AsyncGenerator<readonly (readonly [key: string, value: string])[], void> {
  let gte = prefix
  let lt = before
  for (let limit: number = limits.scannedAtFirst; ;) {
    const found = await core.store.scan({ gte, lt, limit, reverse })
    if (found.length > 0) yield found
    if (found.length < limit) return
    const last = itemAt(found, -1)[0]
    if (reverse) lt = last
    else gte = `${last}\0`
    limit = nextPage(found)
    // A store may answer at once, so the pages of a long scan would block the event loop.
    await nextTurn()
  }
}

function nextPage(page: readonly (readonly [key: string, value: string])[]): number {
  let bytes = 0
  for (const [key, value] of page) bytes += key.length + value.length
  const fitting = Math.floor((limits.scannedBytes * page.length) / bytes)
  return Math.max(1, Math.min(fitting, page.length * 4, limits.recordsPerCommit))
}
