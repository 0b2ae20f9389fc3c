import { place } from './route.js'
import type { StateName } from './wire.js'

/** The state that the place names: that after an event, or the newest. */
export function chosenState(): StateName {
  const at = place.value.query.get('at')
  return at === null ? {} : stateOf(at)
}

/** A state from its name in the URL: `base`, or the id of an event; empty for the newest. */
export function stateOf(name: string): StateName {
  if (name === '') return {}
  return name === 'base' ? { base: true } : { eventId: name }
}
