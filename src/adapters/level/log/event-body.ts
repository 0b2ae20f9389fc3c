import { EngineError, parseEventHead, parseEventText } from '../../../engine/ports.js'
import type { StoredEvent } from '../../../engine/ports.js'
import { restoreOrRepair } from '../errors.js'

/**
 * Parses the body of an event.
 *
 * @throws EngineError `DATA_LOSS` when the text is not a JSON array.
 */
export function parseBody(sessionId: string, seq: number, text: string): Promise<StoredEvent['body']> {
  return asBody(sessionId, seq, () => parseEventText(text))
}

/** Like {@link parseBody}, without the effects of a large event. */
export function parseHead(sessionId: string, seq: number, text: string): Promise<StoredEvent['body']> {
  return asBody(sessionId, seq, () => parseEventHead(text))
}

async function asBody(sessionId: string, seq: number, parse: () => unknown): Promise<StoredEvent['body']> {
  try {
    const body = await parse()
    if (Array.isArray(body)) return body
  } catch (error) {
    throw damagedEvent(sessionId, seq, { cause: error })
  }
  throw damagedEvent(sessionId, seq)
}

function damagedEvent(sessionId: string, seq: number, options?: ErrorOptions): EngineError {
  const message = `event ${seq} of session ${sessionId} is damaged. ${restoreOrRepair}`
  return new EngineError('DATA_LOSS', message, { sessionId, seq: String(seq) }, options)
}

export function lostEvent(sessionId: string, seq: number): EngineError {
  const message = `event ${seq} of session ${sessionId} is missing. ${restoreOrRepair}`
  return new EngineError('DATA_LOSS', message, { sessionId, seq: String(seq) })
}
