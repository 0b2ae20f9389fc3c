import mittModule, { type Emitter, type EventType } from 'mitt'

// The package's types describe its CommonJS form; the import gives the function itself.
const mitt = mittModule as unknown as typeof mittModule.default

export type { Emitter }

/** A typed emitter. */
export function createEmitter<Events extends Record<EventType, unknown>>(): Emitter<Events> {
  return mitt<Events>()
}
