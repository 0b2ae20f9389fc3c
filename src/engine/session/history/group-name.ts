import { invalid } from '../../base/errors.js'
import { parseText } from '../../base/input.js'
import { limits } from '../../base/limits.js'

/**
 * Checks the name of a group of changes.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the name is empty.
 * @throws {EngineError} TOO_LARGE when the name is over 1,024 bytes.
 */
export function parseGroup(name: unknown): string {
  const group = parseText('group', name, limits.labelBytes)
  if (group === '') throw invalid('group', 'must not be empty')
  return group
}
