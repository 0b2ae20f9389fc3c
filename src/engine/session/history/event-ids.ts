import { EngineError, invalid } from '../../base/errors.js'
import { given } from '../../base/input.js'
import { decodeSeq, encodeSeq, seqWidth } from '../../storage/keys.js'

/** The public id of an event. Number 0 is the state before the first event. */
export function eventIdOf(sessionId: string, seq: number): string {
  return `${sessionId}-${encodeSeq(seq)}`
}

/** The number of an event of this session. */
export function parseEventId(field: string, sessionId: string, eventId: unknown): number {
  if (typeof eventId !== 'string' || !eventId.startsWith(`${sessionId}-`))
    throw invalid(field, `must be the eventId of an event of this session; it is ${given(eventId)}`)
  return parseSeq(field, eventId.slice(sessionId.length + 1))
}

export function parseSeq(field: string, text: string): number {
  if (!/^[0-9a-z]+$/.test(text) || text.length !== seqWidth)
    throw invalid(field, `must be the eventId of an event; it is ${given(text)}`)
  return decodeSeq(text)
}

/** The error STATE_NOT_KEPT for the state after an event. */
export function stateNotKept(
  sessionId: string,
  seq: number,
  why: string,
  options?: { readonly cause: unknown },
): EngineError {
  const eventId = eventIdOf(sessionId, seq)
  return new EngineError(
    'STATE_NOT_KEPT',
    `the state after the event ${eventId} is no longer kept: ${why}. To keep states, create checkpoints, collect ` +
      'with keepRedo, or, without a durable store, raise memoryHistoryBytes.',
    { eventId },
    options,
  )
}
