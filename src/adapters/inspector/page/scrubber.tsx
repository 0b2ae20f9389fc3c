import type { VNode } from 'preact'
import { eventsOf, labelOf, pathsOf } from './events.js'
import { shown, Time } from './format.js'
import { change, place } from './route.js'

/** Chooses the state that the views show, by its event. */
export function Scrubber({ id }: { readonly id: string }): VNode | null {
  const events = eventsOf(id).events.value
  const at = place.value.query.get('at') ?? ''
  const last = events.length - 1
  if (last < 0) return null
  const found = at === '' ? last : events.findIndex(({ eventId }) => eventId === at)
  const index = found < 0 ? last : found
  const event = events[index]
  const go = (to: number): void => {
    const next = events[Math.min(last, Math.max(0, to))]
    change({ at: to >= last ? undefined : next?.eventId }, true)
  }
  if (event === undefined) return null
  const [path] = pathsOf(event)
  const label = `${labelOf(event)}${path === undefined ? '' : ` ${shown(path)}`}`
  return (
    <div class="scrubber bar" role="group" aria-label="State">
      <button type="button" aria-label="Earlier event" disabled={index === 0} onClick={() => go(index - 1)}>
        ‹
      </button>
      <input
        type="range"
        min={0}
        max={last}
        value={index}
        aria-label="Event whose state is shown"
        aria-valuetext={`event ${index + 1} of ${events.length}: ${label}`}
        onInput={({ currentTarget }) => go(Number(currentTarget.value))}
      />
      <button type="button" aria-label="Later event" disabled={index === last} onClick={() => go(index + 1)}>
        ›
      </button>
      <span class="quiet count">
        {index + 1} / {events.length}
      </span>
      <span class="grow clip">
        <bdi>{label}</bdi>
      </span>
      <span class="when">
        <Time at={event.timestamp} />
      </span>
      <button
        type="button"
        class={at === '' ? 'plain on' : 'plain'}
        aria-pressed={at === ''}
        onClick={() => go(last)}
      >
        Newest
      </button>
    </div>
  )
}
