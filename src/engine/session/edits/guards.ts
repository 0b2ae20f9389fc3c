import { EngineError } from '../../base/errors.js'
import { formatHash, parseExpectedHash } from '../../base/hash.js'
import { FileNode, type Node } from '../../tree/node.js'
import type { Core } from '../core.js'

/** The conditions of a guarded operation. */
export interface HashGuard {
  /**
   * `sha256:<hex>`: the content of the file must have this hash. '': the path must not exist. Absent: no
   * condition.
   */
  readonly expectedHash?: string
}

export const guardNames = { expectedHash: true } as const

/**
 * Checks the condition on a file's content. Throws a Fault if the content must be hashed first.
 *
 * @throws {EngineError} HASH_MISMATCH when the condition does not hold.
 */
export function checkGuard(
  core: Core,
  path: string,
  node: Node | undefined,
  guard: string | undefined,
): void {
  if (guard === undefined) return
  const expected = parseExpectedHash(guard)
  // A directory and a symlink have no content hash, so no guard can hold for them.
  const actual =
    node === undefined ? '' : node instanceof FileNode ? core.contentIds.contentHash(node) : undefined
  if (actual === expected) return
  const actualHash = actual === undefined || actual === '' ? '' : formatHash(actual)
  throw new EngineError(
    'HASH_MISMATCH',
    `${path} does not have the expected hash: read it again before you retry`,
    {
      path,
      expectedHash: guard,
      actualHash,
    },
  )
}

/** Like {@link checkGuard}, for a deletion, for which `''` is no condition. */
export function checkDeleteGuard(core: Core, path: string, node: Node, guard: string | undefined): void {
  if (guard !== undefined && parseExpectedHash(guard) !== '') checkGuard(core, path, node, guard)
}
