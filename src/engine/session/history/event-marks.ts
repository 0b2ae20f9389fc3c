import { invalid } from '../../base/errors.js'
import { parseText } from '../../base/input.js'
import { parseJsonObject, type JsonObject } from '../../base/json-object.js'
import { limits } from '../../base/limits.js'

/** What a handle adds to the details of each event that it records. */
export interface EventMarks {
  /** The group of changes that the events belong to. */
  readonly group?: string
  /** The caller's facts about the events. */
  readonly metadata?: JsonObject
}

/**
 * The same scope of a caller, with further marks.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the name of the group is empty, or the metadata is not an object of JSON.
 * @throws {EngineError} TOO_LARGE when the name is over 1,024 bytes, or the metadata over 4 KiB or 8 levels.
 */
export function marked<Scope extends { readonly marks?: EventMarks }>(
  scope: Scope,
  marks: EventMarks,
): Scope {
  return {
    ...scope,
    marks: {
      ...scope.marks,
      ...('group' in marks && { group: parseGroup(marks.group) }),
      ...('metadata' in marks && { metadata: parseJsonObject('metadata', marks.metadata) }),
    },
  }
}

function parseGroup(name: unknown): string {
  const group = parseText('group', name, limits.labelBytes)
  if (group === '') throw invalid('group', 'must not be empty')
  return group
}
