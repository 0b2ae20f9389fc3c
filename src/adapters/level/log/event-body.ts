import { EngineError } from '../../../engine/ports.js'
import type { StoredEvent } from '../../../engine/ports.js'

/** @throws EngineError `DATA_LOSS` when the text is no JSON array. */
export function parseBody(sessionId: string, seq: number, text: string): StoredEvent['body'] {
  try {
    const body: unknown = JSON.parse(text)
    if (Array.isArray(body)) return body
  } catch (error) {
    throw damagedEvent(sessionId, seq, { cause: error })
  }
  throw damagedEvent(sessionId, seq)
}

function damagedEvent(sessionId: string, seq: number, options?: ErrorOptions): EngineError {
  return new EngineError('DATA_LOSS', 'a stored event is damaged', { sessionId, seq: String(seq) }, options)
}

export function lostEvent(sessionId: string, seq: number): EngineError {
  return new EngineError('DATA_LOSS', 'a stored event is missing', { sessionId, seq: String(seq) })
}
