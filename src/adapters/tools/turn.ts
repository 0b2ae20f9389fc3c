import { invalid } from '../../engine/ports.js'

/** The turn of a conversation, or a function that returns the present one. */
export type Turn = string | (() => string)

/**
 * The present turn, as a part of a tool call.
 *
 * @throws {EngineError} INVALID_ARGUMENT when it is neither a string nor a function.
 */
export function turnReader(turn: Turn | undefined): () => { readonly turn?: string } {
  if (turn === undefined) return () => ({})
  if (typeof turn === 'string') return () => ({ turn })
  if (typeof turn === 'function') return () => ({ turn: turn() })
  throw invalid('turn', 'must be a string, or a function that returns one')
}
