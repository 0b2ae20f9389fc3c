import { invalid } from '../../engine/ports.js'

/**
 * The present turn, as a part of a tool call.
 *
 * @throws {EngineError} INVALID_ARGUMENT when it is neither a string nor a function.
 */
export function turnReader(turn: string | (() => string) | undefined): () => { readonly turn?: string } {
  if (turn === undefined) return () => ({})
  if (typeof turn === 'string') return () => ({ turn })
  if (typeof turn === 'function') return () => ({ turn: turn() })
  throw invalid('turn', 'must be a string, or a function that returns one')
}
