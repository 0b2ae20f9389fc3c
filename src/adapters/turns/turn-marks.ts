import { turnReader } from '../tools/parts.js'

/**
 * The present turn, as a part of a tool call. A function can say that no turn runs.
 *
 * @throws {EngineError} INVALID_ARGUMENT when it is neither a string nor a function.
 */
export function turnMarks(
  turn: string | (() => string | undefined) | undefined,
): () => { readonly turn?: string } {
  if (typeof turn !== 'function') return turnReader(turn)
  return () => {
    const present = turn()
    return present === undefined ? {} : { turn: present }
  }
}
